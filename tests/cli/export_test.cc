// What exporting a large program costs.
#include <filesystem>

#include "base/zip.h"
#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

constexpr int kLayers = 4, kWidth = 2048;  // 64 MB of weights

std::string Number(int number) {
  std::string out = "J";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(number >> (8 * i)));
  return out;
}
std::string Text(const std::string& text) { return "X" + Number(static_cast<int>(text.size())).substr(1) + text; }

std::string PickledMatrix(int key) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "ctorch\nFloatStorage\n" +
         Text(std::to_string(key)) + Text("cpu") + Number(kWidth * kWidth) + "tQ" + Number(0) + "(" + Number(kWidth) +
         Number(kWidth) + "t(" + Number(kWidth) + Number(1) + "t\x89" + "ccollections\nOrderedDict\n)RtR";
}

// Layers whose weights are turned over at export, as those of Linear are on sequences.
void WriteLargeProgram(const std::string& path) {
  ZipWriter zip(path);
  std::string pickle =
      "\x80\x02"
      "c__torch__\nM\n)\x81}(" +
      Text("training") + "\x89";
  std::string fields, body;
  for (int i = 0; i < kLayers; ++i) {
    std::string name = "w" + std::to_string(i);
    pickle += Text(name) + PickledMatrix(i);
    fields += "  " + name + " : Tensor\n";
    body += "    x" + std::to_string(i + 1) + " = torch.linear(x" + std::to_string(i) + ", self." + name + ", None)\n";
    std::vector<float> weights(size_t{kWidth} * kWidth);
    for (size_t j = 0; j < weights.size(); ++j) weights[j] = static_cast<float>((j + i) % 97);
    zip.Add("m/data/" + std::to_string(i), {reinterpret_cast<const char*>(weights.data()), weights.size() * 4});
  }
  zip.Add("m/data.pkl", pickle + "ub.");
  zip.Add("m/constants.pkl", "\x80\x02).");
  zip.Add("m/code/__torch__.py",
          "class M(Module):\n  __parameters__ = []\n" + fields +
              "  training : bool\n  def forward(self: __torch__.M,\n    x0: Tensor) -> Tensor:\n" + body +
              "    return x" + std::to_string(kLayers) + "\n");
  zip.Add("m/version", "3\n");
  zip.Finish();
}

TEST(Export, WeightsPassThroughLittleMemory) {
  std::string folder = ScratchFolder(), program = folder + "/program.pt", model = folder + "/model.onnx";
  WriteLargeProgram(program);
  for (std::vector<std::string> more : {std::vector<std::string>{}, {"--external-data"}}) {
    std::vector<std::string> arguments{"export", program, "-o", model, "--input", "x0:float32[n,3,2048]"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Said said = Ferry(arguments);
    EXPECT_EQ(said.status, 0) << said.err;
    EXPECT_GE(std::filesystem::file_size(more.empty() ? model : model + ".data"), size_t{64} << 20);
#ifndef FERRY_SANITIZE_ADDRESS
    EXPECT_LT(said.peak_kilobytes, 48 << 10);
#endif
  }
}

}  // namespace
}  // namespace ferry
