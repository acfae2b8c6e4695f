#include "engine/check_inference.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/text.h"
#include "onnx/reader.h"
#include "tests/support/given_models.h"

namespace ferry {
namespace {

std::string Listing(const std::vector<Problem>& problems) {
  std::string out;
  for (const Problem& problem : problems) out += ToText(problem) + "\n";
  return out;
}

// The part of the corpus (tests/peers/broken_models.py) that only inference can find.
TEST(CheckInference, FindsWhatOperatorsCannotGive) {
  std::string folder = std::string(FERRY_TEST_DATA) + "/broken-models/";
  std::ifstream file(folder + "cases.tsv");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields = SplitText(line, '\t');
    ASSERT_EQ(fields.size(), 5u);
    SCOPED_TRACE(fields[0]);
    std::vector<Problem> problems = CheckFully(ReadModel(folder + fields[0]));
    if (fields[1] == "valid") {
      EXPECT_TRUE(problems.empty()) << Listing(problems);
    }
    if (fields[1].rfind("inference.", 0) != 0) continue;
    ++cases;
    ASSERT_EQ(problems.size(), 1u) << Listing(problems);
    EXPECT_EQ(problems[0].rule, fields[1]);
    EXPECT_EQ(problems[0].place.node, fields[2]);
    EXPECT_EQ(problems[0].place.value, fields[3]);
  }
  EXPECT_GE(cases, 8);
}

TEST(CheckInference, GivenModelsAreValid) {
  const size_t models = testing::ForEachGivenModel([](const std::string& path) {
    std::vector<Problem> problems = CheckFully(ReadModel(path));
    EXPECT_FALSE(HasErrors(problems)) << path << "\n" << Listing(problems);
  });
  EXPECT_GT(models, 1600u);
}

}  // namespace
}  // namespace ferry
