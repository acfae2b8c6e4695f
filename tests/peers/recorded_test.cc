#include <gtest/gtest.h>

#include "base/text.h"
#include "measure/test_case.h"

namespace ferry {
namespace {

// Random cases with the answers of onnxruntime-node, recorded by compare_random.mjs with a fixed seed.
TEST(Peers, GiveTheRecordedAnswers) {
  std::string folder = Cat(FERRY_TEST_DATA, "/peers-random");
  CaseTolerances tolerances;
  tolerances.Load(folder + "/tolerances.json");
  std::vector<TestCase> cases = FindTestCases(folder);
  ASSERT_GT(cases.size(), 500u);
  for (const TestCase& test_case : cases) {
    CaseResult result = RunTestCase(test_case, tolerances.For(test_case.name));
    EXPECT_TRUE(result.passed) << test_case.name << ": " << result.reason;
  }
}

}  // namespace
}  // namespace ferry
