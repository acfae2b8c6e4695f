// Matrix products.
#include <algorithm>

#include "convert/c/fast_float.h"
#include "convert/c/kernels.h"
#include "ops/support/einsum_equation.h"
#include "ops/support/matmul.h"

namespace ferry::c {
namespace {

struct Matrices {
  int64_t m = 1, n = 1, k = 1;
  Nest nest;  // over the stacks: offsets of a, b and y
};

Matrices Plan(StepWriter& w, const Operand& a, const Operand& b) {
  Matrices plan;
  Shape left = a.shape, right = b.shape;
  if (left.rank() == 1) left.insert(0, 1);
  if (right.rank() == 1) right.push_back(1);
  plan.m = left[left.rank() - 2], plan.k = left.back(), plan.n = right.back();
  Shape left_stack(left.dims().first(left.rank() - 2)), right_stack(right.dims().first(right.rank() - 2));
  const Shape stack = BroadcastShapes(left_stack, right_stack);
  auto scaled = [](std::vector<int64_t> strides, int64_t factor) {
    for (int64_t& stride : strides) stride *= factor;
    return strides;
  };
  plan.nest = {
      stack.ToVector(),
      {scaled(BroadcastStrides(left_stack, stack), plan.m * plan.k),
       scaled(BroadcastStrides(right_stack, stack), plan.k * plan.n), scaled(stack.Strides(), plan.m * plan.n)}};
  plan.nest.Collapse();
  w.multiply_adds += stack.ElementCount() * plan.m * plan.n * plan.k;
  return plan;
}

void WriteMatMul(StepWriter& w) {
  const Operand &a = w.in[0], &b = w.in[1];
  if (a.type == DType::kFloat && b.constant && b.shape.rank() == 2 && a.shape.rank() >= 1 && w.options.fast)
    return WriteFusedMatMul(w);
  const Matrices plan = Plan(w, a, b);
  int opened = 0;
  const std::vector<std::string> at = w.OpenNest(plan.nest, "s", opened);
  w.For("i", plan.m);
  w.For("j", plan.n);
  w.Line(ArithmeticC(w.out[0].type), " sum = 0;");
  w.For("k", plan.k);
  w.Line("sum += (", ArithmeticC(w.out[0].type), ")(", w.Load(a, Cat(at[0], " + i * ", plan.k, " + k")), " * ",
         w.Load(b, Cat(at[1], " + k * ", plan.n, " + j")), ");");
  w.Close();
  w.Line(w.Store(w.out[0], Cat(at[2], " + i * ", plan.n, " + j"), "sum"));
  w.Close(2 + opened);
}

// A zero point: absent, one, or one for each row or column.
std::string ZeroPoint(const Operand& zero, const char* index) {
  return zero ? Cat(" - ", zero.c, "[", zero.size() > 1 ? index : "0", "]") : std::string();
}

void WriteMatMulInteger(StepWriter& w) {
  const Matrices plan = Plan(w, w.in[0], w.in[1]);
  int opened = 0;
  const std::vector<std::string> at = w.OpenNest(plan.nest, "s", opened);
  w.For("i", plan.m);
  w.For("j", plan.n);
  w.Line("int32_t sum = 0;");
  w.For("k", plan.k);
  w.Line("sum += (", w.in[0].c, "[", at[0], " + i * ", plan.k, " + k]", w.Has(2) ? ZeroPoint(w.in[2], "i") : "",
         ") * (", w.in[1].c, "[", at[1], " + k * ", plan.n, " + j]", w.Has(3) ? ZeroPoint(w.in[3], "j") : "", ");");
  w.Close();
  w.Line(w.Store(w.out[0], Cat(at[2], " + i * ", plan.n, " + j"), "sum"));
  w.Close(2 + opened);
}

void WriteGemm(StepWriter& w) {
  const bool ta = w.node.Int("transA", 0) != 0, tb = w.node.Int("transB", 0) != 0;
  const Operand &a = w.in[0], &b = w.in[1], &y = w.out[0];
  const int64_t m = y.shape[0], n = y.shape[1], k = a.shape[ta ? 0 : 1];
  const DType type = ArithmeticType(a.type);
  const std::string alpha = Literal(w.node.Float("alpha", 1), type), beta = Literal(w.node.Float("beta", 1), type);
  w.multiply_adds += m * n * k;
  w.For("i", m);
  w.For("j", n);
  w.Line(ArithmeticC(type), " sum = 0;");
  w.For("k", k);
  w.Line("sum += ", w.Load(a, ta ? Cat("k * ", m, " + i") : Cat("i * ", k, " + k")), " * ",
         w.Load(b, tb ? Cat("j * ", k, " + k") : Cat("k * ", n, " + j")), ";");
  w.Close();
  std::string text = w.node.Float("alpha", 1) == 1 ? "sum" : Cat(alpha, " * sum");
  if (w.Has(2)) {
    const std::vector<int64_t> strides = BroadcastStrides(w.in[2].shape, y.shape);
    text += Cat(" + ", w.node.Float("beta", 1) == 1 ? "" : Cat(beta, " * "),
                w.Load(w.in[2], Cat("i * ", strides[0], " + j * ", strides[1])));
  }
  w.Line(w.Store(y, Cat("i * ", n, " + j"), text));
  w.Close(2);
}

}  // namespace

const std::vector<KernelEntry>& ProductKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"MatMul", WriteMatMul},
      {"MatMulInteger", WriteMatMulInteger},
      {"Gemm", WriteGemm},
      {"ferry.FusedMatMul", WriteFusedMatMul},
  };
  return kernels;
}

}  // namespace ferry::c
