#include "ops/support/fused.h"
#include "providers/cuda/choices.h"
#include "providers/cuda/convolution.h"
#include "providers/cuda/few_rows.h"
#include "providers/cuda/kernels.h"
#include "providers/cuda/operators.h"
#include "providers/cuda/product.h"
#include "providers/cuda/widen_products.h"
#include "tensor/alignment.h"

namespace ferry::cuda {
namespace {

void FillZeros(const Device& device, Tensor& tensor) {
  CheckDriver(
      device.Use().MemsetD8Async(reinterpret_cast<DeviceAddress>(tensor.address()), 0, tensor.bytes(), device.stream()),
      "cuMemsetD8Async");
}

const std::byte* AddressOf(const Tensor* tensor) { return tensor ? tensor->address() : nullptr; }

// The matrices of a stack, [outer…, rows, columns], one after the other.
struct Stack {
  Shape outer;
  int64_t rows, columns;
};

Stack StackOf(const Shape& shape) {
  const size_t rank = shape.rank();
  return {Shape(shape.dims().first(rank - 2)), shape[rank - 2], shape[rank - 1]};
}

// Where matrix `index` of the result's stack finds its operand.
int64_t MatrixAt(const Shape& stack, const Shape& outer, int64_t index) {
  int64_t at = 0, step = 1;
  for (size_t i = outer.rank(), j = stack.rank(); i-- > 0; index /= outer[i]) {
    if (j == 0) break;
    --j;
    if (stack[j] != 1) at += index % outer[i] * step;
    step *= stack[j];
  }
  return at;
}

// How a product is run, decided when the kernel is chosen.
struct ProductWay {
  bool tf32 = false;
  Chain completion;
  // A constant right side on the device as [columns, depth], which tensor cores read straight; undefined: as it comes.
  Tensor turned;
  int64_t columns = 0;               // rows of `turned`, where there are more than the right side has columns
  DType result = DType::kUndefined;  // undefined: that of the operands
};

// [depth, columns] to [columns, depth].
Tensor TurnedMatrix(const Device& device, const Tensor& b) {
  const Tensor there = b.In(device.memory());
  Tensor turned(b.dtype(), {b.dim(1), b.dim(0)}, device.memory());
  CopyWalk(device, {{b.dim(1), b.dim(0)}, {1, b.dim(1)}, {b.dim(0), 1}}, static_cast<size_t>(BitWidth(b.dtype())) / 8,
           there.address(), turned.address());
  device.Synchronize();  // `there` ends here, and other threads will read
  return turned;
}

// With rows of zeros behind the last one.
Tensor PaddedMatrix(const Device& device, const Tensor& turned, int64_t rows) {
  Tensor padded(turned.dtype(), {rows, turned.dim(1)}, device.memory());
  FillZeros(device, padded);
  device.memory().CopyInside(padded.address(), turned.address(), turned.bytes());
  device.Synchronize();
  return padded;
}

void RunMatMul(const Device& device, OpContext& context, const ProductWay& way) {
  const Tensor &a = context.Input(0), &b = context.Input(1);
  Require(a.rank() >= 1 && b.rank() >= 1, "needs matrices: ", a.shape(), " × ", b.shape());
  const Shape a_shape = a.rank() == 1 ? Shape{1, a.dim(0)} : a.shape(),
              b_shape = b.rank() == 1 ? Shape{b.dim(0), 1} : b.shape();
  const Stack left = StackOf(a_shape), right = StackOf(b_shape);
  Require(left.columns == right.rows, "inner sizes differ: ", a.shape(), " × ", b.shape());
  const Shape outer = BroadcastShapes(left.outer, right.outer);
  Shape shape = outer;
  if (a.rank() > 1) shape.push_back(left.rows);
  if (b.rank() > 1) shape.push_back(right.columns);
  Tensor& d = context.Output(0, a.dtype(), shape);
  if (left.columns == 0) return FillZeros(device, d);
  ProductShape product;
  product.dtype = a.dtype();
  product.tf32 = way.tf32;
  product.rows = left.rows, product.columns = right.columns, product.depth = left.columns;
  product.a_pitch = left.columns, product.b_pitch = product.d_pitch = right.columns;
  const int64_t count = outer.ElementCount(), a_size = left.rows * left.columns, b_size = right.rows * right.columns,
                d_size = left.rows * right.columns;
  const int64_t a_count = left.outer.ElementCount(), b_count = right.outer.ElementCount();
  ProductOperands operands{a.address(), b.address(), nullptr, nullptr, d.address()};
  if (b_count == 1 && a_count == count) {
    product.rows *= count;
    if (way.turned.defined()) {
      product.b_transposed = true;
      product.b_pitch = product.depth;
      operands.b = way.turned.address();
    }
    return MultiplyAnywhere(device, product, operands, way.columns);
  }
  if ((a_count == count || a_count == 1) && (b_count == count || b_count == 1)) {
    product.batch = count;
    product.a_stride = a_count == 1 ? 0 : a_size;
    product.b_stride = b_count == 1 ? 0 : b_size;
    product.d_stride = d_size;
    return Multiply(device, product, operands);
  }
  const size_t bytes = static_cast<size_t>(BitWidth(a.dtype())) / 8;
  for (int64_t i = 0; i < count; ++i) {
    operands.a = a.address() + static_cast<size_t>(MatrixAt(left.outer, outer, i) * a_size) * bytes;
    operands.b = b.address() + static_cast<size_t>(MatrixAt(right.outer, outer, i) * b_size) * bytes;
    operands.d = d.address() + static_cast<size_t>(i * d_size) * bytes;
    Multiply(device, product, operands);
  }
}

// activation(d · scale + c · beta), where there are a scale and a c.
Chain CompletionOf(DType type, bool has_scale, bool has_c, float beta, const Activation& activation, bool rounds) {
  Chain chain;
  Node multiply, add, cast;
  multiply.op_type = "Mul", add.op_type = "Add", cast.op_type = "Cast";
  int value = chain.AddInput(type);
  if (has_scale) value = *chain.AddStep(multiply, std::vector{value, chain.AddInput(type)}, type);
  if (has_c) {
    int more = chain.AddInput(type);
    if (beta != 1) {
      int factor = chain.AddConstant(Tensor::Scalar(beta));
      if (type != DType::kFloat) factor = *chain.AddStep(cast, std::vector{factor}, type);
      more = *chain.AddStep(multiply, std::vector{more, factor}, type);
    }
    value = *chain.AddStep(add, std::vector{value, more}, type);
  }
  chain.AddOutput(AddActivation(chain, value, activation, rounds));
  return chain;
}

// In place; `scale` and `c` may be null.
void Complete(const Device& device, const Chain& completion, Tensor& d, const Tensor* scale, const Tensor* c) {
  std::vector<const Tensor*> inputs{&d};
  if (scale) inputs.push_back(scale);
  if (c) inputs.push_back(c);
  Tensor* outputs[] = {&d};
  completion.Run(device, inputs, outputs);
}

void RunGemm(const Device& device, OpContext& context, const ProductWay& way) {
  const Node& node = context.node();
  const Tensor &a = context.Input(0), &b = context.Input(1);
  const Tensor* c = context.OptionalInput(2);
  const bool a_turned = node.Int("transA", 0) != 0, b_turned = node.Int("transB", 0) != 0;
  const float alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
  Require(a.rank() == 2 && b.rank() == 2, "needs matrices: ", a.shape(), " × ", b.shape());
  ProductShape product;
  product.dtype = a.dtype();
  product.tf32 = way.tf32;
  product.rows = a.dim(a_turned), product.depth = a.dim(!a_turned), product.columns = b.dim(!b_turned);
  Require(product.depth == b.dim(b_turned), "inner sizes differ: ", a.shape(), " × ", b.shape());
  product.a_transposed = a_turned, product.b_transposed = b_turned;
  product.a_pitch = a.dim(1), product.b_pitch = b.dim(1), product.d_pitch = product.columns;
  Tensor& d = context.Output(0, a.dtype(), {product.rows, product.columns});
  if (c)
    Require(BroadcastShapes(d.shape(), c->shape()) == d.shape(), "C of shape ", c->shape(), " does not fit ",
            d.shape());
  const bool as_bias = c && beta == 1 && c->size() == product.columns && c->shape().back() == product.columns &&
                       a.dtype() != DType::kDouble && product.depth > 0;
  product.has_bias = as_bias;
  if (product.depth == 0)
    FillZeros(device, d);
  else
    Multiply(device, product,
             {a.address(), b.address(), nullptr, as_bias ? c->address() : nullptr, d.address(), alpha});
  if (c && !as_bias && beta != 0) Complete(device, way.completion, d, nullptr, c);
}

// A · B + bias with the activation in the same kernel, as a convolution of single pixels by cuDNN's engines, or behind
// it: whichever is faster. The right side lies as [columns, depth].
void MultiplyAndActivate(const Device& device, const ProductShape& product, const ProductOperands& operands,
                         const ProductWay& way, const Activation& activation, Tensor& d) {
  ConvolutionShape pixels;
  pixels.dtype = product.dtype;
  pixels.batch = 1, pixels.channels = product.depth, pixels.features = product.columns;
  pixels.axes[0] = {1, 1, 1, 1, 1, 0, 0};
  pixels.axes[1] = {product.rows, product.rows, 1, 1, 1, 0, 0};
  pixels.has_bias = product.has_bias;
  pixels.after = activation;
  pixels.tf32 = product.tf32;
  const auto run = [&](int which) {
    if (which == 0) {
      Multiply(device, product, operands);
      Complete(device, way.completion, d, nullptr, nullptr);
    } else if (!Convolve(device, pixels, {operands.a, operands.b, operands.bias, nullptr, operands.d})) {
      Fail(ErrorCode::kUnsupported, "cuDNN has no engine with this activation");
    }
  };
  const std::string key = Cat("activation ", static_cast<int>(activation.kind), " after ", product.dtype, " [",
                              product.rows, ", ", product.depth, "] · [", product.depth, ", ", product.columns, "]",
                              product.has_bias ? " bias" : "", product.tf32 ? " tf32" : "");
  run(Choices::Of(device).Fastest(device, key, CanConvolve(pixels) ? 2 : 1, run));
}

// Leaves nothing of an activation that the product's own kernel applies.
void TakeActivation(ProductShape& product, const ProductOperands& operands, Activation& activation) {
  if (activation.kind == ActivationKind::kRelu)
    product.after = ProductShape::After::kRelu;
  else if (activation.kind == ActivationKind::kGeluTanh && product.dtype != DType::kDouble)
    product.after = ProductShape::After::kGelu;
  else if (activation.kind == ActivationKind::kSilu && activation.alpha == 1 && TakesFewRows(product, operands))
    product.after = ProductShape::After::kSilu;
  else
    return;
  activation = {};
}

bool IsErfGelu(const Activation& activation) { return activation.kind == ActivationKind::kGelu; }

// activation(A · B + bias + residual), or (A · B + bias) · scale + residual.
void RunFused(const Device& device, OpContext& context, const ProductWay& way) {
  const Node& node = context.node();
  const Tensor &a = context.Input(0), &b = context.Input(1);
  const Tensor *bias = context.OptionalInput(2), *residual = context.OptionalInput(3),
               *scale = context.OptionalInput(4);
  const bool turned = node.Int("transB", 0) != 0;
  Require(a.rank() >= 1 && b.rank() == 2 && a.shape().back() == b.dim(turned), "inner sizes differ: ", a.shape(), " × ",
          b.shape());
  Shape shape = a.shape();
  shape.back() = b.dim(!turned);
  Tensor& d = context.Output(0, way.result == DType::kUndefined ? a.dtype() : way.result, shape);
  if (residual) Require(residual->size() == d.size(), "a sum of shape ", residual->shape(), " does not fit ", shape);
  ProductShape product;
  product.dtype = a.dtype();
  product.tf32 = way.tf32;
  product.depth = a.shape().back(), product.columns = shape.back();
  product.rows = shape.CountBetween(0, shape.rank() - 1);
  product.b_transposed = turned;
  product.a_pitch = product.depth, product.b_pitch = b.dim(1), product.d_pitch = product.columns;
  product.has_bias = bias != nullptr;
  product.has_sum = residual && !scale;
  Activation activation = ActivationOf(node);
  if (product.depth == 0) Fail(ErrorCode::kUnsupported, "a product over no elements");
  const std::byte* right = b.address();
  if (way.turned.defined()) {
    product.b_transposed = true;
    product.b_pitch = product.depth;
    right = way.turned.address();
  }
  const ProductOperands operands{a.address(), right, AddressOf(residual), AddressOf(bias), d.address(), 1};
  if (!scale) TakeActivation(product, operands, activation);
  const bool rounds = way.tf32 || a.dtype() == DType::kFloat16 || a.dtype() == DType::kBFloat16;
  if (IsErfGelu(activation) && rounds && product.b_transposed && !scale && !residual)
    return MultiplyAndActivate(device, product, operands, way, activation, d);
  product.result = way.result;
  MultiplyAnywhere(device, product, operands, way.columns);
  Tensor as_d = residual ? residual->Reshaped(shape) : Tensor();
  if (scale || activation.kind != ActivationKind::kNone)
    Complete(device, way.completion, d, scale, scale && residual ? &as_d : nullptr);
}

}  // namespace

std::optional<ChosenKernel> ChooseProduct(const OperatorRequest& request) {
  const bool widened = IsWidenedProduct(request.node());
  const bool fused = request.IsInternal("FusedMatMul") || widened, gemm = request.Is("Gemm");
  const DType type = request.TypeOf(0);
  if ((!fused && !gemm && !request.Is("MatMul")) || !CanMultiply(type) || request.TypeOf(1) != type)
    return std::nullopt;
  const Node& node = request.node();
  const auto run = fused ? RunFused : gemm ? RunGemm : RunMatMul;
  const bool has_scale = fused && request.Has(4);
  ProductWay way;
  way.tf32 = request.settings.tf32;
  if (widened) way.result = DType::kFloat;
  way.completion = fused  ? CompletionOf(type, has_scale, has_scale && request.Has(3), 1, ActivationOf(node), way.tf32)
                   : gemm ? CompletionOf(type, false, request.Has(2), node.Float("beta", 1), {}, false)
                          : Chain();
  const Tensor* b = request.Constant(1);
  const bool rounds = way.tf32 || type == DType::kFloat16 || type == DType::kBFloat16;
  const bool is_turned = node.Int("transB", 0) != 0;
  const bool constant = b && b->rank() == 2 && b->size() > 0 && rounds && !gemm &&
                        (fused || request.ShapeOf(0).value_or(Shape{}).rank() >= 2);
  const int64_t columns = constant ? b->dim(is_turned ? 0 : 1) : 0;
  const bool pads = columns > 1024 && columns % 8 != 0 && !request.Has(2);
  const bool turns = constant && (!is_turned || pads);
  if (pads) way.columns = (columns + 7) / 8 * 8;
  if (turns && request.settings.device) {
    const Device& device = *request.settings.device;
    way.turned = *request.request.weights.Get<Tensor>(*b, pads ? "turned and padded in cuda" : "turned in cuda", [&] {
      const Tensor turned = is_turned ? Readable(*b).In(device.memory()) : TurnedMatrix(device, Readable(*b));
      return pads ? PaddedMatrix(device, turned, way.columns) : turned;
    });
  }
  const uint32_t right = turns ? InputBit(1) : 0;
  return OnDevice(
      request, "cublasLt", [=](const Device& device, OpContext& context) { run(device, context, way); }, right, right);
}

}  // namespace ferry::cuda
