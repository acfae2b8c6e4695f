// Convolutions: loops over any layout for whatever the fast forms (fast_float.cc, quantized.cc) do not take.
#include "convert/c/convolutions.h"

#include "convert/c/kernels.h"
#include "ops/support/conv_transpose.h"
#include "ops/support/fused.h"

namespace ferry::c {

Tensor PackedAsRows(const Tensor& w, int64_t features, int64_t channels, int64_t taps) {
  Tensor rows(w.dtype(), Shape{features, taps, channels});
  const size_t size = static_cast<size_t>(BitWidth(w.dtype()) / 8);
  for (int64_t f = 0; f < features; ++f)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps; ++t)
        std::copy_n(w.raw() + static_cast<size_t>((f * channels + c) * taps + t) * size, size,
                    rows.mutable_raw() + static_cast<size_t>((f * taps + t) * channels + c) * size);
  return rows;
}

namespace {

struct Strides {
  int64_t image, channel;
  std::vector<int64_t> spatial;
};

Strides StridesOf(const Shape& shape, bool last) {
  std::vector<int64_t> all = shape.Strides();
  const size_t rank = shape.rank();
  if (last) return {all[0], 1, {all.begin() + 1, all.begin() + static_cast<long>(rank) - 1}};
  return {all[0], all[1], {all.begin() + 2, all.end()}};
}

}  // namespace

void WriteConvLoops(StepWriter& w, const ConvLoops& conv) {
  const ConvPlan& plan = conv.plan;
  const Strides x = StridesOf(conv.x_shape, conv.x_last), y = StridesOf(conv.y_shape, conv.y_last);
  const size_t rank = plan.axes.size();
  w.multiply_adds += plan.batch * plan.features * plan.counts.output * plan.depth();
  w.For("n", plan.batch);
  w.For("f", plan.features);
  std::string at_y = Cat("n * ", y.image, " + f * ", y.channel), base = Cat("n * ", x.image);
  if (plan.groups > 1) base += Cat(" + f / ", plan.group_features, " * ", plan.group_channels * x.channel);
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("o", a), plan.axes[a].output);
    at_y += Cat(" + o", a, " * ", y.spatial[a]);
  }
  w.Line(conv.sum_type, " sum = ", conv.initial, ";");
  w.For("c", plan.group_channels);
  std::string at_x = Cat(base, " + c * ", x.channel), tap = "(f * " + std::to_string(plan.group_channels) + " + c)";
  for (size_t a = 0; a < rank; ++a) {
    const WindowAxis& axis = plan.axes[a];
    w.For(Cat("k", a), axis.kernel);
    w.Line("const int i", a, " = o", a, " * ", axis.stride, " + k", a, " * ", axis.dilation, " - ", axis.pad_begin,
           ";");
    w.Line("if (i", a, " < 0 || i", a, " >= ", axis.input, ") continue;");
    at_x += Cat(" + i", a, " * ", x.spatial[a]);
    tap = Cat("(", tap, " * ", axis.kernel, " + k", a, ")");
  }
  w.Line("sum += ", conv.product(at_x, tap), ";");
  w.Close(static_cast<int>(rank) + 1);
  w.Line(conv.store(at_y));
  w.Close(static_cast<int>(rank) + 2);
}

void WriteFloatEpilogue(StepWriter& w, const Operand& bias, const Operand& residual, const std::string& at) {
  if (bias) w.Line("sum += ", w.Load(bias, "f"), ";");
  if (residual) w.Line("sum += ", w.Load(residual, at), ";");
}

namespace {

void WriteConv(StepWriter& w) {
  ConvLoops conv;
  conv.plan = PlanConv(w.node, w.in[0].shape, w.in[1].shape);
  conv.x_shape = w.in[0].shape;
  conv.y_shape = w.out[0].shape;
  conv.sum_type = ArithmeticC(w.in[0].type);
  conv.product = [&](const std::string& x, const std::string& k) {
    return Cat(w.Load(w.in[0], x), " * ", w.Load(w.in[1], k));
  };
  conv.store = [&](const std::string& at) {
    if (w.Has(2)) w.Line("sum += ", w.Load(w.in[2], "f"), ";");
    return w.Store(w.out[0], at, "sum");
  };
  WriteConvLoops(w, conv);
}

void WriteNhwcConv(StepWriter& w);

// The input scaled for every channel goes to memory of its own first.
void WriteScaledConv(StepWriter& w) {
  const NhwcConvPlan plan = PlanNhwcConv(w.node, w.in[0].shape, w.in[1].shape);
  const int64_t channels = plan.conv.channels, size = w.in[0].size();
  if (plan.channels_first || !w.Has(4)) w.Refuse("this form of scaled input is not written as C");
  const std::string scaled = w.Scratch(DType::kFloat, size);
  w.For("i", size);
  w.Line("const float v = ", w.in[0].c, "[i] * ", w.in[4].c, "[i % ", channels, "]",
         w.Has(5) ? Cat(" + ", w.in[5].c, "[i % ", channels, "]") : "", ";");
  w.Line(scaled, "[i] = ", ActivationText(w, ActivationBefore(w.node), "v"), ";");
  w.Close();
  const size_t begin = w.text.size();
  const std::vector<Operand> all = w.in;
  w.in.resize(4);
  WriteNhwcConv(w);
  w.in = all;
  w.overwrites = 0;
  std::string conv = w.text.substr(begin);
  auto is_part = [](char ch) { return std::isalnum(static_cast<unsigned char>(ch)) || ch == '_'; };
  for (size_t at = conv.find("a0"); at != std::string::npos; at = conv.find("a0", at + 1))
    if (!is_part(conv[at - 1]) && !is_part(conv[at + 2])) conv.replace(at, 2, scaled);
  w.text = w.text.substr(0, begin) + conv;
}

void WriteNhwcConv(StepWriter& w) {
  if (w.Has(4) || w.Has(5)) return WriteScaledConv(w);
  if (w.options.fast && WriteFastNhwcConv(w)) return;
  const NhwcConvPlan plan = PlanNhwcConv(w.node, w.in[0].shape, w.in[1].shape);
  ConvLoops conv;
  conv.plan = plan.conv;
  conv.x_shape = w.in[0].shape;
  conv.y_shape = w.out[0].shape;
  conv.x_last = !plan.channels_first;
  conv.y_last = true;
  conv.product = [&](const std::string& x, const std::string& k) {
    return Cat(w.in[0].c, "[", x, "] * ", w.in[1].c, "[", k, "]");
  };
  conv.store = [&](const std::string& at) {
    WriteFloatEpilogue(w, w.Has(2) ? w.in[2] : Operand(), w.Has(3) ? w.in[3] : Operand(), at);
    return w.Store(w.out[0], at, ActivationText(w, ActivationOf(w.node), "sum"));
  };
  WriteConvLoops(w, conv);
}

void WriteConvInteger(StepWriter& w) {
  ConvLoops conv;
  conv.plan = PlanConv(w.node, w.in[0].shape, w.in[1].shape);
  conv.x_shape = w.in[0].shape;
  conv.y_shape = w.out[0].shape;
  conv.sum_type = "int32_t";
  conv.initial = "0";
  const std::string x_zero = w.Has(2) ? Cat(" - ", w.in[2].c, "[0]") : "";
  const std::string w_zero = w.Has(3) ? Cat(" - ", w.in[3].c, w.in[3].size() > 1 ? "[f]" : "[0]") : "";
  conv.product = [&](const std::string& x, const std::string& k) {
    return Cat("(", w.in[0].c, "[", x, "]", x_zero, ") * (", w.in[1].c, "[", k, "]", w_zero, ")");
  };
  conv.store = [&](const std::string& at) { return w.Store(w.out[0], at, "sum"); };
  WriteConvLoops(w, conv);
}

void WriteTransposed(StepWriter& w, const Shape& x_first, const Shape& y_shape, bool last,
                     const Activation& activation) {
  const TransposePlan plan(w.node, x_first, w.in[1].shape);
  const size_t rank = plan.axes.size();
  const Strides x = StridesOf(w.in[0].shape, last), y = StridesOf(y_shape, last);
  w.For("n", x_first[0]);
  w.For("f", plan.groups * plan.group_features);
  std::string at_y = Cat("n * ", y.image, " + f * ", y.channel);
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("o", a), plan.axes[a].output);
    at_y += Cat(" + o", a, " * ", y.spatial[a]);
  }
  w.Line(ArithmeticC(w.in[0].type), " sum = 0;");
  const int64_t channels = x_first[1] / plan.groups;
  w.multiply_adds += w.in[0].size() * plan.group_features * plan.counts.taps;
  w.For("c", channels);
  const std::string channel = plan.groups > 1 ? Cat("(f / ", plan.group_features, " * ", channels, " + c)") : "c";
  std::string at_x = Cat("n * ", x.image, " + ", channel, " * ", x.channel),
              tap = Cat("(", channel, " * ", plan.group_features, " + f % ", plan.group_features, ")");
  for (size_t a = 0; a < rank; ++a) {
    const WindowAxis& axis = plan.axes[a];
    w.For(Cat("k", a), axis.kernel);
    w.Line("const int i", a, " = o", a, " + ", axis.pad_begin, " - k", a, " * ", axis.dilation, ";");
    w.Line("if (i", a, " < 0 || i", a, " % ", axis.stride, " != 0 || i", a, " / ", axis.stride, " >= ", axis.input,
           ") continue;");
    at_x += Cat(" + i", a, " / ", axis.stride, " * ", x.spatial[a]);
    tap = Cat("(", tap, " * ", axis.kernel, " + k", a, ")");
  }
  w.Line("sum += ", w.Load(w.in[0], at_x), " * ", w.Load(w.in[1], tap), ";");
  w.Close(static_cast<int>(rank) + 1);
  if (w.Has(2)) w.Line("sum += ", w.Load(w.in[2], "f"), ";");
  w.Line(
      w.Store(w.out[0], at_y, activation.kind == ActivationKind::kNone ? "sum" : ActivationText(w, activation, "sum")));
  w.Close(static_cast<int>(rank) + 2);
}

void WriteConvTranspose(StepWriter& w) { WriteTransposed(w, w.in[0].shape, w.out[0].shape, false, {}); }
void WriteNhwcConvTranspose(StepWriter& w) {
  WriteTransposed(w, ToChannelsFirst(w.in[0].shape), w.out[0].shape, true, ActivationOf(w.node));
}

void WriteNhwcAffine(StepWriter& w) {
  const int64_t batch = w.in[0].shape[0], channels = w.in[0].shape.back(),
                pixels = w.in[0].size() / std::max<int64_t>(1, batch * channels);
  const bool per_image = w.in[1].shape.rank() > 1 && w.in[1].shape[0] == batch && w.in[1].size() == batch * channels;
  w.MayOverwrite(0);
  w.For("n", batch);
  w.For("p", pixels);
  w.For("c", channels);
  w.Line("const int i = (n * ", pixels, " + p) * ", channels, " + c;");
  w.Line("const float v = ", w.in[0].c, "[i] * ", w.in[1].c, "[", per_image ? Cat("n * ", channels, " + ") : "", "c]",
         w.Has(2) ? Cat(" + ", w.in[2].c, "[c]") : "", ";");
  w.Line(w.out[0].c, "[i] = ", ActivationText(w, ActivationOf(w.node), "v"), ";");
  w.Close(3);
}

}  // namespace

const std::vector<KernelEntry>& ConvolutionKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"Conv", WriteConv},
      {"ferry.NhwcConv", WriteNhwcConv},
      {"ConvInteger", WriteConvInteger},
      {"ConvTranspose", WriteConvTranspose},
      {"ferry.NhwcConvTranspose", WriteNhwcConvTranspose},
      {"ferry.NhwcAffine", WriteNhwcAffine},
  };
  return kernels;
}

}  // namespace ferry::c
