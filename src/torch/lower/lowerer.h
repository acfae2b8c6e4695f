// Takes a program's calls one by one and has the rules turn them into ONNX nodes. Both front ends drive it: the graph
// of a .pt2 archive and the interpreter of TorchScript.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "torch/lower/call.h"
#include "torch/lower/rule.h"
#include "torch/program.h"

namespace ferry::torch {

class Lowerer {
 public:
  Lowerer(Builder& builder, LowerOptions options) : builder_(&builder), options_(options) {}

  const LowerOptions& options() const { return options_; }
  Builder& builder() { return *builder_; }

  // Calls an operator ("aten.add.Tensor") with arguments by position (no name) or by name. Throws kUnsupported when
  // there is no rule for it. Tensors among the results are new cells, or the first argument's for in-place forms.
  std::vector<Arg> Run(const std::string& target, const std::vector<std::pair<std::string, Arg>>& arguments);

  // Lowers the nodes of a graph whose inputs are given; the results are those of its outputs.
  std::vector<Arg> LowerGraph(const ProgramGraph& graph, const std::vector<Arg>& inputs);
  // The same into a body of If, Loop or Scan.
  std::vector<Arg> LowerBody(Builder& inner, const ProgramGraph& graph, const std::vector<Arg>& inputs);

  // Tensors from outside a body that are written to in it, with what they were before.
  using TensorChanges = std::vector<std::pair<std::shared_ptr<Cell>, Operand>>;

  // While it lives, nodes go into the body of a node that only decides while running whether, or how often, it runs.
  // What was made outside can be written to only where the changes are noted, for the body must give them back.
  class InBody {
   public:
    InBody(Lowerer& lowerer, Builder& inner, TensorChanges* changes = nullptr)
        : lowerer_(lowerer), before_(lowerer.builder_), changes_before_(lowerer.changes_) {
      lowerer_.builder_ = &inner;
      lowerer_.changes_ = changes;
      ++lowerer_.level_;
    }
    ~InBody() {
      lowerer_.builder_ = before_;
      lowerer_.changes_ = changes_before_;
      --lowerer_.level_;
    }
    InBody(const InBody&) = delete;
    InBody& operator=(const InBody&) = delete;

   private:
    Lowerer& lowerer_;
    Builder* before_;
    TensorChanges* changes_before_;
  };
  int level() const { return level_; }  // of bodies inside bodies
  // Notes what the tensor is now, before it is written to; throws where a body cannot give it back.
  void WillWrite(const std::shared_ptr<Cell>& tensor);

  Arg MakeCell(Operand value);
  // One that may share its elements with `base`: once one of them is written to, the other is not read any more.
  Arg MakeDoubtfulCell(Operand value, const std::shared_ptr<Cell>& base);
  Operand Read(const Arg& tensor) const;

  // The program's word on the results of the call that runs now.
  void SetMetas(std::vector<const TensorMeta*> metas) { metas_ = std::move(metas); }
  size_t result_count() const { return metas_.size(); }  // 0 when the program does not say
  const TensorMeta* meta(size_t i) const { return options_.opened.empty() ? DescribedResult(i) : nullptr; }
  // Whether nodes say in their metadata where in the Python source they come from.
  bool keep_trace = false;

 private:
  using Environment = std::map<std::string, Arg, std::less<>>;
  Result Lower(const Rule& rule, const std::string& target, const std::vector<Arg>& args);
  Arg MakeArg(const Result::Item& item);
  const TensorMeta* DescribedResult(size_t i) const { return i < metas_.size() ? metas_[i] : nullptr; }
  std::vector<Arg> WriteBack(const Signature& signature, const std::vector<Arg>& args, const Result& result);
  std::vector<Arg> MakeViews(const Signature& signature, const std::string& target, const std::vector<Arg>& args,
                             const Result& result);
  std::vector<Arg> MakeViewsOfEach(const Arg& tensors, const Result& result);
  std::vector<Arg> RunWrapped(const std::string& target, const std::vector<std::pair<std::string, Arg>>& arguments);
  void LowerNode(const ProgramGraph& graph, const ProgramNode& node, Environment& values);

  Builder* builder_;
  int level_ = 0;
  TensorChanges* changes_ = nullptr;  // of the innermost body
  LowerOptions options_;
  std::vector<const TensorMeta*> metas_;
};

// Whether the program lays the tensor out row by row; false also when that cannot be told.
bool IsContiguous(const TensorMeta& meta);

// The module a node belongs to: "layers.0.dropout (torch.nn.modules.dropout.Dropout)"; empty when the program is
// silent.
std::string DescribeModule(const ProgramNode& node);

}  // namespace ferry::torch
