// The steps of a network in order, the values between them, and where each value lies: what the source is printed from.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "convert/c/build_c.h"
#include "convert/c/step_writer.h"
#include "ops/infer_graph.h"

namespace ferry::c {

struct Value {
  enum class Place : uint8_t { kArena, kInput, kOutput, kConstant };
  std::string name;
  DType type = DType::kUndefined;
  Shape shape;
  Place place = Place::kArena;
  int number = -1;   // of the input, output or constant
  int root = -1;     // whose memory it shares; itself where it has its own
  size_t shift = 0;  // bytes from the begin of that memory
  int first = -1, last = -1;
  size_t offset = 0;
  size_t bytes = 0;
};

struct Function {
  std::string name, comment, parameters, text;
};

struct Step {
  int time = 0;
  uint32_t overwrites = 0;
  std::vector<int> inputs;  // values; -1: omitted
  int output = -1;          // value of output 0
  CStep report;
};

class Program {
 public:
  std::vector<Value> values;
  std::vector<Tensor> constants;
  std::vector<Function> functions;
  std::vector<std::string> helpers;  // in the order in which they must stand
  std::vector<Step> steps;
  std::vector<std::string> lines;  // of the body; values as marks, see Mark
  size_t arena_bytes = 0;

  int Root(int value) const;
  size_t Shift(int value) const;  // bytes from the begin of its root
  int AddValue(Value value);
  int AddConstant(Tensor tensor);
  void Touch(int value, int time);
  // A value's pointer in a line: resolved when its place is known.
  static std::string Mark(int value, bool is_written);
  std::string Resolve(const std::string& line) const;

  void Place();  // shares memory where steps may overwrite, and packs the rest by lifetime

 private:
  void ShareInPlace();
  std::string Pointer(int value, bool is_written) const;
  int FindSameContent(const Tensor& tensor);
  std::unordered_map<const std::byte*, std::vector<int>> constant_of_;
  std::unordered_map<size_t, std::vector<int>> constants_by_hash_;  // numbers of constants
};

// Fills a program from a graph with known shapes. Throws NeedsValue or kUnsupported.
void WriteSteps(const Graph& graph, const GraphFacts& facts, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const WriterOptions& options, Program& program);

}  // namespace ferry::c
