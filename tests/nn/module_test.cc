#include <cstring>
#include <fstream>

#include "networks.h"

namespace {

struct Pair : nn::Module {
  nn::Linear fc1{3, 2};
  nn::ModuleList layers;
  Pair() {
    register_module("fc1", fc1);
    register_module("layers", layers);
    layers.push_back(nn::make<nn::Linear>(2, 2, false));
    layers.push_back(nn::make<nn::BatchNorm1d>(2));
  }
  nn::Tensor forward(const nn::Tensor& x) override { return layers[1](layers[0](fc1(x))); }
  std::string kind() const override { return "Pair"; }
};

std::vector<std::string> NamesOf(const nn::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

// Writes tensors as a .safetensors file; doubles to see that they are converted.
void WriteSafetensors(const std::string& path, const nn::NamedTensors& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
  for (const auto& [name, tensor] : tensors) {
    nn::Tensor stored = tensor.dtype() == FERRY_FLOAT ? tensor.to(FERRY_DOUBLE) : tensor;
    std::span<const std::byte> bytes = stored.value().bytes();
    std::string shape;
    for (int64_t size : stored.shape()) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += ",\"" + name + "\":{\"dtype\":\"" + (stored.dtype() == FERRY_INT64 ? "I64" : "F64") + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes.size()) + "]}";
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  header += "}";
  uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header << data;
}

TEST(NnModule, NamesItsParametersAsPyTorchDoes) {
  Pair model;
  EXPECT_EQ(NamesOf(model.named_parameters()), (std::vector<std::string>{"fc1.weight", "fc1.bias", "layers.0.weight",
                                                                         "layers.1.weight", "layers.1.bias"}));
  EXPECT_EQ(NamesOf(model.named_buffers()), (std::vector<std::string>{"layers.1.running_mean", "layers.1.running_var",
                                                                      "layers.1.num_batches_tracked"}));
  EXPECT_EQ(model.parameter("layers.0.weight").shape(), (nn::Shape{2, 2}));
  EXPECT_NE(ErrorOf([&] { model.parameter("fc2.weight"); }).find("fc2.weight"), std::string::npos);
  EXPECT_EQ(nn::LSTM(2, 3, {.bidirectional = true}).named_parameters()[4].first, "weight_ih_l0_reverse");
  EXPECT_EQ(NamesOf(nn::MultiheadAttention(4, 2).named_parameters()),
            (std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
}

TEST(NnModule, SwitchesModeOfItsParts) {
  Pair model;
  EXPECT_TRUE(model.layers[1].is_training());
  model.eval();
  EXPECT_FALSE(model.layers[1].is_training());
  model.train();
  EXPECT_TRUE(model.fc1.is_training());
}

TEST(NnModule, LoadsItsState) {
  TemporaryFile file("weights.safetensors");
  nn::manual_seed(1);
  Pair saved;
  saved.parameter("layers.1.running_var").assign(nn::Tensor::full({2}, 3));
  WriteSafetensors(file.path(), saved.state_dict());
  nn::manual_seed(2);
  Pair loaded;
  loaded.load_state_dict(file.path());
  saved.eval();
  loaded.eval();
  nn::Tensor x = Ramp({4, 3});
  ExpectClose(loaded(x).data<float>(), saved(x).data<float>(), 0);
  nn::manual_seed(1);
  Pair same;
  ExpectClose(same.fc1.weight.data<float>(), saved.fc1.weight.data<float>(), 0);
}

TEST(NnModule, ListsEverythingThatDoesNotFit) {
  TemporaryFile file("others.safetensors");
  nn::NamedTensors weights = Pair().state_dict();
  weights[0].second = nn::Tensor::zeros({3, 2});
  weights[1].first = "fc1.offset";
  WriteSafetensors(file.path(), weights);
  Pair model;
  std::vector<float> before(model.fc1.weight.data<float>().begin(), model.fc1.weight.data<float>().end());
  std::string error = ErrorOf([&] { model.load_state_dict(file.path()); });
  for (const char* part : {"others.safetensors", "'fc1.weight' has shape [3, 2], needs [2, 3]", "'fc1.bias' is missing",
                           "'fc1.offset' is not a parameter"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  ExpectClose(model.fc1.weight.data<float>(), before, 0);
  weights.erase(weights.begin());
  model.load_state_dict(weights, false);
  EXPECT_NE(ErrorOf([&] { model.load_state_dict("/nowhere.pt"); }).find("/nowhere.pt"), std::string::npos);
}

TEST(NnModule, ErrorsNameTheModule) {
  struct Net : nn::Module {
    nn::Sequential body{nn::make<nn::Conv2d>(3, 4, 3), nn::make<nn::Flatten>(), nn::make<nn::Linear>(5, 2)};
    Net() { register_module("body", body); }
    nn::Tensor forward(const nn::Tensor& x) override { return body(x); }
  } net;
  EXPECT_NE(ErrorOf([&] {
              net(Ramp({1, 3, 4, 4}));
            }).find("body.2 (Linear): expects 5 features in axis 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { net(Ramp({1, 2, 4, 4})); }).find("body.0 (Conv2d): expects 3 channels"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { net(Ramp({3, 4, 4})); }).find("N, C, H, W"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { net(Ramp({1, 3, 2, 2})); }).find("body.0 (Conv2d)"), std::string::npos);  // kernel too large
  EXPECT_NE(ErrorOf([&] { net(nn::Tensor()); }).find("body.0 (Conv2d)"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { net(Ramp({1, 3, 3, 3}).to(FERRY_INT64)); }).find("(Conv2d)"), std::string::npos);
  nn::LSTM lstm(3, 2);
  EXPECT_NE(ErrorOf([&] { lstm(Ramp({2, 3})); }).find("LSTM: expects 3 dimensions"), std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              lstm(Ramp({2, 1, 3}), Ramp({1, 2, 2}), Ramp({1, 1, 2}));
            }).find("initial state"),
            std::string::npos);
}

TEST(NnModule, RefusesLayersThatCannotBe) {
  EXPECT_NE(ErrorOf([] { nn::Linear(0, 3); }), "");
  EXPECT_NE(ErrorOf([] { nn::Linear(int64_t{1} << 40, int64_t{1} << 40); }), "");
  EXPECT_NE(ErrorOf([] { nn::Conv2d(3, 4, -1); }), "");
  EXPECT_NE(ErrorOf([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }).find("groups"), std::string::npos);
  EXPECT_NE(ErrorOf([] { nn::Extent<2>{1, 2, 3}; }), "");
  EXPECT_NE(ErrorOf([] { nn::MultiheadAttention(5, 2); }).find("heads"), std::string::npos);
  EXPECT_NE(ErrorOf([] { nn::Dropout(1.5); }), "");
  EXPECT_NE(ErrorOf([] { nn::MaxPool2d(2, {.padding = 2})(Ramp({1, 1, 4, 4})); }).find("half"), std::string::npos);
  EXPECT_NE(ErrorOf([] {
              nn::AdaptiveAvgPool2d(3)(Ramp({1, 1, 4, 4}));
            }).find("axis 2 of size 4 to 3"),
            std::string::npos);
  struct Twice : nn::Module {
    Twice() {
      register_parameter("w", nn::Tensor::ones({1}));
      register_buffer("w", nn::Tensor::ones({1}));
    }
  };
  EXPECT_NE(ErrorOf([] { Twice(); }).find("'w' is used twice"), std::string::npos);
  EXPECT_NE(ErrorOf([] { nn::ModuleList()[0]; }), "");
}

TEST(NnTensor, ComputesAtOnce) {
  nn::Tensor x = nn::Tensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  ExpectClose((2 * x - 1).data<float>(), std::vector<float>{1, 3, 5, 7});
  ExpectClose((-x / x + x).data<float>(), std::vector<float>{0, 1, 2, 3});
  ExpectClose(x.transpose(0, 1).data<float>(), std::vector<float>{1, 3, 2, 4});
  ExpectClose(x.slice(1, 0, 1).data<float>(), std::vector<float>{1, 3});
  ExpectClose(x.mean({0}).data<float>(), std::vector<float>{2, 3});
  ExpectClose(x.amax().data<float>(), std::vector<float>{4});
  ExpectClose(nn::matmul(x, x).data<float>(), std::vector<float>{7, 10, 15, 22});
  ExpectClose(nn::clamp(nn::stack({x, x}, 0), 2, 3).sum({0, 1, 2}).data<float>(), std::vector<float>{20});
  EXPECT_EQ(x.argmax(1).data<int64_t>()[1], 1);
  EXPECT_EQ((x.to(FERRY_INT64) * 3).data<int64_t>()[3], 12);
  EXPECT_EQ(x.unsqueeze(0).squeeze(0).expand({3, 2, 2}).flatten(1, 2).shape(), (nn::Shape{3, 4}));
  EXPECT_TRUE(static_cast<bool>(x.sum() > 9));
  EXPECT_EQ(x.sum().item(), 10);
  EXPECT_EQ(nn::Tensor::zeros({0, 3}).reshape({3, 0}).shape(), (nn::Shape{3, 0}));
}

TEST(NnTensor, RefusesWhatMakesNoSense) {
  nn::Tensor x = Ramp({2, 3});
  EXPECT_NE(ErrorOf([&] { x.reshape({4, 2}); }), "");
  EXPECT_NE(ErrorOf([&] { x.reshape({-1, -1}); }), "");
  EXPECT_NE(ErrorOf([&] { x.size(2); }).find("no axis 2 in shape [2, 3]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { x.item(); }), "");
  EXPECT_NE(ErrorOf([&] { x.data<double>(); }), "");
  EXPECT_NE(ErrorOf([&] { x + Ramp({4}); }).find("[inputs: float[2, 3], float[4]]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { x + x.to(FERRY_INT64); }), "");
  EXPECT_NE(ErrorOf([&] { x.select(0, 5); }), "");
  EXPECT_NE(ErrorOf([&] { nn::Tensor::zeros({int64_t{1} << 40, int64_t{1} << 40}); }), "");
  EXPECT_NE(ErrorOf([&] { nn::Tensor::of<float>({3}, std::vector<float>{1}); }), "");
  EXPECT_NE(ErrorOf([&] { nn::op("Gem", {x}); }).find("no such operator"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { nn::op("Gemm", {x}); }).find("takes 2 to 3 inputs, got 1"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { nn::op("Softmax", {x}, {{"axes", 1}}); }).find("did you mean 'axis'?"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { nn::op("Softmax", {x}, {{"axis", "1"}}); }), "");
  EXPECT_NE(ErrorOf([&] { nn::op("Relu", {{}}); }).find("lacks input 0"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { nn::ops("Relu", {x}, {}, 2); }), "");
  EXPECT_NE(ErrorOf([&] { nn::op("If", {x}); }), "");
}

}  // namespace
