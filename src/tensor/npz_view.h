// Arrays of a .npz file where they lie, for data that is larger than what is looked at at once.
#pragma once

#include "tensor/npz.h"

namespace ferry {

// As ReadNpz, but elements of uncompressed arrays stay in the mapped file wherever they begin: Readable() makes a copy
// that can be read.
NamedTensors ViewNpz(const std::string& path);
Tensor ViewNpy(const SharedBytes& file);

}  // namespace ferry
