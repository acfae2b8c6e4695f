// Recognises files of other kinds, so that opening the wrong file ends in a sentence a person can act on.
#pragma once

#include <string>
#include <string_view>

namespace ferry::onnx {

// What bytes that cannot be read as a model seem to be instead, and what to do with them; empty when that is not clear.
std::string DescribeForeignFormat(std::string_view bytes);

}  // namespace ferry::onnx
