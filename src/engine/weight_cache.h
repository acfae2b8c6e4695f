// What kernels make out of weights (packed, transformed), shared by every program of a model: a program for another
// shape finds it here instead of making it again, and the next process in a file where the caller names a folder for
// it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/function_ref.h"
#include "engine/weight_file.h"
#include "tensor/tensor.h"

namespace ferry {

// To be raised whenever a form of weights changes its layout under the same name.
inline constexpr int kPackingVersion = 1;

class WeightCache {
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

  // The same for `count` elements that `fill` writes from end to end; these can be kept in a file.
  std::shared_ptr<const Tensor> GetTensor(const Tensor& weight, const std::string& form, DType dtype, int64_t count,
                                          FunctionRef<void(Tensor&)> fill);

  // From now on tensors are looked for in this file first. `origin` is what the weights belong to.
  void UseFile(const std::string& path, const std::string& origin);
  // Writes the file when something was made that it lacks. A file that cannot be written is done without.
  void Save();

 private:
  struct Entry {
    Tensor weight;  // kept, so that its address stands for it alone
    std::shared_ptr<const void> held;
  };
  static std::string KeyInMemory(const Tensor& weight, const std::string& form) {
    return Cat(form, "@", reinterpret_cast<uintptr_t>(weight.raw()), weight.shape());
  }
  std::vector<WeightFile::Part> Parts() const;

  std::mutex mutex_;
  std::unordered_map<std::string, Entry> made_;

  std::string path_, about_;  // empty: no file
  std::shared_ptr<WeightFile> file_;
  std::unordered_map<std::string, std::shared_ptr<const Tensor>> by_file_key_;
  bool unsaved_ = false;
};

}  // namespace ferry
