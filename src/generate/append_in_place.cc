#include "generate/append_in_place.h"

#include <algorithm>
#include <set>

#include "graph/editor.h"
#include "graph/standard.h"

namespace ferry {
namespace {

using Order = std::vector<int64_t>;

const Order& Turned() {
  static const Order order = {0, 2, 1, 3};
  return order;
}

bool IsTokenAxis(const Node& concat) { return concat.Int("axis", 0) == 2 || concat.Int("axis", 0) == -2; }

class Turning {
 public:
  explicit Turning(Graph& graph) : editor_(graph) {}

  bool Fits(const std::string& past, const std::string& present) const {
    if (AppendOf(past, present) < 0) return false;
    const std::vector<size_t>& readers = editor_.Readers(present);
    // The graph's output is one use more.
    return editor_.Uses(present) == readers.size() + 1 && std::all_of(readers.begin(), readers.end(), [&](size_t i) {
             return IsWholeShape(editor_.node(i)) || ReachesAttention(i, present);
           });
  }

  void Turn(const std::string& past, const std::string& present) {
    const auto append = static_cast<size_t>(AppendOf(past, present));
    const std::vector<size_t> before = editor_.Readers(past), after = editor_.Readers(present);
    for (size_t reader : before)
      if (reader != append) TurnShape(reader);
    const std::string turned = editor_.FreshName(present + "_heads_first");
    bool is_wanted = false;
    for (size_t reader : after) {
      if (IsWholeShape(editor_.node(reader))) {
        TurnShape(reader);
        continue;
      }
      Node node = editor_.Take(reader);
      std::replace(node.inputs.begin(), node.inputs.end(), present, turned);
      editor_.Replace(reader, std::move(node));
      is_wanted = true;
    }
    Node concat = editor_.Take(append);
    const std::string fresh = editor_.FreshName(concat.inputs[1] + "_tokens_first");
    editor_.InsertBefore(append, Transpose(concat.inputs[1], fresh));
    concat.inputs[1] = fresh;
    concat.Set("axis", int64_t{1});
    editor_.Replace(append, std::move(concat));
    if (is_wanted) editor_.InsertBefore(*std::min_element(after.begin(), after.end()), Transpose(present, turned));
  }

  void Finish() { editor_.Finish(); }

 private:
  static bool IsWholeShape(const Node& node) {
    return IsStandard(node, "Shape") && !node.Has("start") && !node.Has("end");
  }

  // The Concat of the past and what is new, where nobody else reads the past but for its shape; -1: there is none.
  int AppendOf(const std::string& past, const std::string& present) const {
    const int made = editor_.Producer(present);
    if (made < 0) return -1;
    const Node& concat = editor_.node(static_cast<size_t>(made));
    const bool appends = IsStandard(concat, "Concat") && concat.inputs.size() == 2 && concat.inputs[0] == past &&
                         concat.inputs[1] != past && IsTokenAxis(concat);
    const std::vector<size_t>& readers = editor_.Readers(past);
    const bool alone = std::all_of(readers.begin(), readers.end(), [&](size_t reader) {
      return reader == static_cast<size_t>(made) || IsWholeShape(editor_.node(reader));
    });
    return appends && alone && editor_.Uses(past) == readers.size() ? made : -1;
  }

  // Whether all that becomes of a value, by what attention takes in (passes/fuse_attention) whatever its size, is a
  // product before or behind a softmax.
  bool ReachesAttention(size_t reader, const std::string& value) const {
    const Node& node = editor_.node(reader);
    if (node.inputs.empty() || node.outputs.size() != 1) return false;
    if (IsStandard(node, "MatMul"))
      return node.inputs[1] == value && node.inputs[0] != value &&
             (ComesFromSoftmax(node.inputs[0]) || GoesToSoftmax(node.outputs[0]));
    const bool moves = IsStandard(node, {"Transpose", "Mul"});
    const int next = moves && node.inputs[0] == value ? editor_.OnlyReader(node.outputs[0]) : -1;
    return next >= 0 && ReachesAttention(static_cast<size_t>(next), node.outputs[0]);
  }

  bool ComesFromSoftmax(const std::string& value) const {
    const int made = editor_.Producer(value);
    if (made < 0) return false;
    const Node& node = editor_.node(static_cast<size_t>(made));
    if (IsStandard(node, "Where") && node.inputs.size() == 3)  // NaN of rows without a key become 0
      return ComesFromSoftmax(node.inputs[2]);
    return IsStandard(node, "Softmax");
  }

  // At once, or with a mask added.
  bool GoesToSoftmax(const std::string& value) const {
    int next = editor_.OnlyReader(value);
    if (next >= 0 && IsStandard(editor_.node(static_cast<size_t>(next)), "Add"))
      next = editor_.OnlyReader(editor_.node(static_cast<size_t>(next)).outputs[0]);
    return next >= 0 && IsStandard(editor_.node(static_cast<size_t>(next)), "Softmax");
  }

  static Node Transpose(const std::string& from, const std::string& to) {
    Node node;
    node.op_type = "Transpose";
    node.name = to;
    node.inputs = {from};
    node.outputs = {to};
    node.Set("perm", Turned());
    return node;
  }

  // The shape that the value had.
  void TurnShape(size_t index) {
    Node shape = editor_.Take(index), turn;
    turn.op_type = "Gather";
    turn.name = shape.name;
    turn.inputs = {editor_.FreshName(shape.outputs[0] + "_tokens_first"),
                   editor_.AddConstant("heads_first", Tensor::FromVector<int64_t>(Turned()))};
    turn.outputs = std::exchange(shape.outputs, {turn.inputs[0]});
    turn.Set("axis", int64_t{0});
    editor_.InsertBefore(index, std::move(shape));
    editor_.Replace(index, std::move(turn));
  }

  GraphEditor editor_;
};

void TurnType(std::vector<ValueInfo>& infos, const std::string& name) {
  for (ValueInfo& info : infos)
    if (info.name == name && info.type.shape && info.type.shape->size() == 4)
      std::swap((*info.type.shape)[1], (*info.type.shape)[2]);
}

}  // namespace

bool PutTokensFirst(Graph& graph, const std::vector<std::pair<std::string, std::string>>& caches) {
  Turning turning(graph);
  std::set<std::string> pasts;
  for (const auto& [past, present] : caches)
    if (!pasts.insert(past).second || !turning.Fits(past, present)) return false;
  for (const auto& [past, present] : caches) {
    turning.Turn(past, present);
    TurnType(graph.inputs, past);
    TurnType(graph.outputs, present);
    TurnType(graph.value_infos, present);
  }
  turning.Finish();
  return true;
}

}  // namespace ferry
