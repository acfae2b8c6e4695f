// A model under examination, with what several lints want to know of it: worked out when first asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "doctor/doctor.h"
#include "doctor/sizes.h"
#include "doctor/targets.h"
#include "doctor/trials.h"
#include "graph/model.h"
#include "onnx/checker/checker.h"
#include "ops/infer_graph.h"

namespace ferry {

// The main graph with newest operators and functions inlined, and what can be inferred of it.
struct InferredGraph {
  Graph graph;
  GraphFacts facts;
};

class Patient {
 public:
  // The model and the options must outlive it. Throws for a target that does not exist.
  Patient(const Model& model, const DoctorOptions& options);
  ~Patient();

  const Model& model() const { return model_; }
  const DoctorOptions& options() const { return options_; }
  const std::vector<Target>& targets() const { return targets_; }

  // By the standard, with inference.
  const std::vector<Problem>& problems() const;
  // Null when the model cannot be inferred.
  const InferredGraph* inferred() const;
  // The value of a constant by name: an initializer, a Constant, or whatever follows from those. Null when not known.
  const Tensor* ConstantOf(const std::string& name) const;
  const Type* TypeOf(const std::string& name) const;

  // Sizes of named dimensions to run the model with.
  const RunnableSizes& runnable_sizes() const;

  // Null when the model cannot be run; the reason is then in why_no_session().
  const std::shared_ptr<Session>& session() const;
  const std::string& why_no_session() const { return why_no_session_; }
  // The inputs to try the model with: recordings, or generated ones. Empty when there can be none.
  const std::vector<Trial>& trials() const;
  // Numbers of every value of the main graph, trial by trial.
  const std::vector<TrialNumbers>& numbers() const;
  // For looking at many elements.
  ThreadPool& pool() const;

 private:
  const Model& model_;
  const DoctorOptions& options_;
  std::vector<Target> targets_;
  mutable std::optional<std::vector<Problem>> problems_;
  mutable std::optional<std::unique_ptr<InferredGraph>> inferred_;
  mutable std::optional<RunnableSizes> runnable_sizes_;
  mutable std::optional<std::shared_ptr<Session>> session_;
  mutable std::string why_no_session_;
  mutable std::optional<std::vector<Trial>> trials_;
  mutable std::optional<std::vector<TrialNumbers>> numbers_;
  mutable std::optional<ThreadPool> pool_;
};

}  // namespace ferry
