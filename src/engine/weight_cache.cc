#include "engine/weight_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/memory_files.h"
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
                                                     int64_t count, Fill fill, bool at_once, InPlace in_place) {
  std::shared_ptr<PackingJob> job = JobFor(weight, form, dtype, count, std::move(fill));
  if (std::lock_guard lock(mutex_); is_deferring_ && !at_once) {
    job->in_place = std::move(in_place);
    deferred_.push_back(job);
    return {*this, std::move(job)};
  }
  RunOrCollect(job);
  return {*this, std::move(job)};
}

void WeightCache::EndDeferring(ThreadPool* pool, const Addresses& replaceable) {
  std::vector<std::shared_ptr<PackingJob>> jobs;
  {
    std::lock_guard lock(mutex_);
    is_deferring_ = false;
    jobs.swap(deferred_);
  }
  for (const auto& job : jobs)
    if (!job->replaces && replaceable.count(job->weight.raw()) && MayReplace(*job, jobs)) {
      job->replaces = has_replaced_ = true;
      replaced_.push_back(job);
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
  if (job.replaces) return Replace(job);
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

// The packed form's numbers are the weight's own, and no other job will look for them in their old order.
bool WeightCache::MayReplace(const PackingJob& job, const std::vector<std::shared_ptr<PackingJob>>& others) const {
  const Tensor& weight = job.weight;
  const bool has_form = job.in_place.pack && path_.empty() && !job.once.done() && !job.room;
  if (!has_form || weight.dtype() != DType::kFloat || job.count != weight.size()) return false;
  const std::byte* place = PlaceOf(weight);
  if (!IsInOwnMemoryFile(place, static_cast<size_t>(weight.raw() + weight.bytes() - place))) return false;
  return std::all_of(others.begin(), others.end(),
                     [&](const auto& other) { return other.get() == &job || other->weight.raw() != weight.raw(); });
}

void WeightCache::Replace(PackingJob& job) {
  auto* weight = const_cast<std::byte*>(job.weight.raw());
  auto* place = const_cast<std::byte*>(PlaceOf(job.weight));
  const auto shift = static_cast<size_t>(weight - place), bytes = job.weight.bytes();
  std::memcpy(job.before.data(), place, shift);
  std::memmove(place, weight, bytes);
  try {
    job.in_place.pack(reinterpret_cast<float*>(place));
  } catch (...) {
    std::memmove(weight, place, bytes);
    std::memcpy(place, job.before.data(), shift);
    throw;
  }
  *job.packed = Tensor::Borrow(job.dtype, {job.count}, place, std::make_shared<Tensor>(job.weight));
}

void WeightCache::PutAllBack() {
  std::lock_guard lock(mutex_);
  for (; !replaced_.empty(); replaced_.pop_back()) {
    PackingJob& job = *replaced_.back();
    job.replaces = false;
    if (!job.once.done()) continue;
    const size_t bytes = job.weight.bytes();
    std::byte* room = pages_->Allocate(bytes);
    auto* weight = const_cast<std::byte*>(job.weight.raw());
    auto* place = const_cast<std::byte*>(job.packed->raw());
    std::memcpy(room, place, bytes);
    *job.packed = Tensor::Borrow(job.dtype, {job.count}, room, pages_);
    job.in_place.unpack(reinterpret_cast<float*>(place));
    std::memmove(weight, place, bytes);
    std::memcpy(place, job.before.data(), static_cast<size_t>(weight - place));
  }
  has_replaced_ = false;
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
