#include "graph/type.h"

#include <charconv>

#include "base/error.h"

template class std::vector<ferry::Dim>;
template class std::vector<ferry::Type>;

namespace ferry {

Dim::Dim() = default;
Dim::Dim(const Dim&) = default;
Dim::Dim(Dim&&) noexcept = default;
Dim& Dim::operator=(const Dim&) = default;
Dim& Dim::operator=(Dim&&) noexcept = default;
Dim::~Dim() = default;

Type::Type() = default;
Type::Type(const Type&) = default;
Type::Type(Type&&) noexcept = default;
Type& Type::operator=(const Type&) = default;
Type& Type::operator=(Type&&) noexcept = default;
Type::~Type() = default;

Dim Dim::Named(std::string name) {
  Dim dim;
  dim.symbol = std::move(name);
  return dim;
}

namespace {

Type TypeOfKind(Type::Kind kind, DType dtype) {
  Type type;
  type.kind = kind;
  type.dtype = dtype;
  return type;
}

Type Holding(Type type, Type element) {
  type.element = std::make_shared<const Type>(std::move(element));
  return type;
}

}  // namespace

Type Type::Tensor(DType dtype) { return TypeOfKind(Kind::kTensor, dtype); }
Type Type::Tensor(DType dtype, SymbolicShape shape) {
  Type type = Tensor(dtype);
  type.shape = std::move(shape);
  return type;
}
Type Type::SparseTensor(DType dtype, std::optional<SymbolicShape> shape) {
  Type type = TypeOfKind(Kind::kSparseTensor, dtype);
  type.shape = std::move(shape);
  return type;
}
Type Type::SequenceOf(Type element) {
  return Holding(TypeOfKind(Kind::kSequence, DType::kUndefined), std::move(element));
}
Type Type::OptionalOf(Type element) {
  return Holding(TypeOfKind(Kind::kOptional, DType::kUndefined), std::move(element));
}
Type Type::MapOf(DType key, Type value) { return Holding(TypeOfKind(Kind::kMap, key), std::move(value)); }

bool SameDim(const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return *a.value == *b.value;
  return a.named() && b.named() && a.symbol == b.symbol;
}

namespace {

// A size and a number more, under one name whatever the order in which it was added up: "past + 2".
Dim Increased(const std::string& symbol, int64_t number) {
  if (number < 0) return {};
  const size_t sign = symbol.rfind(" + ");
  int64_t before = 0;
  std::string name = symbol;
  if (sign != std::string::npos && sign > 0) {
    const char *first = symbol.data() + sign + 3, *last = symbol.data() + symbol.size();
    auto [end, error] = std::from_chars(first, last, before);
    if (error != std::errc() || end != last || before < 0)
      before = 0;
    else
      name = symbol.substr(0, sign);
  }
  if (__builtin_add_overflow(before, number, &number)) return {};
  return Dim::Named(Cat(name, " + ", number));
}

}  // namespace

Dim operator+(const Dim& a, const Dim& b) {
  int64_t sum;
  if (a.known() && b.known() && !__builtin_add_overflow(*a.value, *b.value, &sum)) return Dim(sum);
  if (a.known() && *a.value == 0) return b;
  if (b.known() && *b.value == 0) return a;
  if (a.named() && b.known()) return Increased(a.symbol, *b.value);
  if (b.named() && a.known()) return Increased(b.symbol, *a.value);
  return {};
}

Dim operator-(const Dim& a, const Dim& b) {
  int64_t difference;
  if (a.known() && b.known() && !__builtin_sub_overflow(*a.value, *b.value, &difference)) return Dim(difference);
  if (b.known() && *b.value == 0) return a;
  if (SameDim(a, b)) return Dim(0);
  return {};
}

Dim operator*(const Dim& a, const Dim& b) {
  int64_t product;
  if (a.known() && b.known() && !__builtin_mul_overflow(*a.value, *b.value, &product)) return Dim(product);
  if ((a.known() && *a.value == 0) || (b.known() && *b.value == 0)) return Dim(0);
  if (a.known() && *a.value == 1) return b;
  if (b.known() && *b.value == 1) return a;
  return {};
}

Dim FloorDivide(const Dim& a, const Dim& b) {
  if (a.known() && b.known() && *b.value != 0 && !(*b.value == -1 && *a.value == INT64_MIN)) {
    int64_t quotient = *a.value / *b.value;
    if (*a.value % *b.value != 0 && (*a.value < 0) != (*b.value < 0)) --quotient;
    return Dim(quotient);
  }
  if (b.known() && *b.value == 1) return a;
  return {};
}

SymbolicShape ToSymbolic(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::optional<Shape> ToConcrete(const SymbolicShape& shape) {
  std::vector<int64_t> dims;
  for (const Dim& dim : shape) {
    if (!dim.known() || *dim.value < 0) return std::nullopt;
    dims.push_back(*dim.value);
  }
  return Shape(dims);
}

Dim CountElements(const SymbolicShape& shape) {
  Dim count(1);
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

std::string ToText(const Dim& dim) {
  if (dim.known()) return std::to_string(*dim.value);
  return dim.named() ? Printable(dim.symbol) : "?";
}

std::string ToText(const SymbolicShape& shape) { return Cat("[", Join(shape, ", "), "]"); }

std::string OnnxTypeName(const Type& type) {
  switch (type.kind) {
    case Type::Kind::kTensor: return Cat("tensor(", type.dtype, ")");
    case Type::Kind::kSparseTensor: return Cat("sparse_tensor(", type.dtype, ")");
    case Type::Kind::kSequence: return Cat("seq(", OnnxTypeName(*type.element), ")");
    case Type::Kind::kOptional: return Cat("optional(", OnnxTypeName(*type.element), ")");
    case Type::Kind::kMap: {
      // Schemas write the value of a map bare: map(int64, float).
      const Type& value = *type.element;
      return Cat("map(", type.dtype, ", ", value.is_tensor() ? ToText(value.dtype) : OnnxTypeName(value), ")");
    }
    case Type::Kind::kOpaque: return Cat("opaque(", type.opaque_domain, ",", type.opaque_name, ")");
    case Type::Kind::kUnknown: break;
  }
  return "unknown";
}

std::string ToText(const Type& type) {
  if (type.kind != Type::Kind::kTensor) return OnnxTypeName(type);
  return Cat(type.dtype, type.shape ? ToText(*type.shape) : std::string("[…]"));
}

bool SameElementType(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  if (a.kind == Type::Kind::kOpaque) return a.opaque_domain == b.opaque_domain && a.opaque_name == b.opaque_name;
  if (!a.element || !b.element) return !a.element == !b.element;
  return SameElementType(*a.element, *b.element);
}

namespace {

std::shared_ptr<const Type> Combine(const Type& a, const Type& b, Type (*combine)(const Type&, const Type&)) {
  if (!a.element || !b.element) return a.element ? a.element : b.element;
  return std::make_shared<const Type>(combine(*a.element, *b.element));
}

}  // namespace

Type Union(const Type& a, const Type& b) {
  if (!a.known() || !b.known() || a.kind != b.kind || a.dtype != b.dtype) return {};
  Type out = a;
  out.element = Combine(a, b, Union);
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) {
    out.shape.reset();
    return out;
  }
  for (size_t axis = 0; axis < a.shape->size(); ++axis)
    if (!SameDim((*a.shape)[axis], (*b.shape)[axis])) (*out.shape)[axis] = Dim();
  return out;
}

Type Merge(const Type& a, const Type& b) {
  if (!a.known()) return b;
  if (!b.known()) return a;
  auto contradict = [&]() { Fail(ErrorCode::kInvalidModel, "types ", a, " and ", b, " contradict each other"); };
  Type out = a;
  if (a.kind != b.kind) contradict();
  if (a.dtype == DType::kUndefined) out.dtype = b.dtype;
  if (b.dtype != DType::kUndefined && out.dtype != b.dtype) contradict();
  out.element = Combine(a, b, Merge);
  if (!b.shape) return out;
  if (!a.shape) {
    out.shape = b.shape;
    return out;
  }
  if (a.shape->size() != b.shape->size()) contradict();
  for (size_t axis = 0; axis < a.shape->size(); ++axis) {
    Dim& dim = (*out.shape)[axis];
    const Dim& other = (*b.shape)[axis];
    if (dim.known() && other.known() && *dim.value != *other.value) contradict();
    if (!dim.known() && (other.known() || dim.unknown())) dim = other;
  }
  return out;
}

}  // namespace ferry
