// What runtimes state that they support: the facts lie in src/doctor/targets/NAME.txt, each file with its source and
// date.
//
//   title, source, date          what is described, where it is stated, and when that was
//   opset OLDEST NEWEST WHY      the opsets of ai.onnx that it takes
//   missing WHAT                 what becomes of a node that it does not support
//   functions …                  operators that the standard defines by others are supported through them
//   slow TYPE WHY                an element type that it takes but does not like
//   op NAME TYPES…               a supported operator (ml.NAME: of ai.onnx.ml, com.microsoft.NAME); no types: all
//   part NAME                    an operator that is supported in part
//   constant NAME INPUT          an input that must be constant
//   rank NAME LEAST MOST         the ranks its first input may have
//   outputs NAME MOST            how many outputs may be used
//   zero-point NAME              its zero point must be 0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace ferry {

struct TargetOperator {
  std::set<DType> types;  // empty: all
  bool in_part = false;
  std::set<size_t> constant_inputs;
  int64_t least_rank = 0, most_rank = -1;  // -1: any
  int64_t most_outputs = -1;               // -1: any
  bool zero_point_is_zero = false;
};

struct Target {
  std::string name, title, source, date;
  int64_t oldest_opset = 0, newest_opset = 0;  // 0: not stated
  std::string opset_reason;
  std::string missing;
  bool takes_functions_apart = false;
  std::map<DType, std::string> slow;
  std::map<std::string, TargetOperator, std::less<>> operators;  // "Conv", "ml.Scaler"
};

// Throws, naming those there are, when there is no such target.
Target FindTarget(std::string_view name);
std::vector<std::string> TargetNames();

struct TargetSource {
  const char* name;
  const char* facts;
};
extern const TargetSource kTargetSources[];
extern const size_t kTargetSourceCount;

}  // namespace ferry
