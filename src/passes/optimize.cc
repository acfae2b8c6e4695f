#include "passes/optimize.h"

#include "passes/fuse_matmul.h"

namespace ferry {

void Optimize(Graph& graph) {
  FuseMatMul(graph);
}

}  // namespace ferry
