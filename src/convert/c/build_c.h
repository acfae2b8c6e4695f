// A network as plain C99: one function without a heap, written from the steps that are left after the house's rewrites.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/model.h"
#include "tensor/tensor.h"

namespace ferry {

// Whose vectors 8-bit weights are laid out for.
enum class CTarget : uint8_t { kAny, kX86, kArm64 };

struct CBuildRequest {
  const Model& model;
  std::string name;                           // a C identifier; see CName
  std::map<std::string, int64_t> dimensions;  // sizes of named dimensions; those that are not here are 1
  std::map<std::string, Tensor> fixed;        // inputs that become constants
  std::map<std::string, Tensor> recorded;     // those of them that decide shapes become constants too
  std::map<std::string, Shape> shapes;        // of inputs whose sizes the model leaves open
  bool fast = true;                           // forms for particular processors beside the plain loops
  bool weights_file = false;                  // large weights go to a file that the assembler takes in
  size_t most_arena_bytes = 0;                // steps are done by stripes until the arena has no more; 0: as it comes
  CTarget target = CTarget::kAny;
};

struct CArgument {
  std::string name;  // in the model
  std::string c;     // as a parameter
  DType type = DType::kUndefined;
  Shape shape;
  bool is_fixed = false;  // takes its place in the call but is not read
  float scale = 0;        // a number is scale * (integer - zero_point); 0: not known
  int64_t zero_point = 0;
};

struct CStep {
  std::string node, op, function;
  int64_t multiply_adds = 0;
  size_t live_bytes = 0;  // of the arena while it runs
};

// Steps from one node to another that are done by stripes of rows, so that the arena is small enough.
struct CStripes {
  std::string first, last;
  size_t nodes = 0, stripes = 0;
  int64_t more_multiply_adds = 0;  // for rows that two stripes need
};

struct CBuild {
  std::string name;
  std::string source, header, cmake;
  std::string weights;  // NAME.bin, where asked for
  std::vector<CArgument> inputs, outputs;
  std::vector<CStep> steps;
  std::vector<CStripes> stripes;
  size_t arena_bytes = 0, weight_bytes = 0;
};

// Throws kUnsupported naming the node and the operator that cannot be written, kLimit when the arena cannot be made
// small enough.
CBuild BuildC(const CBuildRequest& request);

// A file's name or the user's as a C identifier.
std::string CName(std::string_view text);

}  // namespace ferry
