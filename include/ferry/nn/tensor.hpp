// Tensors that compute at once and, while a network is recorded, leave a trace of what computed them.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ferry/ferry.hpp"

namespace ferry {
inline namespace api_v1 {
namespace nn {

using Shape = std::vector<int64_t>;

class Tensor;

// Told of what an export finds doubtful; prints to stderr unless another one is set.
using WarningHandler = std::function<void(const std::string&)>;

namespace detail {

// What tensors share: copying a Tensor copies a pointer to this.
struct Held {
  Value value;
  uint64_t tape = 0;  // the recording that knows the value as `id`
  int64_t id = FERRY_OMITTED;
  bool traced = false;  // depends on an input of that recording
};

struct Recording {
  ferry::detail::Owned<ferry_tape, ferry_tape_free> tape;
  uint64_t serial = 0;
  std::unordered_map<const Held*, std::string> parameters;  // their names in the model
  std::vector<std::string> warnings;
};

struct Context {
  Recording* recording = nullptr;
  bool repeats = false;            // the network is run once more to compare: it should not change, nor warn again
  std::vector<std::string> scope;  // the modules that are running, outermost first
};
inline thread_local Context context;

inline WarningHandler& CurrentWarningHandler() {
  static WarningHandler handler = [](const std::string& text) {
    std::fprintf(stderr, "ferry::nn: warning: %s\n", text.c_str());
  };
  return handler;
}

inline void Warn(const std::string& text) {
  if (context.repeats) return;
  if (context.recording) context.recording->warnings.push_back(text);
  CurrentWarningHandler()(text);
}

inline std::string ScopePath(const char* separator) {
  std::string path;
  for (const std::string& name : context.scope) {
    if (name.empty()) continue;
    if (!path.empty()) path += separator;
    path += name;
  }
  return path;
}

[[noreturn]] inline void Refuse(const std::string& message) { throw Error(Code::kInvalidArgument, message.c_str()); }

inline std::string ToText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Nothing inside is recorded.
class Unrecorded {
 public:
  Unrecorded() : before_(std::exchange(context.recording, nullptr)) {}
  ~Unrecorded() { context.recording = before_; }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  Recording* before_;
};

}  // namespace detail

// Returns the handler that was set before.
inline WarningHandler set_warning_handler(WarningHandler handler) {
  return std::exchange(detail::CurrentWarningHandler(), std::move(handler));
}

// The size of an axis: a number which, given to reshape or expand while a network is recorded, is still known to be
// that axis's size. Arithmetic makes a plain number of it.
class Size {
 public:
  template <std::integral T>
  Size(T value) : value_(static_cast<int64_t>(value)) {}
  operator int64_t() const { return value_; }

 private:
  friend class Tensor;
  Size(int64_t value, std::shared_ptr<detail::Held> source, int64_t axis)
      : value_(value), source_(std::move(source)), axis_(axis) {}

  int64_t value_;
  std::shared_ptr<detail::Held> source_;
  int64_t axis_ = 0;
};

class Tensor {
 public:
  Tensor() = default;  // an omitted input
  Tensor(Value value) : held_(std::make_shared<detail::Held>()) {
    if (!value.is_tensor()) detail::Refuse("a Tensor is made of a value that is a tensor");
    held_->value = std::move(value);
  }
  template <class T>
  static Tensor of(const Shape& shape, std::span<const T> elements) {
    return Tensor(Value::Of<T>(shape, elements));
  }
  template <class T>
  static Tensor of(const Shape& shape, const std::vector<T>& elements) {
    return of<T>(shape, std::span<const T>(elements));
  }
  static Tensor full(const Shape& shape, float value) {
    return of<float>(shape, std::vector<float>(Count(shape), value));
  }
  static Tensor zeros(const Shape& shape) { return full(shape, 0); }
  static Tensor ones(const Shape& shape) { return full(shape, 1); }
  static Tensor ints(const std::vector<int64_t>& values) {
    return of<int64_t>({static_cast<int64_t>(values.size())}, values);
  }
  // One number as a tensor of rank 0 and of another tensor's type.
  static Tensor scalar(double value, ferry_dtype type = FERRY_FLOAT);

  bool defined() const { return held_ != nullptr; }
  const Value& value() const { return held().value; }
  ferry_dtype dtype() const { return value().dtype(); }
  Shape shape() const { return Shape(value().shape().begin(), value().shape().end()); }
  int64_t dim() const { return static_cast<int64_t>(value().shape().size()); }
  int64_t numel() const { return value().size(); }
  Size size(int64_t axis) const {
    axis = NormalAxis(axis);
    return {value().shape()[static_cast<size_t>(axis)], held_, axis};
  }

  // The elements, which live as long as the tensor, and the only element. While a network is recorded, what C++ code
  // does with them is not: a warning says so.
  template <class T>
  std::span<const T> data() const {
    WarnOfReading();
    return value().Data<T>();
  }
  template <class T = float>
  T item() const {
    if (numel() != 1) detail::Refuse("item() is for tensors of one element, not of shape " + detail::ToText(shape()));
    return data<T>()[0];
  }
  explicit operator bool() const { return dtype() == FERRY_BOOL ? item<bool>() : item<float>() != 0; }

  Tensor reshape(const std::vector<Size>& sizes) const;  // -1: what is left
  Tensor expand(const std::vector<Size>& sizes) const;   // numpy's broadcast_to
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor permute(const std::vector<int64_t>& order) const;
  Tensor squeeze(int64_t axis) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor slice(int64_t axis, int64_t begin, int64_t end, int64_t step = 1) const;
  Tensor select(int64_t axis, int64_t index) const;  // one index; the axis goes
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t axis) const;
  Tensor to(ferry_dtype type) const;

  // Over the axes given; over all without any.
  Tensor sum(const std::vector<int64_t>& axes = {}, bool keepdim = false) const;
  Tensor mean(const std::vector<int64_t>& axes = {}, bool keepdim = false) const;
  Tensor amax(const std::vector<int64_t>& axes = {}, bool keepdim = false) const;
  Tensor amin(const std::vector<int64_t>& axes = {}, bool keepdim = false) const;
  Tensor argmax(int64_t axis, bool keepdim = false) const;

  // Replaces the elements, for all that share them: how a parameter is loaded.
  void assign(const Tensor& other) {
    if (detail::context.recording) detail::Refuse("elements cannot be replaced while a network is recorded");
    if (dtype() != other.dtype() || shape() != other.shape())
      detail::Refuse("elements of shape " + detail::ToText(other.shape()) + " cannot take the place of " +
                     detail::ToText(shape()));
    held().value = other.value().Share();
  }

  detail::Held& held() const {
    if (!held_) detail::Refuse("a tensor is used that was never given a value");
    return *held_;
  }
  int64_t NormalAxis(int64_t axis) const {
    int64_t rank = dim();
    if (axis < -rank || axis >= rank)
      detail::Refuse("there is no axis " + std::to_string(axis) + " in shape " + detail::ToText(shape()));
    return axis < 0 ? axis + rank : axis;
  }

 private:
  static size_t Count(const Shape& shape) {
    int64_t count = ferry_tensor_bytes_for(FERRY_INT8, shape.data(), shape.size());
    if (count < 0) detail::Refuse("there is no tensor of shape " + detail::ToText(shape));
    return static_cast<size_t>(count);
  }
  static bool IsTraced(const detail::Held& held) {
    return detail::context.recording && held.traced && held.tape == detail::context.recording->serial;
  }
  void WarnOfReading() const {
    if (!IsTraced(held())) return;
    std::string place = detail::ScopePath(".");
    detail::Warn("the value of a tensor of shape " + detail::ToText(shape()) + " was read while recording" +
                 (place.empty() ? "" : " in '" + place + "'") +
                 ": what C++ decides from it (a branch, a number) is fixed in the exported model");
  }
  static Tensor ShapeVector(const std::vector<Size>& sizes);
  Tensor Reduced(const char* op_type, const std::vector<int64_t>& axes, bool keepdim) const;

  std::shared_ptr<detail::Held> held_;
};

// An attribute of an operator: {"axis", 1}, {"mode", "linear"}, {"pads", Shape{1, 1}}.
struct Attribute {
  using Held = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, Tensor>;

  template <std::integral T>
  Attribute(std::string key, T number) : name(std::move(key)), value(static_cast<int64_t>(number)) {}
  template <std::floating_point T>
  Attribute(std::string key, T number) : name(std::move(key)), value(static_cast<float>(number)) {}
  Attribute(std::string key, const char* text) : name(std::move(key)), value(std::string(text)) {}
  Attribute(std::string key, std::vector<int64_t> list) : name(std::move(key)), value(std::move(list)) {}
  Attribute(std::string key, std::vector<float> list) : name(std::move(key)), value(std::move(list)) {}
  Attribute(std::string key, Tensor tensor) : name(std::move(key)), value(std::move(tensor)) {}

  std::string name;
  Held value;
};

namespace detail {

using OwnedCall = ferry::detail::Owned<ferry_call, ferry_call_free>;

inline void SetAttribute(ferry_call* call, const Attribute& attribute) {
  const char* name = attribute.name.c_str();
  ferry::detail::Check(std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, int64_t>) return ferry_call_set_int(call, name, value);
        if constexpr (std::is_same_v<T, float>) return ferry_call_set_float(call, name, value);
        if constexpr (std::is_same_v<T, std::string>) return ferry_call_set_string(call, name, value.c_str());
        if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return ferry_call_set_ints(call, name, value.data(), value.size());
        if constexpr (std::is_same_v<T, std::vector<float>>)
          return ferry_call_set_floats(call, name, value.data(), value.size());
        if constexpr (std::is_same_v<T, Tensor>) return ferry_call_set_tensor(call, name, value.value().handle());
      },
      attribute.value));
}

// The number that the current recording has for a tensor; one it has not seen is a parameter or a constant.
inline int64_t IdOf(Recording& recording, const Tensor& tensor) {
  if (!tensor.defined()) return FERRY_OMITTED;
  Held& held = tensor.held();
  if (held.tape == recording.serial) return held.id;
  int64_t id = FERRY_OMITTED;
  auto parameter = recording.parameters.find(&held);
  ferry::detail::Check(
      parameter != recording.parameters.end()
          ? ferry_tape_parameter(recording.tape.get(), parameter->second.c_str(), held.value.handle(), &id)
          : ferry_tape_constant(recording.tape.get(), held.value.handle(), &id));
  held.tape = recording.serial;
  held.id = id;
  held.traced = false;
  return id;
}

inline void Record(Recording& recording, const ferry_call* call, std::span<const Tensor> inputs,
                   std::span<const Tensor> outputs) {
  std::vector<int64_t> input_ids, output_ids(outputs.size());
  bool traced = false;
  for (const Tensor& input : inputs) {
    input_ids.push_back(IdOf(recording, input));
    traced = traced || (input.defined() && input.held().traced);
  }
  std::vector<const ferry_value*> values;
  for (const Tensor& output : outputs) values.push_back(output.value().handle());
  ferry::detail::Check(ferry_tape_record(recording.tape.get(), call, input_ids.data(), input_ids.size(), values.data(),
                                         values.size(), output_ids.data()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Held& held = outputs[i].held();
    held.tape = recording.serial;
    held.id = output_ids[i];
    held.traced = traced;
  }
}

}  // namespace detail

// Any operator of ONNX, in its newest form: op("Einsum", {a, b}, {{"equation", "ij,jk->ik"}}). A default-constructed
// Tensor is an omitted input.
inline std::vector<Tensor> ops(const char* op_type, const std::vector<Tensor>& inputs,
                               const std::vector<Attribute>& attributes, size_t output_count,
                               const char* domain = nullptr) {
  std::string place = "/" + detail::ScopePath("/");
  if (place.size() > 1) place += "/";
  place += op_type;
  ferry_call* made = nullptr;
  ferry::detail::Check(ferry_call_create(domain, op_type, place.c_str(), &made));
  detail::OwnedCall call(made);
  for (const Attribute& attribute : attributes) detail::SetAttribute(made, attribute);
  std::vector<const ferry_value*> values;
  for (const Tensor& input : inputs) values.push_back(input.defined() ? input.value().handle() : nullptr);
  std::vector<ferry_value*> results(output_count);
  ferry::detail::Check(ferry_call_run(made, values.data(), values.size(), output_count, results.data()));
  std::vector<Value> owned;
  for (ferry_value* result : results) owned.emplace_back(result);
  std::vector<Tensor> outputs;
  for (Value& value : owned) outputs.emplace_back(std::move(value));
  if (detail::context.recording) detail::Record(*detail::context.recording, made, inputs, outputs);
  return outputs;
}
inline Tensor op(const char* op_type, const std::vector<Tensor>& inputs,
                 const std::vector<Attribute>& attributes = {}) {
  return ops(op_type, inputs, attributes, 1)[0];
}

inline Tensor Tensor::scalar(double value, ferry_dtype type) {
  switch (type) {
    case FERRY_DOUBLE: return of<double>({}, std::vector<double>{value});
    case FERRY_INT64: return of<int64_t>({}, std::vector<int64_t>{static_cast<int64_t>(value)});
    case FERRY_INT32: return of<int32_t>({}, std::vector<int32_t>{static_cast<int32_t>(value)});
    case FERRY_FLOAT: return of<float>({}, std::vector<float>{static_cast<float>(value)});
    default: break;
  }
  detail::Unrecorded unrecorded;
  return scalar(value).to(type);
}

// Sizes that are known only when the exported model runs come from Shape nodes; the others are numbers.
inline Tensor Tensor::ShapeVector(const std::vector<Size>& sizes) {
  std::vector<Tensor> parts;
  std::vector<int64_t> numbers;
  auto flush = [&] {
    if (!numbers.empty()) parts.push_back(ints(numbers));
    numbers.clear();
  };
  for (const Size& size : sizes) {
    if (!size.source_ || !IsTraced(*size.source_)) {
      numbers.push_back(size.value_);
      continue;
    }
    flush();
    Tensor source;
    source.held_ = size.source_;
    parts.push_back(op("Shape", {source}, {{"start", size.axis_}, {"end", size.axis_ + 1}}));
  }
  flush();
  if (parts.empty()) return ints({});
  return parts.size() == 1 ? parts[0] : op("Concat", parts, {{"axis", 0}});
}

inline Tensor Tensor::reshape(const std::vector<Size>& sizes) const {
  bool has_zero = false;
  for (const Size& size : sizes) has_zero = has_zero || size.value_ == 0;
  std::vector<Attribute> attributes;
  if (has_zero) attributes.emplace_back("allowzero", 1);
  return op("Reshape", {*this, ShapeVector(sizes)}, attributes);
}

inline Tensor Tensor::expand(const std::vector<Size>& sizes) const {
  for (const Size& size : sizes)
    if (size.value_ < 0) detail::Refuse("expand takes sizes, not " + std::to_string(size.value_));
  return op("Expand", {*this, ShapeVector(sizes)});
}

inline Tensor Tensor::flatten(int64_t start, int64_t end) const {
  if (dim() == 0) return reshape({1});
  start = NormalAxis(start);
  end = NormalAxis(end);
  if (start > end) detail::Refuse("flatten goes from axis " + std::to_string(start) + " to " + std::to_string(end));
  if (start == end) return *this;
  if (start == 1 && end == dim() - 1) return op("Flatten", {*this}, {{"axis", 1}});
  std::vector<Size> sizes;
  for (int64_t axis = 0; axis < start; ++axis) sizes.push_back(size(axis));
  sizes.emplace_back(-1);
  for (int64_t axis = end + 1; axis < dim(); ++axis) sizes.push_back(size(axis));
  return reshape(sizes);
}

inline Tensor Tensor::permute(const std::vector<int64_t>& order) const {
  return op("Transpose", {*this}, {{"perm", order}});
}

inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
  std::vector<int64_t> order(static_cast<size_t>(dim()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[static_cast<size_t>(NormalAxis(a))], order[static_cast<size_t>(NormalAxis(b))]);
  return permute(order);
}

inline Tensor Tensor::squeeze(int64_t axis) const { return op("Squeeze", {*this, ints({NormalAxis(axis)})}); }
inline Tensor Tensor::unsqueeze(int64_t axis) const { return op("Unsqueeze", {*this, ints({axis})}); }
inline Tensor Tensor::slice(int64_t axis, int64_t begin, int64_t end, int64_t step) const {
  return op("Slice", {*this, ints({begin}), ints({end}), ints({NormalAxis(axis)}), ints({step})});
}
inline Tensor Tensor::select(int64_t axis, int64_t index) const {
  return op("Gather", {*this, Tensor::scalar(static_cast<double>(index), FERRY_INT64)}, {{"axis", NormalAxis(axis)}});
}
inline std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t axis) const {
  return ops("Split", {*this, ints(sizes)}, {{"axis", NormalAxis(axis)}}, sizes.size());
}
inline Tensor Tensor::to(ferry_dtype type) const {
  return type == dtype() ? *this : op("Cast", {*this}, {{"to", static_cast<int64_t>(type)}});
}

inline Tensor Tensor::Reduced(const char* op_type, const std::vector<int64_t>& axes, bool keepdim) const {
  return op(op_type, {*this, axes.empty() ? Tensor() : ints(axes)}, {{"keepdims", keepdim ? 1 : 0}});
}
inline Tensor Tensor::sum(const std::vector<int64_t>& axes, bool keepdim) const {
  return Reduced("ReduceSum", axes, keepdim);
}
inline Tensor Tensor::mean(const std::vector<int64_t>& axes, bool keepdim) const {
  return Reduced("ReduceMean", axes, keepdim);
}
inline Tensor Tensor::amax(const std::vector<int64_t>& axes, bool keepdim) const {
  return Reduced("ReduceMax", axes, keepdim);
}
inline Tensor Tensor::amin(const std::vector<int64_t>& axes, bool keepdim) const {
  return Reduced("ReduceMin", axes, keepdim);
}
inline Tensor Tensor::argmax(int64_t axis, bool keepdim) const {
  return op("ArgMax", {*this}, {{"axis", NormalAxis(axis)}, {"keepdims", keepdim ? 1 : 0}});
}

}  // namespace nn
}  // namespace api_v1
}  // namespace ferry
