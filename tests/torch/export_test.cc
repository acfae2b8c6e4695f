#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/torch/export_case.h"

namespace ferry::torch {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int equal = 0, refused = 0;
  std::vector<std::string> wrong;
};

std::vector<std::string> Recordings(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".npz") found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  return found;
}

// FERRY_CASES=FILE keeps a line per case.
Tally RunAll(const fs::path& root, const char* program, const ExportOptions& options = {}) {
  Tally tally;
  const char* list_path = std::getenv("FERRY_CASES");
  FILE* list = list_path ? std::fopen(list_path, "w") : nullptr;
  const char* only = std::getenv("FERRY_ONLY");
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.is_directory() && fs::exists(entry.path() / program)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    std::string name = folder.filename().string();
    if (only && name.rfind(only, 0) != 0) continue;
    CaseOutcome outcome = RunExportCase((folder / program).string(), Recordings(folder), options);
    const char* word = outcome.kind == CaseOutcome::Kind::kEqual     ? "equal"
                       : outcome.kind == CaseOutcome::Kind::kRefused ? "refused"
                                                                     : "wrong";
    if (list) std::fprintf(list, "%s %s %zu %s\n", word, name.c_str(), outcome.nodes, outcome.reason.c_str());
    if (outcome.kind == CaseOutcome::Kind::kEqual) ++tally.equal;
    if (outcome.kind == CaseOutcome::Kind::kRefused) ++tally.refused;
    if (outcome.kind == CaseOutcome::Kind::kWrong) tally.wrong.push_back(name + ": " + outcome.reason);
  }
  if (list) std::fclose(list);
  return tally;
}

std::string Lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

fs::path TestData(const char* name) { return fs::path(FERRY_TEST_DATA) / name; }

TEST(Export, OneOperatorPrograms) {
  Tally tally = RunAll(TestData("torch-ops"), "model.pt2");
  std::printf("%d equal, %d refused, %zu wrong\n", tally.equal, tally.refused, tally.wrong.size());
  EXPECT_EQ(tally.wrong.size(), 0u) << Lines(tally.wrong);
  EXPECT_GE(tally.equal, 1053);
}

// An opset may lack what a program needs, but what is exported to it must be right.
class OneOperatorAtOpset : public testing::TestWithParam<std::pair<int, int>> {};
TEST_P(OneOperatorAtOpset, NothingIsWrong) {
  ExportOptions options;
  options.opset = GetParam().first;
  Tally tally = RunAll(TestData("torch-ops"), "model.pt2", options);
  std::printf("opset %d: %d equal, %d refused, %zu wrong\n", options.opset, tally.equal, tally.refused,
              tally.wrong.size());
  EXPECT_EQ(tally.wrong.size(), 0u) << Lines(tally.wrong);
  EXPECT_GE(tally.equal, GetParam().second);
}
INSTANTIATE_TEST_SUITE_P(Export, OneOperatorAtOpset,
                         testing::Values(std::pair(11, 940), std::pair(17, 1034), std::pair(28, 1053)));

// TorchScript: shapes come from what was traced, the batch stays open.
TEST(Export, TracedNetworks) {
  Tally tally = RunAll(TestData("torch-models"), "model.pt");
  std::printf("%d equal, %d refused, %zu wrong\n", tally.equal, tally.refused, tally.wrong.size());
  EXPECT_EQ(tally.wrong.size(), 0u) << Lines(tally.wrong);
  EXPECT_EQ(tally.equal, 29);
}

TEST(Export, Networks) {
  Tally tally = RunAll(TestData("torch-models"), "model.pt2");
  std::printf("%d equal, %d refused, %zu wrong\n", tally.equal, tally.refused, tally.wrong.size());
  EXPECT_EQ(tally.wrong.size(), 0u) << Lines(tally.wrong);
  EXPECT_EQ(tally.equal, 29);
}

}  // namespace
}  // namespace ferry::torch
