// numpy's .npz archives: named arrays, stored or compressed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/zip.h"
#include "tensor/tensor.h"

namespace ferry {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// In the order of the archive. Elements of uncompressed arrays stay in the mapped file where alignment allows.
NamedTensors ReadNpz(const std::string& path);
NamedTensors ReadNpz(SharedBytes file);
// Uncompressed, elements aligned to 64 bytes, the same bytes for the same tensors.
void WriteNpz(const std::string& path, const NamedTensors& tensors);

}  // namespace ferry
