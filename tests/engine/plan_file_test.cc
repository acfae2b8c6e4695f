// Plans on the CPU: they come back as they were written, and whatever is not as it was written is refused with a
// reason.
#include "engine/plan_file.h"

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/version.h"
#include "engine/weight_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::testing::HasSubstr;
using testing::MakeInfo;
using testing::MakeNode;

class PlanFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Model model = testing::MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("batch"), Dim(2)})},
                                     {MakeNode("MatMul", {"x", "w"}, {"y"})}, {MakeInfo("y")},
                                     {MakeStored("w", Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2}))});
    SessionOptions options{.threads = 1};
    options.precision = Precision::kBf16;
    plan_ = MakePlanFile(*Session::FromModel(std::move(model), options));
  }
  std::string Put(const std::string& bytes) const {
    const std::string path = Cat(::testing::TempDir(), "/written.plan");
    AtomicFile file(path);
    file.Write(bytes);
    file.Commit();
    return path;
  }
  static std::string WhyRefused(const std::string& path, const SessionOptions& options = {}) {
    try {
      Session::Open(path, options);
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  }

  PlanFile plan_;
};

TEST_F(PlanFileTest, AnswersAsTheModelItWasMadeFrom) {
  const std::string path = Cat(::testing::TempDir(), "/answers.plan");
  WritePlan(plan_, path);
  auto session = Session::Open(path, {.threads = 1});
  EXPECT_EQ(session->options().precision, Precision::kBf16);
  const NamedValue inputs[] = {{"x", Tensor::FromVector<float>({1, 1}, {1, 2})}};
  EXPECT_TRUE(Identical(session->Run(inputs)[0].tensor(), Tensor::FromVector<float>({4, 6}, {1, 2})));
}

TEST_F(PlanFileTest, EveryChangedByteIsSeen) {
  const std::string bytes = ToBytes(plan_);
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    EXPECT_THROW(ParsePlan(changed, nullptr), Error) << at;
  }
  for (size_t size = 0; size < bytes.size(); size += 5)
    EXPECT_THROW(ParsePlan(std::string_view(bytes).substr(0, size), nullptr), Error) << size;
}

// A checksum that somebody made fit does not make lengths right.
TEST_F(PlanFileTest, LengthsAreNotBelieved) {
  const std::string bytes = ToBytes(plan_);
  for (size_t at : {size_t{13}, size_t{13 + 8 + std::string(kVersion).size()}}) {
    std::string changed = bytes.substr(0, bytes.size() - 8);
    changed.replace(at, 8, std::string(8, '\x7f'));
    const uint64_t sum = Checksum(changed.data(), changed.size());
    changed.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    try {
      ParsePlan(changed, nullptr);
      ADD_FAILURE() << at;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("a part is longer than the file"));
    }
  }
}

TEST_F(PlanFileTest, OthersAreRefusedWithAReason) {
  PlanFile other = plan_;
  other.version = "0.9.1";
  EXPECT_THAT(WhyRefused(Put(ToBytes(other))), HasSubstr("was written by Ferry 0.9.1, this is "));
  other = plan_;
  other.machine = "cuda: NVIDIA Q1, compute capability 6.0";
  EXPECT_THAT(WhyRefused(Put(ToBytes(other))), HasSubstr("another machine (cuda: NVIDIA Q1, compute capability 6.0)"));
  other = plan_;
  other.provider = "abacus";
  EXPECT_THAT(WhyRefused(Put(ToBytes(other))), HasSubstr("there is no provider 'abacus'"));
  other = plan_;
  other.states.clear();
  EXPECT_THAT(WhyRefused(Put(ToBytes(other))), HasSubstr("do not match"));
  other = plan_;
  other.model = "no model";
  EXPECT_NE(WhyRefused(Put(ToBytes(other))), "");
  SessionOptions options;
  options.precision = Precision::kFp16;
  EXPECT_THAT(WhyRefused(Put(ToBytes(plan_)), options), HasSubstr("the plan computes in bf16, not in fp16"));
}

}  // namespace
}  // namespace ferry
