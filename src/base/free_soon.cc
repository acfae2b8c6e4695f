#include "base/free_soon.h"

#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>

namespace ferry {

void FreeSoon(void* data, size_t bytes) {
  constexpr size_t kLarge = size_t{32} << 20;
  if (bytes < kLarge || std::uncaught_exceptions() == 0) return std::free(data);
  try {
    std::thread([data] { std::free(data); }).detach();
  } catch (const std::system_error&) {  // no thread is to be had
    std::free(data);
  }
}

}  // namespace ferry
