// Choices by measurement, with a clock that the test turns.
#include "providers/cpu/tuner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

class TunerTest : public ::testing::Test {
 protected:
  std::string File() const { return (folder_ / "choices.json").string(); }
  void Write(const std::string& text) const { std::ofstream(File(), std::ios::binary) << text; }
  std::string Content() const {
    std::ifstream stream(File());
    return (std::stringstream() << stream.rdbuf()).str();
  }
  Tuner MakeTuner(const std::string& file) {
    return Tuner(file, [this] { return now_; });
  }
  // A candidate that takes this long.
  Tuner::Candidate Takes(std::string_view name, double seconds) {
    return {name, [this, seconds] { now_ += seconds, ++runs_; }};
  }
  std::string Choose(Tuner& tuner, const std::string& problem, std::vector<Tuner::Candidate> candidates) {
    return tuner.Choose(problem, candidates);
  }
  static std::string FileWith(const std::string& name) {
    return Json()
        .Set("format", "ferry tuning 1")
        .Set("choices", Json().Set(Tuner::ProcessorName(), Json().Set("problem", name)))
        .Dump();
  }
  std::string Refusal() {
    try {
      MakeTuner(File());
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  testing::TemporaryFolder folder_;
  double now_ = 1000;
  int runs_ = 0;
};

TEST_F(TunerTest, TakesTheFastestAndMeasuresOnce) {
  Tuner tuner = MakeTuner("");
  EXPECT_EQ(Choose(tuner, "problem", {Takes("a", 0.003), Takes("b", 0.001), Takes("c", 0.002)}), "b");
  int runs = runs_;
  EXPECT_GE(runs, 9);
  EXPECT_EQ(Choose(tuner, "problem", {Takes("a", 0), Takes("b", 1)}), "b");
  EXPECT_EQ(runs_, runs);
  EXPECT_EQ(Choose(tuner, "another", {Takes("a", 0.001), Takes("b", 1)}), "a");
}

TEST_F(TunerTest, StopsSoonWhenRunsAreLong) {
  Tuner tuner = MakeTuner("");
  Choose(tuner, "problem", {Takes("a", 5), Takes("b", 6)});
  EXPECT_EQ(runs_, 8);  // once to warm up, three times for the clock
}

TEST_F(TunerTest, OneSlowRunDoesNotDecide) {
  Tuner tuner = MakeTuner("");
  int turn = 0;
  Tuner::Candidate disturbed{"disturbed", [&] { now_ += turn++ == 1 ? 10 : 0.001; }};
  EXPECT_EQ(Choose(tuner, "problem", {Takes("steady", 0.002), disturbed}), "disturbed");
}

TEST_F(TunerTest, OnlyOneWayNeedsNoMeasuring) {
  Tuner tuner = MakeTuner("");
  EXPECT_EQ(Choose(tuner, "problem", {Takes("a", 1)}), "a");
  EXPECT_EQ(runs_, 0);
}

TEST_F(TunerTest, RemembersInAFileBesideWhatOthersWrote) {
  {
    Tuner one = MakeTuner(File()), other = MakeTuner(File());
    Choose(one, "first", {Takes("a", 0.001), Takes("b", 0.002)});
    Choose(other, "second", {Takes("a", 0.002), Takes("b", 0.001)});
    one.Save();
    other.Save();
  }
  runs_ = 0;
  Tuner later = MakeTuner(File());
  EXPECT_EQ(Choose(later, "first", {Takes("a", 9), Takes("b", 1)}), "a");
  EXPECT_EQ(Choose(later, "second", {Takes("a", 1), Takes("b", 9)}), "b");
  EXPECT_EQ(runs_, 0);
  std::string before = Content();
  later.Save();
  EXPECT_EQ(Content(), before) << "nothing was learned";
}

TEST_F(TunerTest, KeepsWhatOtherProcessorsChose) {
  Write(R"({"format": "ferry tuning 1", "choices": {"another processor": {"problem": "b"}}})");
  Tuner tuner = MakeTuner(File());
  EXPECT_EQ(Choose(tuner, "problem", {Takes("a", 0.001), Takes("b", 0.002)}), "a");
  tuner.Save();
  Json json = Json::Parse(Content());
  EXPECT_EQ(json.At("choices").At("another processor").At("problem").AsString(), "b");
  EXPECT_EQ(json.At("choices").At(Tuner::ProcessorName()).At("problem").AsString(), "a");
}

TEST_F(TunerTest, AnUnknownNameInTheFileIsMeasuredAgain) {
  Write(FileWith("'; rm -rf"));
  Tuner tuner = MakeTuner(File());
  EXPECT_EQ(Choose(tuner, "problem", {Takes("a", 0.002), Takes("b", 0.001)}), "b");
  tuner.Save();
  EXPECT_EQ(Content(), FileWith("b") + "\n");
}

TEST_F(TunerTest, RefusesFilesThatAreNone) {
  std::string deep(100000, '['), long_name(400, 'x');
  for (const std::string& text :
       {std::string("this is a model"), std::string("{}"), std::string("[1, 2]"), deep, FileWith(long_name),
        std::string(R"({"format": "ferry tuning 2", "choices": {}})"),
        std::string(R"({"format": "ferry tuning 1", "choices": []})"),
        std::string(R"({"format": "ferry tuning 1", "choices": {"p": {"q": 1}}})"),
        std::string(R"({"format": "ferry tuning 1", "choices": {"p": {"q": {"r": {}}}}})"),
        std::string("{\"format\": \"ferry tuning 1\", \"choices\": {\"p\": {\"\xff\xfe\": \"x\"}")}) {
    Write(text);
    EXPECT_NE(Refusal().find("is no file of measured choices"), std::string::npos) << text.substr(0, 80);
    EXPECT_EQ(Content(), text) << "it stays as it is";
  }
  Write(std::string(5 << 20, ' '));
  EXPECT_NE(Refusal().find("bytes"), std::string::npos);
  unlink(File().c_str());
  ASSERT_EQ(mkfifo(File().c_str(), 0600), 0);
  EXPECT_NE(Refusal().find("is a pipe, not a file"), std::string::npos) << Refusal();
}

}  // namespace
}  // namespace ferry
