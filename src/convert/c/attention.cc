// Attention and rotary embeddings.
#include "ops/support/attention.h"

#include <cmath>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

std::string At(const HeadLayout& layout, const std::string& head, const std::string& row) {
  return layout.is_packed
             ? Cat("((n * ", layout.length, " + ", row, ") * ", layout.heads, " + ", head, ") * ", layout.size, " + d")
             : Cat("((n * ", layout.heads, " + ", head, ") * ", layout.length, " + ", row, ") * ", layout.size, " + d");
}

// [batch, heads, past + length, size]: what was there before, then the new rows.
void WritePresent(StepWriter& w, size_t output, const Operand& fresh, const Operand& past, const HeadLayout& layout,
                  int64_t past_length) {
  const int64_t total = past_length + layout.length;
  const Operand& y = w.out[output];
  w.For("n", layout.batch);
  w.For("h", layout.heads);
  w.For("j", total);
  w.For("d", layout.size);
  const std::string to = Cat("((n * ", layout.heads, " + h) * ", total, " + j) * ", layout.size, " + d");
  if (past_length > 0) {
    w.Line("if (j < ", past_length, ") ", y.c, "[", to, "] = ", past.c, "[((n * ", layout.heads, " + h) * ",
           past_length, " + j) * ", layout.size, " + d];");
    w.Line("else ", y.c, "[", to, "] = ", fresh.c, "[", At(layout, "h", Cat("(j - ", past_length, ")")), "];");
  } else {
    w.Line(y.c, "[", to, "] = ", fresh.c, "[", At(layout, "h", "j"), "];");
  }
  w.Close(4);
}

std::string Rows(StepWriter& w, const Operand& fresh, const Operand& past, const HeadLayout& layout,
                 int64_t past_length) {
  if (past_length == 0) return w.Load(fresh, At(layout, "kv", "j"));
  return Cat("(j < ", past_length, " ? ",
             w.Load(past, Cat("((n * ", layout.heads, " + kv) * ", past_length, " + j) * ", layout.size, " + d")),
             " : ", w.Load(fresh, At(layout, "kv", Cat("(j - ", past_length, ")"))), ")");
}

void WriteAttention(StepWriter& w) {
  const Node& node = w.node;
  const HeadLayout q(w.in[0].shape, node.Int("q_num_heads", 0), "Q"),
      k(w.in[1].shape, node.Int("kv_num_heads", 0), "K"), v(w.in[2].shape, node.Int("kv_num_heads", 0), "V");
  const Operand past_key = w.Has(4) ? w.in[4] : Operand(), past_value = w.Has(5) ? w.in[5] : Operand();
  const int64_t past = past_key ? past_key.shape[2] : 0, total = past + k.length,
                group = q.heads / std::max<int64_t>(1, k.heads);
  const DType type = ArithmeticType(w.in[0].type);
  const std::string c(StoredType(type));
  const double scale = node.Has("scale") ? double{node.Float("scale", 1)}
                                         : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size, 1)));
  const int64_t mode = node.Int("qk_matmul_output_mode", 0), left = node.Int("left_window_size", -1),
                right = node.Int("right_window_size", -1);
  const float softcap = node.Float("softcap", 0);
  if (w.Wants(1)) WritePresent(w, 1, w.in[1], past_key, k, past);
  if (w.Wants(2)) WritePresent(w, 2, w.in[2], past_value, v, past);
  const std::string s = w.Scratch(type, total);
  w.multiply_adds += q.batch * q.heads * q.length * total * (q.size + v.size);
  w.For("n", q.batch);
  w.For("h", q.heads);
  w.For("i", q.length);
  w.Line("const int kv = h / ", group, ";");
  w.Line("int begin = 0, end = ", total, ";");
  const bool padded = w.Has(6), windowed = node.Int("is_causal", 0) != 0 || left >= 0 || right >= 0;
  if (padded) w.Line("if ((int)", w.in[6].c, "[n] < end) end = (int)", w.in[6].c, "[n];");
  if (windowed) {
    w.Line("const int position = ", padded ? Cat("(int)", w.in[6].c, "[n] - ", q.length) : Cat(past), " + i;");
    if (node.Int("is_causal", 0) != 0) w.Line("if (position + 1 < end) end = position + 1;");
    if (left >= 0) w.Line("if (position > ", left, ") begin = position - ", left, ";");
    if (right >= 0) w.Line("if (position + ", right + 1, " < end) end = position + ", right + 1, ";");
  }
  auto keep = [&](int64_t stage) {
    if (!w.Wants(3) || mode != stage) return;
    w.For("j", total);
    w.Line(w.Store(w.out[3], Cat("((n * ", q.heads, " + h) * ", q.length, " + i) * ", total, " + j"), Cat(s, "[j]")));
    w.Close();
  };
  w.For("j", total);
  w.Line(c, " sum = 0;");
  w.Line("for (int d = 0; d < ", q.size, "; d++) sum += ", w.Load(w.in[0], At(q, "h", "i")), " * ",
         Rows(w, w.in[1], past_key, k, past), ";");
  w.Line(s, "[j] = sum * ", Literal(scale, type), ";");
  w.Close();
  keep(0);
  if (softcap != 0) {
    const std::string cap = Literal(softcap, type);
    w.Line("for (int j = 0; j < ", total, "; j++) ", s, "[j] = ", cap, " * ", Math("tanh", type), "(", s, "[j] / ", cap,
           ");");
  }
  keep(1);
  w.Line("int any = 0;");
  w.Line(c, " most = (", c, ")-INFINITY;");
  w.For("j", total);
  if (w.Has(3)) {
    const Operand& mask = w.in[3];
    const int64_t keys = mask.shape.back();
    const bool spread = keys == 1 && total > 1;
    const Shape lead(mask.shape.dims().first(mask.shape.rank() - 1));
    const std::vector<int64_t> strides = BroadcastStrides(lead, Shape{q.batch, q.heads, q.length});
    const std::string at =
        Cat("(n * ", strides[0], " + h * ", strides[1], " + i * ", strides[2], ") * ", keys, spread ? "" : " + j");
    w.Line("if (j < begin || j >= end", spread ? "" : Cat(" || j >= ", keys), ") ", s, "[j] = (", c, ")-INFINITY;");
    if (mask.type == DType::kBool)
      w.Line("else if (!", mask.c, "[", at, "]) ", s, "[j] = (", c, ")-INFINITY;"), w.Line("else any = 1;");
    else
      w.Open("else"), w.Line("const ", c, " bias = (", c, ")", w.Load(mask, at), ";"),
          w.Line(s, "[j] = isinf(bias) && bias < 0 ? bias : ", s, "[j] + bias;"),
          w.Line("if (!(isinf(bias) && bias < 0)) any = 1;"), w.Close();
  } else {
    w.Line("if (j < begin || j >= end) ", s, "[j] = (", c, ")-INFINITY;");
    w.Line("else any = 1;");
  }
  w.Line("if (", s, "[j] > most) most = ", s, "[j];");
  w.Close();
  keep(2);
  w.Line(c, " whole = 0;");
  w.For("j", total);
  w.Line(s, "[j] = any ? ", Math("exp", type), "(", s, "[j] - most) : 0;");
  w.Line("whole += ", s, "[j];");
  w.Close();
  w.Line("if (any) for (int j = 0; j < ", total, "; j++) ", s, "[j] /= whole;");
  keep(3);
  if (w.Wants(0)) {
    w.For("d", v.size);
    w.Line(c, " sum = 0;");
    w.Line("for (int j = 0; j < ", total, "; j++) if (", s, "[j] != 0) sum += ", s, "[j] * ",
           Rows(w, w.in[2], past_value, v, past), ";");
    w.Line(w.Store(w.out[0],
                   q.is_packed ? Cat("((n * ", q.length, " + i) * ", q.heads, " + h) * ", v.size, " + d")
                               : Cat("((n * ", q.heads, " + h) * ", q.length, " + i) * ", v.size, " + d"),
                   "sum"));
    w.Close();
  }
  w.Close(3);
}

void WriteRotary(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const HeadLayout layout(x.shape, w.node.Int("num_heads", 0), "X");
  const int64_t asked = w.node.Int("rotary_embedding_dim", 0), rotated = asked ? asked : layout.size,
                half = rotated / 2;
  const bool interleaved = w.node.Int("interleaved", 0) != 0;
  const std::string c(ArithmeticC(x.type));
  w.For("n", layout.batch);
  w.For("i", layout.length);
  w.Line("int row = n * ", layout.length, " + i;");
  if (w.Has(3)) w.Line("row = (int)", w.in[3].c, "[row];"), w.Line("if (row < 0) row += ", w.in[1].shape[0], ";");
  w.For("h", layout.heads);
  w.For("k", half);
  const std::string place = At(layout, "h", "i"), base = place.substr(0, place.size() - 4);
  w.Line("const int a = ", base, " + ", interleaved ? "2 * k" : "k", ", b = a + ", interleaved ? 1 : half, ";");
  w.Line("const ", c, " p = ", w.Load(x, "a"), ", q = ", w.Load(x, "b"),
         ", u = ", w.Load(w.in[1], Cat("row * ", half, " + k")), ", v = ", w.Load(w.in[2], Cat("row * ", half, " + k")),
         ";");
  w.Line(w.Store(y, "a", "p * u - q * v"));
  w.Line(w.Store(y, "b", "p * v + q * u"));
  w.Close();
  if (rotated < layout.size) {
    w.Open("for (int d = ", rotated, "; d < ", layout.size, "; d++)");
    w.Line(w.Store(y, place, w.Load(x, place)));
    w.Close();
  }
  w.Close(3);
}

}  // namespace

const std::vector<KernelEntry>& AttentionKernels() {
  static const std::vector<KernelEntry> kernels = {{"Attention", WriteAttention}, {"RotaryEmbedding", WriteRotary}};
  return kernels;
}

}  // namespace ferry::c
