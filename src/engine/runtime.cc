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

bool ListsCpu(const std::vector<const Provider*>& providers) {
  return std::find(providers.begin(), providers.end(), &CpuProvider()) != providers.end();
}

}  // namespace

Runtime::Runtime(int threads, std::vector<const Provider*> providers)
    : threads_(CheckedThreads(threads)),
      pool_(threads_ > 1 ? std::make_unique<ThreadPool>(threads_) : nullptr),
      providers_(std::move(providers)) {}

std::vector<const Provider*> NamedProviders(const SessionOptions& options) {
  if (!options.runtime) return FindProviders(options.provider);
  return FindProviders(options.provider, options.runtime->providers());
}

std::vector<const Provider*> ProvidersFor(const SessionOptions& options) {
  std::vector<const Provider*> named = NamedProviders(options);
  if (ListsCpu(named)) std::erase_if(named, [](const Provider* provider) { return !provider->WhyUnusable().empty(); });
  return named;
}

std::vector<std::string> ProvidersLeftOut(const SessionOptions& options) {
  std::vector<std::string> left_out;
  const std::vector<const Provider*> named = NamedProviders(options);
  for (const Provider* provider : named)
    if (const std::string why = provider->WhyUnusable(); !why.empty() && ListsCpu(named))
      left_out.push_back(Cat("provider ", provider->name(), " cannot be used here, the CPU runs all of it: ", why));
  return left_out;
}

}  // namespace ferry
