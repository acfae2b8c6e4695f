// Follows a TorchScript program from its forward method on: Python's values are computed, calls are entered, and what
// is done to tensors goes to the Lowerer call by call.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "torch/lower/lowerer.h"
#include "torch/script/library.h"
#include "torch/script/value.h"

namespace ferry::torch::script {

// An exception that the program raises itself: an assertion that failed.
struct Raised {
  std::string message;
};

struct Arguments {
  std::vector<ScriptValue> values;                         // by position
  std::vector<std::pair<std::string, ScriptValue>> named;  // by name

  size_t size() const { return values.size() + named.size(); }
  // The argument at a position or under a name; null when it is not given.
  const ScriptValue* Find(size_t position, std::string_view name) const;
};

class Interpreter {
 public:
  Interpreter(Library& library, Lowerer& lowerer);

  // The module that the archive holds.
  ScriptValue root() { return FromPickle(library_.root(), "", false); }
  const Function& ForwardOf(const ScriptValue& module) const;
  ScriptValue CallForward(const ScriptValue& module, const Arguments& inputs);
  ScriptValue EvaluateConstant(const Expression& expression) { return Evaluate(expression); }

  // --- what the built-in functions need
  Lowerer& lowerer() { return lowerer_; }
  Builder& builder() { return lowerer_.builder(); }
  ScriptValue MakeList(std::vector<ScriptValue> items);
  ScriptValue MakeDict(std::vector<std::pair<ScriptValue, ScriptValue>> items);
  // Before a list, a dict, or an attribute of an object changes: a body that runs in the graph must give it back.
  void WillChange(const ScriptValue& container, const std::string& attribute = {});
  int level() const { return lowerer_.level(); }
  void Spend(size_t work);                     // throws kLimit when the program does not come to an end
  Operand TensorOf(const ScriptValue& value);  // also of a NumberTensor
  ScriptValue TensorValue(Operand value) { return FromArg(lowerer_.MakeCell(std::move(value))); }
  Scalar ScalarOf(const ScriptValue& value);  // a number, or the element of a tensor of one
  Scalar Run(const std::string& target, const std::vector<Scalar>& numbers);  // a rule on numbers
  ScriptValue CallAten(const std::string& name, const Arguments& arguments);
  ScriptValue CallTorch(const std::string& name, const Arguments& arguments);
  static ScriptValue FromArg(const Arg& arg);
  Library& library() { return library_; }

 private:
  using Variables = std::map<std::string, ScriptValue, std::less<>>;
  struct Frame {
    const Function* function;
    const ObjectValue* module;
    Variables variables;
    ScriptValue result;
    int line = 0;
  };
  enum class Flow { kNext, kReturn, kBreak, kContinue };

  // --- objects
  ScriptValue FromPickle(const PickleValue& value, const std::string& path, bool is_constant);
  ScriptValue WeightFrom(const PickleValue& value, const std::string& path, bool is_constant);
  ScriptValue QuantisedWeight(const TensorRecipe& recipe, const std::string& path, bool is_constant);
  void NameWeights(const PickleValue& object, const std::string& path, std::set<const PickleValue*>& seen);
  ScriptValue Attribute(const ScriptValue::Object& object, const std::string& name);
  bool IsTrained(const ScriptValue& value) const {
    const auto* cell = value.get<ScriptValue::Tensor>();
    return cell && trained_.count(cell->get());
  }

  // --- calls
  ScriptValue CallFunction(const Function& function, const ScriptValue::Object& self, const Arguments& arguments);
  void BindArguments(Frame& frame, const ScriptValue::Object& self, const Arguments& arguments);
  ScriptValue CallNamed(const std::string& name, const Arguments& arguments);
  ScriptValue CallPrim(const std::string& name, const Arguments& arguments);
  ScriptValue CallMethod(const ScriptValue::Object& object, const std::string& name, const Arguments& arguments);
  ScriptValue::Object MakeObject(const Class& type, const std::string& name) const;
  ScriptValue Construct(const Class& type, const std::string& name, const Arguments& arguments);
  ScriptValue CallWord(const std::string& word, const Expression& call);
  Arguments EvaluateArguments(const Expression& call);

  // --- expressions
  ScriptValue Evaluate(const Expression& expression);
  ScriptValue EvaluateName(const Expression& expression);
  ScriptValue MemberOf(const ScriptValue& base, const std::string& name);
  ScriptValue EvaluateSubscript(const Expression& expression);
  ScriptValue EvaluateCall(const Expression& expression);
  ScriptValue EvaluateDict(const Expression& expression);
  std::vector<ScriptValue> EvaluateAll(const std::vector<ExpressionPtr>& expressions);

  // --- statements
  Flow Execute(const Block& block);
  Flow ExecuteOne(const Statement& statement);
  Flow ExecuteIf(const Statement& statement);
  Flow ExecuteWhile(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  void Assign(const Expression& target, const ScriptValue& value);
  void AssignItem(const ScriptValue& container, const ScriptValue& key, const ScriptValue& value);

  // --- what is only decided while the model runs (branches.cc, loops.cc)

  // A place that a body may change: a variable, a list or dict, an attribute, the elements of a tensor.
  struct Slot {
    std::string name;  // of a variable or attribute
    ScriptValue holder;
    std::shared_ptr<Cell> cell;

    bool is_variable() const { return !cell && holder.is_none(); }
    bool operator==(const Slot& other) const;
  };
  ScriptValue Get(const Slot& slot);
  void Put(const Slot& slot, const ScriptValue& value);      // as an assignment does it
  void Restore(const Slot& slot, const ScriptValue& value);  // without a trace

  // A place that a body changed: what is there at its end, and the tensors and numbers in it.
  struct Change {
    Slot slot;
    ScriptValue value;
    Operands leaves;
  };
  class BodyScope;
  struct Branch;
  class MergedRoots;
  struct Carried;
  class LoopBuilder;
  Change ChangeOf(const Slot& slot);
  void BranchInGraph(const Scalar& condition, const Statement& statement);
  void RunBranch(const Block& block, Branch& branch);
  bool MergeBranches(Branch& yes, Branch& no, const Operand& decides, bool strictly);
  bool MergeSlot(Change& yes, Change& no, Branch& yes_branch, Branch& no_branch, bool strictly);
  bool AsLists(Change& yes, Change& no, Branch& yes_branch, Branch& no_branch);
  void LoopInGraph(const Statement& statement, const Scalar* count);
  void RefreshVariables();

  Library& library_;
  Lowerer& lowerer_;
  Builder& outermost_;  // of the graph itself, not of a body
  Frame* frame_ = nullptr;
  std::vector<Frame*> frames_;
  std::map<const PickleValue*, ScriptValue> made_;
  std::map<std::string, ScriptValue> weights_;       // by place in the archive
  std::map<std::string, std::string> weight_names_;  // by place
  std::set<const Cell*> trained_;                    // parameters that ask for gradients
  BodyScope* scope_ = nullptr;                       // of the innermost body
  uint64_t work_ = 0;
  bool located_ = false;  // the error on its way says where it happened
};

}  // namespace ferry::torch::script
