// Static types of values: what is known before anything runs. Dimensions may be numbers, names, or unknown.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace ferry {

// Special members of what models are made of are defined in the .cc files: every file of the house would compile its
// own.

// One dimension: a number, a name ("batch": equal wherever the name is equal), or unknown.
struct Dim {
  Dim();
  Dim(const Dim&);
  Dim(Dim&&) noexcept;
  Dim& operator=(const Dim&);
  Dim& operator=(Dim&&) noexcept;
  ~Dim();
  Dim(int64_t number) : value(number) {}
  static Dim Named(std::string name);

  bool known() const { return value.has_value(); }
  bool named() const { return !value && !symbol.empty(); }
  bool unknown() const { return !value && symbol.empty(); }

  std::optional<int64_t> value;
  std::string symbol;
  std::string denotation;                             // ONNX's dimension denotation, carried along untouched
  std::shared_ptr<const std::string> unknown_fields;  // protobuf fields of the file that this version does not know
};

// True when both are surely the same size.
bool SameDim(const Dim& a, const Dim& b);
// Arithmetic that keeps a name where the result is surely the same size, else gives unknown.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim FloorDivide(const Dim& a, const Dim& b);

using SymbolicShape = std::vector<Dim>;

SymbolicShape ToSymbolic(const Shape& shape);
std::optional<Shape> ToConcrete(const SymbolicShape& shape);  // when every dim is known and not negative
Dim CountElements(const SymbolicShape& shape);
std::string ToText(const Dim& dim);  // "3", "batch", "?"
std::string ToText(const SymbolicShape& shape);

struct Type {
  enum class Kind : uint8_t { kUnknown, kTensor, kSparseTensor, kSequence, kOptional, kMap, kOpaque };

  Type();
  Type(const Type&);
  Type(Type&&) noexcept;
  Type& operator=(const Type&);
  Type& operator=(Type&&) noexcept;
  ~Type();

  static Type Tensor(DType dtype);
  static Type Tensor(DType dtype, SymbolicShape shape);
  static Type SparseTensor(DType dtype, std::optional<SymbolicShape> shape = {});
  static Type SequenceOf(Type element);
  static Type OptionalOf(Type element);
  static Type MapOf(DType key, Type value);

  bool known() const { return kind != Kind::kUnknown; }
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool has_rank() const { return shape.has_value(); }

  Kind kind = Kind::kUnknown;
  DType dtype = DType::kUndefined;      // element type; the key type for maps
  std::optional<SymbolicShape> shape;   // tensors: empty optional means unknown rank
  std::shared_ptr<const Type> element;  // sequence, optional: element; map: value
  std::string denotation;
  std::string opaque_domain;
  std::string opaque_name;

  // Protobuf fields of the file that this version does not know: of the type, of its kind's message, of its shape.
  struct Unknown {
    std::string type, kind, shape;
  };
  std::shared_ptr<const Unknown> unknown_fields;
  int32_t bad_dtype_number = 0;  // the file's element or key type when it names none; dtype is kUndefined then
};

std::string ToText(const Type& type);                // "float[batch, 3]", "seq(tensor(float))"
std::string OnnxTypeName(const Type& type);          // "tensor(float)", "seq(tensor(int64))": as schemas write it
bool SameElementType(const Type& a, const Type& b);  // equal but for shapes

// What two descriptions of one value have in common / know together. Merge throws when they contradict each other.
Type Union(const Type& a, const Type& b);
Type Merge(const Type& a, const Type& b);

}  // namespace ferry

extern template class std::vector<ferry::Dim>;
extern template class std::vector<ferry::Type>;
