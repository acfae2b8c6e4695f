// What a kernel sees of the world: its node, its inputs, where its outputs go, and the services of the run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

// A body of If, Loop, Scan …, with the values it captures from outside already bound.
class Subgraph {
 public:
  virtual ~Subgraph() = default;
  virtual size_t input_count() const = 0;
  virtual size_t output_count() const = 0;
  virtual std::vector<Value> Run(std::span<const Value> inputs) = 0;  // results are Persistent
};

struct RunServices {
  ThreadPool* pool = nullptr;                    // null: everything on the calling thread
  int64_t max_iterations = kMostIterations;      // of one Loop; see Limits for those of a run together
  const std::atomic<bool>* cancelled = nullptr;  // polled by long loops
};

// What a kernel works out once from its node's attributes (trees, a compiled pattern) and finds again on the next run.
// Whoever runs a node many times keeps one beside it; many threads may use it at once.
class KernelState {
 public:
  template <class T, class Make>
  std::shared_ptr<const T> Get(const Make& make) {
    std::lock_guard lock(mutex_);
    if (!held_) held_ = std::make_shared<const T>(make());
    return std::static_pointer_cast<const T>(held_);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const void> held_;
};

class OpContext {
 public:
  OpContext(const Node& node, std::span<const Value* const> inputs, std::span<Value* const> outputs,
            const RunServices& services, std::span<Subgraph* const> subgraphs = {}, KernelState* state = nullptr,
            MemorySpace& memory = HostMemory())
      : node_(node),
        inputs_(inputs),
        outputs_(outputs),
        services_(services),
        subgraphs_(subgraphs),
        state_(state),
        memory_(memory) {}

  const Node& node() const { return node_; }
  const RunServices& services() const { return services_; }
  MemorySpace& memory() const { return memory_; }

  size_t input_count() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] && inputs_[i]->present(); }
  const Value& InputValue(size_t i) const;  // throws when omitted
  const Tensor& Input(size_t i) const;      // throws when omitted or not a tensor
  const Tensor* OptionalInput(size_t i) const { return Has(i) ? &Input(i) : nullptr; }

  size_t output_count() const { return outputs_.size(); }
  bool Wants(size_t i) const { return i < outputs_.size() && outputs_[i]; }
  // The tensor to write output i into. Its elements are uninitialised and may be those of an in-place input.
  // An output nobody wants gets scratch memory, so that kernels need not ask.
  Tensor& Output(size_t i, DType type, const Shape& shape);
  // For views and containers. Tensors that go into a container must be Persistent().
  void SetOutput(size_t i, Value value);

  // The body held by a graph attribute.
  Subgraph& subgraph(std::string_view attribute) const;

  // make()'s result, kept from an earlier run of the same node where there is a place for it. It may depend on the
  // node's attributes alone.
  template <class T, class Make>
  std::shared_ptr<const T> Prepared(const Make& make) const {
    return state_ ? state_->Get<T>(make) : std::make_shared<const T>(make());
  }

  // Splits [0, count) among the run's threads in pieces of at least `grain`; body(begin, end) must be independent.
  template <class Body>
  void ParallelFor(int64_t count, int64_t grain, const Body& body) const {
    if (services_.pool)
      services_.pool->ParallelFor(count, grain, body);
    else
      RunPieces(count, grain, body);
  }
  // Ends a run that was cancelled or has no time left; see CheckRun.
  void CheckCancelled() const;

 private:
  const Node& node_;
  std::span<const Value* const> inputs_;
  std::span<Value* const> outputs_;
  const RunServices& services_;
  std::span<Subgraph* const> subgraphs_;  // in the order of the node's graph attributes
  KernelState* state_;
  MemorySpace& memory_;  // of outputs that have no place yet
  std::vector<std::unique_ptr<Tensor>> scratch_;
};

}  // namespace ferry
