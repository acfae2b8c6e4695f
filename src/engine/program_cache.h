// The programs of a model, by the shapes they were made for. Each is made once; a thread that needs one that is being
// made waits for that one alone, and threads that have theirs never wait.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/function_ref.h"
#include "base/single_flight.h"
#include "engine/program.h"

namespace ferry {

class ProgramCache {
 public:
  // A program in use, and when it was used last.
  class Entry {
   public:
    Entry(const std::atomic<uint64_t>& clock, std::shared_ptr<const Program> program)
        : clock_(clock), program_(std::move(program)) {}
    // Says that it is used now, without a lock. The cache must still be there.
    const Program& Use() const {
      last_use_.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return *program_;
    }
    uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

   private:
    const std::atomic<uint64_t>& clock_;  // counts the entries that were made or looked for
    mutable std::atomic<uint64_t> last_use_{0};
    const std::shared_ptr<const Program> program_;
  };

  // At most so many programs are kept, at least one; the one that was not used for the longest time leaves first. Runs
  // that still use it go on. The larger of two bounds holds.
  void KeepAtLeast(size_t programs);

  std::shared_ptr<const Entry> Get(const std::string& key, FunctionRef<std::shared_ptr<const Program>()> make);
  size_t size() const;

 private:
  std::shared_ptr<const Entry> Find(const std::string& key);
  std::shared_ptr<const Entry> Keep(const std::string& key, std::shared_ptr<const Program> program);

  mutable std::mutex mutex_;
  size_t most_ = 1;
  std::atomic<uint64_t> clock_{0};
  std::unordered_map<std::string, std::shared_ptr<const Entry>> entries_;
  SingleFlight<std::shared_ptr<const Entry>> flights_;
};

}  // namespace ferry
