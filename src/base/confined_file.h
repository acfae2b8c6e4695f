// Files named by something that came from elsewhere, held to one folder.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace ferry {

// Maps the regular file that the relative path `location` names in or below `folder`. The path is walked one component
// at a time, each opened in a folder already held open, and never leads out of `folder`, whatever links lie on the way
// and whoever changes them meanwhile. A file of several names is refused: one that it was made to expose looks the
// same. Throws kIo with a reason that reads on from the file's name; `folder_name` is what it calls the folder.
std::shared_ptr<MappedFile> MapConfinedFile(const std::string& folder, const std::string& location,
                                            std::string_view folder_name);

}  // namespace ferry
