// --dynamic NAME:AXIS=DIM. An axis that the program leaves open gets the name; one that was captured with a fixed size
// is opened where it can be shown that the exported graph holds for other sizes, and refused where not.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "torch/program.h"

namespace ferry {
struct Graph;
struct Model;
}  // namespace ferry

namespace ferry::torch {

struct DynamicAxis {
  std::string input;
  int64_t axis = 0;
  std::string dimension;
};

class DynamicAxes {
 public:
  explicit DynamicAxes(std::vector<DynamicAxis> wanted) : wanted_(std::move(wanted)) {}

  // The shape of an input with the wanted axes opened. `name` is its name in the model, `own` the one in the program.
  SymbolicShape Open(const std::string& name, const std::string& own, const SymbolicShape& captured);
  // Throws when an axis was asked for of an input that there is not.
  void RequireAllUsed(const std::vector<std::string>& inputs) const;

  // Dimensions that were captured with a fixed size, and that size.
  const std::map<std::string, int64_t>& opened() const { return opened_; }
  // Throws kUnsupported when a call computes with a number that may be such a size.
  void RefuseCapturedNumbers(const ProgramGraph& graph) const;
  // Infers all shapes for several sizes; throws kUnsupported with the node at which one of them does not go through.
  void Prove(const Graph& graph) const;

  // Gives the program's own dimensions the names that were asked for.
  void Rename(Model& model) const;
  std::string NewName(const std::string& symbol) const;

 private:
  [[noreturn]] void Refuse(const std::string& dimension, const std::string& reason) const;
  Dim OpenAxis(const DynamicAxis& wanted, const Dim& captured);

  std::vector<DynamicAxis> wanted_;
  std::vector<bool> used_ = std::vector<bool>(wanted_.size());
  std::map<std::string, int64_t> opened_;
  std::map<std::string, std::string> renamed_;
};

}  // namespace ferry::torch
