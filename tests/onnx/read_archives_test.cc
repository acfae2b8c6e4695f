#include <gtest/gtest.h>

#include <filesystem>

#include "model_samples.h"
#include "onnx/reader.h"
#include "onnx/value_file.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

TEST(ReadArchives, EveryModelReadsWithoutProblem) {
  std::vector<fs::path> models = testing::ArchiveModels();
  ASSERT_GT(models.size(), 1600u);
  for (const fs::path& path : models) {
    Model model = ReadModel(path.string());
    EXPECT_TRUE(model.has_graph) << path;
    EXPECT_FALSE(model.graph.nodes.empty() && model.graph.outputs.empty()) << path;
    for (const StoredTensor& tensor : model.graph.initializers) EXPECT_EQ(tensor.problem, "") << path;
    for (const Node& node : model.graph.nodes)
      for (const Attribute& attribute : node.attributes) EXPECT_EQ(attribute.problem, "") << path << attribute.name;
  }
}

TEST(ReadArchives, EveryRecordedValueReads) {
  size_t values = 0;
  for (const fs::path& path : testing::ArchiveModels()) {
    Model model = ReadModel(path.string());
    for (int set = 0;; ++set) {
      fs::path folder = path.parent_path() / ("test_data_set_" + std::to_string(set));
      if (!fs::exists(folder)) break;
      auto read_all = [&](const char* kind, const std::vector<ValueInfo>& infos) {
        for (size_t i = 0; i < infos.size(); ++i) {
          fs::path file = folder / (kind + std::string("_") + std::to_string(i) + ".pb");
          if (!fs::exists(file)) continue;
          EXPECT_TRUE(ReadValueFile(file.string(), &infos[i].type).present()) << file;
          ++values;
        }
      };
      read_all("input", model.graph.inputs);
      read_all("output", model.graph.outputs);
    }
  }
  EXPECT_GT(values, 4000u);
}

}  // namespace
}  // namespace ferry
