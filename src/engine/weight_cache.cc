#include "engine/weight_cache.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/version.h"

namespace ferry {
namespace {

constexpr size_t kLarge = size_t{32} << 20;

// Stands for the weight in every process: its place in an unchanged file, or its bytes.
std::string KeyInFile(const Tensor& weight, const std::string& form) {
  std::string place = PlaceInFile(weight.raw());
  if (place.empty()) place = Cat("#", Checksum(weight.raw(), weight.bytes()));
  return Cat(place, "|", form, "|", static_cast<int>(weight.dtype()), weight.shape());
}

// What a key says about the state of a weight's file; nothing for weights known by their bytes.
std::string StateIn(const std::string& key) { return key[0] == '#' ? "#" : key.substr(0, key.find('@')); }

}  // namespace

constinit thread_local WeightCache::PackingBatch* WeightCache::PackingBatch::collecting_ = nullptr;

std::shared_ptr<WeightCache::Object> WeightCache::ObjectFor(const Tensor& weight, const std::string& form) {
  const std::string key = KeyInMemory(weight, form);
  std::lock_guard lock(mutex_);
  std::shared_ptr<Object>& object = objects_[key];
  if (!object) {
    object = std::make_shared<Object>();
    object->weight = weight;
  }
  return object;
}

std::shared_ptr<WeightCache::PackingJob> WeightCache::JobFor(const Tensor& weight, const std::string& form, DType dtype,
                                                             int64_t count, Fill fill) {
  const std::string key = KeyInMemory(weight, form);
  std::lock_guard lock(mutex_);
  std::shared_ptr<PackingJob>& job = jobs_[key];
  if (!job) {
    job = std::make_shared<PackingJob>();
    job->weight = weight;
    job->form = form;
    job->dtype = dtype;
    job->count = count;
    job->fill = std::move(fill);
  }
  return job;
}

// Now, or with the others of this thread's batch.
void WeightCache::RunOrCollect(const std::shared_ptr<PackingJob>& job) {
  PackingBatch* batch = PackingBatch::collecting_;
  if (batch && &batch->cache_ == this)
    batch->jobs_.push_back(job);
  else
    Run(*job);
}

std::shared_ptr<const Tensor> WeightCache::GetTensor(const Tensor& weight, const std::string& form, DType dtype,
                                                     int64_t count, Fill fill) {
  std::shared_ptr<PackingJob> job = JobFor(weight, form, dtype, count, std::move(fill));
  RunOrCollect(job);
  return job->packed;
}

WeightCache::DeferredTensor WeightCache::GetDeferred(const Tensor& weight, const std::string& form, DType dtype,
                                                     int64_t count, Fill fill, bool at_once) {
  std::shared_ptr<PackingJob> job = JobFor(weight, form, dtype, count, std::move(fill));
  if (std::lock_guard lock(mutex_); is_deferring_ && !at_once) {
    deferred_.push_back(job);
    return {*this, std::move(job)};
  }
  RunOrCollect(job);
  return {*this, std::move(job)};
}

void WeightCache::EndDeferring(ThreadPool* pool) {
  std::vector<std::shared_ptr<PackingJob>> jobs;
  {
    std::lock_guard lock(mutex_);
    is_deferring_ = false;
    jobs.swap(deferred_);
  }
  // Each is mapped again while it is packed, so that few are in memory twice, and the larger ones while little is
  // packed.
  for (const auto& job : jobs) DropPages(job->weight.raw(), job->weight.bytes());
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto& a, const auto& b) { return a->weight.bytes() > b->weight.bytes(); });
  RunAll(std::move(jobs), pool);
}

void WeightCache::Run(PackingJob& job) {
  job.once.Do([&] {
    Pack(job);
    job.fill = nullptr;
  });
}

void WeightCache::RunAll(std::vector<std::shared_ptr<PackingJob>> jobs, ThreadPool* pool) {
  // The largest first, so that no thread is left with one at the end; else in the order of the file, mostly.
  std::stable_partition(jobs.begin(), jobs.end(), [](const auto& job) { return job->weight.bytes() >= kLarge; });
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Run(*jobs[static_cast<size_t>(i)]);
  };
  const auto count = static_cast<int64_t>(jobs.size());
  if (pool)
    pool->ParallelFor(count, 1, run);
  else
    RunPieces(count, 1, run);
}

void WeightCache::Pack(PackingJob& job) {
  const Uncounted of_the_model;
  const std::string file_key = path_.empty() ? std::string() : KeyInFile(job.weight, job.form);
  Tensor tensor = file_ ? file_->Find(file_key, job.dtype, job.count) : Tensor();
  const bool is_new = !tensor.defined();
  if (is_new) {
    if (!job.room) job.room = pages_->Allocate(StorageBytes(job.dtype, job.count));
    tensor = Tensor::Borrow(job.dtype, {job.count}, job.room, pages_);
    job.fill(tensor);
  }
  DropPages(job.weight.raw(), job.weight.bytes());  // those of the model's file: what is packed takes their place
  *job.packed = std::move(tensor);
  if (path_.empty()) return;
  std::lock_guard lock(mutex_);
  by_file_key_[file_key] = job.packed;
  has_unsaved_ = has_unsaved_ || is_new;
}

void WeightCache::PackingBatch::Finish(ThreadPool* pool) { cache_.RunAll(std::exchange(jobs_, {}), pool); }

void WeightCache::UseFile(const std::string& path, const std::string& origin) {
  std::lock_guard lock(mutex_);
  path_ = path;
  about_ = Cat("Ferry ", kVersion, ", ", origin);
  file_ = WeightFile::Open(path_, about_);
}

// Other processes may run other shapes: what they put into the file stays as long as the weights are the same.
std::vector<WeightFile::Part> WeightCache::Parts(const TensorsByKey& tensors) const {
  std::vector<WeightFile::Part> parts;
  std::unordered_set<std::string> states;
  for (const auto& [key, tensor] : tensors) {
    states.insert(StateIn(key));
    if (tensor->size() > 0) parts.push_back({key, *tensor});
  }
  if (!file_) return parts;
  for (const std::string& key : file_->Keys()) {
    if (key.empty() || tensors.count(key) || !states.count(StateIn(key))) continue;
    if (Tensor kept = file_->Take(key); kept.defined()) parts.push_back({key, std::move(kept)});
  }
  return parts;
}

void WeightCache::WriteFile(const TensorsByKey& tensors) const {
  try {
    WeightFile::Write(path_, about_, Parts(tensors));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kDeadline) throw;
    // The folder was there when the session was opened; a full disk or a lost right costs time, not the answer.
  }
}

void WeightCache::Save() {
  if (path_.empty()) return;
  std::unique_lock lock(mutex_);
  if (is_saving_) return;  // whoever saves sees what is new when it is done
  is_saving_ = true;
  if (!has_unsaved_ && file_) {
    lock.unlock();
    try {
      file_->Vouch();
    } catch (const Error&) {
      // The same.
    }
    lock.lock();
  }
  while (has_unsaved_) {
    has_unsaved_ = false;
    const TensorsByKey tensors = by_file_key_;
    lock.unlock();
    try {
      WriteFile(tensors);
    } catch (const Error&) {
      lock.lock();
      has_unsaved_ = true;
      is_saving_ = false;
      throw;
    }
    lock.lock();
  }
  is_saving_ = false;
}

}  // namespace ferry
