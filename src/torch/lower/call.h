// A call of an ATen operator as a lowering rule sees it: arguments by their position in the signature, defaults filled
// in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "torch/lower/builder.h"
#include "torch/lower/promote.h"
#include "torch/program.h"

namespace ferry::torch {

class Cell;     // a tensor of the program that may be written to (lower/cell.h)
class Lowerer;  // what calls rules (lower/lowerer.h)

// An argument: None, a tensor, a number, text, a type, a list of these, or the body of a higher-order operator.
struct Arg {
  using List = std::vector<Arg>;
  using Held = std::variant<std::monostate, std::shared_ptr<Cell>, Scalar, std::string, DType, List, Subprogram>;

  Arg();
  Arg(const Arg&);
  Arg(Arg&&) noexcept;
  Arg& operator=(const Arg&);
  Arg& operator=(Arg&&) noexcept;
  ~Arg();
  template <class T>
  requires(std::is_constructible_v<Held, T>) Arg(T value) : held(std::move(value)) {}

  bool is_none() const { return std::holds_alternative<std::monostate>(held); }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&held);
  }

  Held held;
};

// What a rule gives back: nothing, one tensor, several (a tuple or a list), or numbers.
class Result {
 public:
  using Item = std::variant<std::monostate, Operand, Scalar>;
  Result();
  Result(Operand value);
  Result(Scalar value);
  Result(const Operands& values);
  Result(const Result&);
  Result(Result&&) noexcept;
  Result& operator=(const Result&);
  Result& operator=(Result&&) noexcept;
  ~Result();

  std::vector<Item> items;
};

struct LowerOptions {
  // What to do with a program captured in training mode (dropout, batch norm).
  enum class Training : uint8_t { kRefuse, kConvert, kKeep };
  Training training = Training::kRefuse;
  bool is_python = false;  // whoever asks does so in Python: messages speak of arguments
  const char* eval_option() const { return is_python ? "mode='eval'" : "--eval"; }
  const char* training_option() const { return is_python ? "mode='training'" : "--training"; }
  // Dimensions that are left open though the program was captured with a fixed size, and that size. The sizes that the
  // program notes for its values then mean nothing.
  std::map<std::string, int64_t> opened;
};

class Call {
 public:
  Call(Lowerer& lowerer, Builder& builder, const std::string& target, std::vector<Arg> args);

  Builder& b;
  const std::string target;  // "aten.add.Tensor"

  // "add", without overload and without the underscore of an in-place form.
  std::string op_name() const;

  size_t arg_count() const { return args_.size(); }
  const Arg& arg(size_t i) const { return args_.at(i); }
  bool IsNone(size_t i) const { return args_.at(i).is_none(); }

  // Each throws kUnsupported, naming the argument, when it is something else.
  Operand Tensor(size_t i) const;
  Operand MaybeTensor(size_t i) const;  // absent for None
  Operands Tensors(size_t i) const;     // absent ones for None elements
  Scalar Number(size_t i) const;
  TensorOrNumber Any(size_t i) const;  // a tensor or a number
  int64_t Int(size_t i) const { return Number(i).AsInt(); }
  double Float(size_t i) const { return Number(i).AsDouble(); }
  bool Bool(size_t i) const { return Number(i).AsBool(); }
  std::string Text(size_t i) const;
  std::vector<Scalar> Numbers(size_t i) const;
  std::vector<int64_t> Ints(size_t i) const;    // one number counts as a list; None is empty
  DType Type(size_t i, DType otherwise) const;  // otherwise when None
  const Subprogram& Body(size_t i) const;

  // Ints(i) for sizes, strides …: of `count`, a single one repeated, each at least `least` and below 2³¹.
  std::vector<int64_t> IntsOf(size_t i, size_t count, int64_t least) const;
  int64_t PositiveInt(size_t i) const { return IntsOf(i, 1, 1)[0]; }

  // Arguments i, j … (tensors or numbers) brought to their common type.
  Operands Promoted(std::initializer_list<size_t> indices) const;
  Operands PromotedTo(DType dtype, std::initializer_list<size_t> indices) const;
  // A tensor as floating point: integers become float.
  Operand FloatTensor(size_t i) const;
  Operand As(const TensorOrNumber& value, DType dtype) const;

  Lowerer& lowerer() const { return lowerer_; }
  const LowerOptions& options() const;
  // The program's own word on an output of this call; null when it has none (TorchScript).
  const TensorMeta* meta(size_t output = 0) const;
  size_t result_count() const;  // of the results the program names; 0 when it does not say

  // The elements that a tensor argument looks at, as one row in the order they lie in memory, and where its own begin.
  // Throws kUnsupported when the program does not say enough.
  Operand StorageOf(size_t i) const;
  const TensorMeta& LayoutOf(size_t i) const;

  template <class... Parts>
  [[noreturn]] void Unsupported(const Parts&... parts) const {
    Fail(ErrorCode::kUnsupported, parts...);
  }

 private:
  [[noreturn]] void Wrong(size_t i, const char* wanted) const;
  Lowerer& lowerer_;
  std::vector<Arg> args_;
};

}  // namespace ferry::torch
