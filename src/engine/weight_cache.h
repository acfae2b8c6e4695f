// What kernels make out of weights (packed, transformed), shared by every program of a model: a program for another
// shape finds it here instead of making it again.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tensor/tensor.h"

namespace ferry {

class WeightCache {
 public:
  // `form` says what is made of the weight and with which parameters.
  template <class T, class Make>
  std::shared_ptr<const T> Get(const Tensor& weight, const std::string& form, const Make& make) {
    std::string key = Cat(form, "@", reinterpret_cast<uintptr_t>(weight.raw()), weight.shape());
    std::lock_guard lock(mutex_);
    Entry& entry = made_[key];
    if (!entry.held) entry = {weight, std::make_shared<const T>(make())};
    return std::static_pointer_cast<const T>(entry.held);
  }

 private:
  struct Entry {
    Tensor weight;  // kept, so that its address stands for it alone
    std::shared_ptr<const void> held;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> made_;
};

}  // namespace ferry
