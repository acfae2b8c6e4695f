#include "passes/fuse_rotary.h"

#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

enum class Way { kSlices, kSplit, kParts, kNeighbours };

struct Case {
  Way way;
  int64_t batch, heads, length, size;
  bool swapped;  // operands of sums and products in the other order
};

std::vector<Attribute> Axis(int64_t axis) {
  Node node;
  node.Set("axis", axis);
  return node.attributes;
}

class Writer {
 public:
  explicit Writer(const Case& c) : c_(c) {
    constants_ = {Ints("zero", {0}),
                  Ints("one", {1}),
                  Ints("half", {c.size / 2}),
                  Ints("two", {2}),
                  Ints("end", {INT64_MAX}),
                  Ints("last", {-1}),
                  Ints("parts", {c.size / 2, c.size / 2}),
                  Ints("whole", {c.batch, c.heads, c.length, c.size})};
  }

  Model Write() {
    TakeParts();
    const int64_t width = c_.way == Way::kParts ? c_.size / 2 : c_.size;
    if (c_.way == Way::kParts) {
      Add("Sub", {Product("a", "cos"), Product("b", "sin")}, "left");
      Sum(Product("b", "cos"), Product("a", "sin"), "right");
      Add("Concat", {"left", "right"}, "y", Axis(-1));
    } else {
      Turn();
      Sum(Product("x", "cos"), Product("turned", "sin"), "y");
    }
    return MakeModel({MakeInfo("x", DType::kFloat, {c_.batch, c_.heads, c_.length, c_.size}),
                      MakeInfo("cos", DType::kFloat, {c_.batch, 1, c_.length, width}),
                      MakeInfo("sin", DType::kFloat, {1, c_.length, width})},
                     nodes_, {MakeInfo("y")}, constants_);
  }

 private:
  void Add(const char* op, std::vector<std::string> from, const std::string& to,
           std::vector<Attribute> attributes = {}) {
    nodes_.push_back(MakeNode(op, std::move(from), {to}, std::move(attributes)));
  }
  std::string Product(const std::string& x, const std::string& by) {
    std::string name = x + "_" + by;
    Add("Mul", c_.swapped ? std::vector<std::string>{by, x} : std::vector<std::string>{x, by}, name);
    return name;
  }
  void Sum(const std::string& a, const std::string& b, const std::string& to) {
    Add("Add", c_.swapped ? std::vector<std::string>{b, a} : std::vector<std::string>{a, b}, to);
  }

  void TakeParts() {
    if (c_.way == Way::kSplit) {
      nodes_.push_back(MakeNode("Split", {"x", "parts"}, {"a", "b"}, Axis(-1)));
    } else if (c_.way == Way::kNeighbours) {
      Add("Slice", {"x", "zero", "end", "last", "two"}, "a");
      Add("Slice", {"x", "one", "end", "last", "two"}, "b");
    } else {
      Add("Slice", {"x", "zero", "half", "last", "one"}, "a");
      Add("Slice", {"x", "half", "end", "last", "one"}, "b");
    }
  }

  void Turn() {
    Add("Neg", {"b"}, "minus");
    if (c_.way != Way::kNeighbours) return Add("Concat", {"minus", "a"}, "turned", Axis(3));
    Add("Unsqueeze", {"minus", "last"}, "minus_apart");
    Add("Unsqueeze", {"a", "last"}, "a_apart");
    Add("Concat", {"minus_apart", "a_apart"}, "pairs", Axis(-1));
    Add("Reshape", {"pairs", "whole"}, "turned");
  }

  const Case c_;
  std::vector<StoredTensor> constants_;
  std::vector<Node> nodes_;
};

std::vector<Value> InputsOf(const Model& model, Random& random) {
  std::vector<Value> inputs;
  for (const ValueInfo& input : model.graph.inputs)
    inputs.emplace_back(random.Numbers<float>(*ToConcrete(*input.type.shape)));
  return inputs;
}

TEST(FuseRotary, EveryWayBecomesOneStep) {
  Random random(41);
  for (int round = 0; round < 160; ++round) {
    Case c{static_cast<Way>(round % 4), random.Int(1, 2), random.Int(1, 4), random.Int(1, 9),
           2 * random.Int(2, 40),       random.Bool()};
    Model model = Writer(c).Write();
    Graph graph = HoldAgainstOptimized(model, InputsOf(model, random));
    ASSERT_EQ(Count(graph, "FusedRotary"), 1) << "round " << round;
    ASSERT_EQ(graph.nodes.size(), 1u) << "round " << round;
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

// The halves the other way round turn by the opposite angle; parts that are no halves are another function.
TEST(FuseRotary, LeavesWhatIsNoRotation) {
  Random random(43);
  Model opposite = Writer({Way::kSlices, 1, 2, 3, 8, false}).Write();
  for (Node& node : opposite.graph.nodes)
    if (node.op_type == "Concat") std::swap(node.inputs[0], node.inputs[1]);
  EXPECT_EQ(Count(HoldAgainstOptimized(opposite, InputsOf(opposite, random)), "FusedRotary"), 0);

  Model uneven = Writer({Way::kSlices, 1, 2, 3, 8, false}).Write();
  for (StoredTensor& constant : uneven.graph.initializers)
    if (constant.name == "half") constant = Ints("half", {2});
  EXPECT_EQ(Count(HoldAgainstOptimized(uneven, InputsOf(uneven, random)), "FusedRotary"), 0);
}

// One half's product is asked for: it has to be there.
TEST(FuseRotary, LeavesProductsThatAreReadElsewhere) {
  Random random(47);
  Model model = Writer({Way::kSplit, 1, 2, 3, 8, false}).Write();
  model.graph.outputs.push_back(MakeInfo("x_cos"));
  EXPECT_EQ(Count(HoldAgainstOptimized(model, InputsOf(model, random)), "FusedRotary"), 0);
}

}  // namespace
}  // namespace ferry
