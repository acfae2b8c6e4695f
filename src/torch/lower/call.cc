#include "torch/lower/call.h"

#include <limits>

#include "base/error.h"
#include "torch/lower/cell.h"
#include "torch/lower/lowerer.h"

namespace ferry::torch {

Arg::Arg() = default;
Arg::Arg(const Arg&) = default;
Arg::Arg(Arg&&) noexcept = default;
Arg& Arg::operator=(const Arg&) = default;
Arg& Arg::operator=(Arg&&) noexcept = default;
Arg::~Arg() = default;

Result::Result() = default;
Result::Result(Operand value) { items.emplace_back(std::move(value)); }
Result::Result(Scalar value) { items.emplace_back(std::move(value)); }
Result::Result(const Operands& values) {
  for (const Operand& value : values) items.emplace_back(value);
}
Result::Result(const Result&) = default;
Result::Result(Result&&) noexcept = default;
Result& Result::operator=(const Result&) = default;
Result& Result::operator=(Result&&) noexcept = default;
Result::~Result() = default;

Call::Call(Lowerer& lowerer, Builder& builder, const std::string& name, std::vector<Arg> args)
    : b(builder), target(name), lowerer_(lowerer), args_(std::move(args)) {}

const LowerOptions& Call::options() const { return lowerer_.options(); }
std::string Call::op_name() const {
  size_t begin = target.find('.') + 1;
  std::string name = target.substr(begin, target.find('.', begin) - begin);
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  return name;
}

size_t Call::result_count() const { return lowerer_.result_count(); }
const TensorMeta* Call::meta(size_t output) const { return lowerer_.meta(output); }

void Call::Wrong(size_t i, const char* wanted) const {
  static constexpr const char* kKinds[] = {"None",   "a tensor", "a number", "text", "an element type",
                                           "a list", "a graph"};
  Fail(ErrorCode::kUnsupported, "argument ", i, " is ", kKinds[args_.at(i).held.index()], " where the export needs ",
       wanted);
}

Operand Call::Tensor(size_t i) const {
  if (!args_.at(i).get<std::shared_ptr<Cell>>()) Wrong(i, "a tensor");
  return lowerer_.Read(args_[i]);
}

Operand Call::MaybeTensor(size_t i) const { return IsNone(i) ? Operand() : Tensor(i); }

Operands Call::Tensors(size_t i) const {
  const Arg::List* list = args_.at(i).get<Arg::List>();
  if (!list) Wrong(i, "a list of tensors");
  Operands tensors;
  for (const Arg& element : *list) tensors.push_back(element.is_none() ? Operand() : lowerer_.Read(element));
  return tensors;
}

Scalar Call::Number(size_t i) const {
  if (const Scalar* scalar = args_.at(i).get<Scalar>()) return *scalar;
  Wrong(i, "a number");
}

TensorOrNumber Call::Any(size_t i) const {
  if (const Scalar* scalar = args_.at(i).get<Scalar>()) return *scalar;
  return Tensor(i);
}

std::string Call::Text(size_t i) const {
  if (const std::string* text = args_.at(i).get<std::string>()) return *text;
  Wrong(i, "text");
}

std::vector<Scalar> Call::Numbers(size_t i) const {
  if (IsNone(i)) return {};
  if (const Scalar* scalar = args_[i].get<Scalar>()) return {*scalar};
  const Arg::List* list = args_[i].get<Arg::List>();
  if (!list) Wrong(i, "a list of numbers");
  std::vector<Scalar> numbers;
  for (const Arg& element : *list) {
    const Scalar* scalar = element.get<Scalar>();
    if (!scalar) Wrong(i, "a list of numbers");
    numbers.push_back(*scalar);
  }
  return numbers;
}

std::vector<int64_t> Call::Ints(size_t i) const {
  std::vector<int64_t> ints;
  for (const Scalar& number : Numbers(i)) ints.push_back(number.AsInt());
  return ints;
}

std::vector<int64_t> Call::IntsOf(size_t i, size_t count, int64_t least) const {
  std::vector<int64_t> ints = Ints(i);
  if (ints.size() == 1) ints.resize(count, ints[0]);
  if (ints.size() != count)
    Fail(ErrorCode::kUnsupported, "argument ", i, " has ", ints.size(), " numbers, needs ", count);
  for (int64_t value : ints)
    if (value < least || value > std::numeric_limits<int32_t>::max())
      Fail(ErrorCode::kInvalidModel, "argument ", i, " is ", value, ", which must be at least ", least,
           " and below 2³¹");
  return ints;
}

DType Call::Type(size_t i, DType otherwise) const {
  if (IsNone(i)) return otherwise;
  if (const DType* dtype = args_[i].get<DType>()) return *dtype;
  Wrong(i, "an element type");
}

const Subprogram& Call::Body(size_t i) const {
  if (const Subprogram* body = args_.at(i).get<Subprogram>()) return *body;
  Wrong(i, "a graph");
}

const TensorMeta& Call::LayoutOf(size_t i) const {
  const auto* cell = args_.at(i).get<std::shared_ptr<Cell>>();
  if (!cell) Wrong(i, "a tensor");
  if (!(*cell)->meta) Unsupported("the program does not say how its tensors lie in memory");
  return *(*cell)->meta;
}

Operand Call::StorageOf(size_t i) const {
  LayoutOf(i);
  Cell& root = (*args_[i].get<std::shared_ptr<Cell>>())->Root();
  bool plain = root.meta && IsContiguous(*root.meta) && SameDim(root.meta->storage_offset, Dim(0));
  if (!plain) Unsupported("it looks at memory that is not laid out row by row");
  return b.Reshape(root.Read(), {-1});
}

Operand Call::As(const TensorOrNumber& value, DType dtype) const {
  if (const Scalar* scalar = std::get_if<Scalar>(&value)) return b.Of(*scalar, dtype);
  return b.Cast(std::get<Operand>(value), dtype);
}

Operands Call::PromotedTo(DType dtype, std::initializer_list<size_t> indices) const {
  Operands operands;
  for (size_t i : indices) operands.push_back(As(Any(i), dtype));
  return operands;
}

Operands Call::Promoted(std::initializer_list<size_t> indices) const {
  std::vector<TensorOrNumber> values;
  for (size_t i : indices) values.push_back(Any(i));
  return PromotedTo(ResultType(values), indices);
}

Operand Call::FloatTensor(size_t i) const {
  Operand x = Tensor(i);
  return b.Cast(x, FloatingResult(x.dtype()));
}

}  // namespace ferry::torch
