#include "measure/provider_table.h"

#include "gtest/gtest.h"
#include "onnx/writer.h"
#include "tests/support/graphs.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

// The CPU in both precisions, float32 nearer to float64 than bf16; a GPU's rows, or why it has none.
TEST(ProviderTable, HasARowForEveryProviderAndPrecision) {
  using testing::MakeInfo;
  Tensor weights(DType::kFloat, {64, 64});
  for (int64_t i = 0; i < weights.size(); ++i) weights.MutableData<float>()[i] = static_cast<float>(i % 37) / 37 - 0.4f;
  const Model model =
      testing::MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), Dim(64)})},
                         {testing::MakeNode("MatMul", {"x", "w"}, {"y"})}, {MakeInfo("y")}, {MakeStored("w", weights)});
  const std::string path = testing::TemporaryPath("model.onnx");
  WriteModel(model, path);
  BenchmarkOptions options;
  options.session.threads = 1;
  options.iterations = 2;
  options.inputs.dimensions["batch"] = 8;
  std::vector<std::string> told;
  const ProviderTable table = MeasureProviders(path, options, [&](const std::string& row) { told.push_back(row); });
  ASSERT_GE(table.rows.size(), 3u);
  EXPECT_EQ(told.size(), table.rows.size());
  EXPECT_EQ(table.reference_problem, "");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(table.rows[i].provider, "cpu");
    EXPECT_EQ(table.rows[i].problem, "");
    EXPECT_GT(table.rows[i].runs_per_second, 0);
    EXPECT_GT(table.rows[i].bytes, 64u * 64u);
  }
  EXPECT_LT(table.rows[0].relative_error, 1e-5);
  EXPECT_LT(table.rows[1].relative_error, 0.05);
  EXPECT_EQ(table.rows[2].provider, "cuda");
  const bool has_numbers = table.rows[2].median_ms > 0;
  EXPECT_NE(has_numbers, !table.rows[2].problem.empty());
}

}  // namespace
}  // namespace ferry
