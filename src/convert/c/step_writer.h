// How a kernel's C text is written: one function per step, specialised for its shapes. Steps whose text is the same
// share one function; what differs (weights, values) comes in as arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/c/build_c.h"
#include "graph/model.h"
#include "tensor/tensor.h"

namespace ferry::c {

// A value as the text of a step sees it: the name of a pointer to its elements.
struct Operand {
  std::string c;  // empty: omitted, or not wanted
  DType type = DType::kUndefined;
  Shape shape;
  const Tensor* constant = nullptr;  // known when the text is written
  std::string name;                  // in the graph

  explicit operator bool() const { return !c.empty(); }
  int64_t size() const { return shape.ElementCount(); }
};

// Thrown by a kernel that cannot be written without the elements of an input.
struct NeedsValue {
  std::string name;
};

// Loops over an index space, with the strides of every operand along its axes.
struct Nest {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // of each operand

  void Collapse();  // drops axes of size 1, joins those that can be walked as one
};
// Strides of `from` seen with shape `to` by numpy's broadcasting.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

// What a target of its own adds: the plain loops stand beside it.
struct WriterOptions {
  bool fast = true;  // forms for particular processors and tiles; otherwise the plainest loops
  CTarget target = CTarget::kAny;
};

class StepWriter {
 public:
  StepWriter(const Node& its_node, const WriterOptions& its_options) : node(its_node), options(its_options) {}

  const Node& node;
  const WriterOptions& options;
  std::vector<Operand> in, out;

  bool Has(size_t i) const { return i < in.size() && in[i]; }
  bool Wants(size_t i) const { return i < out.size() && out[i]; }
  const Tensor& Constant(size_t i) const;             // throws NeedsValue
  std::vector<int64_t> ConstantInts(size_t i) const;  // throws NeedsValue
  [[noreturn]] void Refuse(std::string_view reason) const;

  template <class... Parts>
  void Line(const Parts&... parts) {
    AddLine(Cat(parts...));
  }
  // A line that ends in " {", up to the next Close.
  template <class... Parts>
  void Open(const Parts&... parts) {
    AddLine(Cat(parts..., " {"));
    ++depth_;
  }
  void For(std::string_view index, int64_t count) {
    Open("for (int ", index, " = 0; ", index, " < ", count, "; ", index, "++)");
  }
  void Close(int count = 1);
  // Opens the loops of a nest; gives each operand's index. Close(opened) ends them.
  std::vector<std::string> OpenNest(const Nest& nest, std::string_view letter, int& opened);

  // The element of an operand as a number of its arithmetic type, and the statement that stores one.
  std::string Load(const Operand& operand, std::string_view index);
  std::string Store(const Operand& operand, std::string_view index, std::string_view number);

  // A number rounded as a small float type would have it; others stay as they are.
  std::string Rounded(const std::string& number, DType type);

  // Helper functions of the file, by name; they may call others.
  void Use(std::string_view helper);
  // Memory of the step alone; the name of a pointer to it.
  std::string Scratch(DType type, int64_t count);
  // Constants of the step; the name of a pointer to them.
  std::string Table(Tensor tensor);
  // Output 0 may lie where this input lies, if they are of the same size.
  void MayOverwrite(size_t input) { overwrites |= 1u << input; }

  std::string text;
  uint32_t overwrites = 0;
  std::vector<std::string> helpers;
  std::vector<Operand> scratch, tables;
  std::vector<Tensor> table_tensors;
  int64_t multiply_adds = 0;

 private:
  void AddLine(std::string_view line);
  int depth_ = 1;
};

// C's type of a stored element: float16 is its bits, two 4-bit integers lie in one byte.
std::string_view StoredType(DType type);
// The type in which its numbers are computed.
DType ArithmeticType(DType type);
inline std::string_view ArithmeticC(DType type) { return StoredType(ArithmeticType(type)); }
bool IsFloatType(DType type);
// A number as C writes it.
std::string Literal(double number, DType type);
std::string IntegerLiteral(int64_t number);
std::string Trimmed(const std::string& index);  // without what adds nothing
// "expf" for float, "exp" for double.
std::string Math(std::string_view name, DType type);
// `number` of arithmetic type `from` as arithmetic type `to`, as Cast does it.
std::string Converted(StepWriter& w, const std::string& number, DType from, DType to, bool saturate = true);

using KernelWriter = void (*)(StepWriter&);
// Null where there is none.
KernelWriter FindKernel(const Node& node);

struct KernelEntry {
  std::string_view name;
  KernelWriter write;
};

// The text of a helper and the names of those it calls; throws for one that is not there.
struct Helper {
  std::string_view name;
  std::string_view text;
  std::vector<std::string_view> calls = {};
};
const Helper& FindHelper(std::string_view name);

}  // namespace ferry::c
