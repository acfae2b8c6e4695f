// A mixture of experts with weights of 2, 4 or 8 bits. Weights of the chosen experts are those of a softmax over the
// chosen ones alone, whatever normalize_routing_weights says, or come from router_weights.
#include <cmath>

#include "ops/operator.h"
#include "ops/support/bit_matrix.h"
#include "ops/support/experts.h"
#include "ops/support/infer.h"
#include "ops/support/softmax_line.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// One layer of all experts: [experts, rows, depth] in bits, scales [experts, rows] or [experts, rows, blocks].
struct QuantizedLayer {
  BitMatrix matrix;  // of the first expert
  Tensor weights, scales, zeros, bias;

  QuantizedLayer(const OpContext& context, size_t input, size_t zero_input, int64_t experts, int64_t rows,
                 int64_t depth) {
    const Node& node = context.node();
    weights = context.Input(input);
    scales = WidenToFloat(context.Input(input + 1));
    matrix.rows = rows;
    matrix.depth = depth;
    matrix.bits = node.Int("expert_weight_bits", 4);
    RequireBits(matrix.bits);
    int64_t block = node.Int("block_size", 0);
    if (block > 0) RequireBlockSize(block);
    matrix.block = block > 0 ? block : depth;
    matrix.blocks = (depth + matrix.block - 1) / std::max<int64_t>(1, matrix.block);
    matrix.row_bytes = (depth * matrix.bits + 7) / 8;
    Require(
        depth > 0 && weights.dtype() == DType::kUInt8 && weights.shape() == (Shape{experts, rows, matrix.row_bytes}),
        "the weights of a layer must have shape [", experts, ", ", rows, ", ", matrix.row_bytes, "], have ",
        weights.shape());
    Require(scales.dtype() == DType::kFloat && scales.size() == experts * rows * matrix.blocks,
            "the scales of a layer must have ", experts * rows * matrix.blocks, " numbers, have shape ",
            scales.shape());
    if (const Tensor* given = context.OptionalInput(zero_input)) {
      // Without blocks the rows of an expert share bytes.
      matrix.zeros_across_rows = block <= 0;
      matrix.zero_row_bytes =
          matrix.zeros_across_rows ? (rows * matrix.bits + 7) / 8 : (matrix.blocks * matrix.bits + 7) / 8;
      int64_t count = experts * matrix.zero_row_bytes * (matrix.zeros_across_rows ? 1 : rows);
      Require(given->dtype() == DType::kUInt8 && given->size() == count, "the zero points of a layer must have ", count,
              " bytes, have shape ", given->shape());
      zeros = *given;
    }
    if (const Tensor* given = context.OptionalInput(input + 2)) {
      Require(given->shape() == (Shape{experts, rows}), "a bias must have shape [", experts, ", ", rows, "], has ",
              given->shape());
      bias = WidenToFloat(*given);
    }
  }

  void Multiply(const OpContext& context, int64_t expert, const float* x, int64_t count, float* y) const {
    BitMatrix mine = matrix;
    mine.data = weights.Data<uint8_t>() + expert * matrix.rows * matrix.row_bytes;
    mine.scales = scales.Data<float>() + expert * matrix.rows * matrix.blocks;
    if (zeros.defined())
      mine.zeros =
          zeros.Data<uint8_t>() + expert * matrix.zero_row_bytes * (matrix.zeros_across_rows ? 1 : matrix.rows);
    MultiplyByRows(context, x, count, mine, bias.defined() ? bias.Data<float>() + expert * matrix.rows : nullptr, y);
  }
};

void Route(const OpContext& context, MixtureOfExperts& mixture) {
  Tensor logits = WidenToFloat(context.Input(1)), weights;
  if (const Tensor* given = context.OptionalInput(14)) {
    Require(given->shape() == context.Input(1).shape(), "router_weights must have shape ", context.Input(1).shape(),
            ", has ", given->shape());
    weights = WidenToFloat(*given);
  }
  bool normalizes = context.node().Int("normalize_routing_weights", 0) == 1;
  for (int64_t token = 0; token < mixture.tokens; ++token) {
    const float* row = logits.Data<float>() + token * mixture.experts;
    std::vector<int64_t> largest = mixture.Largest(row);
    std::vector<float> part;
    for (int64_t expert : largest)
      part.push_back(weights.defined() ? weights.Data<float>()[token * mixture.experts + expert] : row[expert]);
    if (!weights.defined()) {
      SoftmaxLine(part.data(), part.data(), mixture.chosen);
    } else if (normalizes) {
      float sum = 0;
      for (float weight : part) sum += weight;
      for (float& weight : part) weight = sum != 0 ? weight / sum : 0;
    }
    for (size_t i = 0; i < largest.size(); ++i) mixture.routes.push_back({largest[i], part[i]});
  }
}

void ComputeQMoE(OpContext& context) {
  const Node& node = context.node();
  MixtureOfExperts mixture(context);
  Require(!context.Has(8) && !context.Has(9), "a third layer is not supported here, nor by ONNX Runtime on a CPU");
  Require(node.String("quant_type", "int") == "int", "quant_type \"", Printable(node.String("quant_type", "int")),
          "\" is not supported");
  Require(node.Int("weights_prepacked", -1) <= 0, "weights packed for a CUDA device cannot be read here");
  const Tensor& w1 = context.Input(2);
  Require(w1.rank() == 3, "fc1_experts_weights must have 3 axes, its shape is ", w1.shape());
  mixture.inner = node.String("activation_type", "relu") == "swiglu" ? w1.dim(1) / 2 : w1.dim(1);
  QuantizedLayer first(context, 2, 11, mixture.experts, mixture.first_width(), mixture.hidden);
  QuantizedLayer second(context, 5, 12, mixture.experts, mixture.hidden, mixture.inner);
  mixture.first = [&](int64_t expert, const float* x, int64_t count, float* y) {
    first.Multiply(context, expert, x, count, y);
  };
  mixture.second = [&](int64_t expert, const float* x, int64_t count, float* y) {
    second.Multiply(context, expert, x, count, y);
  };
  Route(context, mixture);
  mixture.Run(context);
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, QMoE, {.compute = ComputeQMoE, .infer = InferSameAsInput});

}  // namespace ferry
