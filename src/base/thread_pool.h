// A fixed team of threads for loops. Cuts depend on the count and the grain alone, never on the number of threads, so
// that a loop whose pieces are independent gives the same bits on any machine.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace ferry {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 makes no thread at all.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls body(begin, end) over pieces of at least `grain` that cover [0, count); returns when all are done. The first
  // exception is thrown again here. A loop started while another one holds the team runs on its own thread. Threads of
  // the team are in the run of whoever started the loop (base/run_scope.h), and look between pieces whether it goes on.
  void ParallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

// The same without a team: on the calling thread, in one piece where nothing could end the run between two of them.
void RunPieces(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

}  // namespace ferry
