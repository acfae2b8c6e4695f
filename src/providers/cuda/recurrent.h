// The cells of LSTM, GRU and RNN: what follows the products of a step, in one kernel.
#pragma once

#include <vector>

#include "ops/support/recurrent.h"
#include "providers/cuda/launch.h"

namespace ferry::cuda {

enum class CellKind : uint8_t { kRnn, kGru, kLstm };

// What decides a cell's source beside the type of its elements.
struct CellForm {
  CellKind kind = CellKind::kLstm;
  std::vector<CellActivation> functions;  // of one direction
  float clip = 0;
  bool couples_forget = false;  // LSTM: the forget gate is 1 − the input gate
  bool has_peephole = false;
  bool linear_first = false;  // GRU: the reset gate is applied behind the product

  size_t gates() const { return kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1; }
};

// The first part of a GRU whose reset gate comes before its product works alone: it makes reset · state.
KernelSource CellSource(const CellForm& form, DType type, bool only_reset);
// Sums of the two halves of a bias; of a GRU's last gate only the first one where its second half is added later.
KernelSource JoinBiasSource(DType type);
// States between the layouts of the node and of the steps, and between types.
KernelSource StateSource(DType from, DType to);

}  // namespace ferry::cuda
