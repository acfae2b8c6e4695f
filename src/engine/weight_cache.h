// What kernels make out of weights (packed panels, transformed filters): made once, shared by all programs of a model,
// and kept in a file for the next process where the caller names a folder. No lock is held while anything is made.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/make_once.h"
#include "base/pages.h"
#include "base/run_scope.h"
#include "base/thread_pool.h"
#include "engine/weight_file.h"
#include "tensor/tensor.h"

namespace ferry {

class WeightCache {
  struct PackingJob;

 public:
  // `form` says what is made of the weight and with which parameters.
  template <class T, class Make>
  std::shared_ptr<const T> Get(const Tensor& weight, const std::string& form, const Make& make) {
    const std::shared_ptr<Object> object = ObjectFor(weight, form);
    object->once.Do([&] {
      const Uncounted of_the_model;
      object->made = std::make_shared<const T>(make());
    });
    return std::static_pointer_cast<const T>(object->made);
  }

  // The same for `count` elements that `fill` writes from end to end; these can be kept in a file. While a PackingBatch
  // collects, the tensor may be undefined until the batch is finished: `fill` holds all that it reads.
  using Fill = std::function<void(Tensor&)>;
  std::shared_ptr<const Tensor> GetTensor(const Tensor& weight, const std::string& form, DType dtype, int64_t count,
                                          Fill fill);

  // A packed tensor that may not have been made yet.
  class DeferredTensor {
   public:
    // Null for whoever asks first, who does without; whoever asks again waits for it.
    const Tensor* Find() const {
      if (job_->once.done()) return &*job_->packed;
      return job_->was_asked_for.exchange(true) ? &Get() : nullptr;
    }
    // For whoever cannot do without.
    const Tensor& Get() const {
      cache_->Run(*job_);
      return *job_->packed;
    }

   private:
    friend WeightCache;
    DeferredTensor(WeightCache& cache, std::shared_ptr<PackingJob> job) : cache_(&cache), job_(std::move(job)) {}
    WeightCache* cache_;
    std::shared_ptr<PackingJob> job_;
  };
  // How packed numbers get to where the weight lies, for forms that have as many of them, and back. Neither throws
  // once it has begun to write.
  struct InPlace {
    std::function<void(float*)> pack, unpack;
  };
  // The same for kernels that can do without packed weights, which take a process that runs a model once longer to
  // write than to use: after DeferPacking they are made when they are needed again. `at_once`: they are never done
  // without.
  DeferredTensor GetDeferred(const Tensor& weight, const std::string& form, DType dtype, int64_t count, Fill fill,
                             bool at_once = false, InPlace in_place = {});
  // Before the first job, where there is no file.
  void DeferPacking() { is_deferring_ = true; }
  // Ends that: what was done without so far is made by all threads of the pool (null: by this one). `replaceable`:
  // addresses of weights that nobody reads but in packed form, so that this may lie in their place, if they are in a
  // file in memory that nobody else has. No run may be under way then.
  using Addresses = std::unordered_set<const std::byte*>;
  void PackDeferred(ThreadPool* pool, const Addresses& replaceable) {
    if (is_deferring_.load(std::memory_order_relaxed)) EndDeferring(pool, replaceable);
  }
  // Where packed numbers begin that take a weight's place: weights of a file may begin at any byte, floats may not.
  static const std::byte* PlaceOf(const Tensor& weight) {
    return weight.raw() - reinterpret_cast<uintptr_t>(weight.raw()) % sizeof(float);
  }
  // To be called before anybody reads weights: gives those that were replaced back their place.
  void PutBack() {
    if (has_replaced_.load(std::memory_order_relaxed)) PutAllBack();
  }

  // Collects the jobs that the calling thread asks for, to be run by all threads of a pool together. Other threads may
  // have batches of their own meanwhile.
  class PackingBatch {
   public:
    explicit PackingBatch(WeightCache& cache) : cache_(cache), outer_(collecting_) { collecting_ = this; }
    ~PackingBatch() { collecting_ = outer_; }
    PackingBatch(const PackingBatch&) = delete;
    PackingBatch& operator=(const PackingBatch&) = delete;
    // Everything that was asked for is there when this returns. Null: the calling thread makes it.
    void Finish(ThreadPool* pool);

   private:
    friend WeightCache;
    static constinit thread_local PackingBatch* collecting_;
    WeightCache& cache_;
    PackingBatch* const outer_;
    std::vector<std::shared_ptr<PackingJob>> jobs_;
  };

  // From now on tensors are looked for in this file first. `origin` is what the weights belong to and who
  // packs them: a file of another is not used.
  void UseFile(const std::string& path, const std::string& origin);
  // Writes the file when something was made that it lacks. A file that cannot be written is done without. While one
  // thread writes, others leave it to that one.
  void Save();

 private:
  struct Object {
    Tensor weight;  // kept, so that its address stands for it alone
    MakeOnce once;
    std::shared_ptr<const void> made;
  };
  // A tensor to be packed, by whoever comes first.
  struct PackingJob {
    Tensor weight;
    std::string form;
    DType dtype;
    int64_t count;
    Fill fill;
    InPlace in_place;
    bool replaces = false;                        // lies where the weight lay
    std::array<std::byte, sizeof(float)> before;  // what was in its place before the weight began
    std::byte* room = nullptr;                    // for the elements; kept when a run ends while it fills it
    const std::shared_ptr<Tensor> packed = std::make_shared<Tensor>();
    MakeOnce once;
    std::atomic<bool> was_asked_for = false;
  };
  using TensorsByKey = std::unordered_map<std::string, std::shared_ptr<const Tensor>>;

  std::shared_ptr<Object> ObjectFor(const Tensor& weight, const std::string& form);
  std::shared_ptr<PackingJob> JobFor(const Tensor& weight, const std::string& form, DType dtype, int64_t count,
                                     Fill fill);
  void EndDeferring(ThreadPool* pool, const Addresses& replaceable);
  bool MayReplace(const PackingJob& job, const std::vector<std::shared_ptr<PackingJob>>& others) const;
  void Replace(PackingJob& job);
  void PutAllBack();
  void RunOrCollect(const std::shared_ptr<PackingJob>& job);
  void Run(PackingJob& job);
  void RunAll(std::vector<std::shared_ptr<PackingJob>> jobs, ThreadPool* pool);
  void Pack(PackingJob& job);
  static std::string KeyInMemory(const Tensor& weight, const std::string& form) {
    return Cat(form, "@", reinterpret_cast<uintptr_t>(weight.raw()), weight.shape());
  }
  void WriteFile(const TensorsByKey& tensors) const;
  std::vector<WeightFile::Part> Parts(const TensorsByKey& tensors) const;

  std::mutex mutex_;  // of the maps and flags below; held for as long as it takes to look something up
  std::unordered_map<std::string, std::shared_ptr<Object>> objects_;
  std::unordered_map<std::string, std::shared_ptr<PackingJob>> jobs_;
  const std::shared_ptr<LargePages> pages_ = std::make_shared<LargePages>();
  std::atomic<bool> is_deferring_ = false;
  std::vector<std::shared_ptr<PackingJob>> deferred_;
  std::atomic<bool> has_replaced_ = false;
  std::vector<std::shared_ptr<PackingJob>> replaced_;

  std::string path_, about_;  // empty: no file; set before the first job
  std::shared_ptr<WeightFile> file_;
  TensorsByKey by_file_key_;
  bool has_unsaved_ = false, is_saving_ = false;
};

}  // namespace ferry
