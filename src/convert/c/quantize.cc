// Quantisation as steps of their own: scales that come with the data, types other than bytes.
#include <algorithm>

#include "convert/c/convolutions.h"
#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

// Which scale belongs to element i.
std::string ScaleIndex(StepWriter& w, const Operand& x, const Operand& scale) {
  if (scale.size() == 1) return "0";
  const size_t axis = NormalizeAxis(w.node.Int("axis", 1), x.shape.rank());
  const int64_t inner = x.shape.CountBetween(axis + 1, x.shape.rank()), length = x.shape[axis],
                block = w.node.Int("block_size", 0);
  if (scale.shape.rank() <= 1 && block == 0) return Cat("i / ", inner, " % ", length);
  const int64_t blocks = scale.shape[axis],
                size = block > 0 ? block : (length + blocks - 1) / std::max<int64_t>(1, blocks);
  return Cat("(i / ", inner * length, " * ", blocks, " + i / ", inner, " % ", length, " / ", size, ") * ", inner,
             " + i % ", inner);
}

void WriteQuantize(StepWriter& w) {
  const Operand &x = w.in[0], &scale = w.in[1], &y = w.out[0];
  const auto asked = static_cast<DType>(w.node.Int("precision", 0));
  const bool is_half =
      asked == DType::kFloat16 || asked == DType::kBFloat16 ||
      (asked == DType::kUndefined && (scale.type == DType::kFloat16 || scale.type == DType::kBFloat16));
  const bool is_double =
      asked == DType::kDouble || x.type == DType::kInt32 || scale.type == DType::kInt32 || scale.type == DType::kDouble;
  const DType type = is_double ? DType::kDouble : DType::kFloat;
  const std::string c(StoredType(type));
  w.For("i", y.size());
  w.Line("const int s = ", ScaleIndex(w, x, scale), ";");
  w.Line(c, " v = (", c, ")", w.Load(x, "i"), " / (", c, ")", w.Load(scale, "s"), ";");
  if (is_half && !is_double) {
    const char* kind = (asked == DType::kUndefined ? scale.type : asked) == DType::kFloat16 ? "half" : "bfloat";
    w.Use(Cat(kind, "_get")), w.Use(Cat(kind, "_put"));
    w.Line("v = ", kind, "_get(", kind, "_put(v));");
  }
  const std::string zero = w.Has(2) ? Cat("(", c, ")", w.Load(w.in[2], "s")) : "0";
  if (IsFloatType(y.type)) {
    w.Line(w.Store(y, "i", Cat("(float)(v + ", zero, ")")));
  } else {
    const int bits = BitWidth(y.type);
    const int64_t low = IsSignedInteger(y.type) ? -(int64_t{1} << (bits - 1)) : 0,
                  high = IsSignedInteger(y.type) ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
    w.Line("const ", c, " zero = ", zero, ";");
    w.Line("if (!(v > ", IntegerLiteral(low), " - zero)) v = ", IntegerLiteral(low), " - zero;");
    w.Line("if (v > ", IntegerLiteral(high), " - zero) v = ", IntegerLiteral(high), " - zero;");
    w.Line(w.Store(y, "i", Cat("(int32_t)(", Math("rint", type), "(v) + zero)")));
  }
  w.Close();
  if (w.node.Int("saturate", 1) == 0)
    for (const char* name : {"e4m3", "e4m3z", "e5m2", "e5m2z"})
      for (size_t at = w.text.find(Cat(name, "_put")); at != std::string::npos; at = w.text.find(Cat(name, "_put")))
        w.text.replace(at, std::string_view(name).size() + 4, Cat(name, "_raw")), w.Use(Cat(name, "_raw"));
}

void WriteDequantize(StepWriter& w) {
  const Operand &x = w.in[0], &scale = w.in[1], &y = w.out[0];
  w.For("i", y.size());
  w.Line("const int s = ", ScaleIndex(w, x, scale), ";");
  const bool is_float = IsFloatType(x.type);
  const std::string wide = is_float ? "float" : x.type == DType::kInt32 ? "int64_t" : "int32_t";
  w.Line("const ", wide, " v = (", wide, ")", w.Load(x, "i"),
         w.Has(2) ? Cat(" - (", wide, ")", w.Load(w.in[2], "s")) : "", ";");
  w.Line(w.Store(y, "i", Cat("(float)v * (float)", w.Load(scale, "s"))));
  w.Close();
}

void WriteDynamicQuantize(StepWriter& w) {
  const Operand& x = w.in[0];
  w.Line("float low = 0, high = 0, scale, zero;");
  w.For("i", x.size());
  w.Line("if (", x.c, "[i] < low) low = ", x.c, "[i];");
  w.Line("if (", x.c, "[i] > high) high = ", x.c, "[i];");
  w.Close();
  w.Line("scale = (high - low) / 255.0f;");
  w.Line("zero = scale == 0.0f ? 0.0f : rintf(0.0f - low / scale);");
  w.Line("zero = zero < 0.0f ? 0.0f : zero > 255.0f ? 255.0f : zero;");
  if (w.Wants(0)) {
    w.For("i", x.size());
    w.Line("float v = scale == 0.0f ? zero : rintf(", x.c, "[i] / scale) + zero;");
    w.Line("v = v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v;");
    w.Line(w.out[0].c, "[i] = (uint8_t)v;");
    w.Close();
  }
  if (w.Wants(1)) w.Line(w.out[1].c, "[0] = scale;");
  if (w.Wants(2)) w.Line(w.out[2].c, "[0] = (uint8_t)zero;");
}

// A scale or zero point: one, or one for each row or column.
std::string Parameter(StepWriter& w, size_t i, const std::string& index) {
  return w.Load(w.in[i], w.in[i].size() > 1 ? index : "0");
}

void WriteQLinearMatMul(StepWriter& w) {
  const Operand &a = w.in[0], &b = w.in[3], &y = w.out[0];
  const int64_t m = a.shape.rank() > 1 ? a.shape[a.shape.rank() - 2] : 1, k = a.shape.back(),
                n = b.shape.rank() > 1 ? b.shape.back() : 1;
  auto stack_of = [](const Shape& shape) {
    return shape.rank() < 2 ? Shape() : Shape(shape.dims().first(shape.rank() - 2));
  };
  const Shape a_stack = stack_of(a.shape), b_stack = stack_of(b.shape), stack = BroadcastShapes(a_stack, b_stack);
  Nest nest{stack.ToVector(), {BroadcastStrides(a_stack, stack), BroadcastStrides(b_stack, stack), stack.Strides()}};
  nest.Collapse();
  int opened = 0;
  const std::vector<std::string> at = w.OpenNest(nest, "s", opened);
  w.Use("level");
  const bool is_signed = y.type == DType::kInt8;
  w.For("i", m);
  w.For("j", n);
  w.Line("int32_t sum = 0;");
  w.For("k", k);
  w.Line("sum += (", w.Load(a, Cat("(", at[0], ") * ", m * k, " + i * ", k, " + k")), " - ", Parameter(w, 2, "i"),
         ") * (", w.Load(b, Cat("(", at[1], ") * ", k * n, " + k * ", n, " + j")), " - ", Parameter(w, 5, "j"), ");");
  w.Close();
  w.Line(w.Store(y, Cat("(", at[2], ") * ", m * n, " + i * ", n, " + j"),
                 Cat("level((float)sum * (", Parameter(w, 1, "i"), " * ", Parameter(w, 4, "j"), " / ",
                     Parameter(w, 6, "j"), "), ", is_signed ? "-128, 127, " : "0, 255, ", Parameter(w, 7, "j"), ")")));
  w.Close(2 + opened);
}

void WriteQLinearConv(StepWriter& w) {
  ConvLoops conv;
  const Operand& y = w.out[0];
  conv.plan = PlanConv(w.node, w.in[0].shape, w.in[3].shape);
  conv.x_shape = w.in[0].shape, conv.y_shape = y.shape, conv.sum_type = "int32_t";
  conv.initial = w.Has(8) ? Cat(w.in[8].c, "[f]") : "0";
  conv.product = [&](const std::string& x, const std::string& k) {
    return Cat("(", w.in[0].c, "[", x, "] - ", w.in[2].c, "[0]) * (", w.in[3].c, "[", k, "] - ", Parameter(w, 5, "f"),
               ")");
  };
  conv.store = [&](const std::string& at) {
    w.Use("level");
    return w.Store(y, at,
                   Cat("level((float)sum * (", w.in[1].c, "[0] * ", Parameter(w, 4, "f"), " / ", w.in[6].c, "[0]), ",
                       y.type == DType::kInt8 ? "-128, 127, " : "0, 255, ", w.in[7].c, "[0])"));
  };
  WriteConvLoops(w, conv);
}

}  // namespace

const std::vector<KernelEntry>& QuantizeKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"QuantizeLinear", WriteQuantize},
      {"DequantizeLinear", WriteDequantize},
      {"DynamicQuantizeLinear", WriteDynamicQuantize},
      {"QLinearMatMul", WriteQLinearMatMul},
      {"QLinearConv", WriteQLinearConv},
  };
  return kernels;
}

}  // namespace ferry::c
