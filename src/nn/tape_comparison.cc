#include <algorithm>

#include "base/error.h"
#include "graph/equal.h"
#include "nn/tape.h"

namespace ferry {
namespace {

constexpr int64_t kShownElements = 16;

std::string ShowConstant(const Tensor& tensor) {
  if (tensor.dtype() == DType::kInt64 && tensor.rank() <= 1 && tensor.size() <= kShownElements)
    return ToText(Shape(tensor.Span<int64_t>()));
  return Cat(tensor.dtype(), tensor.shape());
}

bool SameAttributes(const Node& a, const Node& b, std::string* difference) {
  Model left, right;
  for (const auto& [model, node] : {std::pair(&left, &a), std::pair(&right, &b)}) {
    model->has_graph = true;
    Node bare = *node;
    bare.inputs.clear();
    bare.outputs.clear();
    model->graph.nodes.push_back(std::move(bare));
  }
  return EqualModels(left, right, difference);
}

}  // namespace

void Tape::RequireSameInput(const Tape& other, const Step& step, size_t input, Id own, Id theirs) const {
  constexpr const char* kRemedy =
      "; a size was fixed by the C++ code around it: use size(), -1 or flatten instead of a number";
  if (own == kOmitted || theirs == kOmitted) {
    Require(own == theirs, Describe(step.node), " has another number of inputs at ", DynamicSizes(), " than at ",
            other.DynamicSizes(), kRemedy);
    return;
  }
  const Slot &mine = At(own), &its = other.At(theirs);
  if (mine.kind == Slot::Kind::kConstant && its.kind == Slot::Kind::kConstant) {
    Require(Identical(*mine.constant, *its.constant), Describe(step.node), ": input ", input, " is ",
            ShowConstant(*mine.constant), " at ", DynamicSizes(), " but ", ShowConstant(*its.constant), " at ",
            other.DynamicSizes(), kRemedy);
    return;
  }
  Require(mine.kind == its.kind && mine.name == its.name, Describe(step.node), ": input ", input, " is '",
          Printable(mine.name), "' at ", DynamicSizes(), " but '", Printable(its.name), "' at ", other.DynamicSizes(),
          "; C++ code around it takes another path for another size");
}

void Tape::RequireSameAs(const Tape& other) const {
  for (size_t i = 0; i < std::min(nodes_.size(), other.nodes_.size()); ++i) {
    const Step &mine = nodes_[i], &its = other.nodes_[i];
    Require(mine.node.op_type == its.node.op_type && mine.node.name == its.node.name, "at ", DynamicSizes(),
            " the network runs ", Describe(mine.node), " where at ", other.DynamicSizes(), " it runs ",
            Describe(its.node), "; C++ code around it takes another path for another size");
    std::string difference;
    Require(SameAttributes(mine.node, its.node, &difference), Describe(mine.node), " has other attributes at ",
            DynamicSizes(), " than at ", other.DynamicSizes(), ": ", difference);
    size_t inputs = std::max(mine.inputs.size(), its.inputs.size());
    for (size_t k = 0; k < inputs; ++k)
      RequireSameInput(other, mine, k, k < mine.inputs.size() ? mine.inputs[k] : kOmitted,
                       k < its.inputs.size() ? its.inputs[k] : kOmitted);
  }
  Require(nodes_.size() == other.nodes_.size(), "the network runs ", nodes_.size(), " operators at ", DynamicSizes(),
          " and ", other.nodes_.size(), " at ", other.DynamicSizes(),
          "; C++ code around them takes another path for another size");
  for (size_t i = 0; i < std::min(outputs_.size(), other.outputs_.size()); ++i)
    Require(At(outputs_[i].id).name == other.At(other.outputs_[i].id).name ||
                At(outputs_[i].id).kind == Slot::Kind::kConstant,
            "output '", Printable(outputs_[i].name), "' is another value at ", other.DynamicSizes());
}

}  // namespace ferry
