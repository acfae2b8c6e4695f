// Where things lie that can be made again at any time.
#pragma once

#include <string>
#include <string_view>

namespace ferry {

// The user's folder for one kind of such things, made when it is not there: FERRY_CACHE, else XDG_CACHE_HOME/ferry,
// else .cache/ferry in the home folder, and `part` in it. Empty when there is none or it cannot be made: to be done
// without.
std::string CacheFolder(std::string_view part);

}  // namespace ferry
