// The corpus of models that break the standard in one way each (tests/peers/broken_models.py makes it).
#include <gtest/gtest.h>

#include <fstream>

#include "base/text.h"
#include "onnx/checker/checker.h"
#include "onnx/reader.h"
#include "tests/support/given_models.h"

namespace ferry {
namespace {

struct Case {
  std::string file, rule, node, value;
  std::vector<std::string> also;
};

std::string Folder() { return std::string(FERRY_TEST_DATA) + "/broken-models/"; }

std::vector<Case> ReadCases() {
  std::ifstream file(Folder() + "cases.tsv");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields = SplitText(line, '\t');
    if (fields.size() == 5) cases.push_back({fields[0], fields[1], fields[2], fields[3], SplitText(fields[4], ',')});
  }
  return cases;
}

std::string Listing(const std::vector<Problem>& problems) {
  std::string out;
  for (const Problem& problem : problems) out += ToText(problem) + "\n";
  return out;
}

TEST(CheckerCorpus, EveryFaultIsFoundWhereItIs) {
  std::vector<Case> cases = ReadCases();
  EXPECT_GE(cases.size(), 100u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.file);
    std::vector<Problem> problems = CheckModel(ReadModel(Folder() + c.file));
    bool sound_structure = c.rule == "valid" || c.rule.rfind("inference.", 0) == 0;
    if (sound_structure) {
      EXPECT_TRUE(problems.empty()) << Listing(problems);
      continue;
    }
    bool found = false;
    for (const Problem& problem : problems) {
      bool expected = problem.rule == c.rule || std::count(c.also.begin(), c.also.end(), problem.rule) > 0;
      EXPECT_TRUE(expected || problem.severity != Severity::kError) << "besides " << c.rule << ": " << ToText(problem);
      EXPECT_FALSE(problem.message.empty());
      EXPECT_FALSE(problem.remedy.empty()) << problem.rule;
      found |= problem.rule == c.rule && problem.severity == Severity::kError && problem.place.node == c.node &&
               problem.place.value == c.value;
    }
    EXPECT_TRUE(found) << c.rule << " at node '" << c.node << "', value '" << c.value << "' is not among\n"
                       << Listing(problems);
  }
}

TEST(CheckerCorpus, GivenModelsAreValid) {
  const size_t models = testing::ForEachGivenModel([](const std::string& path) {
    std::vector<Problem> problems = CheckModel(ReadModel(path));
    EXPECT_FALSE(HasErrors(problems)) << path << "\n" << Listing(problems);
  });
  EXPECT_GT(models, 1600u);
}

}  // namespace
}  // namespace ferry
