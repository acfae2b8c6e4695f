// Networks of PyTorch's, written again in C++: with the same weights they give what PyTorch recorded, and so do the
// models exported from them.
#include "inspect.h"
#include "networks.h"

namespace {

const std::string kNetworks = std::string(FERRY_TEST_DATA) + "/torch-models/";

struct SimpleNet : nn::Module {
  nn::Linear fc1{10, 16}, fc2{16, 3};
  SimpleNet() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  nn::Tensor forward(const nn::Tensor& x) override { return fc2(nn::relu(fc1(x))); }
};

struct LstmTagger : nn::Module {
  nn::Embedding e{50, 12};
  nn::LSTM l{12, 16, {.num_layers = 2, .batch_first = true, .bidirectional = true}};
  nn::Linear o{32, 7};
  LstmTagger() {
    register_module("e", e);
    register_module("l", l);
    register_module("o", o);
  }
  nn::Tensor forward(const nn::Tensor& x) override { return o(l(e(x))); }
};

struct GruNet : nn::Module {
  nn::GRU g{8, 12, {.batch_first = true}};
  nn::Linear o{12, 2};
  GruNet() {
    register_module("g", g);
    register_module("o", o);
  }
  std::pair<nn::Tensor, nn::Tensor> call(const nn::Tensor& x) {
    nn::GRU::Result result = g(x, nn::Tensor());
    return {o(result.output.select(1, -1)), result.h};
  }
};

struct DropBn : nn::Module {
  nn::Sequential f{nn::make<nn::Conv2d>(3, 8, 3, nn::ConvOptions<2>{.padding = 1}),
                   nn::make<nn::BatchNorm2d>(8),
                   nn::make<nn::ReLU>(),
                   nn::make<nn::Dropout>(0.5),
                   nn::make<nn::AdaptiveAvgPool2d>(1),
                   nn::make<nn::Flatten>(),
                   nn::make<nn::Linear>(8, 5)};
  DropBn() { register_module("f", f); }
  nn::Tensor forward(const nn::Tensor& x) override { return f(x); }
};

struct UNet : nn::Module {
  struct Block : nn::Sequential {
    Block(int64_t in, int64_t out)
        : Sequential{nn::make<nn::Conv2d>(in, out, 3, nn::ConvOptions<2>{.padding = 1}),
                     nn::make<nn::GroupNorm>(4, out), nn::make<nn::SiLU>()} {}
  };
  Block d1{3, 8}, d2{8, 16}, m{16, 16}, o{16, 8};
  nn::ConvTranspose2d u{16, 8, 2, {.stride = 2}};
  nn::Conv2d h{8, 1, 1};
  nn::MaxPool2d pool{2};
  UNet() {
    register_module("d1", d1);
    register_module("d2", d2);
    register_module("m", m);
    register_module("u", u);
    register_module("o", o);
    register_module("h", h);
    register_module("pool", pool);
  }
  std::pair<nn::Tensor, nn::Tensor> call(const nn::Tensor& x) {
    nn::Tensor top = d1(x), bottom = m(d2(pool(top)));
    nn::Tensor scales = nn::Tensor::of<float>({4}, std::vector<float>{1, 1, 2, 2});
    return {nn::sigmoid(h(o(nn::cat({u(bottom), top}, 1)))),
            nn::op("Resize", {bottom, {}, scales}, {{"mode", "linear"}})};
  }
};

nn::Tensor ToTensor(const Array& array) {
  return array.floats.empty() ? nn::Tensor::of<int64_t>(array.shape, array.integers)
                              : nn::Tensor::of<float>(array.shape, array.floats);
}

template <class Model>
std::vector<nn::Tensor> RunEagerly(Model& model, const nn::Tensor& x) {
  if constexpr (requires { model.call(x); }) {
    auto [first, second] = model.call(x);
    return {first, second};
  } else {
    return {model(x)};
  }
}

template <class Model>
void ExpectPyTorchsAnswers(const std::string& name, const std::string& weights) {
  SCOPED_TRACE(name + "/" + weights);
  Model model;
  model.load_state_dict(kNetworks + name + "/" + weights);
  model.eval();
  TemporaryFile file(name + ".onnx");
  nn::Tensor sample = ToTensor(ReadArrays(kNetworks + name + "/io_2.npz").at("in0"));
  nn::export_onnx(model, sample, file.path(), {.opset_version = 17, .dynamic_axes = {{"input", {{0, "batch"}}}}});
  ExpectValid(file.path());
  ferry::Session session(file.path(), {.threads = 1});
  for (int batch : {1, 2, 5}) {
    SCOPED_TRACE(batch);
    std::map<std::string, Array> recorded = ReadArrays(kNetworks + name + "/io_" + std::to_string(batch) + ".npz");
    nn::Tensor x = ToTensor(recorded.at("in0"));
    std::vector<nn::Tensor> eager = RunEagerly(model, x);
    std::vector<ferry::Value> exported = session.Run("input", x.value().Share());
    ASSERT_EQ(exported.size(), eager.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      const Array& expected = recorded.at("out" + std::to_string(i));
      EXPECT_EQ(eager[i].shape(), expected.shape);
      ExpectClose(eager[i].data<float>(), expected.floats, 1e-5);
      ExpectClose(exported[i].Data<float>(), expected.floats, 1e-5);
    }
  }
}

TEST(TorchNetworks, SimpleNet) {
  ExpectPyTorchsAnswers<SimpleNet>("simple_net", "model.pt");
  ExpectPyTorchsAnswers<SimpleNet>("simple_net", "model.pt2");
}
TEST(TorchNetworks, LstmTagger) { ExpectPyTorchsAnswers<LstmTagger>("lstm_tagger", "model.pt"); }
TEST(TorchNetworks, GruLast) { ExpectPyTorchsAnswers<GruNet>("gru_last", "model.pt"); }
TEST(TorchNetworks, ConvBnDropout) {
  ExpectPyTorchsAnswers<DropBn>("conv_bn_dropout", "model.pt");
  ExpectPyTorchsAnswers<DropBn>("conv_bn_dropout", "model.pt2");
}
TEST(TorchNetworks, UNet) { ExpectPyTorchsAnswers<UNet>("unet_small", "model.pt"); }

}  // namespace
