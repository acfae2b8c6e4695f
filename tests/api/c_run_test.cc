#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "base/json.h"
#include "ferry/ferry.hpp"
#include "tests/api/outcome.h"
#include "tests/support/temporary_folder.h"

namespace {

const std::string kSimpleNet = std::string(FERRY_TEST_DATA) + "/torch-models/simple_net/torch.onnx";

class CRun : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_GOOD(ferry_session_open(kSimpleNet.c_str(), nullptr, &session));
    EXPECT_GOOD(ferry_run_options_create(&options));
    int64_t dims[] = {2, 10};
    EXPECT_GOOD(ferry_tensor_create(FERRY_FLOAT, dims, 2, &input));
    auto* x = static_cast<float*>(ferry_tensor_mutable_data(input));
    for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i) / 10;
  }
  void TearDown() override {
    ferry_value_free(input);
    ferry_run_options_free(options);
    ferry_session_free(session);
  }
  ferry_status* Run(ferry_value** output) {
    const char* name = "x";
    return ferry_run_with(session, options, &name, &input, 1, nullptr, 1, output);
  }
  std::vector<float> Answer() {
    ferry_value* output = nullptr;
    EXPECT_GOOD(Run(&output));
    auto* y = static_cast<const float*>(ferry_tensor_data(output));
    std::vector<float> answer(y, y + ferry_tensor_size(output));
    ferry_value_free(output);
    return answer;
  }

  ferry_session* session = nullptr;
  ferry_run_options* options = nullptr;
  ferry_value* input = nullptr;
};

struct Counted {
  std::set<void*> living;
  std::vector<size_t> outputs;
  bool refuse = false;

  static void* Allocate(void* user, size_t output, size_t bytes) {
    auto* self = static_cast<Counted*>(user);
    self->outputs.push_back(output);
    if (self->refuse) return nullptr;
    void* memory = std::malloc(bytes);
    self->living.insert(memory);
    return memory;
  }
  static void Release(void* user, void* memory) {
    static_cast<Counted*>(user)->living.erase(memory);
    std::free(memory);
  }
};

TEST_F(CRun, OutputsLieInTheCallersMemory) {
  std::vector<float> plain = Answer();
  Counted counted;
  ferry_allocator allocator{Counted::Allocate, Counted::Release, &counted};
  EXPECT_GOOD(ferry_run_options_set_allocator(options, &allocator));
  ferry_value* output = nullptr;
  EXPECT_GOOD(Run(&output));
  EXPECT_EQ(counted.outputs, std::vector<size_t>{0});
  EXPECT_TRUE(counted.living.count(const_cast<void*>(ferry_tensor_data(output))));
  ferry_value* second = nullptr;
  EXPECT_GOOD(ferry_value_share(output, &second));
  ferry_value_free(output);
  EXPECT_EQ(counted.living.size(), 1u);
  auto* y = static_cast<const float*>(ferry_tensor_data(second));
  EXPECT_EQ(std::vector<float>(y, y + 6), plain);
  ferry_value_free(second);
  EXPECT_TRUE(counted.living.empty());

  counted.refuse = true;
  EXPECT_EQ(Outcome(Run(&output)).code, FERRY_LIMIT);
  EXPECT_EQ(output, nullptr);
}

TEST_F(CRun, AnOutputMayBeWrittenOverItsInput) {
  ferry_value* by_name[1] = {};
  const char *name = "x", *wanted = "x";
  std::vector<float> memory(20, 0.5f);
  int64_t dims[] = {2, 10};
  ferry_value* borrowed = nullptr;
  EXPECT_GOOD(ferry_tensor_borrow(FERRY_FLOAT, dims, 2, memory.data(), 80, &borrowed));
  EXPECT_EQ(ferry_tensor_mutable_data(borrowed), nullptr);
  ferry_allocator allocator{[](void* user, size_t, size_t) { return user; }, nullptr, memory.data()};
  EXPECT_GOOD(ferry_run_options_set_allocator(options, &allocator));
  ferry_value* output = nullptr;
  EXPECT_GOOD(ferry_run_with(session, options, &name, &borrowed, 1, nullptr, 1, &output));
  std::vector<float> over(memory.begin(), memory.begin() + 6);
  EXPECT_GOOD(ferry_run_options_set_allocator(options, nullptr));
  std::fill(memory.begin(), memory.end(), 0.5f);
  ferry_value* plain = nullptr;
  EXPECT_GOOD(ferry_run(session, &name, &borrowed, 1, nullptr, 1, &plain));
  auto* y = static_cast<const float*>(ferry_tensor_data(plain));
  EXPECT_EQ(over, std::vector<float>(y, y + 6));
  EXPECT_GOOD(ferry_run(session, &name, &borrowed, 1, &wanted, 1, by_name));
  for (ferry_value* value : {output, plain, borrowed, by_name[0]}) ferry_value_free(value);
}

TEST_F(CRun, CancelledRunsSaySo) {
  ferry_run_options_cancel(options);
  ferry_value* output = nullptr;
  EXPECT_EQ(Outcome(Run(&output)).code, FERRY_CANCELLED);
  ferry_run_options_reset(options);
  EXPECT_EQ(Answer().size(), 6u);
}

TEST_F(CRun, ProfilesAreChromeTraces) {
  ferry_profile* profile = nullptr;
  EXPECT_GOOD(ferry_profile_create(&profile));
  EXPECT_GOOD(ferry_run_options_set_profile(options, profile));
  Answer();
  Answer();
  size_t count = ferry_profile_count(profile);
  EXPECT_GE(count, 4u);
  std::string path = ferry::testing::TemporaryPath("profile.json");
  EXPECT_GOOD(ferry_profile_write(profile, path.c_str()));
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ferry::Json trace = ferry::Json::Parse(text);
  ASSERT_EQ(trace.AsArray().size(), count + 1);
  int runs = 0, steps = 0;
  for (const ferry::Json& event : trace.AsArray()) {
    if (event.At("ph").AsString() != "X") continue;
    EXPECT_GE(event.At("dur").AsDouble(), 0);
    EXPECT_GE(event.At("ts").AsDouble(), 0);
    if (event.At("cat").AsString() == "Session") {
      ++runs;
      EXPECT_EQ(event.At("name").AsString(), "model_run");
      continue;
    }
    ++steps;
    const ferry::Json& arguments = event.At("args");
    EXPECT_FALSE(arguments.At("op_name").AsString().empty());
    EXPECT_FALSE(event.At("name").AsString().empty());
    const ferry::Json& shape = arguments.At("output_type_shape").AsArray().at(0).At("float");
    EXPECT_EQ(shape.AsArray().at(0).AsInt(), 2);
    EXPECT_GT(arguments.At("output_size").AsInt(), 0);
    EXPECT_GT(arguments.At("input_size").AsInt(), 0);
  }
  EXPECT_EQ(runs, 2);
  EXPECT_GE(steps, 2);
  EXPECT_NE(Outcome(ferry_profile_write(profile, "/nowhere/at/all.json")).code, FERRY_OK);
  ferry_profile_free(profile);
  unlink(path.c_str());
}

TEST(CValues, MapsAndSparseTensorsGoInAndOut) {
  const char* words[] = {"one", "two"};
  int64_t dims[] = {2};
  float numbers[] = {1, 2};
  ferry_value *keys = nullptr, *values = nullptr, *map = nullptr, *part = nullptr;
  EXPECT_GOOD(ferry_tensor_of_strings(dims, 1, words, nullptr, &keys));
  EXPECT_GOOD(ferry_tensor_copy(FERRY_FLOAT, dims, 1, numbers, sizeof numbers, &values));
  EXPECT_GOOD(ferry_map_of(keys, values, &map));
  EXPECT_EQ(ferry_value_kind(map), FERRY_KIND_MAP);
  EXPECT_GOOD(ferry_map_keys(map, &part));
  EXPECT_STREQ(ferry_tensor_string(part, 1, nullptr), "two");
  EXPECT_EQ(Outcome(ferry_map_of(values, keys, &part)).code, FERRY_INVALID_ARGUMENT);  // floats are no keys

  ferry::Value data{values};
  std::vector<int64_t> at{0, 3, 2, 1}, outside{0, 4, 2, 1};
  int64_t shape[] = {3, 4};
  ferry::Value sparse = ferry::Value::Sparse(shape, data, ferry::Value::Of<int64_t>({2, 2}, at));
  EXPECT_EQ(sparse.kind(), FERRY_KIND_SPARSE_TENSOR);
  EXPECT_EQ(sparse.sparse_shape()[1], 4);
  EXPECT_EQ(sparse.SparseValues().Data<float>()[1], 2);
  EXPECT_EQ(sparse.SparseIndices().Data<int64_t>()[1], 3);
  EXPECT_THROW(ferry::Value::Sparse(shape, data, ferry::Value::Of<int64_t>({2, 2}, outside)), ferry::Error);
  EXPECT_THROW(ferry::Value::Sparse(shape, data, ferry::Value::Of<int64_t>({4}, at)), ferry::Error);
  for (ferry_value* value : {keys, map, part}) ferry_value_free(value);
}

TEST(CValues, DescribesWhatContainersHold) {
  std::string path = std::string(FERRY_TEST_DATA) + "/onnx-node/test_sequence_insert_at_back/model.onnx";
  ferry_session* session = nullptr;
  EXPECT_GOOD(ferry_session_open(path.c_str(), nullptr, &session));
  const ferry_value_info* sequence = ferry_input(session, 0);
  EXPECT_EQ(ferry_info_kind(sequence), FERRY_KIND_SEQUENCE);
  const ferry_value_info* element = ferry_info_element(sequence);
  ASSERT_NE(element, nullptr);
  EXPECT_EQ(ferry_info_dtype(element), FERRY_INT64);
  EXPECT_EQ(ferry_info_element(element), nullptr);
  EXPECT_STREQ(ferry_model_producer(session), "backend-test");
  EXPECT_EQ(ferry_metadata_count(session), 0u);
  EXPECT_EQ(ferry_metadata_key(session, 0), nullptr);
  EXPECT_GE(ferry_session_threads(session), 1);
  EXPECT_EQ(ferry_overridable_count(session), 0u);
  ferry_session_free(session);
}

TEST(CppRun, OptionsGoWithARun) {
  ferry::Session session(kSimpleNet);
  std::vector<float> x(10, 1.0f);
  ferry::Profile profile;
  ferry::RunOptions options;
  options.AddTo(profile);
  ferry::Input input{"x", ferry::Value::Of<float>({1, 10}, x)};
  session.Run(std::span(&input, 1), {}, &options);
  EXPECT_GT(profile.size(), 0u);
  options.Cancel();
  EXPECT_THROW(session.Run(std::span(&input, 1), {}, &options), ferry::Error);
}

// A child of fork has none of its parent's threads; it must neither wait for them when it runs nor when it ends.
TEST(Fork, ASessionWorksInTheChild) {
#if defined(FERRY_SANITIZE_THREAD) || defined(FERRY_SANITIZE_ADDRESS)
  GTEST_SKIP()
      << "the sanitizers let no forked child start threads, or only while no other thread of its parent allocates";
#endif
  auto sum = [](const ferry::Session& session) {
    std::vector<float> x(2560 * 10, 0.25f);
    double total = 0;
    std::vector<ferry::Value> outputs = session.Run("x", ferry::Value::Of<float>({2560, 10}, x));
    for (float y : outputs[0].Data<float>()) total += y;
    return total;
  };
  auto session = std::make_unique<ferry::Session>(kSimpleNet, ferry::Options{.threads = 3});
  double here = sum(*session);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool same = sum(*session) == here && sum(*session) == here;
    session.reset();
    _exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(sum(*session), here);
}

TEST_F(CRun, HasLimits) {
  ferry_value* output = nullptr;
  EXPECT_GOOD(ferry_run_options_set_max_bytes(options, 8));
  ferry_status* status = Run(&output);
  EXPECT_EQ(ferry_status_code(status), FERRY_LIMIT) << ferry_status_message(status);
  EXPECT_NE(std::string(ferry_status_message(status)).find("memory limit of 8 bytes"), std::string::npos);
  ferry_status_free(status);
  EXPECT_GOOD(ferry_run_options_set_max_bytes(options, 0));
  EXPECT_GOOD(ferry_run_options_set_time_limit(options, 1e-9));
  status = Run(&output);
  EXPECT_EQ(ferry_status_code(status), FERRY_DEADLINE) << ferry_status_message(status);
  ferry_status_free(status);
  EXPECT_GOOD(ferry_run_options_set_time_limit(options, 0));
  EXPECT_EQ(Answer().size(), 6u) << "the session goes on";
  for (double wrong : {-1.0, 1e300}) {
    status = ferry_run_options_set_time_limit(options, wrong);
    EXPECT_EQ(ferry_status_code(status), FERRY_INVALID_ARGUMENT);
    ferry_status_free(status);
  }
}

TEST(CLimits, LimitsAndRuntimeAreOptions) {
  ferry_runtime* runtime = nullptr;
  EXPECT_GOOD(ferry_runtime_create(2, &runtime));
  ferry_options* options = nullptr;
  EXPECT_GOOD(ferry_options_create(&options));
  EXPECT_GOOD(ferry_options_set_runtime(options, runtime));
  EXPECT_GOOD(ferry_options_set_time_limit(options, 60));
  EXPECT_GOOD(ferry_options_set_max_bytes(options, 1 << 20));
  EXPECT_GOOD(ferry_options_set_max_iterations(options, 1000));
  EXPECT_GOOD(ferry_options_set_max_expanded_nodes(options, 1000));
  EXPECT_GOOD(ferry_options_set_max_programs(options, 1));
  ferry_session* session = nullptr;
  EXPECT_GOOD(ferry_session_open(kSimpleNet.c_str(), options, &session));
  ferry_runtime_free(runtime);
  EXPECT_EQ(ferry_session_threads(session), 2);
  ferry_session_free(session);
  EXPECT_GOOD(ferry_options_set_time_limit(options, 1e-9));
  ferry_status* status = ferry_session_open(kSimpleNet.c_str(), options, &session);
  EXPECT_EQ(ferry_status_code(status), FERRY_DEADLINE) << ferry_status_message(status);
  ferry_status_free(status);
  ferry_options_free(options);
}

TEST(CppLimits, LimitsAndRuntimeAreOptions) {
  ferry::Runtime runtime(2);
  ferry::Session session(kSimpleNet, {.max_bytes = 1 << 20, .runtime = &runtime});
  EXPECT_EQ(session.threads(), 2);
  std::vector<float> x(20);
  std::vector<ferry::Input> inputs;
  inputs.push_back({"x", ferry::Value::Of<float>({2, 10}, x)});
  ferry::RunOptions options;
  options.SetTimeLimit(1e-9);
  try {
    session.Run(inputs, {}, &options);
    ADD_FAILURE() << "there is no time for it";
  } catch (const ferry::Error& error) {
    EXPECT_EQ(error.code(), ferry::Code::kDeadline);
  }
  options.SetTimeLimit(0);
  EXPECT_EQ(session.Run(inputs, {}, &options).size(), 1u);
}

}  // namespace
