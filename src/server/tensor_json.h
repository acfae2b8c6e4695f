// The elements of a tensor as JSON writes them, nested or flat, and as the protocol's bytes.
#pragma once

#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace ferry::server {

// `text` is a JSON array of as many elements as the tensor has. Throws Refusal naming the input.
void ReadTensorData(std::string_view text, const std::string& input, Tensor& tensor);
// "[1.5,2,…]", flat and row-major. FP16 and BF16 have no JSON form.
void AppendTensorData(std::string& out, const Tensor& tensor);

// BYTES: for each element its length (32 bits, little-endian) and its bytes.
Tensor StringsFromBytes(std::string_view bytes, const Shape& shape, const std::string& input, const std::string& model);
void AppendStringBytes(std::string& out, const Tensor& tensor);
size_t StringBytes(const Tensor& tensor);

}  // namespace ferry::server
