#include "passes/qdq_pattern.h"

#include <algorithm>
#include <cmath>

#include "ops/evaluate.h"
#include "ops/support/quantized_step.h"

namespace ferry {
namespace {

bool IsUsableScale(float scale) { return std::isnormal(scale) && scale > 0; }

std::string InputOf(const Node& node, size_t i) { return node.HasInput(i) ? node.inputs[i] : std::string(); }

}  // namespace

int32_t Quantization::Level(float value) const {
  ByteRange range = RangeOfByte(type);
  double level = std::nearbyint(static_cast<double>(value / scale)) + zero;
  return static_cast<int32_t>(std::clamp<double>(level, range.low, range.high));
}

DType QdqPattern::TypeOf(const std::string& value) const {
  if (auto noted = types_.find(value); noted != types_.end()) return noted->second;
  const ValueFacts* facts = facts_.Find(value);
  return facts ? facts->type.dtype : DType::kUndefined;
}

std::optional<Quantization> QdqPattern::Constants(const std::string& scale, const std::string& zero, DType type) const {
  const Tensor* factor = editor_.Constant(scale);
  if (!factor || factor->dtype() != DType::kFloat || factor->size() != 1) return std::nullopt;
  Quantization how{*factor->Data<float>(), 0, type};
  if (!IsUsableScale(how.scale)) return std::nullopt;
  if (!zero.empty()) {
    const Tensor* point = editor_.Constant(zero);
    if (!point || point->size() != 1 || !IsByte(point->dtype())) return std::nullopt;
    how.type = point->dtype();
    how.zero = ByteAt(*point, 0);
  }
  if (!IsByte(how.type)) return std::nullopt;
  return how;
}

std::optional<Quantization> QdqPattern::Of(const Node& node) const {
  bool quantizes = IsStandard(node, "QuantizeLinear");
  if (!quantizes && !IsStandard(node, "DequantizeLinear")) return std::nullopt;
  if (node.inputs.size() < 2 || node.outputs.size() != 1 || node.Int("block_size", 0) != 0) return std::nullopt;
  if (quantizes && TypeOf(node.inputs[0]) != DType::kFloat) return std::nullopt;
  // Anything but float in between is another computation, but for quotients of halves, which only lose digits.
  const int64_t between = node.Int(quantizes ? "precision" : "output_dtype", 0);
  const bool loses_digits = quantizes && between == static_cast<int64_t>(DType::kFloat16);
  if (between > 1 && !loses_digits) return std::nullopt;
  DType type = TypeOf(quantizes ? node.outputs[0] : node.inputs[0]);
  return Constants(node.inputs[1], InputOf(node, 2), type);
}

std::optional<QuantizedValue> QdqPattern::Find(const std::string& value) const {
  const Node* node = MadeBy(editor_, value, "DequantizeLinear");
  if (!node || editor_.Constant(node->inputs[0])) return std::nullopt;
  std::optional<Quantization> how = Of(*node);
  if (!how) return std::nullopt;
  return QuantizedValue{node->inputs[0], *how, static_cast<size_t>(editor_.Producer(value))};
}

std::optional<QuantizedWeight> QdqPattern::FindWeight(const std::string& value, size_t axis) const {
  const Node* node = MadeBy(editor_, value, "DequantizeLinear");
  if (!node || node->inputs.size() < 2 || node->Int("block_size", 0) != 0 || node->Int("output_dtype", 0) > 1)
    return std::nullopt;
  const Tensor* bytes = editor_.Constant(node->inputs[0]);
  const Tensor* scale = editor_.Constant(node->inputs[1]);
  if (!bytes || !scale) return std::nullopt;
  int64_t along = node->Int("axis", 1);
  if (along < 0) along += static_cast<int64_t>(bytes->rank());
  if (scale->size() != 1 && along != static_cast<int64_t>(axis)) return std::nullopt;
  return WeightOf(node->inputs[0], node->inputs[1], InputOf(*node, 2), axis);
}

std::optional<QuantizedWeight> QdqPattern::WeightOf(const std::string& bytes, const std::string& scale,
                                                    const std::string& zero, size_t axis) const {
  const Tensor* values = editor_.Constant(bytes);
  const Tensor* scales = editor_.Constant(scale);
  const Tensor* zeros = zero.empty() ? nullptr : editor_.Constant(zero);
  if (!values || !scales || (!zero.empty() && !zeros)) return std::nullopt;
  if (!IsByte(values->dtype()) || axis >= values->rank() || values->size() == 0) return std::nullopt;
  int64_t channels = values->dim(axis);
  auto fits = [&](const Tensor& t) { return t.size() == 1 || (t.rank() == 1 && t.dim(0) == channels); };
  if (scales->dtype() != DType::kFloat || !fits(*scales)) return std::nullopt;
  if (zeros && (zeros->dtype() != values->dtype() || !fits(*zeros))) return std::nullopt;
  QuantizedWeight weight{*values, bytes, {}};
  for (float one : scales->Span<float>()) {
    if (!IsUsableScale(one)) return std::nullopt;
    weight.scales.push_back(one);
  }
  bool shifted = values->dtype() == DType::kUInt8;
  for (int64_t i = 0; zeros && i < zeros->size(); ++i) shifted |= ByteAt(*zeros, i) != 0;
  if (!shifted) return weight;
  weight.name.clear();
  weight.values = Tensor(DType::kInt8, values->shape());
  int64_t inner = values->shape().CountBetween(axis + 1, values->rank());
  for (int64_t i = 0; i < values->size(); ++i) {
    int32_t point = zeros ? ByteAt(*zeros, zeros->size() == 1 ? 0 : i / inner % channels) : 0;
    int32_t level = ByteAt(*values, i) - point;
    if (level < -128 || level > 127) return std::nullopt;
    weight.values.MutableData<int8_t>()[i] = static_cast<int8_t>(level);
  }
  return weight;
}

std::optional<std::vector<float>> QdqPattern::FloatConstant(const std::string& value) const {
  const Tensor* constant = editor_.Constant(value);
  std::optional<Tensor> computed;
  if (const Node* node = constant ? nullptr : MadeBy(editor_, value, "DequantizeLinear")) {
    std::vector<Value> values;
    for (const std::string& name : node->inputs) {
      const Tensor* input = name.empty() ? nullptr : editor_.Constant(name);
      if (!input && !name.empty()) return std::nullopt;
      values.push_back(input ? Value(*input) : Value());
    }
    std::vector<const Value*> inputs;
    for (const Value& input : values) inputs.push_back(input.present() ? &input : nullptr);
    try {
      computed = EvaluateNode(*node, inputs, RunServices{})[0].tensor();
    } catch (const Error&) {
      return std::nullopt;  // it fails where it is reached, with the same words
    }
    constant = &*computed;
  }
  if (!constant || constant->dtype() != DType::kFloat) return std::nullopt;
  auto span = constant->Span<float>();
  return std::vector<float>(span.begin(), span.end());
}

}  // namespace ferry
