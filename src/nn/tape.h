// What running a network in C++ leaves behind: every operator that was executed, in order, ready to become a graph.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/model.h"
#include "ops/infer_graph.h"
#include "tensor/value.h"

namespace ferry {

class Tape {
 public:
  using Id = int64_t;
  static constexpr Id kOmitted = -1;

  // What flows on the tape. Names of inputs and parameters are the caller's and may not repeat.
  Id AddInput(std::string name, const Tensor& sample);
  Id AddParameter(std::string name, const Tensor& elements);
  Id AddConstant(const Tensor& elements);
  // A call that gave `results`. Its name is the place it was made at; a number behind it keeps names apart.
  std::vector<Id> Record(const Node& call, std::span<const Id> inputs, std::span<const Value> results);
  void AddOutput(std::string name, Id id);
  // The size of an input's axis is open and called `dimension`; of an output's axis: how the caller wishes to call it.
  void SetDynamic(std::string_view name, int64_t axis, std::string dimension);

  struct Traced {
    Model model;  // at the newest opsets
    std::vector<std::string> warnings;
  };
  // `fold`: what depends on parameters and constants alone becomes a constant.
  Traced ToModel(bool fold) const;

  // The same network was run again with other sizes of the dynamic dimensions. Throws with the first node that is
  // another one or works with another constant: there a size was fixed by the C++ code around it.
  void RequireSameAs(const Tape& other) const;

  size_t size() const { return nodes_.size(); }

 private:
  struct Slot {
    enum class Kind : uint8_t { kInput, kParameter, kConstant, kResult };
    Kind kind;
    std::string name;
    Type type;
    std::optional<Tensor> constant;  // when no input has a say in it
    bool varies = false;             // depends on an input, or on chance
  };
  struct Step {
    Node node;  // inputs and outputs are named
    std::vector<Id> inputs, outputs;
    bool varies = false;
  };
  struct Output {
    std::string name;
    Id id;
  };

  Id Add(Slot slot);
  const Slot& At(Id id) const;
  void Claim(const std::string& name);
  std::string FreshName(std::string_view wish);
  std::string DynamicSizes() const;
  void RequireSameInput(const Tape& other, const Step& step, size_t input, Id own, Id theirs) const;

  void AddInputs(Graph& graph) const;
  void AddSteps(Graph& graph, bool fold) const;
  void AddOutputs(Graph& graph) const;
  void DescribeOutputs(Graph& graph, const GraphFacts& facts, std::vector<std::string>& warnings) const;
  void WarnOfUnusedInputs(const Graph& graph, std::vector<std::string>& warnings) const;

  std::vector<Slot> slots_;
  std::vector<Step> nodes_;
  std::vector<Output> outputs_;
  std::map<std::string, std::map<int64_t, std::string>, std::less<>> dynamic_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int64_t> next_number_;
  std::unordered_map<std::string, Id> small_constants_;  // by type, shape and bytes
};

}  // namespace ferry
