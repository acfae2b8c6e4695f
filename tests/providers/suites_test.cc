// The recorded cases for every provider: ONNX's own for each operator, and whole networks against PyTorch.
#include <gtest/gtest.h>

#include "base/directory.h"
#include "engine/runtime.h"
#include "measure/compare/comparison.h"
#include "measure/test_case.h"
#include "onnx/reader.h"
#include "providers/cuda/device.h"
#include "tests/providers/island.h"
#include "tests/support/codecs.h"

namespace ferry {
namespace {

const testing::IslandProvider& Everything() {
  static const testing::IslandProvider island([](std::string_view) { return true; });
  return island;
}

// Every second operator, so that values go to and fro.
const testing::IslandProvider& EverySecond() {
  static const testing::IslandProvider island([](std::string_view op) { return (op.size() + op.back()) % 2 == 0; });
  return island;
}

struct How {
  std::string label;
  SessionOptions options;
};

std::vector<How> Ways() {
  std::vector<How> ways;
  for (const auto& [label, island] : {std::pair{"island", &Everything()}, {"half_island", &EverySecond()}}) {
    SessionOptions options{.provider = "island,cpu"};
    options.runtime = std::make_shared<Runtime>(1, std::vector<const Provider*>{island});
    ways.push_back({label, options});
    options.optimize = false;
    ways.push_back({Cat(label, "_as_written"), options});
  }
  if (!cuda::FindDevices().empty()) {
    SessionOptions options{.threads = 1, .provider = "cuda,cpu"};
    ways.push_back({"cuda", options});
    options.optimize = false;
    ways.push_back({"cuda_as_written", options});
  }
  return ways;
}

class EveryProvider : public ::testing::TestWithParam<How> {};

TEST_P(EveryProvider, AnswersOnnxCases) {
  const std::string folder = FERRY_TEST_DATA "/onnx-node";
  CaseTolerances tolerances;
  tolerances.Load(JoinPath(folder, "tolerances.json"));
  size_t count = 0;
  for (const TestCase& one : FindTestCases(folder)) {
    if (!testing::IsForThisBuild(ReadModel(JoinPath(one.folder, "model.onnx")).graph)) continue;
    const CaseResult result = RunTestCase(one, tolerances.For(one.name), GetParam().options);
    EXPECT_TRUE(result.passed) << one.name << ": " << result.reason;
    ++count;
  }
  EXPECT_GT(count, 1600u);
  EXPECT_EQ(testing::IslandBytesInUse(), 0u);
}

TEST_P(EveryProvider, AnswersAsPyTorch) {
  for (const char* network : {"simple_net", "cond_branches", "gru_last", "hf_gpt2", "hf_llama", "lstm_tagger",
                              "tv_densenet", "tv_mobilenet_v3", "tv_swin", "unet_small"}) {
    const std::string folder = Cat(FERRY_TEST_DATA "/torch-models/", network);
    const Side side = Side::Open(JoinPath(folder, "torch.onnx"), {network, false, GetParam().options});
    std::vector<Sample> samples;
    for (const std::string& path : FindRecordings({folder})) samples.push_back(ReadSample(path, side.session()));
    EXPECT_TRUE(CompareWithRecordings(side, samples, {.tolerance = {1e-3, 1e-4}}).within()) << network;
  }
}

INSTANTIATE_TEST_SUITE_P(Providers, EveryProvider, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace ferry
