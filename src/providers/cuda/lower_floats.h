// A graph of float32 made one of float16 or bfloat16, as far as the device has kernels: weights are converted once,
// sums inside kernels stay float32, and inputs and results of the model keep their type.
#pragma once

#include <map>
#include <mutex>

#include "ops/infer_graph.h"
#include "providers/cuda/operators.h"

namespace ferry::cuda {

// Weights in another type, made once for all programs of a model.
class LoweredWeights {
 public:
  Tensor Get(const Tensor& weight, DType type);

 private:
  struct Kept {
    Tensor weight;  // so that its address stays its own
    Tensor lowered;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Kept> large_;
};

// `facts` are those of the graph, with every shape that can be known; they become those of what it is after.
void LowerFloats(Graph& graph, GraphFacts& facts, DType type, LoweredWeights& weights);

}  // namespace ferry::cuda
