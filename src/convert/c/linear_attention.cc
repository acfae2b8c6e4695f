// Attention with a state that is carried from step to step, and the gate that stands before products.
#include <cmath>

#include "convert/c/kernels.h"
#include "ops/support/attention.h"

namespace ferry::c {
namespace {

// One head at a time: its state lies aside, as floats.
void WriteLinearAttention(StepWriter& w) {
  const Node& node = w.node;
  const HeadLayout q(w.in[0].shape, node.Int("q_num_heads", 0), "query"),
      k(w.in[1].shape, node.Int("kv_num_heads", 0), "key"), v(w.in[2].shape, node.Int("kv_num_heads", 0), "value");
  const std::string rule = node.String("update_rule", "gated_delta");
  const bool gates = w.Has(4), corrects = w.Has(5);
  const int64_t group = q.heads / std::max<int64_t>(1, k.heads), keys = k.size, size = v.size;
  float scale = node.Float("scale", 0.0f);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(q.size, 1)));
  const std::string state = w.Scratch(DType::kFloat, keys * size), update = w.Scratch(DType::kFloat, size);
  w.multiply_adds += q.batch * q.length * keys * size * (k.heads * (corrects ? 3 : 2) + q.heads);
  w.For("n", k.batch);
  w.For("h", k.heads);
  const std::string whole = Cat("(n * ", k.heads, " + h) * ", keys * size, " + i");
  w.Line("for (int i = 0; i < ", keys * size, "; i++) ", state,
         "[i] = ", w.Has(3) ? Cat("(float)", w.Load(w.in[3], whole)) : std::string("0.0f"), ";");
  w.For("t", q.length);
  w.Line("const int row = n * ", q.length, " + t;");
  if (gates) {
    const int64_t each = w.in[4].shape.back() / std::max<int64_t>(1, k.heads);
    w.For("i", keys);
    w.Line("const float factor = expf((float)",
           w.Load(w.in[4], Cat("(row * ", k.heads, " + h) * ", each, each == 1 ? "" : " + i")), ");");
    w.Line("for (int j = 0; j < ", size, "; j++) ", state, "[i * ", size, " + j] *= factor;");
    w.Close();
  }
  auto key = [&] { return Cat("(float)", w.Load(w.in[1], Cat("(row * ", k.heads, " + h) * ", keys, " + i"))); };
  w.For("j", size);
  w.Line("float u = (float)", w.Load(w.in[2], Cat("(row * ", v.heads, " + h) * ", size, " + j")), ";");
  if (corrects) {
    w.Line("for (int i = 0; i < ", keys, "; i++) u -= ", key(), " * ", state, "[i * ", size, " + j];");
    const int64_t betas = w.in[5].shape.back();
    w.Line("u *= (float)", w.Load(w.in[5], Cat("row * ", betas, betas == 1 ? "" : " + h")), ";");
  }
  w.Line(update, "[j] = u;");
  w.Close();
  w.For("i", keys);
  w.Line("const float x = ", key(), ";");
  w.Line("for (int j = 0; j < ", size, "; j++) ", state, "[i * ", size, " + j] += x * ", update, "[j];");
  w.Close();
  if (w.Wants(0)) {
    w.For("g", group);
    w.Line("const int head = h * ", group, " + g;");
    w.For("j", size);
    w.Line("float sum = 0;");
    w.Line("for (int i = 0; i < ", keys, "; i++) sum += (float)",
           w.Load(w.in[0], Cat("(row * ", q.heads, " + head) * ", keys, " + i")), " * ", state, "[i * ", size,
           " + j];");
    w.Line(w.Store(w.out[0], Cat("(row * ", q.heads, " + head) * ", size, " + j"),
                   Cat("sum * ", Literal(scale, DType::kFloat))));
    w.Close(2);
  }
  w.Close();
  if (w.Wants(1)) {
    w.For("i", keys * size);
    w.Line(w.Store(w.out[1], whole, Cat(state, "[i]")));
    w.Close();
  }
  w.Close(2);
}

void WriteSwiGLU(StepWriter& w) {
  const DType type = w.in[0].type, wide = ArithmeticType(type);
  const std::string c(StoredType(wide)), one = Literal(1, wide);
  w.MayOverwrite(0), w.MayOverwrite(1);
  w.For("i", w.out[0].size());
  w.Line("const ", c, " a = ", w.Load(w.in[0], "i"), ", s = ",
         w.Rounded(Cat(one, " / (", one, " + ", Math("exp", wide), "(-", Literal(w.node.Float("alpha", 1.0f), wide),
                       " * a))"),
                   type),
         ", p = ", w.Rounded("a * s", type), ";");
  w.Line(w.Store(w.out[0], "i", Cat("p * ", w.Load(w.in[1], "i"))));
  w.Close();
}

}  // namespace

const std::vector<KernelEntry>& LinearAttentionKernels() {
  static const std::vector<KernelEntry> kernels = {{"LinearAttention", WriteLinearAttention}, {"SwiGLU", WriteSwiGLU}};
  return kernels;
}

}  // namespace ferry::c
