#include "server/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/runtime.h"

namespace ferry::server {
namespace {

using testing::ElementsAre;

// y = x, [n, 2].
std::shared_ptr<Session> IdentitySession() {
  Model model;
  model.ir_version = 8;
  model.has_graph = true;
  model.opsets.push_back({"", 17, {}});
  ValueInfo info;
  info.type = Type::Tensor(DType::kFloat, {Dim::Named("n"), 2});
  info.name = "x";
  model.graph.inputs.push_back(info);
  info.name = "y";
  model.graph.outputs.push_back(info);
  Node node;
  node.op_type = "Identity";
  node.inputs = {"x"};
  node.outputs = {"y"};
  model.graph.nodes.push_back(std::move(node));
  SessionOptions options;
  options.threads = 1;
  return Session::FromModel(std::move(model), options);
}

struct Answer {
  float first = 0;
  int64_t batch = 0;
  std::string error;
};

// A scheduler with one instance, whose first answer is held back until the test has queued what it wants.
class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    config_.name = "m";
    config_.max_batch_size = 8;
    config_.dynamic_batching = true;
    config_.instances = 1;
    config_.default_policy.allow_override = true;
  }

  void Make() {
    session_ = IdentitySession();
    scheduler_ = std::make_unique<Scheduler>(config_, session_, session_, stats_, policy_, [](const std::string&) {});
  }
  void Start() {
    Make();
    std::promise<void> held;
    auto is_held = held.get_future();
    Submit(0, [&](Job&) {
      held.set_value();
      release_.get_future().wait();
    });
    is_held.wait();
  }
  void Release() { release_.set_value(); }

  void Submit(float value, std::function<void(Job&)> done, uint64_t priority = 0, uint64_t timeout_us = 0) {
    auto job = std::make_unique<Job>();
    job->received = Clock::now();
    job->rows = rows_;
    job->request.inputs.emplace_back(
        "x", Tensor::FromVector<float>(std::vector<float>(static_cast<size_t>(2 * rows_), value), {rows_, 2}));
    job->request.priority = priority;
    job->request.timeout_us = timeout_us;
    job->output_names = {"y"};
    job->done = std::move(done);
    job->request.cancelled = cancelled_;
    scheduler_->Submit(std::move(job), may_run_here_);
  }
  std::shared_future<Answer> Ask(float value, uint64_t priority = 0, uint64_t timeout_us = 0) {
    auto promise = std::make_shared<std::promise<Answer>>();
    std::shared_future<Answer> answer = promise->get_future().share();
    Submit(
        value,
        [this, promise](Job& job) {
          Answer made{0, job.batch, job.error ? job.error->message() : ""};
          if (!job.error) made.first = job.outputs[0].tensor().Data<float>()[0];
          {
            std::lock_guard lock(mutex_);
            order_.push_back(made.first);
          }
          promise->set_value(made);
        },
        priority, timeout_us);
    return answer;
  }

  bool may_run_here_ = false;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // of what is submitted next
  ModelConfig config_;
  ModelStats stats_;
  RunPolicy policy_;
  int64_t rows_ = 1;  // of each request
  std::mutex mutex_;
  std::vector<float> order_;
  std::promise<void> release_;
  std::shared_ptr<Session> session_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, WhatWaitsIsJoined) {
  Start();
  std::vector<std::shared_future<Answer>> answers;
  for (int i = 1; i <= 8; ++i) answers.push_back(Ask(static_cast<float>(i)));
  EXPECT_EQ(scheduler_->pending(), 8u);
  Release();
  for (int i = 1; i <= 8; ++i) {
    EXPECT_EQ(answers[static_cast<size_t>(i - 1)].get().first, i);
    EXPECT_EQ(answers[static_cast<size_t>(i - 1)].get().batch, 8);
  }
  EXPECT_EQ(stats_.Snapshot().execution_count, 2u);
  EXPECT_EQ(stats_.Snapshot().inference_count, 9u);
}

TEST_F(SchedulerTest, ABatchThatIsOnlyAssumedIsProvenByPairs) {
  config_.is_batch_assumed = true;
  config_.preferred_sizes = {8};
  Start();
  std::vector<std::shared_future<Answer>> answers;
  for (int i = 1; i <= 14; ++i) answers.push_back(Ask(static_cast<float>(i)));
  Release();
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].get().batch, i < 6 ? 2 : 8) << i;
}

TEST_F(SchedulerTest, RequestsOfTwoRowsProveABatchToo) {
  config_.is_batch_assumed = true;
  config_.preferred_sizes = {8};
  rows_ = 2;
  Start();
  std::vector<std::shared_future<Answer>> answers;
  for (int i = 1; i <= 10; ++i) answers.push_back(Ask(static_cast<float>(i)));
  Release();
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].get().batch, i < 6 ? 4 : 8) << i;
}

TEST_F(SchedulerTest, PrioritiesGoFirst) {
  config_.dynamic_batching = false;
  config_.priority_levels = 3;
  config_.default_priority = 2;
  Start();
  auto low = Ask(3, 3), usual = Ask(2), unknown = Ask(2, 4), high = Ask(1, 1);
  Release();
  low.wait();
  unknown.wait();
  usual.wait();
  high.wait();
  EXPECT_THAT(order_, ElementsAre(1, 2, 2, 3));
}

TEST_F(SchedulerTest, FullQueuesRefuse) {
  config_.default_policy.max_queue_size = 2;
  Start();
  auto first = Ask(1), second = Ask(2), third = Ask(3);
  EXPECT_EQ(third.get().error, "Exceeds maximum queue size");
  Release();
  EXPECT_EQ(first.get().error, "");
  EXPECT_EQ(second.get().error, "");
}

TEST_F(SchedulerTest, WhatWaitedTooLongIsRefusedOrPutOff) {
  Start();
  auto late = Ask(1, 0, 1), patient = Ask(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Release();
  EXPECT_EQ(late.get().error, "Request timeout expired");
  EXPECT_EQ(patient.get().first, 2);
  EXPECT_EQ(stats_.Snapshot().failures[static_cast<size_t>(FailureReason::kRejected)], 1u);
}

TEST_F(SchedulerTest, PutOffInsteadWhereThePolicySaysSo) {
  config_.dynamic_batching = false;
  config_.default_policy.delays = true;
  Start();
  auto late = Ask(1, 0, 1), patient = Ask(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Release();
  EXPECT_EQ(late.get().first, 1);
  patient.wait();
  EXPECT_THAT(order_, ElementsAre(2, 1));
}

TEST_F(SchedulerTest, OfABatchWithADelayTheOldestDoesNotWaitForEver) {
  config_.queue_delay_us = 20'000;
  Start();
  auto only = Ask(5);
  const Clock::time_point begun = Clock::now();
  Release();
  EXPECT_EQ(only.get().first, 5);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
}

TEST_F(SchedulerTest, APreferredSizeDoesNotWait) {
  config_.queue_delay_us = 30'000'000;
  config_.preferred_sizes = {1, 4};
  may_run_here_ = true;
  Make();
  const Clock::time_point begun = Clock::now();
  for (int round = 0; round < 20; ++round) EXPECT_EQ(Ask(1).get().batch, 1);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
}

TEST_F(SchedulerTest, FourThatComeTogetherAreOneRun) {
  config_.queue_delay_us = 200'000;
  config_.preferred_sizes = {4};
  may_run_here_ = true;
  Make();
  for (int round = 0; round < 3; ++round) {
    const Clock::time_point begun = Clock::now();
    std::vector<std::shared_future<Answer>> answers;
    for (int i = 0; i < 4; ++i) answers.push_back(Ask(static_cast<float>(i)));
    for (auto& answer : answers) EXPECT_EQ(answer.get().batch, 4);
    EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(150));
  }
  const Clock::time_point begun = Clock::now();
  EXPECT_EQ(Ask(5).get().batch, 1);
  EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(200));
}

TEST_F(SchedulerTest, APreferredSizeGoesBeforeTheLargest) {
  config_.preferred_sizes = {2, 4};
  Start();
  std::vector<std::shared_future<Answer>> answers;
  for (int i = 0; i < 7; ++i) answers.push_back(Ask(static_cast<float>(i)));
  Release();
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].get().batch, i < 4 ? 4 : i < 6 ? 2 : 1) << i;
}

TEST_F(SchedulerTest, TimeOutsCountWhileABatchWaitsForItsDelay) {
  config_.queue_delay_us = 30'000'000;
  Make();
  const Clock::time_point begun = Clock::now();
  cancelled_ = std::make_shared<std::atomic<bool>>(true);
  auto cancelled = Ask(1);
  cancelled_ = nullptr;
  auto late = Ask(2, 0, 20'000);
  EXPECT_EQ(late.get().error, "Request timeout expired");
  EXPECT_EQ(cancelled.get().error, "Request cancelled");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
}

}  // namespace
}  // namespace ferry::server
