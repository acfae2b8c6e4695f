// What several sessions share: the threads that their runs use, and providers beyond those that are built in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace ferry {

class Provider;
struct SessionOptions;

class Runtime {
 public:
  // `threads` counts the caller of a run; 0: one per core, 1: none but the caller's. Providers must outlive the
  // runtime; they are looked up by name before the built-in ones.
  explicit Runtime(int threads = 0, std::vector<const Provider*> providers = {});

  int threads() const { return threads_; }
  ThreadPool* pool() const { return pool_.get(); }  // null where a run has one thread
  const std::vector<const Provider*>& providers() const { return providers_; }

 private:
  const int threads_;
  const std::unique_ptr<ThreadPool> pool_;
  const std::vector<const Provider*> providers_;
};

// Whom a session's options name, in their order: those of its runtime and the built-in ones. Throws naming the
// providers there are.
std::vector<const Provider*> NamedProviders(const SessionOptions& options);
// The same; where the CPU is among them it takes the place of those that cannot be used on this machine.
std::vector<const Provider*> ProvidersFor(const SessionOptions& options);
// A sentence for each whose place the CPU takes.
std::vector<std::string> ProvidersLeftOut(const SessionOptions& options);

}  // namespace ferry
