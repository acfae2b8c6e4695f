// What an operator is to the rest of the house, and how a file in src/ops/ adds one.
//
//   static void ComputeRelu(OpContext& context) { … }
//   FERRY_OPERATOR(Relu, {.compute = ComputeRelu, .infer = InferSameAsInput, .in_place = kInput0});
//
// CMake collects the FERRY_OPERATOR lines of src/ops/ into one table: adding an operator is adding a file.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/context.h"
#include "ops/infer_context.h"

namespace ferry {

inline constexpr uint32_t kInput0 = 1, kInput1 = 2, kInput2 = 4;

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";
inline constexpr std::string_view kPreviewDomain = "ai.onnx.preview";
inline constexpr std::string_view kTrainingDomain = "ai.onnx.preview.training";

// The kernel and the inference rule give the newest meaning of the operator; onnx/upgrade turns older nodes into it.
struct Operator {
  std::string_view name = {};    // filled in by FERRY_OPERATOR
  std::string_view domain = "";  // "" is ai.onnx
  void (*compute)(OpContext&) = nullptr;
  void (*infer)(InferContext&) = nullptr;

  uint32_t in_place = 0;        // inputs whose memory output 0 may take when sizes agree (bit per input)
  uint32_t reads_anywhere = 0;  // inputs whose elements may begin at any byte (bit per input)
  bool is_view = false;         // output 0 is input 0's elements under another shape: nothing is copied
  bool is_random = false;       // may give another answer each time: never folded, never shared
  bool has_subgraphs = false;   // bodies are run through OpContext::subgraph
};

#define FERRY_OPERATOR(NAME, ...)        \
  extern const Operator operator_##NAME; \
  const Operator operator_##NAME = [] {  \
    Operator made __VA_ARGS__;           \
    made.name = #NAME;                   \
    return made;                         \
  }()

// Null when there is no such operator. "ai.onnx" is the same domain as "".
const Operator* FindOperator(std::string_view domain, std::string_view name);
std::span<const Operator* const> AllOperators();  // sorted by domain, then name

}  // namespace ferry
