#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ferry {
namespace {

// About the pages that lie wholly inside.
void Advise(const void* data, size_t bytes, int advice) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

}  // namespace

void TakePages(void* data, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  Advise(data, bytes, MADV_POPULATE_WRITE);
#else
  (void)data, (void)bytes;
#endif
}

void WillRead(const void* data, size_t bytes) {
#ifdef MADV_POPULATE_READ
  Advise(data, bytes, MADV_POPULATE_READ);
#else
  (void)data, (void)bytes;
#endif
}

}  // namespace ferry
