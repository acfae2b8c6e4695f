// numpy's .npy files. Nothing in them is ever executed: arrays of Python objects are refused.
//
// Types that numpy lacks are written as unsigned integers inside a one-field record named after the type, which numpy
// loads as a[ 'bfloat16' ]: bfloat16 is [('bfloat16', '<u2')], the float8 types [('float8e4m3fn', '|u1')] …; 4- and
// 2-bit types take one byte per element ('|i1' for signed integers, '|u1' for the others). ReadNpy knows these records,
// and takes '<V2', which is how ml_dtypes' bfloat16 is saved, for bfloat16.
#pragma once

#include <string>

#include "base/zip.h"
#include "tensor/tensor.h"

namespace ferry {

// The tensor is a view of the file when its byte order, layout and alignment allow; else the elements are copied.
// Strings ('<U', '|S') become UTF-8.
Tensor ReadNpy(const std::string& path);
Tensor ReadNpy(const SharedBytes& file);

void WriteNpy(const std::string& path, const Tensor& tensor);

// What WriteNpy writes, in two pieces so that large tensors need no copy.
struct NpyPieces {
  std::string header;
  Tensor elements;  // to be written as they lie in memory
  std::span<const std::byte> bytes() const { return {elements.raw(), elements.bytes()}; }
};
NpyPieces EncodeNpy(const Tensor& tensor);

}  // namespace ferry
