#include "providers/cuda/window_masks.h"

#include "passes/shapes.h"

namespace ferry::cuda {
namespace {

class MaskJoiner {
 public:
  MaskJoiner(Graph& graph, GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    const size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i)
      if (!editor_.removed(i) && Is(editor_.node(i), "Softmax")) Join(i);
    return editor_.Finish();
  }

 private:
  static bool Is(const Node& node, std::string_view op) {
    return node.op_type == op && CanonicalDomain(node.domain).empty();
  }
  std::optional<Shape> ShapeOf(const std::string& name) const { return KnownShape(facts_, name); }
  // The node of this kind that makes a value which `reader` alone reads; -1: it is another one.
  int Maker(const std::string& value, size_t reader, std::string_view op) const {
    const int maker = editor_.Producer(value);
    const bool is_alone = maker >= 0 && editor_.OnlyReader(value) == static_cast<int>(reader);
    return is_alone && Is(At(maker), op) ? maker : -1;
  }
  const Node& At(int index) const { return editor_.node(static_cast<size_t>(index)); }

  void Join(size_t softmax) {
    const int together = Maker(editor_.node(softmax).inputs[0], softmax, "Reshape");
    if (together < 0) return;
    const int masked = Maker(At(together).inputs[0], static_cast<size_t>(together), "Add");
    if (masked < 0) return;
    for (size_t i = 0; i < 2; ++i) {
      const int apart = Maker(At(masked).inputs[i], static_cast<size_t>(masked), "Reshape");
      const int biased = apart < 0 ? -1 : Maker(At(apart).inputs[0], static_cast<size_t>(apart), "Add");
      if (biased < 0) continue;
      for (size_t j = 0; j < 2; ++j) {
        const int product = Maker(At(biased).inputs[j], static_cast<size_t>(biased), "MatMul");
        if (product >= 0)
          return Rewrite({together, masked, apart, biased}, At(biased).inputs[j], At(biased).inputs[1 - j],
                         At(masked).inputs[1 - i]);
      }
    }
  }

  struct Steps {
    int together, masked, apart, biased;
  };
  void Rewrite(const Steps& steps, const std::string& scores, const std::string& bias, const std::string& mask) {
    const std::optional<Shape> whole = ShapeOf(scores), windows = ShapeOf(At(steps.apart).outputs[0]),
                               made = ShapeOf(At(steps.together).outputs[0]), given = ShapeOf(mask),
                               added = ShapeOf(bias);
    if (!whole || !windows || !made || !given || !added || whole->rank() != 4 || windows->rank() != 5) return;
    if (!(*whole == *made) || !(*ShapeOf(At(steps.biased).outputs[0]) == *whole)) return;
    const Shape inner = {(*windows)[1], (*whole)[1], (*whole)[2], (*whole)[3]};
    for (size_t i = 1; i < 4; ++i)
      if ((*windows)[i + 1] != (*whole)[i]) return;
    if ((*windows)[0] * (*windows)[1] != (*whole)[0]) return;
    const Shape one = {1, inner[0], inner[1], inner[2], inner[3]};
    const bool fits =
        added->rank() <= 4 && (added->rank() < 4 || (*added)[0] == 1) && BroadcastShapes(*given, *added) == one;
    if (!fits) return;
    const std::string joined = NewValue(scores, one), repeated = NewValue(scores, *windows),
                      addend = NewValue(scores, *whole);
    const auto place = static_cast<size_t>(steps.together);
    Insert(place, "Add", {mask, bias}, joined);
    Insert(place, "Expand", {joined, AddShapeConstant(*windows, editor_, facts_)}, repeated);
    Insert(place, "Reshape", {repeated, AddShapeConstant(*whole, editor_, facts_)}, addend);
    Node sum = MadeBy("Add", {scores, addend}, At(steps.together).outputs[0]);
    for (int step : {steps.masked, steps.apart, steps.biased}) editor_.Remove(static_cast<size_t>(step));
    editor_.Replace(place, std::move(sum));
  }

  static Node MadeBy(const char* op, std::vector<std::string> inputs, const std::string& output) {
    Node node;
    node.op_type = op;
    node.name = output;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    return node;
  }
  void Insert(size_t place, const char* op, std::vector<std::string> inputs, const std::string& output) {
    editor_.InsertBefore(place, MadeBy(op, std::move(inputs), output));
  }

  std::string NewValue(const std::string& like, const Shape& shape) {
    const std::string name = editor_.FreshName("window mask");
    ValueFacts facts;
    facts.type = Type::Tensor(facts_.Find(like)->type.dtype, ToSymbolic(shape));
    facts_.values[name] = std::move(facts);
    return name;
  }

  GraphEditor editor_;
  GraphFacts& facts_;
};

}  // namespace

bool JoinWindowMasks(Graph& graph, GraphFacts& facts) { return MaskJoiner(graph, facts).Run(); }

}  // namespace ferry::cuda
