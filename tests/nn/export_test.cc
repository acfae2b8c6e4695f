#include "inspect.h"
#include "networks.h"

namespace {

struct SimpleNet : nn::Module {
  nn::Linear fc1{10, 16}, fc2{16, 3};
  nn::Dropout dropout{0.3};
  SimpleNet() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("dropout", dropout);
  }
  nn::Tensor forward(const nn::Tensor& x) override { return fc2(dropout(nn::relu(fc1(x)))); }
  std::string kind() const override { return "SimpleNet"; }
};

const nn::ExportOptions kDynamic = {.dynamic_axes = {{"input", {{0, "batch"}}}}};

// A model out of a function.
template <class Function>
std::string ExportError(const Function& function, const nn::Tensor& input, const nn::ExportOptions& options = {}) {
  WarningLog log;
  TemporaryFile file("refused.onnx");
  auto callable = function;
  std::string error = ErrorOf([&] { nn::export_onnx(callable, input, file.path(), options); });
  EXPECT_EQ(std::filesystem::exists(file.path()), error.empty());
  return error;
}

TEST(NnExport, WritesWhatWasExecutedUnderTheModulesNames) {
  SimpleNet model;
  model.eval();
  TemporaryFile file("simple_net.onnx");
  nn::ExportResult result = nn::export_onnx(model, Ramp({1, 10}), file.path(),
                                            {.input_names = {"x"}, .output_names = {"y"}, .opset_version = 14});
  EXPECT_TRUE(result.warnings.empty());
  WrittenModel written = Inspect(file.path());
  EXPECT_EQ(written.opset, 14);
  EXPECT_EQ(written.operators, (std::vector<std::string>{"Gemm", "Relu", "Gemm"}));
  EXPECT_EQ(written.node_names, (std::vector<std::string>{"/fc1/Gemm", "/Relu", "/fc2/Gemm"}));
  EXPECT_EQ(written.initializers, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  ferry::Session session(file.path());
  EXPECT_EQ(session.inputs()[0].type, "float[1, 10]");
  EXPECT_EQ(session.outputs()[0].name, "y");
}

TEST(NnExport, WarnsLoudlyInTrainingMode) {
  SimpleNet model;
  TemporaryFile file("training.onnx");
  WarningLog log;
  nn::ExportResult result = nn::export_onnx(model, Ramp({2, 10}), file.path(), kDynamic);
  ASSERT_EQ(log.texts.size(), 1u);
  EXPECT_EQ(result.warnings, log.texts);
  EXPECT_TRUE(log.Has("TRAINING MODE"));
  EXPECT_TRUE(log.Has("dropout (Dropout)"));
  EXPECT_TRUE(Inspect(file.path()).HasOperator("Dropout"));
  model.eval();
  EXPECT_TRUE(nn::export_onnx(model, Ramp({2, 10}), file.path(), kDynamic).warnings.empty());
  EXPECT_FALSE(Inspect(file.path()).HasOperator("Dropout"));
}

TEST(NnExport, LeavesStatisticsAloneWhenItRunsAgain) {
  nn::BatchNorm1d model(2);
  TemporaryFile file("batch_norm.onnx");
  WarningLog log;
  nn::export_onnx(model, Ramp({4, 2}), file.path(), kDynamic);
  EXPECT_EQ(model.num_batches_tracked.item<int64_t>(), 1);
}

TEST(NnExport, WarnsWhenAValueDecidesABranch) {
  struct Branching : nn::Module {
    nn::Linear fc{4, 4};
    Branching() { register_module("fc", fc); }
    nn::Tensor forward(const nn::Tensor& x) override {
      fc.weight.data<float>();  // a weight is no input
      return fc(x).sum() > -1000 ? nn::relu(x) : nn::sigmoid(x);
    }
  } model;
  model.eval();
  TemporaryFile file("branch.onnx");
  WarningLog log;
  nn::export_onnx(model, Ramp({2, 4}), file.path());
  ASSERT_EQ(log.texts.size(), 1u);
  EXPECT_TRUE(log.Has("was read while recording"));
  WrittenModel written = Inspect(file.path());
  EXPECT_EQ(written.operators, std::vector<std::string>{"Relu"});  // the path that was taken and nothing else
  log.texts.clear();
  model(Ramp({2, 4}));
  EXPECT_TRUE(log.texts.empty());  // nothing is recorded
}

TEST(NnExport, RefusesToReplaceWeightsMeanwhile) {
  struct Writing : nn::Module {
    nn::Tensor state = register_buffer("state", nn::Tensor::zeros({2}));
    nn::Tensor forward(const nn::Tensor& x) override {
      state.assign(x);
      return x + state;
    }
  } model;
  model(Ramp({2}));
  TemporaryFile file("writing.onnx");
  model.eval();
  EXPECT_NE(ErrorOf([&] { nn::export_onnx(model, Ramp({2}), file.path()); }).find("while a network is recorded"),
            std::string::npos);
}

TEST(NnExport, KeepsSizesOpen) {
  auto net = [](const nn::Tensor& x) {
    return nn::relu(x.reshape({x.size(0), 3, -1}).reshape({-1, x.size(2)}).reshape({x.size(0), x.size(1), x.size(2)}))
        .flatten(1);
  };
  TemporaryFile file("sizes.onnx");
  nn::export_onnx(net, Ramp({2, 3, 4}), file.path(), kDynamic);
  WrittenModel written = Inspect(file.path());
  EXPECT_FALSE(written.HasOperator("Shape"));  // sizes that can be told from the shapes need no computing
  ferry::Session session(file.path());
  EXPECT_EQ(session.outputs()[0].type, "float[batch, 12]");
  for (int64_t batch : {1, 2, 5})
    ExpectClose(session.Run("input", Ramp({batch, 3, 4}).value().Share())[0].Data<float>(),
                net(Ramp({batch, 3, 4})).data<float>());
  nn::ExportOptions unfolded = kDynamic;
  unfolded.do_constant_folding = false;
  nn::export_onnx(net, Ramp({2, 3, 4}), file.path(), unfolded);
  EXPECT_TRUE(Inspect(file.path()).HasOperator("Shape"));
  ferry::Session plain(file.path());
  EXPECT_EQ(plain.Run("input", Ramp({5, 3, 4}).value().Share())[0].shape()[0], 5);
}

TEST(NnExport, NamesTheOperatorThatFixesASize) {
  auto baked = [](const nn::Tensor& x) {
    int64_t batch = x.size(0);
    return nn::relu(x).reshape({batch, 12});
  };
  EXPECT_EQ(ExportError(baked, Ramp({2, 3, 4})), "");  // what is fixed anyway may be
  std::string error = ExportError(baked, Ramp({2, 3, 4}), kDynamic);
  EXPECT_NE(error.find("'/Reshape' (Reshape): input 1 is [2, 12] at batch = 2 but [4, 12] at batch = 4"),
            std::string::npos)
      << error;
  auto branching = [](const nn::Tensor& x) { return x.size(0) > 2 ? nn::relu(x) : nn::sigmoid(x); };
  error = ExportError(branching, Ramp({2, 4}), kDynamic);
  EXPECT_NE(error.find("/Sigmoid"), std::string::npos) << error;
  EXPECT_NE(error.find("/Relu"), std::string::npos) << error;
  auto looping = [](const nn::Tensor& x) {
    nn::Tensor sum = x.select(0, 0);
    for (int64_t i = 1; i < x.size(0); ++i) sum = sum + x.select(0, i);
    return sum;
  };
  EXPECT_NE(ExportError(looping, Ramp({2, 4}), kDynamic).find("batch = 4"), std::string::npos);
  auto attribute = [](const nn::Tensor& x) { return nn::leaky_relu(x, static_cast<double>(x.size(0))); };
  EXPECT_NE(ExportError(attribute, Ramp({2, 4}), kDynamic).find("other attributes"), std::string::npos);
  auto only_two = [](const nn::Tensor& x) { return x + Ramp({2, 4}); };
  for (int64_t sample : {1, 2})  // one row goes together with two
    EXPECT_NE(ExportError(only_two, Ramp({sample, 4}), kDynamic).find("cannot be run with other sizes"),
              std::string::npos);
}

TEST(NnExport, TakesSeveralInputsAndOutputs) {
  struct Net : nn::Module {
    nn::Linear left{4, 2}, right{3, 2};
    Net() {
      register_module("left", left);
      register_module("right", right);
    }
    std::pair<nn::Tensor, nn::Tensor> call(const nn::Tensor& a, const nn::Tensor& b) {
      nn::Tensor sum = left(a) + right(b);
      return {sum, nn::softmax(sum)};
    }
  } model;
  model.eval();
  TemporaryFile file("two.onnx");
  nn::export_onnx(model, std::tuple(Ramp({2, 4}), Ramp({2, 3})), file.path(),
                  {.input_names = {"a", "b"},
                   .output_names = {"sum"},
                   .dynamic_axes = {{"a", {{0, "n"}}}, {"b", {{-2, "n"}}}, {"sum", {{0, "n"}}}}});
  ferry::Session session(file.path());
  EXPECT_EQ(session.outputs()[0].type, "float[n, 2]");
  EXPECT_EQ(session.outputs()[1].name, "output_1");
  std::vector<ferry::Input> inputs;
  inputs.push_back({"a", Ramp({3, 4}).value().Share()});
  inputs.push_back({"b", Ramp({3, 3}).value().Share()});
  auto [sum, probability] = model.call(Ramp({3, 4}), Ramp({3, 3}));
  std::vector<ferry::Value> outputs = session.Run(inputs);
  ExpectClose(outputs[0].Data<float>(), sum.data<float>());
  ExpectClose(outputs[1].Data<float>(), probability.data<float>());
}

TEST(NnExport, OutputsMayBeInputsConstantsAndTwins) {
  auto net = [](const nn::Tensor& x) {
    nn::Tensor y = nn::relu(x);
    return std::tuple(x, nn::Tensor::ones({2}), y, y);
  };
  TemporaryFile file("twins.onnx");
  nn::export_onnx(net, Ramp({2, 2}), file.path());
  ExpectValid(file.path());
  std::vector<ferry::Value> outputs = ferry::Session(file.path()).Run("input", Ramp({2, 2}).value().Share());
  ASSERT_EQ(outputs.size(), 4u);
  ExpectClose(outputs[0].Data<float>(), Ramp({2, 2}).data<float>());
  ExpectClose(outputs[1].Data<float>(), std::vector<float>{1, 1});
  ExpectClose(outputs[2].Data<float>(), outputs[3].Data<float>());
}

TEST(NnExport, FoldsWhatDependsOnWeightsAlone) {
  nn::LSTM model(3, 2, {.bidirectional = true});
  model.eval();
  TemporaryFile file("lstm.onnx");
  nn::export_onnx(model, Ramp({4, 1, 3}), file.path());
  EXPECT_EQ(Inspect(file.path()).operators, (std::vector<std::string>{"LSTM", "Transpose", "Reshape"}));
  nn::export_onnx(model, Ramp({4, 1, 3}), file.path(), {.do_constant_folding = false});
  WrittenModel written = Inspect(file.path());
  EXPECT_TRUE(written.HasOperator("Split"));
  EXPECT_TRUE(written.HasInitializer("weight_ih_l0_reverse"));
}

TEST(NnExport, SaysWhatIsOddAboutTheInterface) {
  auto net = [](const nn::Tensor& x, const nn::Tensor&) { return nn::relu(x).sum({0}); };
  TemporaryFile file("odd.onnx");
  WarningLog log;
  nn::export_onnx(net, std::tuple(Ramp({2, 4}), Ramp({1})), file.path(),
                  {.dynamic_axes = {{"input_0", {{0, "batch"}}}, {"output", {{0, "batch"}}}}});
  EXPECT_TRUE(log.Has("'input_1' has no influence"));
  EXPECT_TRUE(log.Has("axis 0 of output 'output' was asked to be dynamic ('batch'), but it is always 4"));
}

TEST(NnExport, RefusesWhatCannotBe) {
  auto net = [](const nn::Tensor& x) { return nn::relu(x); };
  nn::Tensor x = Ramp({2, 4});
  EXPECT_NE(ExportError(net, x, {.opset_version = 10}).find("opset 11"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.opset_version = 29}).find("28"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.input_names = {"a", "b"}}).find("2 input names"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.output_names = {"a", "b"}}).find("2 output names"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.input_names = {"a"}, .output_names = {"a"}}).find("used twice"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.input_names = {""}}).find("empty"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.dynamic_axes = {{"other", {{0, "n"}}}}}).find("'other'"), std::string::npos);
  EXPECT_NE(ExportError(net, x, {.dynamic_axes = {{"input", {{2, "n"}}}}}), "");
  EXPECT_NE(ExportError(net, x, {.dynamic_axes = {{"input", {{0, "n"}, {1, "n"}}}}}).find("two names"),
            std::string::npos);
  auto nothing = [](const nn::Tensor&) { return std::vector<nn::Tensor>(); };
  EXPECT_NE(ExportError(nothing, x).find("no outputs"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { nn::export_onnx(net, x, "/nowhere/at/all.onnx"); }), "");
  EXPECT_NE(ErrorOf([&] { nn::export_onnx(net, nn::Tensor(), "unwritten.onnx"); }), "");
}

TEST(NnExport, StopsRecordingWhenTheNetworkFails) {
  SimpleNet model;
  model.eval();
  TemporaryFile file("after.onnx");
  std::string error = ErrorOf([&] { nn::export_onnx(model, Ramp({2, 7}), file.path()); });
  EXPECT_NE(error.find("fc1 (Linear): expects 10 features in axis 1, got shape [2, 7]"), std::string::npos) << error;
  WarningLog log;
  model(Ramp({2, 10})).data<float>();
  EXPECT_TRUE(log.texts.empty());
  EXPECT_EQ(ErrorOf([&] { nn::export_onnx(model, Ramp({2, 10}), file.path()); }), "");
  auto nested = [&](const nn::Tensor& x) {
    nn::export_onnx(model, Ramp({2, 10}), file.path());
    return x;
  };
  EXPECT_NE(ExportError(nested, Ramp({1})).find("another export"), std::string::npos);
}

TEST(NnExport, TakesAnyOperator) {
  auto net = [](const nn::Tensor& x) {
    nn::Tensor scales = nn::Tensor::of<float>({4}, std::vector<float>{1, 1, 2, 2});
    nn::Tensor large = nn::op("Resize", {x, {}, scales}, {{"mode", "linear"}});
    return nn::op("Einsum", {large, large}, {{"equation", "nchw,nchw->nc"}});
  };
  TemporaryFile file("any.onnx");
  nn::export_onnx(net, Ramp({1, 2, 2, 2}), file.path(), kDynamic);
  ferry::Session session(file.path());
  ExpectClose(session.Run("input", Ramp({3, 2, 2, 2}).value().Share())[0].Data<float>(),
              net(Ramp({3, 2, 2, 2})).data<float>(), 1e-5);
}

TEST(NnExport, LargeConstantsThatAreEasyToMakeAreNotStored) {
  auto net = [](const nn::Tensor& x) { return x + nn::Tensor::ones({1}).expand({1000, 1000}); };
  TemporaryFile file("ones.onnx");
  nn::export_onnx(net, nn::Tensor::zeros({1000, 1000}), file.path());
  EXPECT_LT(std::filesystem::file_size(file.path()), 2000u);
}

}  // namespace
