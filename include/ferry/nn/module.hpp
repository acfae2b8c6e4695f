// What networks are made of: modules with named parameters, inside each other.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferry/nn/random.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

namespace detail {

// An error that says already which module it happened in.
class PlacedError : public Error {
 public:
  using Error::Error;
};

class Scope {
 public:
  explicit Scope(const std::string& name) { context.scope.push_back(name); }
  ~Scope() { context.scope.pop_back(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

inline NamedTensors ReadWeights(const std::string& path) {
  ferry_weights* opened = nullptr;
  ferry::detail::Check(ferry_weights_open(path.c_str(), &opened));
  ferry::detail::Owned<ferry_weights, ferry_weights_free> weights(opened);
  NamedTensors tensors;
  for (size_t i = 0; i < ferry_weights_count(opened); ++i) {
    ferry_value* value = nullptr;
    ferry::detail::Check(ferry_weights_tensor(opened, i, &value));
    tensors.emplace_back(ferry_weights_name(opened, i), Tensor(Value(value)));
  }
  return tensors;
}

}  // namespace detail

// A network or a part of one:
//
//   struct SimpleNet : nn::Module {
//     nn::Linear fc1{10, 16}, fc2{16, 3};
//     SimpleNet() {
//       register_module("fc1", fc1);
//       register_module("fc2", fc2);
//     }
//     nn::Tensor forward(const nn::Tensor& x) override { return fc2(nn::relu(fc1(x))); }
//   };
//
// A network with several inputs or outputs has a call() instead, of whatever tensors to whatever tensors:
//
//   std::pair<nn::Tensor, nn::Tensor> call(const nn::Tensor& a, const nn::Tensor& b) { … }
//
// Modules know their parts by address: they can be neither copied nor moved.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Runs forward, and says in errors and in the names of exported nodes which module it was.
  Tensor operator()(const Tensor& x) {
    return Inside([&] { return forward(x); });
  }
  virtual Tensor forward(const Tensor&) { detail::Refuse("has no forward() for one tensor"); }
  virtual std::string kind() const { return "Module"; }

  // Training mode, in which a module starts, changes Dropout and BatchNorm.
  Module& train(bool on = true) {
    training_ = on;
    for (const auto& [name, module] : modules_) module->train(on);
    return *this;
  }
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  // By name, as PyTorch names them: "fc1.weight". Buffers are state that is not learnt: running means and variances.
  NamedTensors named_parameters() const { return Collect(&Module::parameters_); }
  NamedTensors named_buffers() const { return Collect(&Module::buffers_); }
  NamedTensors state_dict() const {
    NamedTensors all = named_parameters(), buffers = named_buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
  }
  Tensor parameter(const std::string& name) const {
    for (const auto& [own, tensor] : state_dict())
      if (own == name) return tensor;
    detail::Refuse("there is no parameter '" + name + "'");
  }
  std::vector<std::pair<std::string, Module*>> named_modules(const std::string& prefix = "") {
    std::vector<std::pair<std::string, Module*>> all = {{prefix, this}};
    for (const auto& [name, module] : modules_) {
      auto inner = module->named_modules(prefix.empty() ? name : prefix + "." + name);
      all.insert(all.end(), inner.begin(), inner.end());
    }
    return all;
  }

  // Takes parameters and buffers by name from a .safetensors file or a PyTorch checkpoint, converting floats to the
  // type they have here. `strict`: names that are missing or too many are an error, which lists them. Nothing is
  // changed when it fails.
  void load_state_dict(const std::string& path, bool strict = true) {
    try {
      load_state_dict(detail::ReadWeights(path), strict);
    } catch (const Error& error) {
      std::string message = error.what();
      throw Error(error.code(),
                  message.find(path) == std::string::npos ? (path + ": " + message).c_str() : error.what());
    }
  }
  void load_state_dict(const NamedTensors& weights, bool strict = true);

 protected:
  void register_module(std::string name, Module& module) {
    CheckName(name);
    module.name_ = name;
    modules_.emplace_back(std::move(name), &module);
  }
  void register_module(std::string name, std::shared_ptr<Module> module) {
    if (!module) detail::Refuse("module '" + name + "' is null");
    register_module(std::move(name), *module);
    owned_.push_back(std::move(module));
  }
  Tensor register_parameter(std::string name, Tensor tensor) {
    CheckName(name);
    parameters_.emplace_back(std::move(name), tensor);
    return tensor;
  }
  Tensor register_buffer(std::string name, Tensor tensor) {
    CheckName(name);
    buffers_.emplace_back(std::move(name), tensor);
    return tensor;
  }

  // Runs `body` as part of this module; for modules whose forward is called otherwise than with one tensor.
  template <class Body>
  std::invoke_result_t<const Body&> Inside(const Body& body) {
    detail::Scope scope(name_);
    try {
      return body();
    } catch (const detail::PlacedError&) {
      throw;
    } catch (const Error& error) {
      std::string place = detail::ScopePath(".");
      place = place.empty() ? kind() : place + " (" + kind() + ")";
      throw detail::PlacedError(error.code(), (place + ": " + error.what()).c_str());
    }
  }

 private:
  void CheckName(const std::string& name) const {
    auto taken = [&](const auto& list) {
      return std::any_of(list.begin(), list.end(), [&](const auto& one) { return one.first == name; });
    };
    if (name.empty() || name.find_first_of("./") != std::string::npos)
      detail::Refuse("'" + name + "' cannot name a part of a module: names are not empty and have no '.' or '/'");
    if (taken(modules_) || taken(parameters_) || taken(buffers_))
      detail::Refuse("the name '" + name + "' is used twice");
  }
  NamedTensors Collect(NamedTensors Module::*list) const {
    NamedTensors all = this->*list;
    for (const auto& [name, module] : modules_)
      for (auto& [inner, tensor] : module->Collect(list)) all.emplace_back(name + "." + inner, tensor);
    return all;
  }

  std::string name_;  // in the module around it
  bool training_ = true;
  NamedTensors parameters_, buffers_;
  std::vector<std::pair<std::string, Module*>> modules_;
  std::vector<std::shared_ptr<Module>> owned_;
};

inline void Module::load_state_dict(const NamedTensors& weights, bool strict) {
  std::map<std::string, Tensor> given(weights.begin(), weights.end());
  std::vector<std::pair<Tensor, Tensor>> pairs;
  std::string problems;
  auto complain = [&](const std::string& text) { problems += (problems.empty() ? "" : "; ") + text; };
  for (const auto& [name, own] : state_dict()) {
    auto it = given.find(name);
    if (it == given.end()) {
      if (strict) complain("'" + name + "' is missing");
      continue;
    }
    if (own.shape() != it->second.shape())
      complain("'" + name + "' has shape " + detail::ToText(it->second.shape()) + ", needs " +
               detail::ToText(own.shape()));
    else
      pairs.emplace_back(own, it->second);
    given.erase(it);
  }
  if (strict)
    for (const auto& [name, tensor] : given) complain("'" + name + "' is not a parameter of this module");
  if (!problems.empty()) detail::Refuse("the weights do not fit " + kind() + ": " + problems);
  detail::Unrecorded unrecorded;
  for (auto& [own, loaded] : pairs) own.assign(loaded.to(own.dtype()));
}

// Makes a module to be put into a Sequential or a ModuleList.
template <class M, class... Args>
std::shared_ptr<M> make(Args&&... args) {
  return std::make_shared<M>(std::forward<Args>(args)...);
}

// A list of modules; its parts are called "0", "1" …
class ModuleList : public Module {
 public:
  ModuleList() = default;
  ModuleList(std::initializer_list<std::shared_ptr<Module>> modules) {
    for (const auto& module : modules) push_back(module);
  }
  void push_back(const std::shared_ptr<Module>& module) {
    register_module(std::to_string(list_.size()), module);
    list_.push_back(module);
  }
  size_t size() const { return list_.size(); }
  Module& operator[](size_t index) const {
    if (index >= list_.size()) detail::Refuse("there is no module " + std::to_string(index));
    return *list_[index];
  }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  std::string kind() const override { return "ModuleList"; }

 private:
  std::vector<std::shared_ptr<Module>> list_;
};

// One module after the other: nn::Sequential net{nn::make<nn::Linear>(10, 16), nn::make<nn::ReLU>()};
class Sequential : public ModuleList {
 public:
  using ModuleList::ModuleList;
  Tensor forward(const Tensor& x) override {
    Tensor value = x;
    for (const auto& module : *this) value = (*module)(value);
    return value;
  }
  std::string kind() const override { return "Sequential"; }
};

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
