// The whole story on one page: define a network, export it, load the file again, check it, run it both ways.
#include <cstdio>
#include <ferry/nn.hpp>

namespace nn = ferry::nn;

struct SimpleNet : nn::Module {
  nn::Linear fc1{10, 16}, fc2{16, 3};

  SimpleNet() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  nn::Tensor forward(const nn::Tensor& x) override { return fc2(nn::relu(fc1(x))); }
  std::string kind() const override { return "SimpleNet"; }
};

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "simple_net.onnx";

  nn::manual_seed(0);
  SimpleNet model;
  model.eval();
  for (const auto& [name, tensor] : model.named_parameters())
    std::printf("parameter %s, %lld elements\n", name.c_str(), static_cast<long long>(tensor.numel()));

  nn::Tensor dummy = nn::randn({1, 10});
  nn::export_onnx(model, dummy, path,
                  {.input_names = {"input"},
                   .output_names = {"output"},
                   .opset_version = 14,
                   .do_constant_folding = true,
                   .dynamic_axes = {{"input", {{0, "batch"}}}, {"output", {{0, "batch"}}}}});

  ferry::Report report = ferry::Check(path);
  for (const std::string& problem : report.problems) std::printf("%s\n", problem.c_str());
  std::printf("%s is %s\n", path.c_str(), report.valid ? "valid" : "not valid");

  ferry::Session session(path);
  for (const auto& input : session.inputs()) std::printf("input  %s %s\n", input.name.c_str(), input.type.c_str());
  for (const auto& output : session.outputs()) std::printf("output %s %s\n", output.name.c_str(), output.type.c_str());

  nn::Tensor x = nn::randn({5, 10});
  nn::Tensor expected = model(x);
  std::vector<ferry::Value> outputs = session.Run("input", ferry::Value::Of<float>(x.shape(), x.data<float>()));
  nn::Difference difference = nn::compare(outputs[0].Data<float>(), expected.data<float>());
  std::printf("max difference %g, allclose %s\n", difference.max_absolute, difference.allclose ? "true" : "false");
  return report.valid && difference.allclose ? 0 : 1;
} catch (const ferry::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
