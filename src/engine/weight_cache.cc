#include "engine/weight_cache.h"

#include <algorithm>
#include <unordered_set>

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

std::shared_ptr<WeightCache::Order> WeightCache::OrderFor(const Tensor& weight, const std::string& form, DType dtype,
                                                          int64_t count, Fill fill) {
  std::string key = KeyInMemory(weight, form);
  std::lock_guard lock(mutex_);
  Entry& entry = made_[key];
  if (!entry.order) {
    entry.order = std::make_shared<Order>();
    entry.order->weight = weight;
    entry.order->form = form;
    entry.order->dtype = dtype;
    entry.order->count = count;
    entry.order->fill = std::move(fill);
    entry.order->made = std::make_shared<Tensor>();
    entry.weight = weight;
    entry.held = entry.order->made;
  }
  return entry.order;
}

// Now, or with the others of this thread's team.
void WeightCache::Obtain(const std::shared_ptr<Order>& order) {
  {
    std::lock_guard lock(mutex_);
    if (collecting_ == std::this_thread::get_id()) return waiting_.push_back(order);
  }
  Carry(*order);
}

std::shared_ptr<const Tensor> WeightCache::GetTensor(const Tensor& weight, const std::string& form, DType dtype,
                                                     int64_t count, Fill fill) {
  std::shared_ptr<Order> order = OrderFor(weight, form, dtype, count, std::move(fill));
  Obtain(order);
  return order->made;
}

WeightCache::Later WeightCache::GetLater(const Tensor& weight, const std::string& form, DType dtype, int64_t count,
                                         Fill fill, bool at_once) {
  std::shared_ptr<Order> order = OrderFor(weight, form, dtype, count, std::move(fill));
  if (std::lock_guard lock(mutex_); deferring_ && !at_once) {
    deferred_.push_back(order);
    return {*this, std::move(order)};
  }
  Obtain(order);
  return {*this, std::move(order)};
}

void WeightCache::KeepAll(ThreadPool* pool) {
  if (!deferring_.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<Order>> orders;
  {
    std::lock_guard lock(mutex_);
    deferring_ = false;
    orders.swap(deferred_);
  }
  // Each is mapped again while it is packed, so that few are in memory twice, and the larger ones while little is
  // packed.
  for (const auto& order : orders) DropPages(order->weight.raw(), order->weight.bytes());
  std::stable_sort(orders.begin(), orders.end(),
                   [](const auto& a, const auto& b) { return a->weight.bytes() > b->weight.bytes(); });
  CarryAll(std::move(orders), pool);
}

void WeightCache::Carry(Order& order) {
  std::lock_guard lock(order.mutex);
  if (order.done) return;
  Make(order);
  order.fill = nullptr;
  order.done = true;
}

void WeightCache::CarryAll(std::vector<std::shared_ptr<Order>> orders, ThreadPool* pool) {
  // The largest first, so that no thread is left with one at the end; else in the order of the file, mostly.
  std::stable_partition(orders.begin(), orders.end(),
                        [](const auto& order) { return order->weight.bytes() >= kLarge; });
  auto carry = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Carry(*orders[static_cast<size_t>(i)]);
  };
  const auto count = static_cast<int64_t>(orders.size());
  if (pool)
    pool->ParallelFor(count, 1, carry);
  else
    carry(0, count);
}

void WeightCache::Make(Order& order) {
  const std::string file_key = path_.empty() ? std::string() : KeyInFile(order.weight, order.form);
  Tensor tensor = file_ ? file_->Find(file_key, order.dtype, order.count) : Tensor();
  const bool is_new = !tensor.defined();
  if (is_new) {
    std::byte* room = pages_->Allocate(StorageBytes(order.dtype, order.count));
    tensor = Tensor::Borrow(order.dtype, {order.count}, room, pages_);
    order.fill(tensor);
  }
  DropPages(order.weight.raw(), order.weight.bytes());  // those of the model's file: what is packed takes their place
  *order.made = std::move(tensor);
  if (path_.empty()) return;
  std::lock_guard lock(mutex_);
  by_file_key_[file_key] = order.made;
  unsaved_ = unsaved_ || is_new;
}

WeightCache::Team::Team(WeightCache& cache) : cache_(cache) {
  std::lock_guard lock(cache_.mutex_);
  cache_.collecting_ = std::this_thread::get_id();
}

WeightCache::Team::~Team() {
  std::lock_guard lock(cache_.mutex_);
  cache_.collecting_ = {};
  cache_.waiting_.clear();
}

void WeightCache::Team::Finish(ThreadPool* pool) {
  std::vector<std::shared_ptr<Order>> orders;
  {
    std::lock_guard lock(cache_.mutex_);
    orders.swap(cache_.waiting_);
  }
  cache_.CarryAll(std::move(orders), pool);
}

void WeightCache::UseFile(const std::string& path, const std::string& origin) {
  std::lock_guard lock(mutex_);
  path_ = path;
  about_ = Cat("Ferry ", kVersion, ", ", origin);
  file_ = WeightFile::Open(path_, about_);
}

// Other processes may run other shapes: what they put into the file stays as long as the weights are the same.
std::vector<WeightFile::Part> WeightCache::Parts() const {
  std::vector<WeightFile::Part> parts;
  std::unordered_set<std::string> states;
  for (const auto& [key, tensor] : by_file_key_) {
    states.insert(StateIn(key));
    if (tensor->size() > 0) parts.push_back({key, *tensor});
  }
  if (!file_) return parts;
  for (const std::string& key : file_->Keys()) {
    if (key.empty() || by_file_key_.count(key) || !states.count(StateIn(key))) continue;
    if (Tensor kept = file_->Take(key); kept.defined()) parts.push_back({key, std::move(kept)});
  }
  return parts;
}

void WeightCache::Save() {
  std::lock_guard lock(mutex_);
  if (path_.empty()) return;
  const bool is_new = unsaved_;
  unsaved_ = false;
  try {
    if (is_new)
      WeightFile::Write(path_, about_, Parts());
    else if (file_)
      file_->Vouch();
  } catch (const Error&) {
    // The folder was there when the session was opened; a full disk or a lost right costs time, not the answer.
  }
}

}  // namespace ferry
