#include "ops/support/infer.h"

#include "base/error.h"

namespace ferry {

SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b) {
  const SymbolicShape& longer = a.size() >= b.size() ? a : b;
  const SymbolicShape& shorter = a.size() >= b.size() ? b : a;
  SymbolicShape out = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    Dim& dim = out[axis + offset];
    const Dim& other = shorter[axis];
    bool dim_is_one = dim.known() && *dim.value == 1, other_is_one = other.known() && *other.value == 1;
    if (other_is_one || SameDim(dim, other)) continue;
    if (dim_is_one) {
      dim = other;
    } else if (dim.known() && other.known()) {
      Fail(ErrorCode::kInvalidModel, "shapes ", a, " and ", b, " cannot be broadcast together");
    } else if (other.known()) {
      dim = other;  // the side that is not known must be 1 or the same
    } else if (!dim.known()) {
      dim = Dim();
    }
  }
  return out;
}

void InferBroadcast(InferContext& context, DType dtype, size_t first, size_t last) {
  SymbolicShape shape;
  for (size_t i = first; i < last && i < context.input_count(); ++i) {
    if (!context.Has(i)) continue;
    const SymbolicShape* input = context.InputShape(i);
    if (!input) return context.SetOutput(0, dtype);
    shape = BroadcastSymbolic(shape, *input);
  }
  context.SetOutput(0, dtype, std::move(shape));
}

void InferSameAsInput(InferContext& context) { context.SetOutput(0, context.InputType(0)); }
void InferSameAlongAxis(InferContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (shape && context.node().Has("axis")) NormalizeAxis(context.node().Int("axis", 0), shape->size());
  InferSameAsInput(context);
}
void InferElementwise(InferContext& context) {
  InferBroadcast(context, CommonDType(context, 0, context.input_count()), 0, context.input_count());
}
void InferComparison(InferContext& context) { InferBroadcast(context, DType::kBool, 0, context.input_count()); }

DType CommonDType(const InferContext& context, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i)
    if (context.InputDType(i) != DType::kUndefined) return context.InputDType(i);
  return DType::kUndefined;
}

DType TypeAttribute(const Node& node, std::string_view name, DType otherwise) {
  int64_t number = node.Int(name, 0);
  if (number == 0) return otherwise;
  Require(IsValidDType(number), "attribute '", name, "' is ", number, ", which is no element type");
  return static_cast<DType>(number);
}

std::optional<SymbolicShape> ElementsOf(const InferContext& context, size_t i) {
  if (const SymbolicShape* elements = context.InputElements(i)) return *elements;
  const Tensor* constant = context.InputConstant(i);
  if (!constant || constant->rank() > 1 || constant->size() > static_cast<int64_t>(kMostKnownElements))
    return std::nullopt;
  bool is_index = IsInteger(constant->dtype()) && !IsPacked(constant->dtype());
  if ((!is_index && constant->dtype() != DType::kBool) || constant->dtype() == DType::kUInt64) return std::nullopt;
  SymbolicShape elements;
  for (int64_t value : ToInt64Vector(*constant)) elements.emplace_back(value);
  return elements;
}

namespace {
bool Fits(int64_t value, DType type) {
  int bits = BitWidth(type);
  if (type == DType::kBool) return value == 0 || value == 1;
  if (type == DType::kUInt64) return value >= 0;
  if (IsSignedInteger(type))
    return bits == 64 || (value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1));
  return IsInteger(type) && value >= 0 && value < int64_t{1} << bits;
}
}  // namespace

void InferElements(InferContext& context, size_t least_inputs, FunctionRef<Dim(std::span<const Dim>)> rule) {
  if (context.output_count() == 0 || context.input_count() < least_inputs) return;
  const Type& type = context.outputs()[0].type;
  if (!type.shape || type.shape->size() > 1 || (!IsInteger(type.dtype) && type.dtype != DType::kBool)) return;
  std::vector<SymbolicShape> inputs;
  size_t count = 1;
  for (size_t i = 0; i < context.input_count(); ++i) {
    std::optional<SymbolicShape> elements = ElementsOf(context, i);
    if (!elements) return;
    if (elements->size() != 1) count = elements->size();
    inputs.push_back(std::move(*elements));
  }
  SymbolicShape result;
  for (size_t e = 0; e < count; ++e) {
    std::vector<Dim> row;
    for (const SymbolicShape& input : inputs) {
      if (input.size() != 1 && input.size() != count) return;
      row.push_back(input[input.size() == 1 ? 0 : e]);
    }
    Dim dim = rule(row);
    result.push_back(dim.known() && !Fits(*dim.value, type.dtype) ? Dim() : dim);
  }
  context.SetOutputElements(0, std::move(result));
}

void InferView(InferContext& context, std::optional<SymbolicShape> shape) {
  DType dtype = context.InputDType(0);
  if (!shape) return context.SetOutput(0, dtype);
  bool is_list = shape->size() <= 1;
  context.SetOutput(0, dtype, *std::move(shape));
  if (!is_list) return;
  if (std::optional<SymbolicShape> elements = ElementsOf(context, 0))
    context.SetOutputElements(0, *std::move(elements));
}

SymbolicShape ShapeFromElements(const SymbolicShape& elements) {
  for (const Dim& dim : elements)
    if (dim.known() && *dim.value < 0) Fail(ErrorCode::kInvalidModel, "shape ", elements, " has a negative dimension");
  return elements;
}

std::optional<size_t> ListLength(const InferContext& context, size_t i) {
  const SymbolicShape* list = context.InputShape(i);
  if (!list || list->size() != 1 || !(*list)[0].known()) return std::nullopt;
  int64_t length = *(*list)[0].value;
  if (length < 0 || length > static_cast<int64_t>(kMostKnownElements)) return std::nullopt;
  return static_cast<size_t>(length);
}

SymbolicShape UnknownShape(size_t rank) { return SymbolicShape(rank); }

}  // namespace ferry
