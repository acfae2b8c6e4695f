// Every lint but those with a file of their own: a model that has the fault, and one that has not.
#include <cmath>
#include <limits>

#include "tests/doctor/doctor_support.h"

namespace ferry {
namespace {

using namespace testing;

Model Unary(std::vector<Node> nodes, std::vector<StoredTensor> initializers = {}, int64_t opset = 17) {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 4})}, std::move(nodes),
                   {MakeInfo("y", DType::kFloat, {Dim::Named("n"), 4})}, std::move(initializers), opset);
}

Model Plain() { return Unary({MakeNode("Relu", {"x"}, {"y"})}); }

DoctorOptions For(std::string target) {
  DoctorOptions options;
  options.targets = {std::move(target)};
  return options;
}

TEST(Lints, HaveNamesAndMeaningsAndAreSorted) {
  std::string before;
  for (const Lint* lint : AllLints()) {
    EXPECT_LT(before, lint->name);
    before = lint->name;
    EXPECT_FALSE(lint->meaning.empty());
    EXPECT_FALSE(lint->remedy.empty());
    EXPECT_EQ(FindLint(lint->name), lint);
  }
  EXPECT_EQ(AllLints().size(), 23u);
}

TEST(Lints, FindNothingInAGoodModel) {
  DoctorOptions options;
  options.targets = {"onnxruntime-cpu", "onnxruntime-cuda", "tensorrt", "coreml", "litert"};
  EXPECT_TRUE(Examine(Plain(), options).empty()) << Listing(Examine(Plain(), options));
}

TEST(Lints, RefuseNamesThatDoNotExist) {
  DoctorOptions options;
  options.only = {"training-mod"};
  try {
    Examine(Plain(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("did you mean 'training-mode'"), std::string::npos);
  }
  EXPECT_THROW(Examine(Plain(), For("abacus")), Error);
}

TEST(Standard, ReportsWhatTheCheckerFindsAndSortsNodes) {
  Model model = Unary({MakeNode("Relu", {"h"}, {"y"}), MakeNode("Abs", {"x"}, {"h"})});
  std::vector<Finding> findings = Apply("standard", model);
  ASSERT_EQ(findings.size(), 1u) << Listing(findings);
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_TRUE(findings[0].fixable);
  Model mended = MendedBy("standard", model);
  EXPECT_EQ(mended.graph.nodes[0].op_type, "Abs");
  Model cycle = Unary({MakeNode("Add", {"x", "y"}, {"h"}), MakeNode("Abs", {"h"}, {"y"})});
  MendedModel refused = Mend(cycle);
  ASSERT_FALSE(refused.mendings.empty());
  EXPECT_FALSE(refused.mendings[0].applied);
  EXPECT_NE(refused.mendings[0].refusals.at(0).find("Add_h"), std::string::npos);
  EXPECT_TRUE(Apply("standard", Plain()).empty());
  Model unknown = Unary({MakeNode("Rolu", {"x"}, {"y"})});
  EXPECT_FALSE(Apply("standard", unknown).empty());
  EXPECT_FALSE(Apply("standard", unknown)[0].fixable);
}

TEST(ShapeInfo, FindsWhatIsMissingAndWhatIsWrong) {
  Model missing = Plain();
  missing.graph.outputs[0].type.shape.reset();
  ASSERT_FALSE(Apply("shape-info", missing).empty());
  Model mended = MendedBy("shape-info", missing);
  ASSERT_TRUE(mended.graph.outputs[0].type.has_rank());
  EXPECT_EQ(ToText(mended.graph.outputs[0].type), "float[n, 4]");

  Model wrong = Plain();
  wrong.graph.outputs[0].type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 5});
  std::vector<Finding> findings = Apply("shape-info", wrong);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_EQ(ToText(MendedBy("shape-info", wrong).graph.outputs[0].type), "float[n, 4]");

  Model inside = Unary({MakeNode("Abs", {"x"}, {"h"}), MakeNode("Relu", {"h"}, {"y"})});
  ASSERT_EQ(Apply("shape-info", inside).size(), 1u);
  EXPECT_EQ(Apply("shape-info", inside)[0].severity, Severity::kNote);
  EXPECT_EQ(MendedBy("shape-info", inside).graph.value_infos.size(), 1u);
  EXPECT_TRUE(Apply("shape-info", Plain()).empty());
}

TEST(Opset, IsHeldAgainstTheTarget) {
  Model model = Unary({MakeNode("Relu", {"x"}, {"y"})}, {}, 23);
  EXPECT_TRUE(Apply("opset", model).empty());
  ASSERT_EQ(Apply("opset", model, For("tensorrt")).size(), 1u);
  EXPECT_LE(MendedBy("opset", model, For("tensorrt")).OpsetOf(""), 20);
  Model old = Unary({MakeNode("Relu", {"x"}, {"y"})}, {}, 6);
  ASSERT_EQ(Apply("opset", old).size(), 1u);
  EXPECT_GE(MendedBy("opset", old).OpsetOf(""), 7);
  EXPECT_TRUE(Apply("opset", Plain(), For("tensorrt")).empty());
}

TEST(NotFinite, NamesTheNodeThatMakesThem) {
  auto finds = [](std::vector<Node> nodes, std::vector<StoredTensor> initializers, const std::string& node) {
    std::vector<Finding> findings = Apply("not-finite", Unary(std::move(nodes), std::move(initializers)));
    return !findings.empty() && findings[0].place.node == node && findings[0].severity == Severity::kWarning;
  };
  StoredTensor zero = Filled("zero", {4}, 0), thousand = Filled("thousand", {4}, 1000);
  EXPECT_TRUE(finds({MakeNode("Add", {"x", "thousand"}, {"h"}), MakeNode("Exp", {"h"}, {"y"})}, {thousand}, "Exp_y"));
  EXPECT_TRUE(finds({MakeNode("Div", {"x", "zero"}, {"y"})}, {zero}, "Div_y"));
  EXPECT_TRUE(finds({MakeNode("Log", {"x"}, {"y"})}, {}, "Log_y"));
  EXPECT_TRUE(finds({MakeNode("Sub", {"x", "thousand"}, {"h"}), MakeNode("Sqrt", {"h"}, {"y"})}, {thousand}, "Sqrt_y"));
  EXPECT_TRUE(finds({MakeNode("Sub", {"x", "thousand"}, {"h"}), MakeNode("Pow", {"h", "half"}, {"y"})},
                    {thousand, Filled("half", {4}, 0.5f)}, "Pow_y"));
  StoredTensor masked = Filled("masked", {4}, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(
      finds({MakeNode("Add", {"x", "masked"}, {"h"}), MakeNode("Softmax", {"h"}, {"y"})}, {masked}, "Softmax_y"));
  EXPECT_TRUE(Apply("not-finite", Unary({MakeNode("Exp", {"x"}, {"y"})})).empty());
  EXPECT_TRUE(Apply("not-finite", Unary({MakeNode("Softmax", {"x"}, {"y"})})).empty());
}

TEST(NotFinite, TellsOfNarrowEscapes) {
  Model model =
      Unary({MakeNode("Add", {"x", "much"}, {"h"}), MakeNode("Exp", {"h"}, {"y"})}, {Filled("much", {4}, 85)});
  std::vector<Finding> findings = Apply("not-finite", model);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kNote);
}

TEST(HalfRange, FindsWhatOverflowsAndWhatVanishes) {
  Model large = Unary({MakeNode("Mul", {"x", "c"}, {"y"})}, {Filled("c", {4}, 60000)});
  EXPECT_TRUE(Apply("half-range", large).empty()) << "60000 is a float16, and so is 60000 times less than one";
  Model weight = Unary({MakeNode("Mul", {"x", "c"}, {"y"})}, {Filled("c", {4}, 1e6f)});
  std::vector<Finding> findings = Apply("half-range", weight);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].place.value, "c");
  Model grown =
      Unary({MakeNode("Mul", {"x", "c"}, {"h"}), MakeNode("Mul", {"h", "c"}, {"y"})}, {Filled("c", {4}, 1000)});
  findings = Apply("half-range", grown);
  ASSERT_EQ(findings.size(), 1u) << Listing(findings);
  EXPECT_EQ(findings[0].place.node, "Mul_y");
  Model tiny = Unary({MakeNode("Mul", {"x", "c"}, {"y"})}, {Filled("c", {4}, 1e-9f)});
  ASSERT_FALSE(Apply("half-range", tiny).empty());
  EXPECT_EQ(Apply("half-range", tiny)[0].severity, Severity::kWarning);
  Model nothing = Unary({MakeNode("Mul", {"x", "c"}, {"y"})}, {Filled("c", {4}, 1e-42f)});
  EXPECT_NE(Apply("half-range", nothing)[0].message.find("float16"), std::string::npos);
}

TEST(Epsilon, IsHeldAgainstItsType) {
  auto with = [](float epsilon) {
    return Unary({MakeNode("Add", {"x", "e"}, {"h"}), MakeNode("Sqrt", {"h"}, {"y"})}, {Filled("e", {1}, epsilon)});
  };
  ASSERT_EQ(Apply("epsilon", with(1e-40f)).size(), 1u);
  EXPECT_EQ(Apply("epsilon", with(1e-40f))[0].severity, Severity::kWarning);
  ASSERT_EQ(Apply("epsilon", with(1e-12f)).size(), 1u);
  EXPECT_EQ(Apply("epsilon", with(1e-12f))[0].severity, Severity::kNote);
  EXPECT_TRUE(Apply("epsilon", with(1e-5f)).empty());
  auto normal = [](float epsilon) {
    return Unary({MakeNode("LayerNormalization", {"x", "s"}, {"y"}, {Attribute("epsilon", epsilon)})},
                 {Filled("s", {4})});
  };
  EXPECT_EQ(Apply("epsilon", normal(0)).size(), 1u);
  EXPECT_TRUE(Apply("epsilon", normal(1e-5f)).empty());
}

TEST(QuantizationRange, FindsScalesAndRangesThatDoNotFit) {
  auto with = [](float scale) {
    Tensor zero(DType::kUInt8, {});
    *zero.MutableData<uint8_t>() = 128;
    return Unary(
        {MakeNode("QuantizeLinear", {"x", "s", "z"}, {"q"}), MakeNode("DequantizeLinear", {"q", "s", "z"}, {"y"})},
        {MakeStored("s", Tensor::Scalar(scale)), MakeStored("z", zero)});
  };
  std::vector<Finding> findings = Apply("quantization-range", with(0.001f));
  ASSERT_EQ(findings.size(), 1u) << Listing(findings);
  EXPECT_EQ(findings[0].place.op_type, "QuantizeLinear");
  EXPECT_TRUE(Apply("quantization-range", with(0.01f)).empty());
  EXPECT_EQ(Apply("quantization-range", with(0)).size(), 3u) << "both nodes have the scale, and one cuts off";
}

TEST(QuantizationPlacement, TensorRtWantsCodesOnBothSidesAndScalesOfChannels) {
  auto with = [](bool coded, int64_t axis) {
    std::vector<Node> nodes = {MakeNode("QuantizeLinear", {"x", "s", "z"}, {"q"}),
                               MakeNode("DequantizeLinear", {"q", "s", "z"}, {"d"}),
                               MakeNode("DequantizeLinear", {"codes", "scales"}, {"w"}, {Attribute("axis", axis)}),
                               MakeNode("MatMul", {coded ? "d" : "x", "w"}, {"y"})};
    if (!coded) nodes.erase(nodes.begin(), nodes.begin() + 2);
    return MakeModel({MakeInfo("x", DType::kFloat, {2, 4})}, nodes, {MakeInfo("y", DType::kFloat, {2, 4})},
                     {MakeStored("s", Tensor::Scalar(0.1f)), MakeStored("z", Tensor::Zeros(DType::kInt8, {})),
                      MakeStored("codes", Tensor::Zeros(DType::kInt8, {4, 4})),
                      MakeStored("scales", Tensor::FromVector<float>({1, 1, 1, 1}))});
  };
  EXPECT_TRUE(Apply("quantization-placement", with(true, 1), For("tensorrt")).empty());
  EXPECT_TRUE(Apply("quantization-placement", with(false, 1), For("onnxruntime-cpu")).empty());
  std::vector<Finding> findings = Apply("quantization-placement", with(false, 1), For("tensorrt"));
  ASSERT_EQ(findings.size(), 1u) << Listing(findings);
  EXPECT_NE(findings[0].message.find("computes in float"), std::string::npos);
  findings = Apply("quantization-placement", with(true, 0), For("tensorrt"));
  ASSERT_EQ(findings.size(), 1u) << Listing(findings);
  EXPECT_NE(findings[0].message.find("axis 1"), std::string::npos);
}

TEST(Waste, UnusedInitializersGo) {
  Model model = Plain();
  model.graph.initializers.push_back(Filled("left_over", {4}));
  ASSERT_EQ(Apply("unused-initializer", model).size(), 1u);
  EXPECT_EQ(Apply("unused-initializer", model)[0].severity, Severity::kNote);
  EXPECT_TRUE(MendedBy("unused-initializer", model).graph.initializers.empty());
  model.graph.initializers[0] = Filled("left_over", {1024, 512});
  EXPECT_EQ(Apply("unused-initializer", model)[0].severity, Severity::kWarning);
  EXPECT_TRUE(Apply("unused-initializer", Plain()).empty());
  model.graph.inputs.push_back(MakeInfo("left_over", DType::kFloat, {1024, 512}));  // callers may give it
  EXPECT_TRUE(Apply("unused-initializer", model).empty());
}

TEST(Waste, DuplicateInitializersBecomeOne) {
  std::vector<Node> nodes{MakeNode("Add", {"x", "a"}, {"h"}), MakeNode("Mul", {"h", "b"}, {"y"})};
  Model model = Unary(nodes, {Filled("a", {4}), Filled("b", {4})});
  ASSERT_EQ(Apply("duplicate-initializer", model).size(), 1u);
  EXPECT_EQ(MendedBy("duplicate-initializer", model).graph.initializers.size(), 1u);
  EXPECT_TRUE(Apply("duplicate-initializer", Unary(nodes, {Filled("a", {4}), Filled("b", {4}, 2)})).empty());
}

TEST(Waste, NodesThatDoNothingGo) {
  Attribute to_double("to", static_cast<int64_t>(DType::kDouble)), to_float("to", static_cast<int64_t>(DType::kFloat));
  Attribute to_half("to", static_cast<int64_t>(DType::kFloat16));
  auto with = [](std::vector<Node> nodes, const std::string& last) {
    nodes.push_back(MakeNode("Relu", {last}, {"y"}));
    return Unary(std::move(nodes));
  };
  Model identity = with({MakeNode("Identity", {"x"}, {"a"}), MakeNode("Identity", {"a"}, {"b"})}, "b");
  EXPECT_EQ(Apply("no-op", identity).size(), 2u);
  EXPECT_EQ(MendedBy("no-op", identity).graph.nodes.size(), 1u);
  EXPECT_EQ(Apply("no-op", with({MakeNode("Cast", {"x"}, {"a"}, {to_float})}, "a")).size(), 1u);
  Model there_and_back =
      with({MakeNode("Cast", {"x"}, {"a"}, {to_double}), MakeNode("Cast", {"a"}, {"b"}, {to_float})}, "b");
  EXPECT_EQ(Apply("no-op", there_and_back).size(), 1u);
  EXPECT_EQ(MendedBy("no-op", there_and_back).graph.nodes.size(), 1u);
  Model rounding = with({MakeNode("Cast", {"x"}, {"a"}, {to_half}), MakeNode("Cast", {"a"}, {"b"}, {to_float})}, "b");
  EXPECT_TRUE(Apply("no-op", rounding).empty()) << "a cast to float16 and back rounds";
}

TEST(Waste, ConstantsAreFolded) {
  Model model =
      Unary({MakeNode("Neg", {"a"}, {"b"}), MakeNode("Exp", {"b"}, {"c"}), MakeNode("Add", {"x", "c"}, {"y"})},
            {Filled("a", {4})});
  std::vector<Finding> findings = Apply("unfolded-constant", model);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].place.node, "Exp_c");
  EXPECT_EQ(MendedBy("unfolded-constant", model).graph.nodes.size(), 1u);
  EXPECT_TRUE(Apply("unfolded-constant", Unary({MakeNode("Add", {"x", "a"}, {"y"})}, {Filled("a", {4})})).empty());
}

TEST(DoublePrecision, IsFoundInsideAndMended) {
  Attribute to_double("to", static_cast<int64_t>(DType::kDouble)), to_float("to", static_cast<int64_t>(DType::kFloat));
  std::vector<double> scale(4, 0.25);
  Model model = Unary({MakeNode("Cast", {"x"}, {"wide"}, {to_double}), MakeNode("Mul", {"wide", "s"}, {"scaled"}),
                       MakeNode("Cast", {"scaled"}, {"y"}, {to_float})},
                      {MakeStored("s", Tensor::FromVector(scale))});
  EXPECT_EQ(Apply("double-precision", model).size(), 3u) << "the constant and two nodes";
  Model mended = MendedBy("double-precision", model);
  EXPECT_EQ(mended.graph.initializers[0].dtype, DType::kFloat);
  EXPECT_TRUE(Apply("double-precision", Plain()).empty());
  Model meant = MakeModel({MakeInfo("x", DType::kDouble, {4})}, {MakeNode("Neg", {"x"}, {"y"})},
                          {MakeInfo("y", DType::kDouble, {4})});
  EXPECT_TRUE(Apply("double-precision", meant).empty()) << "a model that takes doubles is meant to";
}

TEST(SlowType, DependsOnTheTarget) {
  Model model = MakeModel({MakeInfo("x", DType::kInt64, {4})}, {MakeNode("Neg", {"x"}, {"y"})},
                          {MakeInfo("y", DType::kInt64, {4})}, {}, 17);
  EXPECT_TRUE(Apply("slow-type", model).empty());
  EXPECT_EQ(Apply("slow-type", model, For("coreml")).size(), 1u);
  EXPECT_TRUE(Apply("slow-type", model, For("onnxruntime-cpu")).empty());
}

TEST(Portability, FollowsWhatTargetsState) {
  Model model = Unary({MakeNode("Det", {"x"}, {"y"})});
  std::vector<Finding> findings = Apply("portability", model, For("tensorrt"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].place.node, "Det_y");
  bool has_source = false;
  for (const auto& [key, value] : findings[0].evidence)
    has_source |= key == "source" && value.find("2024-06-17") != std::string::npos;
  EXPECT_TRUE(has_source);
  EXPECT_TRUE(Apply("portability", model, For("onnxruntime-cpu")).empty());
  Model wide = MakeModel({MakeInfo("x", DType::kDouble, {4})}, {MakeNode("Celu", {"x"}, {"y"})},
                         {MakeInfo("y", DType::kDouble, {4})}, {}, 17);
  wide.graph.nodes[0].op_type = "Acos";
  EXPECT_EQ(Apply("portability", wide, For("onnxruntime-cpu")).size(), 1u) << "Acos has no kernel for double";
  EXPECT_TRUE(Apply("portability", Plain(), For("coreml")).empty());
}

TEST(ContributedOperator, SaysWhoRunsIt) {
  Model model = Unary({MakeNode("QuickGelu", {"x"}, {"m"}), MakeNode("ReorderInput", {"m"}, {"y"})});
  model.graph.nodes[0].domain = "com.microsoft";
  model.graph.nodes[1].domain = "com.microsoft.nchwc";
  std::vector<Finding> findings = Apply("contributed-operator", model);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].message, "only ONNX Runtime and Ferry run com.microsoft.QuickGelu");
  EXPECT_EQ(findings[1].severity, Severity::kNote);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(Apply("contributed-operator", Plain()).empty());
}

TEST(FileSize, IsWatched) {
  static const float kSomewhere = 0;
  Model model = Plain();
  model.graph.initializers.push_back(MakeStored("w", Tensor::Borrow(DType::kFloat, {int64_t{500} << 20}, &kSomewhere)));
  EXPECT_EQ(Apply("file-size", model).size(), 1u);
  EXPECT_TRUE(Apply("file-size", Plain()).empty());
}

StoredTensor External(std::string name, std::string offset) {
  StoredTensor stored = Filled(std::move(name), {4});
  stored.storage = StoredTensor::Storage::kExternal;
  stored.external.entries = {{"location", "weights.bin"}, {"offset", std::move(offset)}, {"length", "16"}};
  return stored;
}

TEST(ExternalData, IsLookedAt) {
  auto with = [](std::vector<StoredTensor> tensors) {
    std::vector<Node> nodes{MakeNode("Add", {"x", "a"}, {"h"}), MakeNode("Mul", {"h", "b"}, {"y"})};
    return Unary(std::move(nodes), std::move(tensors));
  };
  EXPECT_TRUE(Apply("external-data", with({External("a", "0"), External("b", "64")})).empty());
  EXPECT_EQ(Apply("external-data", with({External("a", "0"), External("b", "20")}))[0].severity, Severity::kNote);
  EXPECT_EQ(Apply("external-data", with({External("a", "0"), External("b", "129")}))[0].severity, Severity::kWarning);
  EXPECT_EQ(Apply("external-data", with({External("a", "64"), External("b", "64")})).size(), 1u) << "shared";
  Model overlapping = with({External("a", "0"), External("b", "8")});
  EXPECT_EQ(Apply("external-data", overlapping).size(), 2u) << "misaligned and overlapping";
  EXPECT_EQ(MendedBy("external-data", overlapping).graph.initializers[1].storage, StoredTensor::Storage::kRaw);
  StoredTensor missing = External("b", "64");
  missing.tensor = Tensor();
  missing.problem = "weights.bin: no such file";
  std::vector<Finding> findings = Apply("external-data", with({External("a", "0"), missing}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::kError);
}

TEST(Privacy, FindsPathsNamesAndStackTraces) {
  auto with = [](std::string key, std::string text) {
    Model model = Plain();
    model.metadata.emplace_back(std::move(key), std::move(text));
    return Apply("privacy", model).size();
  };
  EXPECT_EQ(with("source", "/home/jane/project/train.py"), 1u);
  EXPECT_EQ(with("source", "C:\\Users\\jane\\train.py"), 1u);
  EXPECT_EQ(with("author", "Jane Doe"), 1u);
  EXPECT_EQ(with("contact", "jane.doe@example.org"), 1u);
  EXPECT_EQ(with("names", "encoder/data/layer, /relu/Relu, a@b"), 0u);
  EXPECT_EQ(with("license", "MIT"), 0u);
  Model traced = Plain();
  traced.graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", "File \"net.py\", line 3, in forward");
  traced.graph.nodes[0].doc = "/home/anna/net.py(3): forward";
  EXPECT_EQ(Apply("privacy", traced).size(), 2u);
  Model mended = MendedBy("privacy", traced);
  EXPECT_TRUE(mended.graph.nodes[0].metadata.empty());
  EXPECT_TRUE(mended.graph.nodes[0].doc.empty());
}

// Nobody can run it, so nothing can be compared.
Model WithForeignOperator() {
  Model model = Unary({MakeNode("Foo", {"x"}, {"y"})});
  model.graph.nodes[0].domain = "elsewhere";
  model.opsets.push_back({"elsewhere", 1, {}});
  return model;
}

TEST(Mend, WhatWasNotComparedIsNotMade) {
  Model model = WithForeignOperator();
  model.graph.initializers.push_back(Floats("unused", {1, 2}));
  model.graph.doc = "made by /home/somebody/train.py";
  MendedModel mended = Mend(model);
  EXPECT_EQ(mended.model.graph.initializers.size(), 1u);
  EXPECT_EQ(mended.model.graph.doc, "") << "texts change no answer";
  bool refused = false;
  for (const Mending& mending : mended.mendings) {
    if (mending.lint != "unused-initializer") continue;
    refused = true;
    EXPECT_FALSE(mending.applied);
    EXPECT_NE(mending.refusals.at(0).find("Foo"), std::string::npos) << mending.refusals.at(0);
  }
  EXPECT_TRUE(refused);
}

Model Reshaped(std::vector<int64_t> sizes) {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 6})}, {MakeNode("Reshape", {"x", "s"}, {"y"})},
                   {MakeInfo("y", DType::kFloat, {Dim(), Dim()})}, {Ints("s", sizes)});
}

TEST(OneSize, IsTheOnlyOneThatTheModelRunsAt) {
  std::vector<Finding> findings = Apply("one-size", Reshaped({8, 3}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].message.find("n = 4 only"), std::string::npos) << findings[0].message;
  EXPECT_FALSE(findings[0].fixable);
  EXPECT_TRUE(Apply("one-size", Reshaped({-1, 3})).empty());
  EXPECT_TRUE(Apply("one-size", Plain()).empty());
  EXPECT_TRUE(Apply("one-size", Reshaped({4, 6})).empty()) << "baked-batch mends it";
  EXPECT_FALSE(Apply("baked-batch", Reshaped({4, 6})).empty());
}

TEST(Mend, IsProvedAtTheSizeThatIsBakedIn) {
  Model model = Reshaped({8, 3});
  model.graph.initializers.push_back(Floats("unused", {1, 2}));
  DoctorOptions options;
  options.only = {"unused-initializer"};
  MendedModel mended = Mend(model, options);
  ASSERT_EQ(mended.mendings.size(), 1u);
  EXPECT_TRUE(mended.mendings[0].applied);
  EXPECT_NE(mended.mendings[0].proof.at(0).what.find("n=4"), std::string::npos) << mended.mendings[0].proof[0].what;
}

TEST(NotFinite, SaysThatARowIsAllInfinite) {
  Model model = Unary({MakeNode("Where", {"no", "x", "mask"}, {"h"}), MakeNode("Softmax", {"h"}, {"y"})});
  model.graph.initializers = {MakeStored("no", Tensor::Zeros(DType::kBool, {1})),
                              Floats("mask", {-std::numeric_limits<float>::infinity()})};
  std::string text = Listing(Apply("not-finite", model));
  EXPECT_NE(text.find("h: all infinite"), std::string::npos) << text;
}

TEST(HalfRange, TinyNumbersThatAreOnlyAddedAreANote) {
  Model model = Unary({MakeNode("Add", {"x", "b"}, {"y"})});
  model.graph.initializers = {Floats("b", {1e-9f})};
  EXPECT_NE(Listing(Apply("half-range", model)).find("'b': all of it"), std::string::npos);
  for (const Finding& finding : Apply("half-range", model)) EXPECT_EQ(finding.severity, Severity::kNote);
  model.graph.nodes[0].op_type = "Mul";
  EXPECT_EQ(Apply("half-range", model).at(0).severity, Severity::kWarning);
}

}  // namespace
}  // namespace ferry
