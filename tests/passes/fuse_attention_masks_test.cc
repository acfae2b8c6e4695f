// What lies between the two products of attention: scales, masks that are added, numbers in place of scores, and the
// zeros of a query that may look nowhere.
#include <limits>

#include "passes/fuse_attention.h"
#include "tests/passes/optimized.h"

namespace ferry {
namespace {

using namespace testing;  // NOLINT

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  int64_t batch, heads, queries, keys, size;
};

class Scores {
 public:
  Scores(const Sizes& sizes, Random& random) : sizes_(sizes), random_(random) {
    const auto& [batch, heads, queries, keys, size] = sizes;
    AddInput("q", random.Numbers<float>({batch, heads, queries, size}));
    AddInput("k", random.Numbers<float>({batch, heads, keys, size}));
    AddInput("v", random.Numbers<float>({batch, heads, keys, size}));
    constants_.push_back(Scalar("zero", 0.0f));
    Add("Transpose", {"k"}, {Perm({0, 1, 3, 2})});
    Add("MatMul", {"q", now_});
  }

  void Scale(const char* op, float by) {
    constants_.push_back(Scalar(Cat("by", nodes_.size()), by));
    Add(op, {now_, constants_.back().name});
  }
  void Mask() {
    Tensor mask = random_.Numbers<float>(SomeShape());
    for (int64_t i = 0; i < mask.size(); ++i)
      if (random_.Int(0, 4) == 0) mask.MutableData<float>()[i] = -kInfinity;
    const std::string name = Cat("mask", nodes_.size());
    AddInput(name, mask);
    Add("Add", random_.Bool() ? std::vector{now_, name} : std::vector{name, now_});
  }
  void Choose(float fill) {
    Tensor flags(DType::kBool, SomeShape());
    for (int64_t i = 0; i < flags.size(); ++i) flags.MutableData<bool>()[i] = random_.Bool();
    if (random_.Bool() && flags.rank() == 4)  // all of the first query's, or none
      std::fill_n(flags.MutableData<bool>(), flags.shape()[3], random_.Bool());
    const std::string name = Cat("flags", nodes_.size());
    AddInput(name, flags);
    constants_.push_back(Scalar(Cat("fill", nodes_.size()), fill));
    const std::string number = constants_.back().name;
    Add("Where", random_.Bool() ? std::vector{name, now_, number} : std::vector{name, number, now_});
  }
  void Softmax() {
    scores_ = now_;
    Add("Softmax", {now_});
  }
  void GuardNan() {
    const std::string p = now_;
    Add("IsNaN", {p});
    Add("Where", {now_, "zero", p});
  }
  void GuardEmpty() {
    const std::string p = now_;
    constants_.push_back(Ints("last", {-1}));
    constants_.push_back(Scalar("nothing", -kInfinity));
    Add("ReduceMax", {scores_, "last"});
    Add("Equal", {now_, "nothing"});
    Add("Where", {now_, "zero", p});
  }
  void SetInput(const std::string& name, int64_t element, float value) {
    for (size_t i = 0; i < infos_.size(); ++i)
      if (infos_[i].name == name) values_[i].tensor().MutableData<float>()[element] = value;
  }

  // The optimised graph, whose answers were those of the plain one.
  Graph Check() {
    Add("MatMul", {now_, "v"});
    return HoldAgainstOptimized(MakeModel(infos_, nodes_, {MakeInfo(now_)}, constants_), values_);
  }

 private:
  void Add(const char* op, const std::vector<std::string>& from, std::vector<Attribute> attributes = {}) {
    now_ = Cat("value", nodes_.size());
    nodes_.push_back(MakeNode(op, from, {now_}, std::move(attributes)));
  }
  void AddInput(const std::string& name, const Tensor& tensor) {
    infos_.push_back(MakeInfo(name, tensor.dtype(), SymbolicShape(tensor.shape().begin(), tensor.shape().end())));
    values_.emplace_back(tensor);
  }
  Shape SomeShape() {
    const auto& [batch, heads, queries, keys, size] = sizes_;
    const Shape shapes[] = {{batch, 1, 1, keys},
                            {1, 1, queries, keys},
                            {queries, keys},
                            {batch, heads, queries, keys},
                            {batch, 1, queries, 1},
                            {1},
                            {keys}};
    return shapes[random_.Int(0, 6)];
  }

  const Sizes sizes_;
  Random& random_;
  std::vector<ValueInfo> infos_;
  std::vector<Value> values_;
  std::vector<StoredTensor> constants_;
  std::vector<Node> nodes_;
  std::string now_, scores_;
};

Sizes SomeSizes(Random& random) {
  return {random.Int(1, 2), random.Int(1, 3), random.Int(1, 9), random.Int(1, 40), random.Int(1, 20)};
}

TEST(FuseAttention, TakesScalesMasksAndChoicesInAnyOrder) {
  Random random(43);
  for (int round = 0; round < 600; ++round) {
    Scores scores(SomeSizes(random), random);
    if (random.Bool()) scores.Scale(random.Bool() ? "Mul" : "Div", 3.0f);
    const float fills[] = {-kInfinity, -1e4f, -1e9f, std::numeric_limits<float>::lowest(), 0.5f};
    const int64_t masks = random.Int(0, 4);
    if (masks == 1 || masks == 3) scores.Mask();
    if (masks >= 2) scores.Choose(fills[random.Int(0, 4)]);
    if (masks == 4) scores.Mask();
    scores.Softmax();
    if (int64_t guard = random.Int(0, 2)) guard == 1 ? scores.GuardNan() : scores.GuardEmpty();
    Graph graph = scores.Check();
    ASSERT_EQ(Count(graph, "FusedAttention"), 1) << "round " << round;
    ASSERT_EQ(graph.nodes.size(), 1u) << "round " << round;
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

TEST(FuseAttention, WhatIsLeftOutMayBeNoNumber) {
  Random random(47);
  for (int64_t queries : {1, 8}) {
    Scores scores({1, 1, queries, 20, 5}, random);
    scores.Choose(-kInfinity);
    scores.SetInput("k", 7, std::numeric_limits<float>::quiet_NaN());
    scores.Softmax();
    scores.GuardEmpty();
    EXPECT_EQ(Count(scores.Check(), "FusedAttention"), 1);
  }
}

// NaN among the scores is no empty row: it stays NaN where only empty rows become zeros.
TEST(FuseAttention, NanIsNotEmpty) {
  Random random(53);
  for (bool guards_nan : {false, true})
    for (int64_t keys : {3, 16, 40}) {
      Scores scores({1, 1, 5, keys, 4}, random);
      scores.Mask();
      scores.SetInput("q", 0, std::numeric_limits<float>::quiet_NaN());
      for (int64_t i = 0; i < keys; ++i) scores.SetInput("mask2", i, -kInfinity);
      scores.Softmax();
      guards_nan ? scores.GuardNan() : scores.GuardEmpty();
      EXPECT_EQ(Count(scores.Check(), "FusedAttention"), 1);
    }
}

TEST(FuseAttention, LeavesWhatScalesTheMaskToo) {
  Random random(59);
  Scores scores(SomeSizes(random), random);
  scores.Mask();
  scores.Scale("Mul", 0.5f);
  scores.Softmax();
  EXPECT_EQ(Count(scores.Check(), "FusedAttention"), 0);
  Scores twice(SomeSizes(random), random);
  twice.Choose(-1e9f);
  twice.Choose(-1e9f);
  twice.Softmax();
  EXPECT_EQ(Count(twice.Check(), "FusedAttention"), 0);
}

}  // namespace
}  // namespace ferry
