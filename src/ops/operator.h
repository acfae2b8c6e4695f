// What an operator is to the rest of the house, and how a file in src/ops/ adds one.
//
//   static void ComputeTile(OpContext& context) { … }
//   FERRY_OPERATOR(Tile, {.compute = ComputeTile, .infer = InferTile, .moves_elements = true});
//
// FERRY_OPERATOR_IN(ml, Scaler, …) adds one of another domain. CMake collects these lines of src/ops/ and the folders
// in it into one table: adding an operator is adding a file.
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
inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";
// Operators that only passes make: one step where the standard writes several. Never written to a file.
inline constexpr std::string_view kInternalDomain = "ferry";

// What FERRY_OPERATOR_IN calls them.
namespace operator_domains {
inline constexpr std::string_view onnx = "", ml = kMlDomain, preview = kPreviewDomain, training = kTrainingDomain,
                                  microsoft = kMicrosoftDomain, internal = kInternalDomain;
}

// Whether output 0 has at each position a function of what the inputs have there, after broadcasting.
enum class Elementwise : uint8_t {
  kNo,
  kOfOne,  // of input 0's element alone; further inputs are parameters of one element (the bounds of Clip)
  kOfSeveral,
};

// The kernel and the inference rule give the newest meaning of the operator; onnx/upgrade turns older nodes into it.
struct Operator {
  std::string_view name = {}, domain = {};  // filled in by FERRY_OPERATOR; "" is ai.onnx
  void (*compute)(OpContext&) = nullptr;
  void (*infer)(InferContext&) = nullptr;

  uint32_t in_place = 0;  // inputs whose memory output 0 may take when sizes agree (bit per input)
  // Inputs that kernels pack or copy from any byte, as weights lie in a file (bit per input). `compute` does so only
  // where it moves elements.
  uint32_t reads_anywhere = 0;
  bool is_view = false;        // output 0 is input 0's elements under another shape: nothing is copied
  bool is_random = false;      // may give another answer each time: never folded, never shared
  bool has_subgraphs = false;  // bodies are run through OpContext::subgraph
  Elementwise elementwise = Elementwise::kNo;
  // Every element of output 0 is one of input 0's as it was: any type of that width will do.
  bool moves_elements = false;
  bool per_image = false;  // treats every index of axis 0 by itself and keeps that axis
};

#define FERRY_OPERATOR(NAME, ...) FERRY_OPERATOR_IN(onnx, NAME, __VA_ARGS__)
#define FERRY_OPERATOR_IN(DOMAIN, NAME, ...)        \
  extern const Operator operator_##DOMAIN##_##NAME; \
  const Operator operator_##DOMAIN##_##NAME = [] {  \
    Operator made __VA_ARGS__;                      \
    made.name = #NAME;                              \
    made.domain = operator_domains::DOMAIN;         \
    return made;                                    \
  }()

// Null when there is no such operator. "ai.onnx" is the same domain as "".
const Operator* FindOperator(std::string_view domain, std::string_view name);
std::span<const Operator* const> AllOperators();  // sorted by domain, then name

}  // namespace ferry
