// What sessions on one file have in common: the model, its graphs made ready, packed weights, and programs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/make_once.h"
#include "engine/program_cache.h"
#include "engine/provider.h"
#include "engine/session.h"
#include "engine/weight_cache.h"

namespace ferry {

// What the session has to say to its providers.
ProviderOptions ProviderOptionsFrom(const SessionOptions& options);

using OpenAxes = std::map<std::string, std::vector<size_t>>;  // see SessionOptions::open_axes

class LoadedModel {
 public:
  LoadedModel(Model model, const SessionOptions& options);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const Model& model() const { return model_; }
  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& overridable() const { return overridable_; }
  uint64_t number() const { return number_; }  // no other has it, ever
  WeightCache& weights() { return weights_; }
  ProgramCache& programs() { return programs_; }

  // To be called before each run: what the first run did without is packed for the others.
  void BeginRun(ThreadPool* pool) {
    if (has_run_.load(std::memory_order_relaxed) || has_run_.exchange(true)) weights_.PackDeferred(pool, replaceable_);
  }

  std::shared_ptr<const ProgramCache::Entry> ProgramFor(const std::vector<const NamedValue*>& given,
                                                        const std::vector<std::string>& results, const OpenAxes& open,
                                                        ThreadPool* pool);

 private:
  bool IsAsFirstTold(const std::vector<const NamedValue*>& given) const;
  const Graph& AsWritten();
  const Graph& FastForAny();
  std::shared_ptr<const Program> Build(const std::vector<const NamedValue*>& given,
                                       const std::vector<std::string>& results, const OpenAxes& open, bool is_as_told,
                                       ThreadPool* pool);

  const Model model_;
  const int threads_;
  const CompilerList compilers_;
  std::optional<Graph> fast_graph_;  // rewritten for speed: some values are gone
  MakeOnce as_written_once_, fast_for_any_once_;
  std::optional<Graph> as_written_;    // made when one of those is asked for
  std::optional<Graph> fast_for_any_;  // trusts no default and no name of a dimension; made for inputs that break those
  std::vector<ValueInfo> inputs_, overridable_;
  const uint64_t number_;

  const bool packs_in_place_;
  std::atomic<bool> has_program_ = false;
  WeightCache::Addresses replaceable_;  // weights that the one program there is reads packed
  WeightCache weights_;
  std::atomic<bool> has_run_ = false;
  ProgramCache programs_;
};

}  // namespace ferry
