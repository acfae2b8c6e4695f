#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/matmul.h"
#include "ops/support/quantized.h"
#include "ops/support/widen.h"
#include "tensor/small_float.h"

namespace ferry {
namespace {

// One value per row of A or per column of B, spread over the stack of matrices: what scales and zero points may be.
// A vector [lines] and a stack [D1, D2, lines, 1] or [D1, D2, 1, lines] are the same thing here.
class PerLine {
 public:
  // `matrix` is the operand's shape, `is_row` tells A from B.
  PerLine(const Shape& values, const Shape& matrix, bool is_row, const char* what) {
    int64_t lines = matrix.rank() < 2 ? 1 : matrix[matrix.rank() - (is_row ? 2 : 1)];
    int64_t stack = matrix.rank() < 2 ? 1 : matrix.CountBetween(0, matrix.rank() - 2);
    int64_t count = values.ElementCount();
    if (count == 1) return;
    line_step_ = 1;
    if (count == lines) return;
    Require(values.rank() == matrix.rank() && count == CheckedProduct(lines, stack), what, " of shape ", values,
            " is neither a scalar nor one value per ", is_row ? "row" : "column", " of ", matrix);
    stack_step_ = lines;
  }
  size_t At(int64_t matrix, int64_t line) const {
    return static_cast<size_t>(matrix * stack_step_ + line * line_step_);
  }

 private:
  int64_t line_step_ = 0, stack_step_ = 0;
};

struct IntegerFactor {
  const Tensor& values;
  std::vector<int32_t> zeros;
  PerLine zero_at;

  IntegerFactor(const Tensor& tensor, const Tensor* zero, bool is_row)
      : values(tensor),
        zeros(ZeroPoints(zero, tensor.dtype())),
        zero_at(zero ? zero->shape() : Shape{}, tensor.shape(), is_row, "the zero point") {}
};

// The stack's first matrix may have been folded into one tall matrix by the plan; lines then run through all of it.
struct Line {
  int64_t matrix, line;
};
Line Unfold(int64_t matrix, int64_t line, int64_t lines_per_matrix) {
  return {matrix + line / lines_per_matrix, line % lines_per_matrix};
}

int64_t RowsOf(const Shape& a) { return a.rank() < 2 ? 1 : std::max<int64_t>(a[a.rank() - 2], 1); }

template <class A, class B>
void MultiplyBytes(const OpContext& context, const MatMulPlan& plan, const IntegerFactor& a, const IntegerFactor& b,
                   uint32_t* sums) {
  int64_t a_rows = RowsOf(a.values.shape()), a_step = std::max<int64_t>(a_rows * plan.k, 1),
          b_step = std::max<int64_t>(plan.k * plan.n, 1);
  std::vector<int64_t> a_offsets, b_offsets;
  for (const GemmBatch& batch : plan.batches) {
    a_offsets.push_back(batch.a);
    b_offsets.push_back(batch.b);
  }
  auto from_a = [&](A value, int64_t batch, int64_t line) {
    Line at = Unfold(a_offsets[static_cast<size_t>(batch)] / a_step, line, a_rows);
    return static_cast<uint32_t>(int32_t{value} - a.zeros[a.zero_at.At(at.matrix, at.line)]);
  };
  auto from_b = [&](B value, int64_t batch, int64_t line) {
    int64_t matrix = b_offsets[static_cast<size_t>(batch)] / b_step;
    return static_cast<uint32_t>(int32_t{value} - b.zeros[b.zero_at.At(matrix, line)]);
  };
  StridedSource<uint32_t, A, decltype(from_a)> a_source(a.values.Data<A>(), plan.k, 1, a_offsets, from_a);
  StridedSource<uint32_t, B, decltype(from_b)> b_source(b.values.Data<B>(), 1, plan.n, b_offsets, from_b);
  PanelGemm<uint32_t>({.m = plan.m,
                       .n = plan.n,
                       .k = plan.k,
                       .batches = static_cast<int64_t>(plan.batches.size()),
                       .a = &a_source,
                       .b = &b_source,
                       .c = sums,
                       .c_row = plan.n,
                       .c_batch = plan.m * plan.n},
                      context.services().pool);
}

// Products of values without their zero points, summed in 32 bits that wrap.
void MultiplyIntegers(const OpContext& context, const MatMulPlan& plan, const IntegerFactor& a, const IntegerFactor& b,
                      Tensor& sums) {
  auto* to = reinterpret_cast<uint32_t*>(sums.MutableData<int32_t>());
  DispatchBytes(a.values.dtype(), [&](auto a_tag) {
    DispatchBytes(b.values.dtype(), [&](auto b_tag) {
      MultiplyBytes<typename decltype(a_tag)::type, typename decltype(b_tag)::type>(context, plan, a, b, to);
    });
  });
}

void ComputeMatMulInteger(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(1);
  MatMulPlan plan = PlanMatMul(a.shape(), b.shape());
  IntegerFactor a_factor(a, context.OptionalInput(2), true), b_factor(b, context.OptionalInput(3), false);
  Tensor& y = context.Output(0, DType::kInt32, plan.output);
  if (y.size() > 0) MultiplyIntegers(context, plan, a_factor, b_factor, y);
}

// The float8 types have no integers to add up: values are taken to float, multiplied and quantized again.
void MultiplyFloat8(const OpContext& context, const MatMulPlan& plan, const Tensor& a, const Tensor& b,
                    std::vector<float>& sums) {
  Tensor wide_a = WidenToFloat(a), wide_b = WidenToFloat(b);
  Gemm<float>({.m = plan.m,
               .n = plan.n,
               .k = plan.k,
               .a = wide_a.Data<float>(),
               .a_row = plan.k,
               .b = wide_b.Data<float>(),
               .b_row = plan.n,
               .c = sums.data(),
               .c_row = plan.n,
               .c_batch = plan.m * plan.n,
               .batches = plan.batches},
              context.services().pool);
}

struct OutputScale {
  Tensor a_scale, b_scale, y_scale;  // float
  PerLine a_at, b_at;
  int64_t a_rows, a_step, b_step;
  const MatMulPlan& plan;

  OutputScale(const OpContext& context, const MatMulPlan& made, const Tensor& a, const Tensor& b)
      : a_scale(WidenToFloat(context.Input(1))),
        b_scale(WidenToFloat(context.Input(4))),
        y_scale(WidenToFloat(context.Input(6))),
        a_at(a_scale.shape(), a.shape(), true, "a_scale"),
        b_at(b_scale.shape(), b.shape(), false, "b_scale"),
        a_rows(RowsOf(a.shape())),
        a_step(std::max<int64_t>(a_rows * made.k, 1)),
        b_step(std::max<int64_t>(made.k * made.n, 1)),
        plan(made) {
    Require(y_scale.size() == 1, "y_scale must be a scalar, has shape ", y_scale.shape());
    for (const Tensor* scale : {&a_scale, &b_scale})
      Require(scale->dtype() == DType::kFloat && scale->size() > 0, "scales must be float, float16 or bfloat16");
  }

  float At(size_t batch, int64_t row, int64_t column) const {
    Line line = Unfold(plan.batches[batch].a / a_step, row, a_rows);
    float a = a_scale.Data<float>()[a_at.At(line.matrix, line.line)];
    float b = b_scale.Data<float>()[b_at.At(plan.batches[batch].b / b_step, column)];
    return a * b / y_scale.Data<float>()[0];
  }
};

template <class Body>
void ForEachResult(const MatMulPlan& plan, const OutputScale& scale, const Body& body) {
  int64_t at = 0;
  for (size_t batch = 0; batch < plan.batches.size(); ++batch)
    for (int64_t i = 0; i < plan.m; ++i)
      for (int64_t j = 0; j < plan.n; ++j, ++at) body(at, scale.At(batch, i, j));
}

void ComputeQLinearMatMul(OpContext& context) {
  const Tensor& a = context.Input(0);
  const Tensor& b = context.Input(3);
  const Tensor& y_zero = context.Input(7);
  MatMulPlan plan = PlanMatMul(a.shape(), b.shape());
  OutputScale scale(context, plan, a, b);
  Require(y_zero.size() == 1, "y_zero_point must be a scalar, has shape ", y_zero.shape());
  Tensor& y = context.Output(0, y_zero.dtype(), plan.output);
  if (y.size() == 0) return;
  auto is_byte = [](DType type) { return type == DType::kInt8 || type == DType::kUInt8; };
  if (is_byte(a.dtype()) && is_byte(b.dtype()) && is_byte(y.dtype())) {
    Tensor sums(DType::kInt32, plan.output);
    MultiplyIntegers(context, plan, IntegerFactor(a, &context.Input(2), true),
                     IntegerFactor(b, &context.Input(5), false), sums);
    const int32_t* from = sums.Data<int32_t>();
    int32_t zero = ZeroPoints(&y_zero, y.dtype())[0];
    DispatchBytes(y.dtype(), [&](auto tag) {
      using Y = typename decltype(tag)::type;
      Y* to = y.MutableData<Y>();
      ForEachResult(plan, scale, [&](int64_t i, float factor) { to[i] = Requantize<Y>(from[i], factor, zero); });
    });
    return;
  }
  for (const Tensor* operand : {&a, &b, &y_zero})
    Require(BitWidth(operand->dtype()) == 8 && IsFloating(operand->dtype()),
            "a, b and y must all be 8-bit integers or all be 8-bit floats");
  std::vector<float> sums(static_cast<size_t>(y.size()));
  MultiplyFloat8(context, plan, a, b, sums);
  Tensor scaled(DType::kFloat, plan.output);
  float* to = scaled.MutableData<float>();
  ForEachResult(plan, scale, [&](int64_t i, float factor) { to[i] = sums[static_cast<size_t>(i)] * factor; });
  NarrowInto(scaled, y);
}

void InferMatMulInteger(InferContext& context) { InferMatMul(context, 0, 1, DType::kInt32); }
void InferQLinearMatMul(InferContext& context) { InferMatMul(context, 0, 3, context.InputDType(7)); }

}  // namespace

FERRY_OPERATOR(MatMulInteger, {.compute = ComputeMatMulInteger, .infer = InferMatMulInteger});
FERRY_OPERATOR(QLinearMatMul, {.compute = ComputeQLinearMatMul, .infer = InferQLinearMatMul});

}  // namespace ferry
