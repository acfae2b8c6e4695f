// What kernels make out of weights (packed, transformed), shared by every program of a model: a program for another
// shape finds it here instead of making it again, and the next process in a file where the caller names a folder for
// it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/pages.h"
#include "base/thread_pool.h"
#include "engine/weight_file.h"
#include "tensor/tensor.h"

namespace ferry {

class WeightCache {
  struct Order;

 public:
  // `form` says what is made of the weight and with which parameters.
  template <class T, class Make>
  std::shared_ptr<const T> Get(const Tensor& weight, const std::string& form, const Make& make) {
    std::string key = KeyInMemory(weight, form);
    std::lock_guard lock(mutex_);
    Entry& entry = made_[key];
    if (!entry.held) entry = {weight, std::make_shared<const T>(make())};
    return std::static_pointer_cast<const T>(entry.held);
  }

  // The same for `count` elements that `fill` writes from end to end; these can be kept in a file. While a Team is at
  // work the tensor may be undefined until the team is done: `fill` holds all that it reads.
  using Fill = std::function<void(Tensor&)>;
  std::shared_ptr<const Tensor> GetTensor(const Tensor& weight, const std::string& form, DType dtype, int64_t count,
                                          Fill fill);

  // A tensor that may not be there yet.
  class Later {
   public:
    // Null for whoever asks first, who does without; whoever asks again waits for it.
    const Tensor* Find() const {
      if (order_->done.load(std::memory_order_acquire)) return &*order_->made;
      return order_->asked.exchange(true) ? &Get() : nullptr;
    }
    // For whoever cannot do without.
    const Tensor& Get() const {
      if (!order_->done.load(std::memory_order_acquire)) cache_->Carry(*order_);
      return *order_->made;
    }

   private:
    friend WeightCache;
    Later(WeightCache& cache, std::shared_ptr<Order> order) : cache_(&cache), order_(std::move(order)) {}
    WeightCache* cache_;
    std::shared_ptr<Order> order_;
  };
  // The same for kernels that can do without what is kept, which takes a process that runs a model once longer to write
  // than to use: after Defer it is made when it is needed again. `at_once`: it is never done without.
  Later GetLater(const Tensor& weight, const std::string& form, DType dtype, int64_t count, Fill fill,
                 bool at_once = false);
  // Before the first order, where there is no file.
  void Defer() { deferring_ = true; }
  // Ends that: what was done without so far is made by all threads of the pool (null: by this one).
  void KeepAll(ThreadPool* pool);

  // Collects what one thread asks for, to be made by all threads of a pool together.
  class Team {
   public:
    explicit Team(WeightCache& cache);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    // Everything that was asked for is there when this returns. Null: the calling thread makes it.
    void Finish(ThreadPool* pool);

   private:
    WeightCache& cache_;
  };

  // From now on tensors are looked for in this file first. `origin` is what the weights belong to and who
  // packs them: a file of another is not used.
  void UseFile(const std::string& path, const std::string& origin);
  // Writes the file when something was made that it lacks. A file that cannot be written is done without.
  void Save();

 private:
  // A tensor to be made, by whoever comes first.
  struct Order {
    Tensor weight;
    std::string form;
    DType dtype;
    int64_t count;
    Fill fill;
    std::shared_ptr<Tensor> made;
    std::mutex mutex;  // held while it is made; not a once_flag, which thread sanitizers do not see fail
    std::atomic<bool> done = false;
    std::atomic<bool> asked = false;
  };
  struct Entry {
    Tensor weight;  // kept, so that its address stands for it alone
    std::shared_ptr<const void> held;
    std::shared_ptr<Order> order;  // null for what was made at once
  };
  std::shared_ptr<Order> OrderFor(const Tensor& weight, const std::string& form, DType dtype, int64_t count, Fill fill);
  void Obtain(const std::shared_ptr<Order>& order);
  void Carry(Order& order);
  void CarryAll(std::vector<std::shared_ptr<Order>> orders, ThreadPool* pool);
  void Make(Order& order);
  static std::string KeyInMemory(const Tensor& weight, const std::string& form) {
    return Cat(form, "@", reinterpret_cast<uintptr_t>(weight.raw()), weight.shape());
  }
  std::vector<WeightFile::Part> Parts() const;

  std::mutex mutex_;
  std::unordered_map<std::string, Entry> made_;
  const std::shared_ptr<LargePages> pages_ = std::make_shared<LargePages>();
  std::thread::id collecting_;  // the thread whose orders wait for its team
  std::vector<std::shared_ptr<Order>> waiting_;
  std::atomic<bool> deferring_ = false;
  std::vector<std::shared_ptr<Order>> deferred_;

  std::string path_, about_;  // empty: no file; set before the first order
  std::shared_ptr<WeightFile> file_;
  std::unordered_map<std::string, std::shared_ptr<const Tensor>> by_file_key_;
  bool unsaved_ = false;
};

}  // namespace ferry
