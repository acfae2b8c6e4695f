// Where there are no threads, as in WebAssembly: every loop runs on the caller's.
#include "base/thread_pool.h"

namespace ferry {

struct ThreadPool::Team {};

ThreadPool::ThreadPool(int) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return 1; }

void ThreadPool::ParallelFor(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  RunPieces(count, grain, body);
}

void RunPieces(int64_t count, int64_t, FunctionRef<void(int64_t, int64_t)> body) {
  if (count > 0) body(0, count);
}

}  // namespace ferry
