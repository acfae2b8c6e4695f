// The inputs of a TorchScript program, whose text has no shapes: they come from the caller, from recorded data, or from
// what the program was traced with.
#pragma once

#include <string>
#include <vector>

#include "torch/export.h"
#include "torch/script/interpreter.h"

namespace ferry::torch::script {

class ScriptInputs {
 public:
  ScriptInputs(Library& library, Interpreter& interpreter, const ExportOptions& options, bool open_batch)
      : library_(library), interpreter_(interpreter), options_(options), open_batch_(open_batch) {}

  // Adds the graph's inputs for the parameters of forward.
  Arguments Bind(const Function& forward);

  const std::vector<std::pair<std::string, Tensor>>& samples() const { return samples_; }
  // Whether a size was left open that nobody asked to be.
  bool opened_batch() const { return opened_batch_; }

 private:
  struct Described {
    Type type;
    bool is_complex = false;
    std::vector<Tensor> samples;
  };
  bool Describe(const std::string& name, const PickleValue* traced, Described& described);
  bool DescribeFromSamples(const std::string& name, Described& described);
  Dim DimFor(const std::vector<int64_t>& sizes, size_t axis);
  void ApplyDynamic(const std::string& own, const std::string& name, Type& type);
  bool BindValue(const Expression& type, const std::string& name, const PickleValue* traced, ScriptValue& value);
  bool BindLeaf(const std::string& kind, const std::string& name, const PickleValue* traced, ScriptValue& value);
  bool BindItems(const Expression& type, const std::string& name, const PickleValue* traced, ScriptValue& value);
  bool BindDict(const Expression& type, const std::string& name, const PickleValue* traced, ScriptValue& value);
  std::vector<std::string> KeysOf(const std::string& name, const PickleValue* traced) const;
  [[noreturn]] void AskFor(const FunctionParameter& parameter, const Function& forward) const;
  void CheckAllUsed() const;

  Library& library_;
  Interpreter& interpreter_;
  const ExportOptions& options_;
  bool open_batch_, opened_batch_ = false;
  size_t position_ = 0;  // of the next input
  int64_t batch_ = -1;   // the size that is taken for the batch's
  std::vector<std::string> known_names_;
  std::map<std::vector<int64_t>, std::string> names_of_sizes_;
  std::vector<std::pair<std::string, Tensor>> samples_;
};

}  // namespace ferry::torch::script
