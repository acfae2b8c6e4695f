#include "engine/runtime.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "engine/provider.h"
#include "engine/session.h"

namespace ferry {
namespace {

int CheckedThreads(int threads) {
  Require(threads >= 0 && threads <= 1024, "threads must be 0 (all cores) to 1024, got ", threads);
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

Runtime::Runtime(int threads, std::vector<const Provider*> providers)
    : threads_(CheckedThreads(threads)),
      pool_(threads_ > 1 ? std::make_unique<ThreadPool>(threads_) : nullptr),
      providers_(std::move(providers)) {}

std::vector<const Provider*> ProvidersFor(const SessionOptions& options) {
  if (!options.runtime) return FindProviders(options.provider);
  return FindProviders(options.provider, options.runtime->providers());
}

}  // namespace ferry
