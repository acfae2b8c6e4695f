// A program as torch.export leaves it: a graph of ATen calls, what goes in and out, and the weights.
#pragma once

#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/type.h"
#include "tensor/tensor.h"

namespace ferry::torch {

struct ProgramGraph;

enum class MemoryFormat : uint8_t { kUnknown, kContiguous, kChannelsLast, kChannelsLast3d, kPreserve };

struct TensorName {
  std::string name;
};
// An integer, float or bool that is computed while the program runs.
struct SymbolName {
  std::string name;
};
struct Device {
  std::string type;
};
struct Layout {
  int number = 0;
};
inline constexpr int kStridedLayout = 7;
struct OperatorName {
  std::string name;
};
struct CustomObject {
  std::string name, type;
};
struct Subprogram {
  std::string name;
  std::shared_ptr<const ProgramGraph> graph;
};

// An argument or result of a call. Lists of any kind are lists of arguments.
struct Argument {
  using List = std::vector<Argument>;
  using Held =
      std::variant<std::monostate, TensorName, SymbolName, bool, int64_t, double, std::complex<double>, std::string,
                   DType, MemoryFormat, Layout, Device, Subprogram, OperatorName, CustomObject, List>;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&held);
  }
  bool is_none() const { return is<std::monostate>(); }

  Held held;
};

struct NamedArgument {
  std::string name;  // of the parameter in the operator's signature; empty for higher-order operators
  Argument argument;
};

struct TensorMeta {
  DType dtype = DType::kUndefined;  // kUndefined: a type that ONNX lacks, named by dtype_number
  int64_t dtype_number = 0;
  SymbolicShape sizes;  // a symbol's name is its expression: "s77", "2*s77 + 1"
  SymbolicShape strides;
  Dim storage_offset = 0;
  bool requires_grad = false;
  int layout = kStridedLayout;
};

struct ProgramNode {
  std::string target;  // "aten.linear.default", "_operator.mul", "higher_order.cond"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string name;
  std::string stack_trace;   // where in the Python source it came from
  std::string module_stack;  // nn_module_stack as written: "key,path,class;key,path,class"
};

struct ProgramGraph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<ProgramNode> nodes;
  std::map<std::string, TensorMeta, std::less<>> tensors;
  std::map<std::string, Dim, std::less<>> symbols;  // sym ints: a number or an expression
};

struct InputSpec {
  enum class Kind : uint8_t { kUser, kParameter, kBuffer, kTensorConstant, kConstant, kCustomObject, kToken };
  Kind kind = Kind::kUser;
  Argument argument;   // kConstant: the value itself
  std::string target;  // parameter, buffer, constant: its name in the module
  bool persistent = true;
};

struct OutputSpec {
  enum class Kind : uint8_t { kUser, kLoss, kBufferMutation, kParameterMutation, kInputMutation, kGradient, kToken };
  Kind kind = Kind::kUser;
  Argument argument;
  std::string target;  // what is mutated
};

struct ValueRange {
  std::optional<int64_t> lowest, highest;
};

struct ExportedProgram {
  ProgramGraph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<std::string> forward_names;  // of the arguments of forward(), in order
  std::map<std::string, ValueRange> ranges;
  std::map<std::string, Tensor> weights;  // parameters, buffers and constants by name, over the mapped archive
  std::vector<Tensor> sample_inputs;      // for the user's tensor inputs, in order; empty when the archive has none
  std::string torch_version;
  std::string name;  // of the class that was exported, when the program says
};

}  // namespace ferry::torch
