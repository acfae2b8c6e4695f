#include "providers/cuda/chain.h"

#include <algorithm>

#include "ops/support/scalar.h"
#include "providers/cuda/chain_operators.h"

namespace ferry::cuda {
namespace {

constexpr char kHelpers[] = R"(
template <class T> __device__ inline T Larger(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ inline T Smaller(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ inline T AtLeast(T x, T low) { return x < low ? low : x; }
template <class T> __device__ inline T AtMost(T x, T high) { return x > high ? high : x; }
template <class T> __device__ inline T Clamp(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
template <class T> __device__ inline T Softplus(T x) { return (x > T(0) ? x : T(0)) + log1p(exp(-fabs(x))); }
template <class T> __device__ inline T Gelu(T x) { return x / T(2) * erfc(-x * T(0.70710678118654752440)); }
// For results that keep fewer bits: erfc to 1.5e-7 (Abramowitz and Stegun 7.1.26).
__device__ inline float GeluShort(float x) {
  const float z = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
  const float p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const float e = p * __expf(-z * z) * 0.5f;
  return x < 0.0f ? x * e : x - x * e;
}
template <class T> __device__ inline T GeluTanh(T x) {
  return x / T(2) * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}
)";

std::string ValueName(int value) { return Cat("v", value); }

// The strides by which an input of `shape` is read along the axes of `output`: 0 where it repeats.
std::vector<int64_t> BroadcastStrides(const Shape& shape, const Shape& output) {
  std::vector<int64_t> strides(output.rank(), 0);
  int64_t stride = 1;
  for (size_t i = shape.rank(), to = output.rank(); i-- > 0;) {
    --to;
    if (shape[i] != 1) strides[to] = stride;
    stride *= shape[i];
  }
  return strides;
}

// Axes that every input walks through as if they were one.
void MergeAxes(std::vector<int64_t>& dims, std::vector<std::vector<int64_t>>& strides) {
  std::vector<int64_t> merged;
  std::vector<std::vector<int64_t>> merged_strides(strides.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    bool joins = !merged.empty();
    for (size_t i = 0; joins && i < strides.size(); ++i)
      joins = merged_strides[i].back() == strides[i][axis] * dims[axis];
    if (joins) {
      merged.back() *= dims[axis];
      for (size_t i = 0; i < strides.size(); ++i) merged_strides[i].back() = strides[i][axis];
      continue;
    }
    merged.push_back(dims[axis]);
    for (size_t i = 0; i < strides.size(); ++i) merged_strides[i].push_back(strides[i][axis]);
  }
  if (merged.empty()) {
    merged.push_back(1);
    for (auto& stride : merged_strides) stride.push_back(0);
  }
  dims = std::move(merged);
  strides = std::move(merged_strides);
}

bool IsDense(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

}  // namespace

const char* TypeName(DType type) {
  switch (type) {
    case DType::kFloat: return "float";
    case DType::kDouble: return "double";
    case DType::kFloat16: return "half";
    case DType::kBFloat16: return "bfloat16";
    case DType::kInt8: return "int8";
    case DType::kUInt8: return "uint8";
    case DType::kInt16: return "int16";
    case DType::kUInt16: return "uint16";
    case DType::kInt32: return "int32";
    case DType::kUInt32: return "uint32";
    case DType::kInt64: return "int64";
    case DType::kUInt64: return "uint64";
    case DType::kBool: return "bool";
    default: return nullptr;
  }
}

const char* ComputeTypeName(DType type) {
  return type == DType::kFloat16 || type == DType::kBFloat16 ? "float" : TypeName(type);
}

int Chain::Add(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

int Chain::AddInput(DType type) {
  inputs_.push_back(Add({.type = type}));
  return inputs_.back();
}

int Chain::AddConstant(const Tensor& scalar) {
  const DType type = scalar.dtype();
  const bool whole = IsInteger(type);
  const int64_t integer = whole ? ScalarInt(scalar, "a constant") : 0;
  const double number = type == DType::kBool ? *scalar.Data<bool>()
                        : whole              ? double(integer)
                                             : ScalarFloat(scalar, "a constant");
  const std::string text = whole ? Cat(integer, "ll") : NumberText(number);
  return Add({type, Cat(ComputeTypeName(type), "(", text, ")"), true, number});
}

std::optional<int> Chain::AddStep(const Node& node, std::span<const int> arguments, DType type) {
  std::vector<ChainArgument> named;
  for (int value : arguments) {
    if (value < 0) {
      named.push_back({"", DType::kUndefined});
      continue;
    }
    const Value& known = values_[static_cast<size_t>(value)];
    named.push_back({ValueName(value), known.type, known.is_constant ? &known.constant : nullptr});
  }
  while (!named.empty() && named.back().name.empty()) named.pop_back();
  std::string text = ElementExpression(node, named, type);
  if (text.empty()) return std::nullopt;
  // As if every operator wrote its result: a chain gives the bits of its operators one by one.
  if (type == DType::kFloat16 || type == DType::kBFloat16)
    text = Cat("Load(Stored<", TypeName(type), ">::From(", text, "))");
  return Add({type, std::move(text)});
}

Chain::Form Chain::FormFor(std::span<const Shape> inputs, std::span<const uintptr_t> addresses,
                           const Shape& output) const {
  Form form;
  form.dims = output.ToVector();
  for (const Shape& shape : inputs) form.strides.push_back(BroadcastStrides(shape, output));
  MergeAxes(form.dims, form.strides);
  const int64_t inner = form.dims.back();
  size_t widest = 1;
  for (size_t i = 0; i < inputs_.size(); ++i) widest = std::max<size_t>(widest, BitWidth(type(inputs_[i])) / 8u);
  for (int value : outputs_) widest = std::max<size_t>(widest, BitWidth(type(value)) / 8u);
  auto fits = [&](int64_t width) {
    if (inner % width != 0) return false;
    for (size_t i = 0; i < addresses.size(); ++i) {
      const int64_t bytes =
          i < inputs_.size() ? BitWidth(type(inputs_[i])) / 8 : BitWidth(output_type(i - inputs_.size())) / 8;
      const bool repeats = i < inputs_.size() && form.strides[i].back() == 0;
      if (!repeats && addresses[i] % static_cast<uintptr_t>(width * bytes) != 0) return false;
      for (size_t axis = 0; !repeats && i < inputs_.size() && axis + 1 < form.dims.size(); ++axis)
        if (form.strides[i][axis] % width != 0) return false;
    }
    return true;
  };
  int64_t width = std::min<int64_t>(8, 16 / static_cast<int64_t>(widest));
  while (width > 1 && !fits(width)) width /= 2;
  form.width = static_cast<int>(std::max<int64_t>(1, width));
  form.wide_indices = output.ElementCount() > INT32_MAX;
  for (size_t i = 0; i < inputs.size(); ++i) {
    form.repeats.push_back(form.strides[i].back() == 0);
    if (IsDense(form.dims, form.strides[i]) && !form.repeats[i])
      form.strides[i].clear();
    else
      form.strides[i].back() *= form.width;
  }
  form.dims.back() /= form.width;
  return form;
}

KernelSource Chain::Source(const Form& form) const {
  const size_t rank = form.dims.size();
  std::string strided, parameters, loads, body, stores;
  bool needs_positions = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string type = TypeName(this->type(inputs_[i])), from = Cat("p", i);
    parameters += Cat("const ", type, "* ", from, ", ");
    std::string place = "i";
    const bool one_element = form.repeats[i] && std::all_of(form.strides[i].begin(), form.strides[i].end(),
                                                            [](int64_t s) { return s == 0; });
    if (one_element) {
      place = "0";
    } else if (!form.strides[i].empty()) {
      needs_positions = true;
      strided += Cat(" index s", i, "[", rank, "];");
      place.clear();
      for (size_t axis = 0; axis < rank; ++axis)
        place += Cat(axis ? " + " : "", "c", axis, " * places.s", i, "[", axis, "]");
    }
    const std::string pack = Cat("Pack<", type, ", ", form.width, ">");
    if (form.repeats[i])
      loads += Cat("    const ", type, " a", i, " = p", i, "[", place, "];\n");
    else if (form.strides[i].empty())
      loads += Cat("    const ", pack, " a", i, " = reinterpret_cast<const ", pack, "*>(", from, ")[i];\n");
    else
      loads +=
          Cat("    const ", pack, " a", i, " = *reinterpret_cast<const ", pack, "*>(", from, " + (", place, "));\n");
    body += Cat("      const auto v", inputs_[i], " = Load(a", i, form.repeats[i] ? "" : ".at[k]", ");\n");
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (!values_[i].text.empty())
      body += Cat("      const ", ComputeTypeName(values_[i].type), " v", i, " = ", values_[i].text, ";\n");
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string type = TypeName(output_type(i)), pack = Cat("Pack<", type, ", ", form.width, ">");
    parameters += Cat(type, "* q", i, ", ");
    loads += Cat("    ", pack, " r", i, ";\n");
    body += Cat("      r", i, ".at[k] = Stored<", type, ">::From(v", outputs_[i], ");\n");
    stores += Cat("    reinterpret_cast<", pack, "*>(q", i, ")[i] = r", i, ";\n");
  }
  std::string positions;
  if (needs_positions) {
    positions = "    index rest = i;\n";
    for (size_t axis = rank; axis-- > 0;)
      positions += axis ? Cat("    const index c", axis, " = rest % places.dims[", axis, "];\n    rest /= places.dims[",
                              axis, "];\n")
                        : std::string("    const index c0 = rest;\n");
  }
  return {"Chain", Cat(kHelpers, "typedef uint", form.wide_indices ? "64" : "32",
                       " index;\nstruct Places { index count; index dims[", rank, "];", strided,
                       " };\nextern \"C\" __global__ void Chain(", parameters,
                       "const Places places) {\n"
                       "  for (index i = index(blockIdx.x) * blockDim.x + threadIdx.x; i < places.count; "
                       "i += index(gridDim.x) * blockDim.x) {\n",
                       positions, loads, "#pragma unroll\n    for (int k = 0; k < ", form.width, "; ++k) {\n", body,
                       "    }\n", stores, "  }\n}\n")};
}

std::shared_ptr<const Chain::Ready> Chain::ReadyFor(const Device& device, std::span<const Tensor* const> inputs,
                                                    std::span<Tensor* const> outputs) const {
  constexpr size_t kMostKept = 16;
  std::vector<int64_t> key{device.facts().ordinal};
  auto add = [&](const Tensor& tensor) {
    key.push_back(static_cast<int64_t>(tensor.rank()));
    key.insert(key.end(), tensor.shape().begin(), tensor.shape().end());
    key.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.address()) % 16));
  };
  for (const Tensor* input : inputs) add(*input);
  for (const Tensor* output : outputs) add(*output);
  std::lock_guard lock(ready_->mutex);
  for (const auto& ready : ready_->calls)
    if (ready->key == key) return ready;
  std::vector<Shape> shapes;
  std::vector<uintptr_t> addresses;
  for (const Tensor* input : inputs) {
    shapes.push_back(input->shape());
    addresses.push_back(reinterpret_cast<uintptr_t>(input->address()));
  }
  for (const Tensor* output : outputs) addresses.push_back(reinterpret_cast<uintptr_t>(output->address()));
  const Form form = FormFor(shapes, addresses, outputs[0]->shape());
  auto ready = std::make_shared<Ready>();
  ready->key = std::move(key);
  ready->function = FindKernel(device, Source(form));
  ready->wide_indices = form.wide_indices;
  std::vector<int64_t>& places = ready->places;
  places.push_back(1);
  for (int64_t dim : form.dims) places[0] *= dim;
  places.insert(places.end(), form.dims.begin(), form.dims.end());
  for (const std::vector<int64_t>& strides : form.strides)
    if (std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s != 0; }))
      places.insert(places.end(), strides.begin(), strides.end());
  ready->narrow.assign(places.begin(), places.end());
  if (ready_->calls.size() == kMostKept) ready_->calls.erase(ready_->calls.begin());
  ready_->calls.push_back(ready);
  return ready;
}

void Chain::Run(const Device& device, std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs) const {
  if (outputs[0]->size() == 0) return;
  const std::shared_ptr<const Ready> ready = ReadyFor(device, inputs, outputs);
  std::vector<std::byte*> addresses;
  for (const Tensor* input : inputs) addresses.push_back(input->address());
  for (const Tensor* output : outputs) addresses.push_back(output->address());
  std::vector<void*> parameters;
  for (std::byte*& address : addresses) parameters.push_back(&address);
  // The driver copies parameters and changes none.
  parameters.push_back(ready->wide_indices ? static_cast<void*>(const_cast<int64_t*>(ready->places.data()))
                                           : const_cast<uint32_t*>(ready->narrow.data()));
  LaunchRaw(device, ready->function, GridFor(device, ready->places[0]), parameters.data());
}

}  // namespace ferry::cuda
