// Runs that would take for ever, or all memory there is, end as they are told, and their session goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include <csignal>
#include <thread>

#include "engine/session.h"
#include "tests/support/event.h"
#include "tests/support/graphs.h"

namespace ferry {
namespace {

using ::ferry::testing::Event;
using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

Error Thrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

// Zeros that take no memory until they are written.
Tensor LargeZeros(Shape shape, DType dtype = DType::kFloat) {
  const size_t bytes = StorageBytes(dtype, shape.ElementCount());
  void* begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return {};
  std::shared_ptr<const void> keep(begin, [bytes](const void* place) { munmap(const_cast<void*>(place), bytes); });
  return Tensor::Borrow(dtype, std::move(shape), begin, keep);
}

// "go" → "began" stands before what takes long, so that a test knows when that begins.
Model Announced(std::vector<ValueInfo> inputs, std::vector<Node> nodes, std::vector<StoredTensor> weights = {}) {
  inputs.push_back(MakeInfo("go", DType::kFloat, {1}));
  nodes.insert(nodes.begin(), MakeNode("Neg", {"go"}, {"began"}));
  return MakeModel(std::move(inputs), std::move(nodes), {MakeInfo("began"), MakeInfo("y")}, std::move(weights));
}

std::vector<NamedValue> WithGo(std::vector<NamedValue> inputs) {
  inputs.emplace_back("go", Tensor::FromVector<float>({1}));
  return inputs;
}

// What becomes of a run that another thread cancels once it is on its way. It would take many times as long as this
// test may.
Error CancelledRun(const Session& session, const std::vector<NamedValue>& inputs) {
  Event began;
  std::atomic<bool> cancelled{false};
  RunOptions options;
  options.cancelled = &cancelled;
  options.watch = [&](const std::string& name, const Value&) {
    if (name == "began") began.Set();
  };
  std::thread canceller([&] {
    began.Wait();
    std::this_thread::sleep_for(milliseconds(30));
    cancelled = true;
  });
  Error error = Thrown([&] { session.Run(WithGo(inputs), {}, options); });
  canceller.join();
  return error;
}

Error LateRun(const Session& session, const std::vector<NamedValue>& inputs) {
  return Thrown([&] { session.Run(WithGo(inputs), {}, {.time_limit = milliseconds(50)}); });
}

double SecondsOn(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Cancels after some processor time of the process, however busy the machine is.
struct CancelAfter {
  static constexpr suseconds_t kMicroseconds = 20'000;

  CancelAfter() {
    pthread_getcpuclockid(pthread_self(), &clock);
    cancelled = false;
    std::signal(SIGPROF, [](int) {
      at_cancel = SecondsOn(clock);
      cancelled = true;
    });
  }
  ~CancelAfter() {
    Set(0);
    std::signal(SIGPROF, SIG_DFL);
  }
  static void Set(suseconds_t microseconds) {
    const itimerval time{{0, 0}, {0, microseconds}};
    setitimer(ITIMER_PROF, &time, nullptr);
  }

  static inline clockid_t clock;
  static inline std::atomic<bool> cancelled;
  static inline std::atomic<double> at_cancel;
};

// Processor time that the thread of a run takes from the moment it is cancelled, some way into what takes long. The
// clock on the wall would measure how busy the machine is.
double SecondsToStop(const Session& session, const std::vector<NamedValue>& inputs) {
  const CancelAfter cancel;
  RunOptions options;
  options.cancelled = &CancelAfter::cancelled;
  options.watch = [&](const std::string& name, const Value&) {
    if (name == "began") CancelAfter::Set(CancelAfter::kMicroseconds);
  };
  Error error = Thrown([&] { session.Run(WithGo(inputs), {}, options); });
  EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.message();
  return SecondsOn(CancelAfter::clock) - CancelAfter::at_cancel;
}

std::shared_ptr<Graph> Body(std::vector<ValueInfo> inputs, std::vector<Node> nodes, std::vector<ValueInfo> outputs) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = std::move(inputs);
  body->nodes = std::move(nodes);
  body->outputs = std::move(outputs);
  return body;
}

// y doubles with every turn, for as long as "trips" says.
Model GrowingLoop() {
  auto body = Body(
      {MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {}), MakeInfo("grown", DType::kFloat, {Dim()})},
      {MakeNode("Identity", {"c"}, {"d"}), MakeNode("Concat", {"grown", "grown"}, {"more"}, {{"axis", int64_t{0}}})},
      {MakeInfo("d", DType::kBool), MakeInfo("more")});
  return Announced({MakeInfo("trips", DType::kInt64, {}), MakeInfo("start", DType::kFloat, {Dim::Named("n")})},
                   {MakeNode("Loop", {"trips", "", "start"}, {"y"}, {{"body", body}})});
}

std::vector<NamedValue> Trips(int64_t trips) {
  return {{"trips", Tensor::Scalar(trips)}, {"start", Tensor::FromVector<float>({1, 2})}};
}

// Goes on while "on" is true.
Model EndlessLoop() {
  auto body =
      Body({MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {}), MakeInfo("x", DType::kFloat, {1})},
           {MakeNode("Identity", {"c"}, {"d"}), MakeNode("Neg", {"x"}, {"z"})},
           {MakeInfo("d", DType::kBool), MakeInfo("z")});
  return Announced({MakeInfo("on", DType::kBool, {})}, {MakeNode("Loop", {"", "on", "go"}, {"y"}, {{"body", body}})});
}

TEST(Limits, AnEndlessLoop) {
  auto session = Session::FromModel(EndlessLoop(), {.threads = 1});
  const std::vector<NamedValue> forever{{"on", Tensor::Scalar(true)}};
  EXPECT_EQ(CancelledRun(*session, forever).code(), ErrorCode::kCancelled);
  EXPECT_THAT(LateRun(*session, forever).message(), HasSubstr("time limit of 0.05 s"));
  Error many = Thrown([&] { session->Run(WithGo(forever), {}, {.max_iterations = 1000}); });
  EXPECT_EQ(many.code(), ErrorCode::kLimit);
  EXPECT_THAT(many.message(), AllOf(HasSubstr("1000"), HasSubstr("--max-iterations")));
  EXPECT_EQ(session->Run(WithGo({{"on", Tensor::Scalar(false)}}))[1].tensor().Data<float>()[0], 1);
}

TEST(Limits, LoopsOfARunAreCountedTogether) {
  auto inner = Body({MakeInfo("j", DType::kInt64, {}), MakeInfo("e", DType::kBool, {})},
                    {MakeNode("Identity", {"e"}, {"f"})}, {MakeInfo("f", DType::kBool)});
  auto outer = Body({MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {})},
                    {MakeNode("Loop", {"ten", ""}, {}, {{"body", inner}}), MakeNode("Identity", {"c"}, {"d"})},
                    {MakeInfo("d", DType::kBool)});
  auto counted = Body({MakeInfo("i", DType::kInt64, {}), MakeInfo("c", DType::kBool, {})},
                      {MakeNode("Identity", {"c"}, {"d"}), MakeNode("Identity", {"i"}, {"k"})},
                      {MakeInfo("d", DType::kBool), MakeInfo("k")});
  auto session = Session::FromModel(MakeModel({MakeInfo("ten", DType::kInt64, {})},
                                              {MakeNode("Loop", {"ten", ""}, {"a"}, {{"body", counted}}),
                                               MakeNode("Loop", {"ten", ""}, {"b"}, {{"body", counted}})},
                                              {MakeInfo("a"), MakeInfo("b")}),
                                    {.threads = 1});
  const std::vector<NamedValue> ten{{"ten", Tensor::Scalar(int64_t{10})}};
  EXPECT_EQ(Thrown([&] { session->Run(ten, {}, {.max_iterations = 19}); }).code(), ErrorCode::kLimit);
  EXPECT_EQ(session->Run(ten, {}, {.max_iterations = 20})[1].tensor().size(), 10);
}

TEST(Limits, ALoopOfGrowingConcats) {
  auto session = Session::FromModel(GrowingLoop(), {.threads = 1});
  Error error = Thrown([&] { session->Run(WithGo(Trips(60)), {}, {.max_bytes = size_t{8} << 20}); });
  EXPECT_EQ(error.code(), ErrorCode::kLimit);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("Concat"), HasSubstr("memory limit of 8388608 bytes"),
                                     HasSubstr("max_bytes, --memory-limit")));
  EXPECT_EQ(session->Run(WithGo(Trips(3)), {}, {.max_bytes = size_t{8} << 20})[1].tensor().size(), 16);
}

TEST(Limits, MemoryComesBackWithEveryRun) {
  auto session = Session::FromModel(GrowingLoop(), {.threads = 1});
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(session->Run(WithGo(Trips(10)), {}, {.max_bytes = 32 << 10})[1].tensor().size(), 2048) << i;
}

TEST(Limits, ALargeMatMul) {
  Tensor x = LargeZeros({20000, 20000});
  if (!x.defined()) GTEST_SKIP() << "no address space for it";
  for (int threads : {1, 2}) {
    auto session = Session::FromModel(Announced({MakeInfo("x", DType::kFloat, {Dim::Named("n"), Dim::Named("n")})},
                                                {MakeNode("MatMul", {"x", "x"}, {"y"})}),
                                      {.threads = threads});
    const std::vector<NamedValue> large{{"x", x}};
    EXPECT_EQ(CancelledRun(*session, large).code(), ErrorCode::kCancelled);
    EXPECT_THAT(LateRun(*session, large).message(), HasSubstr("time limit"));
    EXPECT_THAT(Thrown([&] { session->Run(WithGo(large), {}, {.max_bytes = size_t{1} << 30}); }).message(),
                HasSubstr("1600000000 bytes more"));
    EXPECT_EQ(session->Run(WithGo({{"x", Tensor::Zeros(DType::kFloat, {2, 2})}}))[1].tensor().size(), 4);
  }
}

TEST(Limits, ALargeProductWithAWeight) {
  Tensor x = LargeZeros({20000, 2000}), w = LargeZeros({2000, 20000});
  if (!x.defined() || !w.defined()) GTEST_SKIP() << "no address space for them";
  for (int threads : {1, 2}) {
    auto session = Session::FromModel(Announced({MakeInfo("x", DType::kFloat, {Dim::Named("n"), 2000})},
                                                {MakeNode("MatMul", {"x", "w"}, {"y"})}, {MakeStored("w", w)}),
                                      {.threads = threads});
    EXPECT_EQ(CancelledRun(*session, {{"x", x}}).code(), ErrorCode::kCancelled);
    EXPECT_EQ(LateRun(*session, {{"x", x}}).code(), ErrorCode::kDeadline);
  }
}

TEST(Limits, ALargeConvolution) {
  Tensor x = LargeZeros({1, 16, 600, 600}), w = Tensor::Zeros(DType::kFloat, {64, 16, 31, 31});
  if (!x.defined()) GTEST_SKIP() << "no address space for it";
  for (int threads : {1, 2}) {
    auto session =
        Session::FromModel(Announced({MakeInfo("x", DType::kFloat, {1, 16, Dim::Named("h"), Dim::Named("w")})},
                                     {MakeNode("Conv", {"x", "weight"}, {"y"})}, {MakeStored("weight", w)}),
                           {.threads = threads});
    EXPECT_EQ(CancelledRun(*session, {{"x", x}}).code(), ErrorCode::kCancelled);
    EXPECT_THAT(LateRun(*session, {{"x", x}}).message(), HasSubstr("time limit"));
    EXPECT_EQ(session->Run(WithGo({{"x", LargeZeros({1, 16, 31, 31})}}))[1].tensor().size(), 64);
  }
}

// Whatever takes long looks every few milliseconds whether it is still wanted.
class Stops : public ::testing::Test {
 protected:
#if defined(FERRY_SANITIZE_ADDRESS) || defined(FERRY_SANITIZE_THREAD) || !defined(NDEBUG)
  static constexpr double kMost = 2;
#else
  static constexpr double kMost = 0.1;  // 50 ms, and as much again for a slow or busy processor
#endif
  using Ints = std::vector<int64_t>;

  static void Expect(const char* op, std::vector<std::pair<std::string, Tensor>> tensors,
                     std::vector<Attribute> attributes = {}, std::vector<StoredTensor> weights = {},
                     std::vector<std::string> order = {}, std::vector<std::string> outputs = {"y"}) {
    std::vector<ValueInfo> infos;
    std::vector<NamedValue> inputs;
    std::vector<std::string> names;
    for (auto& [name, tensor] : tensors) {
      if (!tensor.defined()) GTEST_SKIP() << "no address space for it";
      infos.push_back(MakeInfo(name, tensor.dtype(), ToSymbolic(tensor.shape())));
      names.push_back(name);
      inputs.emplace_back(name, tensor);
    }
    for (const StoredTensor& weight : weights) names.push_back(weight.name);
    if (!order.empty()) names = order;
    Model model =
        Announced(std::move(infos), {MakeNode(op, names, outputs, std::move(attributes))}, std::move(weights));
    model.graph.outputs[1].type = Type();
    auto session = Session::FromModel(std::move(model), {.threads = 1});
    EXPECT_LT(SecondsToStop(*session, inputs), kMost) << op;
  }
  static StoredTensor List(std::string name, const Ints& values) {
    return MakeStored(std::move(name), Tensor::FromVector<int64_t>(values));
  }
  static StoredTensor Ones(std::string name, Shape shape) {
    Tensor ones = Tensor::Zeros(DType::kFloat, std::move(shape));
    std::fill_n(ones.MutableData<float>(), ones.size(), 1.0f);
    return MakeStored(std::move(name), ones);
  }
};

TEST_F(Stops, Convolutions) {
  const Tensor image = LargeZeros({1, 64, 600, 600});
  Expect("Conv", {{"x", image}}, {}, {Ones("w", {64, 64, 3, 3})});
  Expect("Conv", {{"x", image}}, {}, {Ones("w", {64, 64, 5, 5})});
  Expect("Conv", {{"x", image}}, {{"group", int64_t{64}}}, {Ones("w", {64, 1, 15, 15})});
  Expect("Conv", {{"x", image}}, {{"group", int64_t{8}}}, {Ones("w", {64, 8, 7, 7})});
  Expect("Conv", {{"x", image}, {"w", LargeZeros({64, 64, 5, 5})}});
  Expect("ConvTranspose", {{"x", LargeZeros({1, 64, 300, 300})}, {"w", LargeZeros({64, 64, 4, 4})}},
         {{"strides", Ints{2, 2}}});
  Expect("ConvInteger", {{"x", LargeZeros({1, 64, 900, 900}, DType::kUInt8)}}, {},
         {MakeStored("w", Tensor::Zeros(DType::kInt8, {64, 64, 3, 3}))});
}

TEST_F(Stops, Poolings) {
  const Tensor plane = LargeZeros({1, 1, 2000, 2000});
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"})
    Expect(op, {{"x", plane}}, {{"kernel_shape", Ints{21, 21}}});
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) Expect(op, {{"x", LargeZeros({1, 1, 20000, 20000})}});
  Expect("Resize", {{"x", LargeZeros({1, 3, 1000, 1000})}}, {{"mode", std::string("cubic")}},
         {MakeStored("s", Tensor::FromVector<float>({1, 1, 4, 4}))}, {"x", "", "s"});
}

TEST_F(Stops, ProductsAndRecurrences) {
  Expect("MatMul", {{"a", LargeZeros({4'000'000, 4, 4})}, {"b", LargeZeros({4'000'000, 4, 4})}});
  Expect("MatMul", {{"a", LargeZeros({4000, 4000}, DType::kDouble)}, {"b", LargeZeros({4000, 4000}, DType::kDouble)}});
  Expect("Einsum", {{"a", LargeZeros({400, 400})}, {"b", LargeZeros({400, 400})}, {"c", LargeZeros({400, 400})}},
         {{"equation", std::string("ab,bc,ca->abc")}});
  Expect("LSTM", {{"x", LargeZeros({300, 16, 512})}}, {{"hidden_size", int64_t{512}}},
         {Ones("w", {1, 2048, 512}), Ones("r", {1, 2048, 512})});
  Expect("GRU", {{"x", LargeZeros({300, 16, 512})}}, {{"hidden_size", int64_t{512}}},
         {Ones("w", {1, 1536, 512}), Ones("r", {1, 1536, 512})});
}

TEST_F(Stops, WhatMovesElements) {
  Expect("Transpose", {{"x", LargeZeros({16000, 16000})}});
  Expect("Concat", {{"a", LargeZeros({40'000'000, 2})}, {"b", LargeZeros({40'000'000, 2})}}, {{"axis", int64_t{1}}});
  Expect("Expand", {{"x", LargeZeros({3, 1})}}, {}, {List("shape", {3, 70'000'000})});
  const Tensor places = LargeZeros({60'000'000}, DType::kInt64), many = LargeZeros({60'000'000});
  Expect("GatherElements", {{"x", many}, {"i", places}});
  Expect("Gather", {{"x", LargeZeros({1000})}, {"i", places}});
  Expect("ScatterElements", {{"x", LargeZeros({1000})}, {"i", places}, {"u", many}},
         {{"reduction", std::string("add")}});
  Expect("ScatterND", {{"x", LargeZeros({1000})}, {"i", LargeZeros({60'000'000, 1}, DType::kInt64)}, {"u", many}});
  Expect("EyeLike", {{"x", LargeZeros({16000, 16000})}});
}

TEST_F(Stops, WhatSortsAndReduces) {
  const Tensor row = LargeZeros({1, 40'000'000});
  Expect("TopK", {{"x", row}}, {}, {List("k", {1'000'000})}, {"x", "k"}, {"y", "places"});
  Expect("TopK", {{"x", LargeZeros({100'000, 1000})}}, {}, {List("k", {10})}, {"x", "k"}, {"y", "places"});
  Expect("Unique", {{"x", row}});
  Expect("ReduceSum", {{"x", LargeZeros({400'000'000})}});
  Expect("ReduceMax", {{"x", LargeZeros({200'000, 2000})}}, {}, {List("axes", {0})});
  Expect("ArgMax", {{"x", LargeZeros({200'000'000})}});
  Expect("Softmax", {{"x", LargeZeros({4, 20000, 1000})}}, {{"axis", int64_t{1}}});
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization"})
    Expect(op, {{"x", LargeZeros({1, 200'000'000})}});
  for (const char* op : {"LayerNormalization", "RMSNormalization"})
    Expect(op, {{"x", LargeZeros({1, 200'000'000})}, {"scale", LargeZeros({200'000'000})}});
  Expect("NonMaxSuppression",
         {{"b", LargeZeros({1, 20000, 4})}, {"s", LargeZeros({1, 2, 20000})}, {"n", Tensor::Scalar(int64_t{20000})}});
}

TEST_F(Stops, WhatComputesElementByElement) {
  Expect("Mish", {{"x", LargeZeros({100'000'000})}});
  Expect("Pow", {{"x", LargeZeros({100'000'000})}, {"e", LargeZeros({100'000'000})}});
  Expect("DFT", {{"x", LargeZeros({1, 4'000'037, 1})}});
  Expect("Bernoulli", {{"x", LargeZeros({50'000'000})}});
  Expect("Col2Im", {{"x", LargeZeros({1, 9, 1998 * 1998})},
                    {"i", Tensor::FromVector<int64_t>({2000, 2000})},
                    {"b", Tensor::FromVector<int64_t>({3, 3})}});
}

Model DoublingStrings(int times) {
  std::vector<Node> nodes;
  std::string last = "s0";
  for (int i = 1; i <= times; ++i) {
    const std::string next = i == times ? "y" : "s" + std::to_string(i);
    nodes.push_back(MakeNode("StringConcat", {last, last}, {next}));
    last = next;
  }
  return Announced({MakeInfo("s0", DType::kString, {Dim::Named("n")})}, std::move(nodes));
}

TEST(Limits, StringsThatDouble) {
  auto session = Session::FromModel(DoublingStrings(40), {.threads = 1});
  Error error = Thrown([&] {
    session->Run(WithGo({{"s0", Tensor::FromVector<std::string>({"x"})}}), {}, {.max_bytes = size_t{16} << 20});
  });
  EXPECT_EQ(error.code(), ErrorCode::kLimit);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("StringConcat"), HasSubstr("memory limit of 16777216 bytes")));
  EXPECT_EQ(session->Run(WithGo({{"s0", Tensor::FromVector<std::string>({""})}}))[1].tensor().size(), 1);
  // Text that was made and given back is not counted for ever.
  auto few = Session::FromModel(DoublingStrings(10), {.threads = 1});
  for (int i = 0; i < 20; ++i)
    few->Run(WithGo({{"s0", Tensor::FromVector<std::string>({"x"})}}), {}, {.max_bytes = 8 << 10});
}

TEST(Limits, AStringThatIsRepeated) {
  auto session =
      Session::FromModel(Announced({MakeInfo("s", DType::kString, {1}), MakeInfo("shape", DType::kInt64, {1})},
                                   {MakeNode("Expand", {"s", "shape"}, {"y"})}),
                         {.threads = 1});
  auto inputs = [](int64_t times) {
    return WithGo({{"s", Tensor::FromVector<std::string>({std::string(1000, 'x')})},
                   {"shape", Tensor::FromVector<int64_t>({times})}});
  };
  EXPECT_THAT(Thrown([&] { session->Run(inputs(100'000), {}, {.max_bytes = 50'000'000}); }).message(),
              AllOf(HasSubstr("Expand"), HasSubstr("memory limit of 50000000 bytes")));
  EXPECT_EQ(session->Run(inputs(10), {}, {.max_bytes = 50'000'000})[1].tensor().size(), 10);
}

TEST(Limits, AModelThatAsksForAHundredGigabytes) {
  auto session = Session::FromModel(
      Announced({MakeInfo("shape", DType::kInt64, {1})}, {MakeNode("ConstantOfShape", {"shape"}, {"y"})}),
      {.threads = 1});
  auto size = [](int64_t count) { return WithGo({{"shape", Tensor::FromVector<int64_t>({count})}}); };
  Error error = Thrown([&] { session->Run(size(25'000'000'000), {}, {.max_bytes = size_t{1} << 30}); });
  EXPECT_EQ(error.code(), ErrorCode::kLimit);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("ConstantOfShape"), HasSubstr("100000000000 bytes more")));
  EXPECT_EQ(session->Run(size(5), {}, {.max_bytes = size_t{1} << 30})[1].tensor().size(), 5);
}

// Sizes that are known beforehand are part of the arena, which is refused before anything runs.
TEST(Limits, AnArenaOfAHundredGigabytes) {
  auto session = Session::FromModel(
      MakeModel({MakeInfo("x", DType::kFloat, {1})},
                {MakeNode("Expand", {"x", "shape"}, {"a"}), MakeNode("Sin", {"a"}, {"b"}),
                 MakeNode("ReduceSum", {"b"}, {"y"}, {{"keepdims", int64_t{0}}})},
                {MakeInfo("y")}, {MakeStored("shape", Tensor::FromVector<int64_t>({25'000'000'000}))}),
      {.threads = 1});
  Error error = Thrown([&] {
    session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({1})}}, {}, {.max_bytes = size_t{1} << 30});
  });
  EXPECT_EQ(error.code(), ErrorCode::kLimit);
  EXPECT_THAT(error.message(), HasSubstr("memory limit of 1073741824 bytes"));
}

TEST(Limits, OfASessionHoldForEveryRun) {
  SessionOptions options{.threads = 1};
  options.limits.bytes = 1 << 20;
  options.limits.iterations = 30;
  auto session = Session::FromModel(GrowingLoop(), options);
  EXPECT_THAT(Thrown([&] { session->Run(WithGo(Trips(40))); }).message(), HasSubstr("bytes more"));
  EXPECT_EQ(session->Run(WithGo(Trips(20)), {}, {.max_bytes = size_t{64} << 20})[1].tensor().size(), 2 << 20);
  EXPECT_THAT(Thrown([&] { session->Run(WithGo(Trips(40)), {}, {.max_iterations = 5}); }).message(),
              HasSubstr("has run 5 times"));
}

// A product of two constants that is much larger than they are is left to runs, which have limits.
TEST(Limits, FoldingTakesLittleMemory) {
  auto column = Tensor::Zeros(DType::kFloat, {200'000, 1}), row = Tensor::Zeros(DType::kFloat, {1, 200'000});
  auto session =
      Session::FromModel(MakeModel({MakeInfo("x", DType::kFloat, {1})},
                                   {MakeNode("MatMul", {"a", "b"}, {"huge"}), MakeNode("Add", {"huge", "x"}, {"y"})},
                                   {MakeInfo("y")}, {MakeStored("a", column), MakeStored("b", row)}),
                         {.threads = 1});
  EXPECT_EQ(Thrown([&] {
              session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({1})}}, {},
                           {.max_bytes = size_t{1} << 30});
            }).code(),
            ErrorCode::kLimit);
}

TEST(Limits, OpeningHasATimeLimitAndMayBeCancelled) {
  SessionOptions late{.threads = 1};
  late.limits.time = std::chrono::nanoseconds(1);
  EXPECT_THAT(Thrown([&] { Session::FromModel(DoublingStrings(3), late); }).message(),
              HasSubstr("opening the model takes longer"));
  std::atomic<bool> cancelled{true};
  SessionOptions options{.threads = 1};
  options.cancelled = &cancelled;
  EXPECT_EQ(Thrown([&] { Session::FromModel(DoublingStrings(3), options); }).code(), ErrorCode::kCancelled);
}

// Each of 31 functions calls the one before twice.
TEST(Limits, FunctionsThatCallEachOtherAreCountedFirst) {
  Model model = MakeModel({MakeInfo("x", DType::kFloat, {1})}, {MakeNode("F30", {"x"}, {"y"})}, {MakeInfo("y")});
  model.graph.nodes[0].domain = "laughs";
  model.opsets.push_back({"laughs", 1, {}});
  for (int i = 0; i <= 30; ++i) {
    Function function;
    function.name = "F" + std::to_string(i);
    function.domain = "laughs";
    function.inputs = {"a"};
    function.outputs = {"c"};
    function.opsets = model.opsets;
    const std::string inner = i == 0 ? "Neg" : "F" + std::to_string(i - 1);
    function.nodes = {MakeNode(inner, {"a"}, {"b"}), MakeNode(inner, {"b"}, {"c"})};
    for (Node& node : function.nodes) node.domain = i == 0 ? "" : "laughs";
    model.functions.push_back(std::move(function));
  }
  Error error = Thrown([&] { Session::FromModel(CopyDeep(model), {.threads = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kLimit);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("more than 1000000 nodes"), HasSubstr("max_expanded_nodes")));
  model.graph.nodes[0].op_type = "F3";
  SessionOptions options{.threads = 1};
  options.limits.expanded_nodes = 31;
  auto run = [&] {
    auto session = Session::FromModel(CopyDeep(model), options);
    return session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector<float>({3})}})[0].tensor().Data<float>()[0];
  };
  EXPECT_EQ(run(), 3) << "16 times negated: 30 nodes are made on the way";
  options.limits.expanded_nodes = 29;
  EXPECT_EQ(Thrown([&] { run(); }).code(), ErrorCode::kLimit);
}

}  // namespace
}  // namespace ferry
