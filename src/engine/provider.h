// A provider turns nodes into kernels for one kind of machine. The CPU is the first and always there: it takes what no
// other provider wants.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "engine/precision.h"
#include "engine/weight_cache.h"
#include "ops/context.h"
#include "ops/infer_context.h"
#include "ops/operator.h"
#include "ops/support/strided_rows.h"

namespace ferry {

// One node made ready to run for one set of shapes. Run is called by many threads at once and must not change state.
class Kernel {
 public:
  virtual ~Kernel();
  virtual void Run(OpContext& context) const = 0;

  // Whether the elements of a constant input may begin at any byte, as they do in a file.
  virtual bool ReadsAnywhere(size_t /*input*/) const { return false; }
  // Whether the rows of an input, or of output 0, may lie apart. Those of a kernel that knows of none never do.
  virtual bool ReadsStrided(size_t /*input*/) const { return false; }
  virtual bool WritesStrided() const { return false; }
  void SetRows(RowLayout rows);

 protected:
  RowLayout rows_;
};

class Tuner;

// What the user has to say about the choice of kernels.
struct KernelPolicy {
  bool exact = false;      // only algorithms that add up products as the operator's text does: no Winograd
  Tuner* tuner = nullptr;  // times what fits; null: a model of the costs decides
  Precision precision = Precision::kFloat32;
};

// What is known about a node when its kernel is chosen.
struct KernelRequest {
  const Node& node;
  const Operator& op;
  std::span<const ValueFacts* const> inputs;   // null: omitted
  std::span<const ValueFacts* const> outputs;  // null: not wanted
  WeightCache& weights;
  const KernelPolicy& policy;
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  // Null when this provider does not take the node; the CPU is asked then.
  virtual std::unique_ptr<Kernel> MakeKernel(const KernelRequest& request) const = 0;
};

const Provider& CpuProvider();
// Throws naming the providers there are.
const Provider& FindProvider(std::string_view name);

}  // namespace ferry
