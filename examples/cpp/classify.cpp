// Loads a model, shows what it takes and gives, and runs it on an input of zeros.
#include <cstdio>
#include <ferry/ferry.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.onnx\n", argv[0]);
    return 2;
  }
  ferry::Session session(argv[1], {.threads = 1});
  for (const auto& input : session.inputs()) std::printf("input  %s %s\n", input.name.c_str(), input.type.c_str());
  for (const auto& output : session.outputs()) std::printf("output %s %s\n", output.name.c_str(), output.type.c_str());

  std::vector<int64_t> shape = session.inputs()[0].shape;
  size_t count = 1;
  for (int64_t& dim : shape) {
    if (dim < 0) dim = 1;  // the model leaves it open
    count *= static_cast<size_t>(dim);
  }
  std::vector<float> zeros(count);
  auto outputs = session.Run(session.inputs()[0].name, ferry::Value::Of<float>(shape, zeros));
  for (float answer : outputs[0].Data<float>()) std::printf("%g\n", answer);
  return 0;
} catch (const ferry::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
