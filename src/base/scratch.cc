#include "base/scratch.h"

#include <algorithm>
#include <new>

#include "base/page_advice.h"

namespace ferry {
namespace {

constexpr std::align_val_t kCacheLine{64};

}  // namespace

void GrowingMemory::Release() {
  ::operator delete(data_, kCacheLine);
  data_ = nullptr;
  bytes_ = 0;
}

void GrowingMemory::Grow(size_t bytes) {
  const size_t grown = std::max(bytes, 2 * bytes_);  // not once for each layer that is a little larger
  Release();
  data_ = ::operator new(grown, kCacheLine);
  bytes_ = grown;
  TakePages(data_, bytes);
}

}  // namespace ferry
