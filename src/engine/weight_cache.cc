#include "engine/weight_cache.h"

#include <unordered_set>

#include "base/pages.h"
#include "base/version.h"
#include "kernels/isa.h"

namespace ferry {
namespace {

// Stands for the weight in every process: its place in an unchanged file, or its bytes.
std::string KeyInFile(const Tensor& weight, const std::string& form) {
  std::string place = PlaceInFile(weight.raw());
  if (place.empty()) place = Cat("#", Checksum(weight.raw(), weight.bytes()));
  return Cat(place, "|", form, "|", static_cast<int>(weight.dtype()), weight.shape());
}

// What a key says about the state of a weight's file; nothing for weights known by their bytes.
std::string StateIn(const std::string& key) { return key[0] == '#' ? "#" : key.substr(0, key.find('@')); }

}  // namespace

std::shared_ptr<const Tensor> WeightCache::GetTensor(const Tensor& weight, const std::string& form, DType dtype,
                                                     int64_t count, FunctionRef<void(Tensor&)> fill) {
  std::string key = KeyInMemory(weight, form);
  std::lock_guard lock(mutex_);
  Entry& entry = made_[key];
  if (entry.held) return std::static_pointer_cast<const Tensor>(entry.held);
  std::string file_key = path_.empty() ? std::string() : KeyInFile(weight, form);
  Tensor tensor = file_ ? file_->Find(file_key, dtype, count) : Tensor();
  if (!tensor.defined()) {
    tensor = Tensor(dtype, {count});
    TakePages(tensor.mutable_raw(), tensor.bytes());
    fill(tensor);
    DropPages(weight.raw(), weight.bytes());
    unsaved_ = true;
  }
  auto held = std::make_shared<const Tensor>(std::move(tensor));
  if (!path_.empty()) by_file_key_[file_key] = held;
  entry = {weight, held};
  return held;
}

void WeightCache::UseFile(const std::string& path, const std::string& origin) {
  std::lock_guard lock(mutex_);
  path_ = path;
  about_ = Cat("Ferry ", kVersion, ", packing ", kPackingVersion, ", instructions ", static_cast<int>(BestIsa()), ", ",
               origin);
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
  if (path_.empty() || !unsaved_) return;
  unsaved_ = false;
  try {
    WeightFile::Write(path_, about_, Parts());
  } catch (const Error&) {
    // The folder was there when the session was opened; a full disk or a lost right costs time, not the answer.
  }
}

}  // namespace ferry
