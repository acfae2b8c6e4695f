// Gather from a table of quantised numbers, in blocks along one axis that have a scale and perhaps a zero point each.
// Bytes may hold several numbers along the last axis (attribute bits), low bits first.
#include "ops/operator.h"
#include "ops/support/bit_matrix.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// Numbers of 8 / bits to a byte along the last axis, one to a byte.
Tensor Spread(const Tensor& packed, int64_t bits, int64_t last) {
  Shape shape = packed.shape();
  int64_t bytes = shape.back(), per_byte = 8 / bits;
  shape.back() = last;
  Tensor spread(DType::kUInt8, shape);
  for (int64_t i = 0; i < spread.size(); ++i) {
    int64_t row = i / last, column = i % last;
    uint8_t byte = packed.Data<uint8_t>()[row * bytes + column / per_byte];
    spread.MutableData<uint8_t>()[i] = static_cast<uint8_t>(byte >> (column % per_byte * bits) & ((1 << bits) - 1));
  }
  return spread;
}

int NumberAt(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kInt8 ? tensor.Data<int8_t>()[i] : tensor.Data<uint8_t>()[i];
}

struct GatherPlan {
  size_t gather_axis, quantize_axis;
  int64_t bits, block;
  bool is_packed;  // bytes
  Shape numbers;   // the data's shape, counted in numbers
  Shape output;

  GatherPlan(const Node& node, DType type, const Shape& data, const Shape& indices)
      : gather_axis(NormalizeAxis(node.Int("gather_axis", 0), data.rank())),
        quantize_axis(NormalizeAxis(node.Int("quantize_axis", 1), data.rank())),
        bits(node.Int("bits", 4)),
        block(node.Int("block_size", 128)),
        is_packed(type == DType::kUInt8),
        numbers(data) {
    RequireBits(bits);
    RequireBlockSize(block);
    Require(is_packed || ((type == DType::kInt4 || type == DType::kUInt4) && bits == 4), "data of ", type, " with ",
            bits, " bits is not supported");
    if (is_packed) {
      Require(gather_axis == 0 && quantize_axis + 1 == data.rank() && data.rank() >= 2,
              "bytes are gathered along axis 0 and quantised along the last one, not ", gather_axis, " and ",
              quantize_axis);
      numbers.back() = CheckedProduct(numbers.back(), 8 / bits);
    }
    output = numbers;
    output.erase(gather_axis);
    for (size_t i = 0; i < indices.rank(); ++i) output.insert(gather_axis + i, indices[i]);
  }
};

void ComputeGatherBlockQuantized(OpContext& context) {
  const Tensor &data = context.Input(0), &indices = context.Input(1), &scales = context.Input(2);
  GatherPlan plan(context.node(), data.dtype(), data.shape(), indices.shape());
  Shape blocks = plan.numbers;
  blocks[plan.quantize_axis] = (blocks[plan.quantize_axis] + plan.block - 1) / plan.block;
  Require(scales.shape() == blocks, "scales must have shape ", blocks, ", has ", scales.shape());
  Tensor factors = WidenToFloat(scales), zeros;
  Require(factors.dtype() == DType::kFloat, "scales of double are not supported");
  if (const Tensor* given = context.OptionalInput(3)) {
    Require(given->dtype() == data.dtype(), "zero_points must be ", data.dtype(), ", is ", given->dtype());
    Shape wanted = blocks;
    if (plan.is_packed) wanted.back() = (blocks.back() * plan.bits + 7) / 8;
    Require(given->shape() == wanted, "zero_points must have shape ", wanted, ", has ", given->shape());
    zeros = plan.is_packed ? Spread(*given, plan.bits, blocks.back()) : given->Unpacked();
  }
  const int standard = plan.is_packed ? 1 << (plan.bits - 1) : 0;
  Tensor numbers = plan.is_packed ? Spread(data, plan.bits, plan.numbers.back()) : data.Unpacked();
  Tensor& y = context.Output(0, scales.dtype(), plan.output);
  Tensor wide = y.dtype() == DType::kFloat ? y : Tensor(DType::kFloat, plan.output);

  int64_t length = plan.numbers[plan.gather_axis];
  std::vector<int64_t> chosen = ToInt64Vector(indices);
  for (int64_t& index : chosen) {
    Require(index >= -length && index < length, "index ", index, " is outside an axis of ", length);
    if (index < 0) index += length;
  }
  int64_t outer = plan.numbers.CountBetween(0, plan.gather_axis);
  int64_t inner = plan.numbers.CountBetween(plan.gather_axis + 1, plan.numbers.rank());
  int64_t after = plan.numbers.CountBetween(plan.quantize_axis + 1, plan.numbers.rank());
  int64_t depth = plan.numbers[plan.quantize_axis], depth_blocks = blocks[plan.quantize_axis];
  auto count = static_cast<int64_t>(chosen.size());
  context.ParallelFor(outer * count, 1 + 4096 / std::max<int64_t>(1, inner), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t from = (row / count * length + chosen[static_cast<size_t>(row % count)]) * inner;
      float* to = wide.MutableData<float>() + row * inner;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t at = from + i, quantized = at / after % depth;
        int64_t block = (at / after / depth * depth_blocks + quantized / plan.block) * after + at % after;
        int zero = zeros.defined() ? NumberAt(zeros, block) : standard;
        to[i] = static_cast<float>(NumberAt(numbers, at) - zero) * factors.Data<float>()[block];
      }
    }
  });
  NarrowInto(wide, y);
}

void InferGatherBlockQuantized(InferContext& context) {
  DType type = context.InputDType(2);
  const SymbolicShape *data = context.InputShape(0), *indices = context.InputShape(1);
  if (!data || !indices) return context.SetOutput(0, type);
  const Node& node = context.node();
  size_t axis = NormalizeAxis(node.Int("gather_axis", 0), data->size());
  SymbolicShape shape = *data;
  int64_t bits = node.Int("bits", 4);
  RequireBits(bits);
  if (context.InputDType(0) == DType::kUInt8) shape.back() = shape.back() * Dim(8 / bits);
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  shape.insert(shape.begin() + static_cast<int64_t>(axis), indices->begin(), indices->end());
  context.SetOutput(0, type, std::move(shape));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, GatherBlockQuantized,
                  {.compute = ComputeGatherBlockQuantized, .infer = InferGatherBlockQuantized});

}  // namespace ferry
