#include "onnx/upgrade/upgrade.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "onnx/schema.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using testing::MakeInfo;
using testing::MakeModel;
using testing::MakeNode;

// A model of one node with inputs a, b, c … as many as it reads.
Model OneNode(Node node, int64_t opset, DType type = DType::kFloat) {
  std::vector<ValueInfo> inputs, outputs;
  for (const std::string& name : node.inputs)
    if (!name.empty()) inputs.push_back(MakeInfo(name, type));
  for (const std::string& name : node.outputs)
    if (!name.empty()) outputs.push_back(MakeInfo(name, type));
  return MakeModel(std::move(inputs), {std::move(node)}, std::move(outputs), {}, opset);
}

Graph Upgraded(Node node, int64_t opset, DType type = DType::kFloat) {
  Model model = OneNode(std::move(node), opset, type);
  UpgradeToNewest(model);
  EXPECT_EQ(model.OpsetOf(""), 28);
  EXPECT_FALSE(NeedsUpgrade(model));
  for (const Node& made : model.graph.nodes)
    for (const Attribute& attribute : made.attributes) EXPECT_NE(attribute.name, "") << Describe(made);
  return std::move(model.graph);
}

std::string Operators(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes)
    if (node.op_type != "Constant") ops.push_back(node.op_type);
  return Join(ops, " ");
}

const Node& NodeOf(const Graph& graph, std::string_view op) {
  for (const Node& node : graph.nodes)
    if (node.op_type == op) return node;
  ADD_FAILURE() << "no " << op;
  static const Node none;
  return none;
}

Tensor ConstantOf(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes)
    if (node.outputs[0] == name && node.Has("value")) return node.TensorAttribute("value");
  ADD_FAILURE() << name << " is no constant";
  return Tensor::Scalar<int64_t>(0);
}

std::vector<int64_t> IntsOf(const Graph& graph, const Node& node, size_t i) {
  return ToInt64Vector(ConstantOf(graph, node.inputs.at(i)));
}

using Ints = std::vector<int64_t>;

TEST(Upgrade, NewestStaysAsItIs) {
  Model model = OneNode(MakeNode("Relu", {"a"}, {"y"}), 28);
  EXPECT_FALSE(NeedsUpgrade(model));
  UpgradeToNewest(model);
  EXPECT_EQ(Operators(model.graph), "Relu");
}

TEST(Upgrade, ConsumedInputsGo) {
  Graph graph = Upgraded(MakeNode("Relu", {"a"}, {"y"}, {Attribute("consumed_inputs", Ints{0})}), 1);
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
}

TEST(Upgrade, BroadcastAtTheEndIsNumpys) {
  Graph graph = Upgraded(MakeNode("Add", {"a", "b"}, {"y"}, {Attribute("broadcast", int64_t{1})}), 6);
  EXPECT_EQ(Operators(graph), "Add");
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
}

TEST(Upgrade, BroadcastAtAnAxisReshapes) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater"}) {
    Graph graph = Upgraded(
        MakeNode(op, {"a", "b"}, {"y"}, {Attribute("broadcast", int64_t{1}), Attribute("axis", int64_t{1})}), 1);
    const Node& node = graph.nodes.back();
    EXPECT_EQ(node.op_type, op);
    EXPECT_TRUE(node.attributes.empty());
    EXPECT_EQ(node.inputs[0], "a");
    EXPECT_EQ(graph.nodes[graph.nodes.size() - 2].op_type, "Reshape");
    EXPECT_EQ(graph.nodes[graph.nodes.size() - 2].outputs[0], node.inputs[1]);
  }
}

TEST(Upgrade, SlopePerChannel) {
  Graph graph = Upgraded(MakeNode("PRelu", {"a", "b"}, {"y"}), 6);
  EXPECT_NE(NodeOf(graph, "PRelu").inputs[1], "b");
  EXPECT_EQ(Operators(Upgraded(MakeNode("PRelu", {"a", "b"}, {"y"}), 7)), "PRelu");
}

TEST(Upgrade, GemmBroadcast) {
  Graph graph = Upgraded(MakeNode("Gemm", {"a", "b", "c"}, {"y"}, {Attribute("broadcast", int64_t{1})}), 6);
  EXPECT_TRUE(graph.nodes[0].attributes.empty());
}

TEST(Upgrade, ClipBoundsBecomeInputsOfTheSameType) {
  std::vector<Attribute> bounds = {Attribute("max", 6.0f)};
  Graph graph = Upgraded(MakeNode("Clip", {"a"}, {"y"}, bounds), 6);
  const Node& clip = NodeOf(graph, "Clip");
  EXPECT_EQ(clip.inputs[1], "");
  EXPECT_EQ(*ConstantOf(graph, clip.inputs[2]).Data<float>(), 6.0f);
  EXPECT_TRUE(clip.attributes.empty());

  Graph wide = Upgraded(MakeNode("Clip", {"a"}, {"y"}, bounds), 6, DType::kDouble);
  EXPECT_EQ(ConstantOf(wide, NodeOf(wide, "Clip").inputs[2]).dtype(), DType::kDouble);
  Graph half = Upgraded(MakeNode("Clip", {"a"}, {"y"}, bounds), 6, DType::kFloat16);
  EXPECT_EQ(ConstantOf(half, NodeOf(half, "Clip").inputs[2]).dtype(), DType::kFloat16);
}

TEST(Upgrade, TypesAreFoundAlongNodes) {
  Model model = MakeModel({MakeInfo("x", DType::kDouble)},
                          {MakeNode("Relu", {"x"}, {"h"}), MakeNode("Clip", {"h"}, {"y"}, {Attribute("min", 0.0f)})},
                          {MakeInfo("y", DType::kDouble)}, {}, 6);
  UpgradeToNewest(model);
  EXPECT_EQ(ConstantOf(model.graph, NodeOf(model.graph, "Clip").inputs[1]).dtype(), DType::kDouble);
}

TEST(Upgrade, UnknownTypesAreCastWhileRunning) {
  Model model = MakeModel({}, {MakeNode("Clip", {"x"}, {"y"}, {Attribute("min", 0.0f)})}, {}, {}, 6);
  UpgradeToNewest(model);
  EXPECT_EQ(Operators(model.graph), "CastLike Clip");
}

TEST(Upgrade, CastNames) {
  Graph graph = Upgraded(MakeNode("Cast", {"a"}, {"y"}, {Attribute("to", std::string("INT64"))}), 1);
  EXPECT_EQ(graph.nodes[0].Int("to", 0), 7);
  Model bad = OneNode(MakeNode("Cast", {"a"}, {"y"}, {Attribute("to", std::string("QUATERNION"))}), 1);
  EXPECT_THROW(UpgradeToNewest(bad), Error);
}

TEST(Upgrade, SeluKeepsItsOldDefaults) {
  Graph graph = Upgraded(MakeNode("Selu", {"a"}, {"y"}), 1);
  EXPECT_EQ(graph.nodes[0].Float("alpha", 0), 1.6732f);
  EXPECT_EQ(graph.nodes[0].Float("gamma", 0), 1.0507f);
}

TEST(Upgrade, IntegersGoThroughFloat) {
  EXPECT_EQ(Operators(Upgraded(MakeNode("Erf", {"a"}, {"y"}), 9, DType::kInt32)), "Cast Erf Cast");
  EXPECT_EQ(Operators(Upgraded(MakeNode("Erf", {"a"}, {"y"}), 9)), "Erf");
  EXPECT_EQ(Operators(Upgraded(MakeNode("ReduceLogSum", {"a"}, {"y"}), 13, DType::kInt64)), "Cast ReduceLogSum Cast");
}

TEST(Upgrade, ReductionAxesBecomeAnInput) {
  for (const char* op : {"ReduceSum", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    Graph graph = Upgraded(MakeNode(op, {"a"}, {"y"}, {Attribute("axes", Ints{-1})}), 11);
    EXPECT_EQ(IntsOf(graph, NodeOf(graph, op), 1), (Ints{-1}));
    EXPECT_TRUE(NodeOf(graph, op).attributes.empty());
    EXPECT_EQ(Upgraded(MakeNode(op, {"a"}, {"y"}), 11).nodes.size(), 1u);
  }
}

TEST(Upgrade, SoftmaxOverRows) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    Graph graph = Upgraded(MakeNode(op, {"a"}, {"y"}), 12);
    EXPECT_EQ(Operators(graph), Cat("Shape Flatten ", op, " Reshape"));
    EXPECT_EQ(NodeOf(graph, "Flatten").Int("axis", 0), 1);
    EXPECT_EQ(NodeOf(graph, op).Int("axis", 0), -1);
    EXPECT_EQ(graph.nodes.back().outputs[0], "y");
    Graph given = Upgraded(MakeNode(op, {"a"}, {"y"}, {Attribute("axis", int64_t{2})}), 9);
    EXPECT_EQ(NodeOf(given, "Flatten").Int("axis", 0), 2);
    EXPECT_EQ(NodeOf(given, op).attributes.size(), 1u);
    Graph last = Upgraded(MakeNode(op, {"a"}, {"y"}, {Attribute("axis", int64_t{-1})}), 11);
    EXPECT_EQ(Operators(last), op);
    EXPECT_EQ(last.nodes[0].attributes.size(), 1u);  // the old axis leaves nothing behind
  }
}

TEST(Upgrade, BatchNormalization) {
  std::vector<std::string> inputs = {"a", "b", "c", "d", "e"};
  Graph inference = Upgraded(MakeNode("BatchNormalization", inputs, {"y"}), 9);
  EXPECT_EQ(inference.nodes[0].Int("training_mode", 0), 0);

  Graph training = Upgraded(MakeNode("BatchNormalization", inputs, {"y", "m", "v", "sm", "sv"}), 7);
  const Node& node = NodeOf(training, "BatchNormalization");
  EXPECT_EQ(node.Int("training_mode", 0), 1);
  EXPECT_EQ(node.outputs, (std::vector<std::string>{"y", "m", "v"}));
  EXPECT_EQ(training.nodes.back().outputs[0], "sv");

  Graph flat = Upgraded(MakeNode("BatchNormalization", inputs, {"y"}, {Attribute("spatial", int64_t{0})}), 7);
  EXPECT_EQ(Operators(flat), "Shape Shape Flatten Reshape Reshape Reshape Reshape BatchNormalization Reshape");
  EXPECT_FALSE(NodeOf(flat, "BatchNormalization").Has("spatial"));

  Graph test = Upgraded(MakeNode("BatchNormalization", inputs, {"y"}, {Attribute("is_test", int64_t{1})}), 6);
  EXPECT_TRUE(test.nodes[0].attributes.empty());
}

TEST(Upgrade, Dropout) {
  Graph old = Upgraded(MakeNode("Dropout", {"a"}, {"y"}), 6);
  EXPECT_TRUE(*ConstantOf(old, NodeOf(old, "Dropout").inputs.at(2)).Data<bool>());
  Graph tested = Upgraded(MakeNode("Dropout", {"a"}, {"y"}, {Attribute("is_test", int64_t{1})}), 6);
  EXPECT_EQ(NodeOf(tested, "Dropout").inputs.size(), 1u);
  Graph masked = Upgraded(MakeNode("Dropout", {"a"}, {"y", "mask"}, {Attribute("ratio", 0.25f)}), 7);
  EXPECT_EQ(Operators(masked), "Dropout CastLike");
  EXPECT_EQ(masked.nodes.back().outputs[0], "mask");
  EXPECT_EQ(Operators(Upgraded(MakeNode("Dropout", {"a"}, {"y", "mask"}), 10)), "Dropout");
}

TEST(Upgrade, GroupNormalizationPerChannel) {
  Graph graph =
      Upgraded(MakeNode("GroupNormalization", {"a", "b", "c"}, {"y"}, {Attribute("num_groups", int64_t{2})}), 18);
  const Node& node = NodeOf(graph, "GroupNormalization");
  EXPECT_NE(node.inputs[1], "b");
  EXPECT_NE(node.inputs[2], "c");
  EXPECT_EQ(node.Int("num_groups", 0), 2);
}

TEST(Upgrade, AttributesOfShapesBecomeInputs) {
  Graph reshape = Upgraded(MakeNode("Reshape", {"a"}, {"y"}, {Attribute("shape", Ints{0, -1})}), 1);
  EXPECT_EQ(IntsOf(reshape, NodeOf(reshape, "Reshape"), 1), (Ints{0, -1}));
  Graph concat = Upgraded(MakeNode("Concat", {"a", "b"}, {"y"}), 1);
  EXPECT_EQ(concat.nodes[0].Int("axis", 0), 1);
  Graph slice =
      Upgraded(MakeNode("Slice", {"a"}, {"y"}, {Attribute("starts", Ints{1, 2}), Attribute("ends", Ints{3, 9})}), 1);
  EXPECT_EQ(IntsOf(slice, NodeOf(slice, "Slice"), 1), (Ints{1, 2}));
  EXPECT_EQ(IntsOf(slice, NodeOf(slice, "Slice"), 2), (Ints{3, 9}));
  EXPECT_EQ(IntsOf(slice, NodeOf(slice, "Slice"), 3), (Ints{0, 1}));
  Graph squeeze = Upgraded(MakeNode("Squeeze", {"a"}, {"y"}, {Attribute("axes", Ints{0})}), 11);
  EXPECT_EQ(IntsOf(squeeze, NodeOf(squeeze, "Squeeze"), 1), (Ints{0}));
  EXPECT_EQ(Upgraded(MakeNode("Squeeze", {"a"}, {"y"}), 11).nodes.size(), 1u);
  Graph unsqueeze = Upgraded(MakeNode("Unsqueeze", {"a"}, {"y"}, {Attribute("axes", Ints{1})}), 1);
  EXPECT_EQ(IntsOf(unsqueeze, NodeOf(unsqueeze, "Unsqueeze"), 1), (Ints{1}));
  Graph top = Upgraded(MakeNode("TopK", {"a"}, {"y", "i"}, {Attribute("k", int64_t{3})}), 1);
  EXPECT_EQ(IntsOf(top, NodeOf(top, "TopK"), 1), (Ints{3}));
}

TEST(Upgrade, Pad) {
  Graph first = Upgraded(MakeNode("Pad", {"a"}, {"y"}, {Attribute("paddings", Ints{0, 1, 0, 1})}), 1);
  EXPECT_EQ(IntsOf(first, NodeOf(first, "Pad"), 1), (Ints{0, 1, 0, 1}));
  EXPECT_EQ(NodeOf(first, "Pad").inputs.size(), 2u);
  Graph second = Upgraded(MakeNode("Pad", {"a"}, {"y"}, {Attribute("pads", Ints{0, 1}), Attribute("value", 1.5f)}), 2);
  EXPECT_EQ(*ConstantOf(second, NodeOf(second, "Pad").inputs[2]).Data<float>(), 1.5f);
}

TEST(Upgrade, Split) {
  Graph equal = Upgraded(MakeNode("Split", {"a"}, {"y", "z"}), 11);
  EXPECT_EQ(equal.nodes[0].Int("num_outputs", 0), 2);
  Graph sized = Upgraded(MakeNode("Split", {"a"}, {"y", "z"}, {Attribute("split", Ints{1, 2})}), 2);
  EXPECT_EQ(IntsOf(sized, NodeOf(sized, "Split"), 1), (Ints{1, 2}));
  EXPECT_FALSE(NodeOf(sized, "Split").Has("num_outputs"));
  EXPECT_EQ(Operators(Upgraded(MakeNode("Split", {"a", "b"}, {"y", "z"}), 1)), "Cast Split");
}

TEST(Upgrade, TileAlongOneAxis) {
  Graph graph = Upgraded(MakeNode("Tile", {"a", "b", "c"}, {"y"}), 1);
  EXPECT_EQ(NodeOf(graph, "Tile").inputs.size(), 2u);
}

TEST(Upgrade, OneHotWithNegativeIndices) {
  EXPECT_EQ(Operators(Upgraded(MakeNode("OneHot", {"a", "b", "c"}, {"y"}), 9)), "Cast Cast Reshape Less Where OneHot");
  EXPECT_EQ(Operators(Upgraded(MakeNode("OneHot", {"a", "b", "c"}, {"y"}), 11)), "OneHot");
}

TEST(Upgrade, RenamedOperators) {
  EXPECT_EQ(Operators(Upgraded(MakeNode("Scatter", {"a", "b", "c"}, {"y"}), 9)), "ScatterElements");
  Graph first = Upgraded(
      MakeNode("Upsample", {"a"}, {"y"}, {Attribute("height_scale", 2.0f), Attribute("width_scale", 3.0f)}), 1);
  const Node& node = NodeOf(first, "Resize");
  EXPECT_EQ(node.String("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(node.String("nearest_mode", ""), "floor");
  EXPECT_EQ(ConstantOf(first, node.inputs[2]).Data<float>()[3], 3.0f);
  Graph seventh = Upgraded(
      MakeNode("Upsample", {"a"}, {"y"},
               {Attribute("scales", std::vector<float>{1, 1, 2, 2}), Attribute("mode", std::string("linear"))}),
      7);
  EXPECT_EQ(NodeOf(seventh, "Resize").String("mode", ""), "linear");
  Graph ninth = Upgraded(MakeNode("Upsample", {"a", "b"}, {"y"}), 9);
  EXPECT_EQ(ninth.nodes[0].inputs, (std::vector<std::string>{"a", "", "b"}));
}

TEST(Upgrade, Resize) {
  EXPECT_EQ(Operators(Upgraded(MakeNode("Resize", {"a", "b"}, {"y"}), 10)), "Max Min Resize Resize");
  EXPECT_EQ(Operators(Upgraded(MakeNode("Resize", {"a", "b"}, {"y"}, {Attribute("mode", std::string("linear"))}), 10)),
            "Resize");
  Model constant = MakeModel({MakeInfo("a")}, {MakeNode("Resize", {"a", "s"}, {"y"})}, {MakeInfo("y")},
                             {MakeStored("s", Tensor::FromVector<float>({1, 1, 0.5, 0.5}))}, 10);
  UpgradeToNewest(constant);
  EXPECT_EQ(Operators(constant.graph), "Resize");
  EXPECT_EQ(constant.graph.nodes[0].String("nearest_mode", ""), "ceil");
  Graph sized = Upgraded(MakeNode("Resize", {"a", "r", "s", "z"}, {"y"}), 11);
  EXPECT_EQ(sized.nodes[0].inputs, (std::vector<std::string>{"a", "r", "", "z"}));
}

TEST(Upgrade, RenamedModes) {
  Graph grid = Upgraded(MakeNode("GridSample", {"a", "b"}, {"y"}, {Attribute("mode", std::string("bicubic"))}), 16);
  EXPECT_EQ(grid.nodes[0].String("mode", ""), "cubic");
  EXPECT_EQ(Upgraded(MakeNode("GridSample", {"a", "b"}, {"y"}), 16).nodes[0].String("mode", ""), "linear");
  Graph roi = Upgraded(MakeNode("RoiAlign", {"a", "b", "c"}, {"y"}), 10);
  EXPECT_EQ(roi.nodes[0].String("coordinate_transformation_mode", ""), "output_half_pixel");
}

TEST(Upgrade, Recurrent) {
  for (const char* op : {"GRU", "LSTM", "RNN"}) {
    Graph graph =
        Upgraded(MakeNode(op, {"a", "b", "c"}, {"y"},
                          {Attribute("output_sequence", int64_t{1}), Attribute("direction", std::string("foward"))}),
                 1);
    EXPECT_FALSE(graph.nodes[0].Has("output_sequence"));
    EXPECT_EQ(graph.nodes[0].String("direction", ""), "forward");
  }
}

TEST(Upgrade, LpPooling) {
  Graph whole = Upgraded(MakeNode("GlobalLpPool", {"a"}, {"y"}, {Attribute("p", 3.0f)}), 1);
  EXPECT_EQ(whole.nodes[0].Int("p", 0), 3);
  Graph broken = Upgraded(MakeNode("GlobalLpPool", {"a"}, {"y"}, {Attribute("p", 1.5f)}), 1);
  EXPECT_EQ(Operators(broken), "Abs Pow Shape Size Range ReduceSum Pow");
  Graph pool =
      Upgraded(MakeNode("LpPool", {"a"}, {"y"}, {Attribute("p", 1.5f), Attribute("kernel_shape", Ints{2, 2})}), 1);
  EXPECT_EQ(Operators(pool), "Abs Pow AveragePool Mul Pow");
}

TEST(Upgrade, FourierAxis) {
  Graph graph = Upgraded(MakeNode("DFT", {"a"}, {"y"}), 17);
  EXPECT_EQ(IntsOf(graph, NodeOf(graph, "DFT"), 2), (Ints{1}));
  Graph given = Upgraded(MakeNode("DFT", {"a", "n"}, {"y"}, {Attribute("axis", int64_t{2})}), 17);
  EXPECT_EQ(IntsOf(given, NodeOf(given, "DFT"), 2), (Ints{2}));
}

TEST(Upgrade, LabelEncoder) {
  Node node =
      MakeNode("LabelEncoder", {"a"}, {"y"}, {Attribute("classes_strings", std::vector<std::string>{"cat", "dog"})});
  node.domain = "ai.onnx.ml";
  Model model = OneNode(node, 8, DType::kString);
  model.opsets.push_back({"ai.onnx.ml", 1, {}});
  UpgradeToNewest(model);
  EXPECT_EQ(model.OpsetOf("ai.onnx.ml"), 5);
  EXPECT_EQ(model.graph.nodes[0].Strings("keys_strings"), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(model.graph.nodes[0].Ints("values_int64s"), (Ints{0, 1}));
}

// Scan of opset 8 over a batch, with and without lengths.
TEST(Upgrade, BatchedScan) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = {MakeInfo("s"), MakeInfo("x")};
  body->outputs = {MakeInfo("s2"), MakeInfo("o")};
  body->nodes = {MakeNode("Add", {"s", "x"}, {"s2"}), MakeNode("Identity", {"s2"}, {"o"})};
  std::vector<Attribute> attributes = {Attribute("body", body), Attribute("num_scan_inputs", int64_t{1}),
                                       Attribute("directions", Ints{1})};
  Graph plain = Upgraded(MakeNode("Scan", {"", "a", "b"}, {"y", "z"}, attributes), 8);
  ASSERT_EQ(plain.nodes.size(), 1u);
  EXPECT_EQ(plain.nodes[0].inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(plain.nodes[0].Int("num_scan_inputs", 0), 2);
  const Graph& sequence = *plain.nodes[0].Subgraph("body");
  ASSERT_EQ(Operators(sequence), "Scan");
  EXPECT_EQ(sequence.nodes[0].Ints("scan_input_directions"), (Ints{1}));
  EXPECT_EQ(sequence.nodes[0].Subgraph("body")->name, "body");

  Graph lengths = Upgraded(MakeNode("Scan", {"n", "a", "b"}, {"y", "z"}, attributes), 8);
  EXPECT_EQ(lengths.nodes[0].inputs, (std::vector<std::string>{"a", "b", "n"}));
  EXPECT_EQ(Operators(*lengths.nodes[0].Subgraph("body")), "Shape Reshape Slice Scan Sub Concat Pad");
}

TEST(Upgrade, BodiesAreUpgradedAndSharedOnesCopied) {
  auto branch = std::make_shared<Graph>();
  branch->outputs = {MakeInfo("r")};
  branch->nodes = {MakeNode("ReduceSum", {"x"}, {"r"}, {Attribute("axes", Ints{0})})};
  Model model =
      MakeModel({MakeInfo("c", DType::kBool), MakeInfo("x")},
                {MakeNode("If", {"c"}, {"y"}, {Attribute("then_branch", branch), Attribute("else_branch", branch)})},
                {MakeInfo("y")}, {}, 11);
  UpgradeToNewest(model);
  EXPECT_EQ(branch->nodes.size(), 1u) << "a shared body was edited in place";
  const Graph& then_branch = *model.graph.nodes[0].Subgraph("then_branch");
  const Graph& else_branch = *model.graph.nodes[0].Subgraph("else_branch");
  ASSERT_EQ(then_branch.nodes.size(), 2u);
  EXPECT_NE(then_branch.nodes[0].outputs[0], else_branch.nodes[0].outputs[0]) << "names are never used twice";
}

TEST(Upgrade, FunctionsHaveTheirOwnOpsets) {
  Model model = OneNode(MakeNode("Relu", {"a"}, {"y"}), 28);
  Function function;
  function.name = "Total";
  function.domain = "mine";
  function.inputs = {"x"};
  function.outputs = {"t"};
  function.attributes = {"along"};
  Attribute axes;
  axes.name = "axes";
  axes.type = AttributeType::kInts;
  axes.ref_name = "along";
  function.nodes = {MakeNode("ReduceSum", {"x"}, {"t"}, {axes})};
  function.opsets = {{"", 11, {}}};
  model.functions.push_back(function);
  UpgradeToNewest(model);
  const Function& upgraded = model.functions[0];
  EXPECT_EQ(upgraded.opsets[0].version, 28);
  ASSERT_EQ(upgraded.nodes.size(), 2u);
  const Attribute* reference = upgraded.nodes[0].Find("value_ints");
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->ref_name, "along");
}

TEST(Upgrade, AFunctionOfTheModelIsNoStandardOperator) {
  Node node = MakeNode("Upsample", {"a"}, {"y"});
  Model model = OneNode(node, 9);
  Function function;
  function.name = "Upsample";
  model.functions.push_back(function);
  UpgradeToNewest(model);
  EXPECT_EQ(Operators(model.graph), "Upsample");
}

TEST(Upgrade, NewNamesAreFree) {
  Model model = MakeModel({MakeInfo("a")},
                          {MakeNode("ReduceMax", {"a"}, {"y"}, {Attribute("axes", Ints{0})}),
                           MakeNode("Identity", {"y"}, {"ReduceMax_y/axes"})},
                          {MakeInfo("ReduceMax_y/axes")}, {}, 11);
  UpgradeToNewest(model);
  std::set<std::string> names;
  for (const Node& node : model.graph.nodes) EXPECT_TRUE(names.insert(node.outputs[0]).second) << node.outputs[0];
}

TEST(Upgrade, OpsetsFromTheFutureAndMissingOnes) {
  auto message = [](Model model) {
    try {
      UpgradeToNewest(model);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_NE(message(OneNode(MakeNode("Relu", {"a"}, {"y"}), 29)).find("opset 29 of ai.onnx"), std::string::npos);
  EXPECT_NE(message(OneNode(MakeNode("Relu", {"a"}, {"y"}), 0)).find("opset 0"), std::string::npos);
  Model none = OneNode(MakeNode("Relu", {"a"}, {"y"}), 28);
  none.opsets.clear();
  EXPECT_NE(message(none).find("imports no opset"), std::string::npos);
}

// Whatever attribute a version of an operator had and the newest one lacks must have a rule that deals with it.
TEST(Upgrade, EveryLostAttributeHasARule) {
  for (const Schema& old : AllSchemas()) {
    const Schema& newest = SchemaVersions(old.domain(), old.name()).back();
    for (const SchemaAttribute& attribute : old.attributes()) {
      const SchemaAttribute* now = newest.FindAttribute(attribute.name());
      if (now && now->type == attribute.type) continue;
      Node node = MakeNode(std::string(old.name()), {"a"}, {"y"}, {Attribute(std::string(attribute.name()), Ints{0})});
      node.domain = old.domain();
      Model model = MakeModel({}, {node}, {}, {}, old.since_version);
      model.opsets[0].domain = old.domain();
      EXPECT_TRUE(newest.deprecated || NeedsUpgrade(model))
          << old.name() << "-" << int{old.since_version} << " " << attribute.name();
    }
  }
}

}  // namespace
}  // namespace ferry
