// Recognises files of other kinds, so that opening the wrong file ends in a sentence a person can act on.
#pragma once

#include <string>
#include <string_view>

namespace ferry::onnx {

// What the bytes surely are instead of an ONNX model and what to do with them; empty when they may be one.
std::string DescribeForeignFormat(std::string_view bytes);
bool LooksLikeText(std::string_view bytes);

}  // namespace ferry::onnx
