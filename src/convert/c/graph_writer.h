// Turns the nodes of one graph, or of a body inside one, into steps of a program.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "convert/c/program.h"

namespace ferry::c {

// Thrown where the shape of a value is not known: it depends on data.
struct UnknownShape {
  const Node* node;
  std::string value;
};

class GraphWriter {
 public:
  GraphWriter(Program& program, const GraphFacts& all_facts, const FactsByName& facts, const WriterOptions& options,
              std::unordered_map<std::string, std::string>& functions, int& clock, GraphWriter* outer)
      : program_(program),
        all_facts_(all_facts),
        facts_(facts),
        options_(options),
        function_of_(functions),
        clock_(clock),
        outer_(outer) {
    if (outer) indent_ = outer->indent_ + "  ";
  }

  void WriteNodes(const Graph& graph, const std::vector<std::string>& results);
  void FinishResults(const std::vector<std::string>& outputs);
  void SetResult(const std::string& name, int number) { result_number_.emplace(name, number); }

  // For control flow.
  Program& program() { return program_; }
  int Find(const std::string& name);
  void Bind(const std::string& name, int value);
  int NewValue(const std::string& name, DType type, const Shape& shape);
  int MakeOutput(const Node& node, const std::string& name);
  bool IsNeeded(const std::string& name) const { return !name.empty() && needed_.count(name) > 0; }
  void Copy(int from, int to);
  void Pin(int value) { pinned_.insert(program_.Root(value)); }
  int Tick() { return ++clock_; }
  GraphWriter Inside(const Graph& body);
  const ValueFacts* FindFacts(const std::string& name) const;
  void AddLine(std::string line) { program_.lines.push_back(indent_ + std::move(line)); }
  const std::string& indent() const { return indent_; }

 private:
  bool IsConstant(const std::string& name) const {
    const ValueFacts* facts = FindFacts(name);
    return facts && facts->constant;
  }
  void AddStep(const Node& node);
  bool AddView(const Node& node);
  bool FailView(const Node& node) const;
  // Rows that lie together are where they are; parts that lie one after the other are made where the whole will be.
  bool AddSliceView(const Node& node);
  bool JoinInPlace(const Node& node);
  bool AddFlexAttention(const Node& node);
  int AddBody(const Node& node, const char* attribute, int value);  // what the body makes of it
  void Emit(StepWriter& w, const std::vector<int>& inputs, const std::vector<int>& outputs);
  void UseHelper(std::string_view name);

  Program& program_;
  const GraphFacts& all_facts_;
  const FactsByName& facts_;
  const WriterOptions& options_;
  std::unordered_map<std::string, std::string>& function_of_;
  int& clock_;
  GraphWriter* outer_;
  std::string indent_ = "  ";
  std::unordered_map<std::string, int> value_of_, result_number_;
  std::unordered_set<std::string> needed_;
  std::set<int> pinned_;
};

}  // namespace ferry::c
