#include <functional>

#include "networks.h"

namespace {

struct LayerCase {
  const char* name;
  std::function<std::shared_ptr<nn::Module>()> make;
  nn::Shape shape;
  int64_t batch_axis = 0;
};

template <class M>
std::shared_ptr<nn::Module> WithValues(std::shared_ptr<M> module,
                                       const std::vector<std::pair<std::string, std::vector<float>>>& values) {
  for (const auto& [name, elements] : values)
    module->parameter(name).assign(nn::Tensor::of<float>({static_cast<int64_t>(elements.size())}, elements));
  return module;
}

template <class M>
std::shared_ptr<nn::Module> BatchNorm() {
  return WithValues(nn::make<M>(2), {{"weight", {1.5f, -0.5f}},
                                     {"bias", {0.25f, 1}},
                                     {"running_mean", {0.125f, -0.25f}},
                                     {"running_var", {2, 0.5f}}});
}

template <class M, class... Args>
std::function<std::shared_ptr<nn::Module>()> Make(Args... args) {
  return [=] { return nn::make<M>(args...); };
}

using Pool2 = nn::PoolOptions<2>;

// Activations are recorded on a wider ramp.
class Scaled : public nn::Module {
 public:
  explicit Scaled(std::shared_ptr<nn::Module> inner) : inner_(*inner) { register_module("inner", inner); }
  nn::Tensor forward(const nn::Tensor& x) override { return inner_(x * 8); }

 private:
  nn::Module& inner_;
};
template <class M, class... Args>
std::function<std::shared_ptr<nn::Module>()> Activation(Args... args) {
  return [=] { return nn::make<Scaled>(nn::make<M>(args...)); };
}

std::vector<LayerCase> Layers() {
  const nn::Shape cube = {2, 3, 4};
  return {
      {"Linear", Make<nn::Linear>(4, 3), {2, 4}},
      {"LinearOfCubes", Make<nn::Linear>(4, 3), {2, 2, 4}},
      {"LinearWithoutBias", Make<nn::Linear>(4, 2, false), {2, 4}},
      {"Conv1d",
       [] { return nn::make<nn::Conv1d>(2, 3, 3, nn::ConvOptions<1>{.stride = 2, .padding = 1}); },
       {1, 2, 6}},
      {"Conv2d",
       [] { return nn::make<nn::Conv2d>(4, 4, 3, nn::ConvOptions<2>{.padding = 2, .dilation = 2, .groups = 2}); },
       {1, 4, 3, 3}},
      {"Conv2dUneven",
       [] {
         return nn::make<nn::Conv2d>(1, 2, nn::Extent<2>{2, 3},
                                     nn::ConvOptions<2>{.stride = {1, 2}, .padding = {1, 0}, .bias = false});
       },
       {1, 1, 3, 5}},
      {"Conv3d", Make<nn::Conv3d>(1, 2, 2), {1, 1, 3, 3, 2}},
      {"ConvTranspose1d",
       [] { return nn::make<nn::ConvTranspose1d>(2, 2, 3, nn::ConvTransposeOptions<1>{.stride = 2}); },
       {1, 2, 3}},
      {"ConvTranspose2d",
       [] {
         return nn::make<nn::ConvTranspose2d>(
             4, 2, 3, nn::ConvTransposeOptions<2>{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
       },
       {1, 4, 2, 2}},
      {"ConvTranspose3d",
       [] { return nn::make<nn::ConvTranspose3d>(1, 1, 2, nn::ConvTransposeOptions<3>{.bias = false}); },
       {1, 1, 2, 2, 2}},
      {"BatchNorm1d", BatchNorm<nn::BatchNorm1d>, {3, 2}},
      {"BatchNorm2d", BatchNorm<nn::BatchNorm2d>, {1, 2, 2, 2}},
      {"BatchNorm3d", BatchNorm<nn::BatchNorm3d>, {1, 2, 1, 2, 2}},
      {"LayerNorm",
       [] {
         return nn::make<nn::LayerNorm>(nn::Shape{2, 3});
       },
       {2, 2, 3}},
      {"GroupNorm",
       [] {
         return WithValues(nn::make<nn::GroupNorm>(2, 4), {{"weight", {1, 2, 3, 4}}, {"bias", {0, 1, 0, -1}}});
       },
       {1, 4, 3}},
      {"MaxPool2d", [] { return nn::make<nn::MaxPool2d>(2, Pool2{.ceil_mode = true}); }, {1, 1, 3, 5}},
      {"MaxPool1d",
       [] { return nn::make<nn::MaxPool1d>(3, nn::PoolOptions<1>{.stride = 1, .padding = 1}); },
       {1, 1, 6}},
      {"MaxPool3d",
       [] {
         return nn::make<nn::MaxPool3d>(nn::Extent<3>{1, 2, 2});
       },
       {1, 1, 2, 2, 4}},
      {"AvgPool2d", [] { return nn::make<nn::AvgPool2d>(3, Pool2{.stride = 2, .padding = 1}); }, {1, 1, 4, 4}},
      {"AvgPool2dOfImage",
       [] { return nn::make<nn::AvgPool2d>(3, Pool2{.stride = 2, .padding = 1, .count_include_pad = false}); },
       {1, 1, 4, 4}},
      {"AdaptiveAvgPool2d",
       [] {
         return nn::make<nn::AdaptiveAvgPool2d>(nn::Extent<2>{2, 1});
       },
       {1, 1, 4, 3}},
      {"AdaptiveMaxPool1d", Make<nn::AdaptiveMaxPool1d>(2), {1, 1, 6}},
      {"ReLU", Activation<nn::ReLU>(), cube},
      {"ReLU6", Activation<nn::ReLU6>(), cube},
      {"SELU", Activation<nn::SELU>(), cube},
      {"Sigmoid", Activation<nn::Sigmoid>(), cube},
      {"Tanh", Activation<nn::Tanh>(), cube},
      {"SiLU", Activation<nn::SiLU>(), cube},
      {"Mish", Activation<nn::Mish>(), cube},
      {"Softplus", Activation<nn::Softplus>(), cube},
      {"Hardsigmoid", Activation<nn::Hardsigmoid>(), cube},
      {"Hardswish", Activation<nn::Hardswish>(), cube},
      {"LeakyReLU", Activation<nn::LeakyReLU>(0.2), cube},
      {"ELU", Activation<nn::ELU>(1.5), cube},
      {"GELU", Activation<nn::GELU>(), cube},
      {"GELUByTanh", Activation<nn::GELU>("tanh"), cube},
      {"Softmax", Activation<nn::Softmax>(1), cube},
      {"LogSoftmax", Activation<nn::LogSoftmax>(-1), cube},
      {"PReLU",
       [] {
         return WithValues(nn::make<nn::PReLU>(3), {{"weight", {0.25f, 0.5f, -1}}});
       },
       cube},
      {"LSTM", Make<nn::LSTM>(3, 2), {3, 1, 3}, 1},
      {"LSTMBothWays",
       [] {
         return nn::make<nn::LSTM>(3, 2,
                                   nn::RecurrentOptions{.num_layers = 2, .batch_first = true, .bidirectional = true});
       },
       {1, 3, 3}},
      {"GRU", [] { return nn::make<nn::GRU>(3, 2, nn::RecurrentOptions{.bias = false}); }, {3, 1, 3}, 1},
      {"MultiheadAttention", Make<nn::MultiheadAttention>(4, 2), {3, 1, 4}, 1},
  };
}

class Layer : public testing::TestWithParam<LayerCase> {
 protected:
  void SetUp() override {
    nn::manual_seed(7);
    model_ = GetParam().make();
    model_->eval();
  }
  nn::Tensor InputOf(int64_t batch) const {
    nn::Shape shape = GetParam().shape;
    shape[static_cast<size_t>(GetParam().batch_axis)] = batch;
    return Ramp(shape);
  }
  nn::ExportOptions Options(int64_t opset) const {
    return {.input_names = {"x"},
            .output_names = {"y"},
            .opset_version = opset,
            .dynamic_axes = {{"x", {{GetParam().batch_axis, "batch"}}}}};
  }
  void ExpectSame(const ferry::Session& session, const nn::Tensor& x) {
    nn::Tensor expected = (*model_)(x);
    std::vector<ferry::Value> outputs = session.Run("x", x.value().Share());
    EXPECT_EQ(nn::Tensor(outputs[0].Share()).shape(), expected.shape());
    ExpectClose(outputs[0].Data<float>(), expected.data<float>());
  }
  std::shared_ptr<nn::Module> model_;
};

TEST_P(Layer, GivesWhatPyTorchGives) { ExpectRecorded((*model_)(Ramp(GetParam().shape)), GetParam().name); }

TEST_P(Layer, ExportsForAnyBatch) {
  TemporaryFile file(std::string(GetParam().name) + ".onnx");
  nn::ExportResult result = nn::export_onnx(*model_, InputOf(2), file.path(), Options(20));
  EXPECT_TRUE(result.warnings.empty()) << result.warnings[0];
  ExpectValid(file.path());
  ferry::Session session(file.path(), {.threads = 1});
  EXPECT_EQ(session.inputs()[0].dim_names[static_cast<size_t>(GetParam().batch_axis)], "batch");
  EXPECT_EQ(session.outputs()[0].dim_names[static_cast<size_t>(GetParam().batch_axis)], "batch");
  for (int64_t batch : {1, 2, 5}) {
    SCOPED_TRACE(batch);
    ExpectSame(session, InputOf(batch));
  }
}

TEST_P(Layer, ExportsToEveryOpset) {
  for (int64_t opset = 11; opset <= 28; ++opset) {
    SCOPED_TRACE(opset);
    TemporaryFile file(std::string(GetParam().name) + ".onnx");
    nn::export_onnx(*model_, InputOf(2), file.path(), Options(opset));
    ExpectValid(file.path());
    ExpectSame(ferry::Session(file.path(), {.threads = 1}), InputOf(3));
  }
}

INSTANTIATE_TEST_SUITE_P(Nn, Layer, testing::ValuesIn(Layers()),
                         [](const auto& info) { return std::string(info.param.name); });

// ONNX's own library must accept what is exported for the opsets that Debian's knows.
TEST(NnLayers, OnnxPythonAcceptsThem) {
  if (std::system("/usr/bin/python3 -c 'import onnx' 2>/dev/null") != 0)
    GTEST_SKIP() << "onnx for Python is not installed";
  ferry::testing::TemporaryFolder folder(QuickPlace());
  for (const LayerCase& layer : Layers()) {
    nn::manual_seed(7);
    std::shared_ptr<nn::Module> model = layer.make();
    model->eval();
    for (int64_t opset : {11, 13, 15, 17})
      nn::export_onnx(*model, Ramp(layer.shape), (folder / (layer.name + std::to_string(opset) + ".onnx")).string(),
                      {.opset_version = opset, .dynamic_axes = {{"input", {{layer.batch_axis, "batch"}}}}});
  }
  EXPECT_EQ(std::system(("/usr/bin/python3 tests/nn/check_with_onnx.py '" + folder.path().string() + "'").c_str()), 0);
}

TEST(NnLayers, EmbedRows) {
  nn::manual_seed(7);
  nn::Embedding many(6, 3);
  ExpectRecorded(many(nn::Tensor::of<int64_t>({2, 2}, std::vector<int64_t>{5, 0, 2, 2})), "Embedding");
  nn::manual_seed(7);
  nn::Embedding few(3, 2);
  ExpectRecorded(few(nn::Tensor::ints({2, 0, 1})), "EmbeddingOfFew");
  EXPECT_NE(ErrorOf([&] { few(nn::Tensor::ints({3})); }), "");
  EXPECT_NE(ErrorOf([&] { few(nn::Tensor::ints({-1})); }).find("below 0"), std::string::npos);
}

TEST(NnLayers, FollowTheStatisticsOfBatches) {
  auto module = BatchNorm<nn::BatchNorm2d>();
  ExpectRecorded((*module)(Ramp({2, 2, 2, 2})), "BatchNorm2d training");
  ExpectRecorded(module->parameter("running_mean"), "BatchNorm2d running_mean");
  ExpectRecorded(module->parameter("running_var"), "BatchNorm2d running_var");
  EXPECT_EQ(module->parameter("num_batches_tracked").item<int64_t>(), 1);
}

TEST(NnLayers, DropWhileTraining) {
  nn::Dropout dropout(0.5);
  nn::Tensor x = nn::Tensor::ones({1000});
  nn::Tensor y = dropout(x);
  std::span<const float> kept = y.data<float>();
  auto zeros = std::count(kept.begin(), kept.end(), 0.f);
  EXPECT_GT(zeros, 350);
  EXPECT_LT(zeros, 650);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 2.f), 1000 - zeros);
  dropout.eval();
  ExpectClose(dropout(x).data<float>(), x.data<float>());
}

TEST(NnLayers, TakeInitialStates) {
  nn::manual_seed(7);
  nn::LSTM lstm(3, 2, {.num_layers = 2});
  nn::LSTM::Result result = lstm(Ramp({2, 1, 3}), Ramp({2, 1, 2}), Ramp({2, 1, 2}));
  ExpectRecorded(result.output, "LSTM output");
  ExpectRecorded(result.h, "LSTM h");
  ExpectRecorded(result.c, "LSTM c");
  nn::manual_seed(7);
  nn::GRU gru(3, 2, {.bidirectional = true});
  nn::GRU::Result both = gru(Ramp({2, 1, 3}), Ramp({2, 1, 2}));
  ExpectRecorded(both.output, "GRU output");
  ExpectRecorded(both.h, "GRU h");
}

TEST(NnLayers, MaskAttention) {
  nn::manual_seed(7);
  nn::MultiheadAttention attention(4, 2, {.batch_first = true});
  constexpr bool kMask[] = {false, true, true, false, false, true};
  nn::Tensor mask = nn::Tensor::of<bool>({2, 3}, std::span<const bool>(kMask));
  nn::Tensor keys = Ramp({1, 3, 4});
  ExpectRecorded(attention(Ramp({1, 2, 4}), keys, keys, mask), "MultiheadAttentionMasked");
  nn::Tensor added = nn::where(mask, nn::Tensor::scalar(-1e9), nn::Tensor::scalar(0));
  ExpectRecorded(attention(Ramp({1, 2, 4}), keys, keys, added), "MultiheadAttentionMasked");
}

TEST(NnLayers, DrawAsPyTorchDoes) {
  nn::manual_seed(3);
  ExpectRecorded(nn::randn({20}), "randn 20");
  ExpectRecorded(nn::randn({5}), "randn 5");
  ExpectRecorded(nn::rand({4}), "rand 4");
}

}  // namespace
