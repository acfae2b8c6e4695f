#include "tensor/copy.h"

namespace ferry {

void CopyBytes(const Tensor& from, Tensor& to) {
  Require(from.bytes() == to.bytes() && from.dtype() != DType::kString, from.dtype(), " ", from.shape(),
          " does not fill ", to.dtype(), " ", to.shape());
  if (from.bytes() == 0) return;
  MemorySpace &source = from.space(), &target = to.space();
  if (&source == &target) {
    target.CopyInside(to.address(), from.address(), from.bytes());
  } else if (&source == &HostMemory()) {
    target.CopyFromHost(to.address(), from.address(), from.bytes());
  } else if (&target == &HostMemory()) {
    source.CopyToHost(to.address(), from.address(), from.bytes());
  } else {
    Tensor between = from.In(HostMemory());
    target.CopyFromHost(to.address(), between.address(), between.bytes());
  }
}

}  // namespace ferry
