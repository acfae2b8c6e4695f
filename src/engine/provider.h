// A provider runs models on one kind of machine. It owns its way from a graph to kernels: which rewrites, which hints
// for the memory plan, which kernels, and the memory they work in. The host's CPU is always there and takes what others
// leave.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "engine/plan.h"
#include "engine/plan_hints.h"
#include "engine/precision.h"
#include "engine/weight_cache.h"
#include "ops/context.h"
#include "ops/infer_graph.h"
#include "ops/operator.h"

namespace ferry {

// One node made ready to run for one set of shapes. Run is called by many threads at once and must not change state.
class Kernel {
 public:
  virtual ~Kernel();
  virtual void Run(OpContext& context) const = 0;
  // Told before the first run where rows lie apart, if the kernel's plan says that it can deal with it.
  void SetRows(RowLayout rows);

 protected:
  RowLayout rows_;
};

// What is known about a node when its kernel is chosen.
struct KernelRequest {
  const Node& node;
  const Operator& op;
  std::span<const ValueFacts* const> inputs;   // null: omitted
  std::span<const ValueFacts* const> outputs;  // null: not wanted
  WeightCache& weights;
};

struct ChosenKernel {
  KernelPlan plan;
  std::unique_ptr<Kernel> kernel;  // null where nothing will run here: a plan to look at, or to write as source
};

// What the user has to say about how a provider works.
struct ProviderOptions {
  bool exact = false;  // only algorithms that add up products as the operators' texts do: no Winograd
  // A file that remembers which algorithms were fastest; "none" times without remembering; empty: no timing.
  std::string tune;
  Precision precision = Precision::kFloat32;
  size_t device_memory = 0;  // bytes that may be taken of a device's own memory; 0: any
  bool only_plans = false;   // nothing will run: the device need not be there

  bool operator==(const ProviderOptions&) const = default;
};

// A provider at work for one model: many threads may ask at once.
class Compiler {
 public:
  virtual ~Compiler();

  // The rewrites that suit this provider, once per model: they change no answer beyond rounding.
  virtual void Rewrite(Graph& graph) const;
  // Rewrites a graph once more for inputs of known shapes; null when there is nothing to gain. `facts` become those of
  // the graph that is returned.
  virtual std::shared_ptr<Graph> RewriteForShapes(const Graph& graph, const FactsByName& inputs,
                                                  GraphFacts& facts) const;
  // Nothing when this provider does not take the node; the next one is asked then.
  virtual std::optional<ChosenKernel> Choose(const KernelRequest& request) const = 0;

  // `nodes` in the order they run; `results` are read after the last of them.
  virtual std::vector<ImageChain> FindChains(std::span<const Node* const> nodes, const OuterFacts& facts,
                                             const std::vector<std::string>& results) const;
  // One place per slot that is no view; `viewed` names the slot that each is a view of, itself where it is none. None
  // at all: every value has memory of its own.
  virtual std::vector<PartPlace> PlaceParts(const Plan& plan, const std::vector<int>& viewed,
                                            const OuterFacts& facts) const;
  // Whether the host works a node out for this provider although nobody listed the CPU: sizes and indices, say.
  virtual bool LeavesToHost(const KernelRequest& request) const;
  // Keeps what was learned while programs were made.
  virtual void Save() const;
};

// What a device was asked to do, ready to be asked again by one call: the same kernels at the same addresses.
class RecordedWork {
 public:
  virtual ~RecordedWork();
  virtual void Replay() = 0;
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  // Why it cannot be used on this machine, and what to do about it; empty where it can.
  virtual std::string WhyUnusable() const;
  // Where its kernels read and write.
  virtual MemorySpace& memory() const { return HostMemory(); }
  // Whatever packed weights and measured choices depend on beside the model: caches of another are not used.
  virtual std::string Fingerprint(const ProviderOptions& options) const = 0;
  virtual std::unique_ptr<const Compiler> Open(const ProviderOptions& options) const = 0;
  // What was made ready in this process (compiled kernels, measured choices), for a file that another process takes up;
  // empty where there is nothing of the kind. Restore throws kInvalidModel when `state` is no such thing.
  virtual std::string State() const;
  virtual void Restore(std::string_view state) const;
  // Until everything that anybody asked of the device before is done there.
  virtual void WaitForDevice() const;
  // Takes down what `work` asks of the device instead of doing it; null where that cannot be.
  virtual std::unique_ptr<RecordedWork> Record(FunctionRef<void()> work) const;
};

// Providers at work for one model, in the order in which they are asked for each node; the first one's pipeline and
// hints count.
struct CompilerList {
  struct Entry {
    const Provider* provider;
    std::unique_ptr<const Compiler> compiler;
  };
  std::vector<Entry> entries;
  bool lists_cpu = true;  // false: the host does what the others leave to it and nothing else

  // The CPU is added behind the others where it is missing.
  CompilerList(std::span<const Provider* const> providers, const ProviderOptions& options);
  const Compiler& first() const { return *entries.front().compiler; }
};

// The built-in ones; the CPU is the first.
std::span<const Provider* const> BuiltInProviders();
inline const Provider& CpuProvider() { return *BuiltInProviders().front(); }
// "cuda,cpu": by name, in this order. `more` are looked at before the built-in ones. Throws naming the providers there
// are.
std::vector<const Provider*> FindProviders(std::string_view names, std::span<const Provider* const> more = {});

}  // namespace ferry
