// What is made out of weights: once, by one thread or by all of a pool.
#include "engine/weight_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/event.h"

namespace ferry {
namespace {

Tensor Weight(float first) {
  Tensor weight(DType::kFloat, {1000});
  for (int64_t i = 0; i < weight.size(); ++i) weight.MutableData<float>()[i] = first + static_cast<float>(i);
  return weight;
}

struct Doubler {
  std::atomic<int>& calls;

  WeightCache::Fill Of(const Tensor& weight) const {
    return [weight, &calls = calls](Tensor& made) {
      ++calls;
      for (int64_t i = 0; i < weight.size(); ++i) made.MutableData<float>()[i] = 2 * weight.Data<float>()[i];
    };
  }
};

bool IsDouble(const Tensor& made, const Tensor& weight) {
  if (made.size() != weight.size()) return false;
  for (int64_t i = 0; i < weight.size(); ++i)
    if (made.Data<float>()[i] != 2 * weight.Data<float>()[i]) return false;
  return true;
}

TEST(WeightCache, MakesATensorOnce) {
  WeightCache cache;
  std::atomic<int> calls{0};
  Doubler doubler{calls};
  Tensor weight = Weight(1);
  auto first = cache.GetTensor(weight, "double", DType::kFloat, 1000, doubler.Of(weight));
  auto again = cache.GetTensor(weight, "double", DType::kFloat, 1000, doubler.Of(weight));
  auto other = cache.GetTensor(weight, "another form", DType::kFloat, 1000, doubler.Of(weight));
  EXPECT_TRUE(IsDouble(*first, weight));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_EQ(calls, 2);
}

TEST(WeightCache, BatchMakesWhatWasAskedFor) {
  for (int threads : {1, 3}) {
    WeightCache cache;
    ThreadPool pool(threads);
    std::atomic<int> calls{0};
    Doubler doubler{calls};
    std::vector<Tensor> weights;
    std::vector<std::shared_ptr<const Tensor>> made;
    WeightCache::PackingBatch batch(cache);
    for (int i = 0; i < 100; ++i) {
      weights.push_back(Weight(static_cast<float>(i)));
      for (int twice = 0; twice < 2; ++twice)
        made.push_back(cache.GetTensor(weights.back(), "double", DType::kFloat, 1000, doubler.Of(weights.back())));
    }
    EXPECT_EQ(calls, 0);
    batch.Finish(threads > 1 ? &pool : nullptr);
    EXPECT_EQ(calls, 100);
    for (size_t i = 0; i < made.size(); ++i) EXPECT_TRUE(IsDouble(*made[i], weights[i / 2]));
  }
}

// A run that meets a new shape asks while another thread makes a program.
TEST(WeightCache, OthersDoNotWaitForABatch) {
  WeightCache cache;
  std::atomic<int> calls{0};
  Doubler doubler{calls};
  Tensor weight = Weight(1);
  WeightCache::PackingBatch batch(cache);
  auto promised = cache.GetTensor(weight, "double", DType::kFloat, 1000, doubler.Of(weight));
  EXPECT_FALSE(promised->defined());
  std::thread([&] {
    auto made = cache.GetTensor(weight, "double", DType::kFloat, 1000, doubler.Of(weight));
    EXPECT_TRUE(IsDouble(*made, weight));
  }).join();
  batch.Finish(nullptr);
  EXPECT_TRUE(IsDouble(*promised, weight));
  EXPECT_EQ(calls, 1);
}

// Two programs are built side by side, and have weights in common.
TEST(WeightCache, ThreadsCollectBatchesOfTheirOwn) {
  WeightCache cache;
  std::atomic<int> calls{0};
  Doubler doubler{calls};
  const Tensor shared = Weight(1), mine = Weight(2), theirs = Weight(3);
  auto get = [&](const Tensor& weight) {
    return cache.GetTensor(weight, "double", DType::kFloat, 1000, doubler.Of(weight));
  };
  testing::Event collected, finished;
  std::thread other([&] {
    WeightCache::PackingBatch batch(cache);
    auto a = get(shared), b = get(theirs);
    EXPECT_FALSE(a->defined() || b->defined());
    collected.Set();
    finished.Wait();
    EXPECT_TRUE(IsDouble(*a, shared)) << "somebody else needed it first";
    batch.Finish(nullptr);
    EXPECT_TRUE(IsDouble(*b, theirs));
  });
  collected.Wait();
  WeightCache::PackingBatch batch(cache);
  auto a = get(shared), b = get(mine);
  batch.Finish(nullptr);
  EXPECT_TRUE(IsDouble(*a, shared) && IsDouble(*b, mine));
  EXPECT_EQ(calls, 2);
  finished.Set();
  other.join();
  EXPECT_EQ(calls, 3);
}

TEST(WeightCache, MakesLaterWhatIsNeededAgain) {
  for (int threads : {1, 3}) {
    WeightCache cache;
    ThreadPool pool(threads);
    std::atomic<int> calls{0};
    Doubler doubler{calls};
    const Tensor a = Weight(1), b = Weight(2), c = Weight(3), d = Weight(4);
    auto later = [&](const Tensor& weight, bool at_once = false) {
      return cache.GetDeferred(weight, "double", DType::kFloat, 1000, doubler.Of(weight), at_once);
    };
    EXPECT_TRUE(IsDouble(*later(a).Find(), a)) << "nothing is deferred yet";
    cache.DeferPacking();
    EXPECT_TRUE(IsDouble(*later(a).Find(), a)) << "it is there";
    EXPECT_TRUE(IsDouble(*later(b, true).Find(), b));
    EXPECT_EQ(calls, 2);
    auto needed_twice = later(c), needed_once = later(d);
    EXPECT_EQ(needed_twice.Find(), nullptr);
    EXPECT_EQ(needed_once.Find(), nullptr);
    EXPECT_EQ(calls, 2);
    EXPECT_TRUE(IsDouble(*needed_twice.Find(), c));
    EXPECT_EQ(calls, 3);
    cache.PackDeferred(threads > 1 ? &pool : nullptr, {});
    EXPECT_EQ(calls, 4);
    EXPECT_TRUE(IsDouble(*needed_once.Find(), d));
    EXPECT_TRUE(IsDouble(*later(Weight(5)).Find(), Weight(5))) << "nothing is deferred any more";
  }
}

TEST(WeightCache, TriesAgainAfterAFailure) {
  WeightCache cache;
  Tensor weight = Weight(1);
  bool fails = true;
  auto fill = [weight, &fails](Tensor& made) {
    if (fails) Fail(ErrorCode::kLimit, "no room");
    std::fill_n(made.MutableData<float>(), made.size(), 2.0f);
  };
  {
    WeightCache::PackingBatch batch(cache);
    cache.GetTensor(weight, "twos", DType::kFloat, 3, fill);
    EXPECT_THROW(batch.Finish(nullptr), Error);
  }
  EXPECT_THROW(cache.GetTensor(weight, "twos", DType::kFloat, 3, fill), Error);
  fails = false;
  EXPECT_EQ(cache.GetTensor(weight, "twos", DType::kFloat, 3, fill)->Data<float>()[2], 2.0f);
}

}  // namespace
}  // namespace ferry
