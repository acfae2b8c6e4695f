// Nobody waits for what somebody else loads or builds: shown by the order of events. A provider that stops while it
// makes a kernel stands for a large model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "engine/loaded_model.h"
#include "engine/model_store.h"
#include "engine/runtime.h"
#include "onnx/writer.h"
#include "tests/support/event.h"
#include "tests/support/graphs.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using ::ferry::testing::Event;
using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::testing::HasSubstr;

// Stops at the first node of a program whose input has `stops_at` rows, and counts programs.
class GateProvider final : public Provider {
 public:
  explicit GateProvider(int64_t stops_at = -1) : stops_at_(stops_at) {}

  std::string_view name() const override { return "gate"; }
  std::string Fingerprint(const ProviderOptions&) const override { return {}; }
  std::unique_ptr<const Compiler> Open(const ProviderOptions&) const override { return std::make_unique<Gate>(*this); }

  mutable std::atomic<int> programs{0};
  mutable Event stopped, go_on;

 private:
  struct Gate final : Compiler {
    explicit Gate(const GateProvider& owner) : owner(owner) {}
    std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
      if (request.node.op_type != "Neg") return std::nullopt;
      ++owner.programs;
      const std::optional<SymbolicShape>& shape = request.inputs[0]->type.shape;
      if (shape && (*shape)[0].known() && *(*shape)[0].value == owner.stops_at_) {
        owner.stopped.Set();
        owner.go_on.Wait();
      }
      return std::nullopt;
    }
    const GateProvider& owner;
  };
  const int64_t stops_at_;
};

Model NegModel() {
  return MakeModel({MakeInfo("x", DType::kFloat, {Dim::Named("rows"), 2})}, {MakeNode("Neg", {"x"}, {"y"})},
                   {MakeInfo("y")});
}

std::vector<NamedValue> Rows(int64_t rows) {
  Tensor x(DType::kFloat, {rows, 2});
  for (int64_t i = 0; i < x.size(); ++i) x.MutableData<float>()[i] = static_cast<float>(i);
  return {{"x", x}};
}

bool Answers(const Session& session, int64_t rows, const RunOptions& options = {}) {
  std::vector<Value> results = session.Run(Rows(rows), {}, options);
  const Tensor& y = results[0].tensor();
  return y.dim(0) == rows && y.Data<float>()[y.size() - 1] == -static_cast<float>(2 * rows - 1);
}

struct GatedSession {
  explicit GatedSession(int64_t stops_at, int max_programs = 32)
      : provider(stops_at),
        session(Session::FromModel(
            NegModel(), {.provider = "gate,cpu",
                         .max_programs = max_programs,
                         .runtime = std::make_shared<Runtime>(1, std::vector<const Provider*>{&provider})})) {}
  GateProvider provider;
  std::shared_ptr<Session> session;
};

// True when the call returns although the gate is closed; it is opened then, so that a failure is no hang.
template <class Call>
bool ReturnsMeanwhile(GateProvider& gate, const Call& call) {
  std::future<void> done = std::async(std::launch::async, call);
  const bool in_time = done.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  if (!in_time) gate.go_on.Set();
  done.get();
  return in_time;
}

TEST(SessionsUnderLoad, ARunOnAReadyProgramDoesNotWaitForANewShape) {
  GatedSession gated(7);
  EXPECT_TRUE(Answers(*gated.session, 1));
  std::thread builder([&] { EXPECT_TRUE(Answers(*gated.session, 7)); });
  ASSERT_TRUE(gated.provider.stopped.Wait());
  EXPECT_TRUE(ReturnsMeanwhile(gated.provider, [&] {
    EXPECT_TRUE(Answers(*gated.session, 1)) << "a program that is there";
    EXPECT_TRUE(Answers(*gated.session, 1)) << "the same, by the short way";
    EXPECT_TRUE(Answers(*gated.session, 3)) << "another program that is made meanwhile";
  }));
  gated.provider.go_on.Set();
  builder.join();
  EXPECT_EQ(gated.provider.programs, 3);
}

TEST(SessionsUnderLoad, AShapeIsBuiltOnceForAllWhoWaitForIt) {
  GatedSession gated(7);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(Answers(*gated.session, 7)); });
  ASSERT_TRUE(gated.provider.stopped.Wait());
  gated.provider.go_on.Set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gated.provider.programs, 1);
}

TEST(SessionsUnderLoad, WhoWaitsForAProgramMayBeCancelled) {
  GatedSession gated(7);
  std::thread builder([&] { EXPECT_TRUE(Answers(*gated.session, 7)); });
  ASSERT_TRUE(gated.provider.stopped.Wait());
  EXPECT_TRUE(ReturnsMeanwhile(gated.provider, [&] {
    std::atomic<bool> cancelled{true};
    try {
      Answers(*gated.session, 7, {.cancelled = &cancelled});
      ADD_FAILURE() << "it was not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    }
  }));
  gated.provider.go_on.Set();
  builder.join();
}

TEST(SessionsUnderLoad, TheProgramNotUsedForTheLongestTimeLeaves) {
  GatedSession gated(-1, 2);
  const std::atomic<int>& built = gated.provider.programs;
  auto run = [&](int64_t rows) { EXPECT_TRUE(Answers(*gated.session, rows)); };
  run(1), run(2);
  EXPECT_EQ(built, 2);
  run(1), run(1);  // the second by the short way
  run(3);          // 2 leaves
  EXPECT_EQ(built, 3);
  run(1);
  EXPECT_EQ(built, 3);
  run(2);  // 3 leaves
  EXPECT_EQ(built, 4);
  run(1);
  EXPECT_EQ(built, 4);
  // A thread that runs the same shape again and again, without looking into the cache, counts as well.
  run(1), run(1);
  std::thread([&] { run(4); }).join();  // 2 leaves
  EXPECT_EQ(built, 5);
  run(1);
  EXPECT_EQ(built, 5);
}

TEST(SessionsUnderLoad, TwoModelsAreLoadedSideBySide) {
  const std::string path = testing::TemporaryPath("side_by_side.onnx");
  WriteModel(NegModel(), path);
  ModelStore& store = ModelStore::OfThisProcess();
  Event loading, go_on;
  std::atomic<int> loads{0};
  auto load = [&]() -> ModelStore::Loaded {
    ++loads;
    loading.Set();
    go_on.Wait();
    return {std::make_shared<LoadedModel>(NegModel(), SessionOptions{}), {}};
  };
  std::shared_ptr<LoadedModel> first, second;
  std::thread slow([&] { first = store.Get("a large model", load); });
  ASSERT_TRUE(loading.Wait());
  std::thread same([&] { second = store.Get("a large model", load); });
  std::future<void> other = std::async(std::launch::async, [&] {
    auto session = Session::Open(path, {.threads = 1});
    EXPECT_TRUE(Answers(*session, 2));
    EXPECT_EQ(&Session::Open(path, {.threads = 1})->model(), &session->model()) << "the second one shares it";
  });
  EXPECT_EQ(other.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "it waits for the other model";
  go_on.Set();
  slow.join(), same.join(), other.get();
  EXPECT_EQ(first, second);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(store.Get("a large model", load), first) << "it is open";
}

TEST(SessionsUnderLoad, ALoadThatFailsLeavesNothingBehind) {
  ModelStore store;
  bool fails = true;
  auto load = [&]() -> ModelStore::Loaded {
    if (fails) Fail(ErrorCode::kInvalidModel, "broken");
    return {std::make_shared<LoadedModel>(NegModel(), SessionOptions{}), {}};
  };
  EXPECT_THROW(store.Get("key", load), Error);
  fails = false;
  EXPECT_NE(store.Get("key", load), nullptr);
}

TEST(SessionsUnderLoad, ManyThreadsBuildAndRunAtOnce) {
  auto session = Session::FromModel(NegModel(), {.threads = 2, .max_programs = 3});
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 30; ++i) EXPECT_TRUE(Answers(*session, 1 + (t + i) % 5));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Runtime, SessionsShareItsThreadsAndProviders) {
  GateProvider provider;
  auto runtime = std::make_shared<Runtime>(3, std::vector<const Provider*>{&provider});
  auto a = Session::FromModel(NegModel(), {.runtime = runtime});
  auto b = Session::FromModel(NegModel(), {.provider = "gate,cpu", .runtime = runtime});
  EXPECT_EQ(a->threads(), 3);
  EXPECT_TRUE(Answers(*a, 2) && Answers(*b, 2));
  EXPECT_EQ(provider.programs, 1);
  try {
    Session::FromModel(NegModel(), {.threads = 2, .runtime = runtime});
    ADD_FAILURE() << "two numbers of threads";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("runtime has 3 threads"));
  }
}

}  // namespace
}  // namespace ferry
