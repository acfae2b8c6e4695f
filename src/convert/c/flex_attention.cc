// FlexAttention: scores, a body that may change them, their softmax, a body that may change that, and the sums.
#include <cmath>

#include "convert/c/graph_writer.h"
#include "ops/operator.h"
#include "ops/support/attention.h"

namespace ferry::c {
namespace {

Operand OperandOf(const Value& value, std::string c) { return {std::move(c), value.type, value.shape, nullptr, {}}; }

void WriteScores(StepWriter& w, const HeadLayout& q, const HeadLayout& k, float scale) {
  const DType type = w.in[0].type, wide = ArithmeticType(type), precision = w.out[0].type;
  const std::string c(StoredType(wide));
  const std::string root = w.Rounded(Literal(std::sqrt(scale), wide), type);
  w.multiply_adds += q.batch * q.heads * q.length * k.length * q.size;
  w.Line("const ", c, " root = ", root, ";");
  w.For("h", q.batch * q.heads);
  w.Line("const int kv = h / ", q.heads, " * ", k.heads, " + h % ", q.heads, " / ", q.heads / k.heads, ";");
  w.For("i", q.length);
  w.For("j", k.length);
  w.Line(c, " sum = 0;");
  w.For("d", q.size);
  w.Line("sum += ",
         w.Rounded(Cat(w.Load(w.in[0], Cat("(h * ", q.length, " + i) * ", q.size, " + d")), " * root"), type), " * ",
         w.Rounded(Cat(w.Load(w.in[1], Cat("(kv * ", k.length, " + j) * ", q.size, " + d")), " * root"), type), ";");
  w.Close();
  w.Line(w.Store(w.out[0], Cat("(h * ", q.length, " + i) * ", k.length, " + j"),
                 Cat("(", ArithmeticC(precision), ")", w.Rounded("sum", type))));
  w.Close(3);
}

void WriteSoftmaxRows(StepWriter& w, int64_t rows, int64_t count) {
  const DType type = w.in[0].type, wide = ArithmeticType(type);
  const std::string c(StoredType(wide)), at = Cat("r * ", count, " + j"), x = w.Load(w.in[0], at),
                                         y = w.Load(w.out[0], at);
  w.MayOverwrite(0);
  w.For("r", rows);
  w.Line(c, " most = (", c, ")-INFINITY, whole = 0;");
  w.For("j", count);
  w.Line("const ", c, " v = ", x, ";");
  w.Line("if (v > most || v != v) most = v;");
  w.Close();
  w.Open("if (isinf(most) && most < 0)");
  w.For("j", count);
  w.Line(w.Store(w.out[0], at, "0"));
  w.Close();
  w.Line("continue;");
  w.Close();
  w.For("j", count);
  w.Line(w.Store(w.out[0], at, Cat(Math("exp", wide), "(", w.Rounded(Cat(x, " - most"), type), ")")));
  w.Line("whole = ", w.Rounded(Cat("whole + ", y), type), ";");
  w.Close();
  w.For("j", count);
  w.Line(w.Store(w.out[0], at, Cat(y, " / whole")));
  w.Close(2);
}

void WriteWeighted(StepWriter& w, const HeadLayout& q, const HeadLayout& v) {
  const DType precision = w.in[0].type, wide = ArithmeticType(precision);
  const std::string c(StoredType(wide));
  w.multiply_adds += q.batch * q.heads * q.length * v.length * v.size;
  w.For("h", q.batch * q.heads);
  w.Line("const int kv = h / ", q.heads, " * ", v.heads, " + h % ", q.heads, " / ", q.heads / v.heads, ";");
  w.For("i", q.length);
  w.For("d", v.size);
  w.Line(c, " sum = 0;");
  w.For("j", v.length);
  w.Line("sum += ", w.Load(w.in[0], Cat("(h * ", q.length, " + i) * ", v.length, " + j")), " * (", c, ")",
         w.Load(w.in[1], Cat("(kv * ", v.length, " + j) * ", v.size, " + d")), ";");
  w.Close();
  w.Line(w.Store(w.out[0], Cat("(h * ", q.length, " + i) * ", v.size, " + d"),
                 Cat("(", ArithmeticC(w.out[0].type), ")", w.Rounded("sum", precision))));
  w.Close(3);
}

}  // namespace

int GraphWriter::AddBody(const Node& node, const char* attribute, int value) {
  if (!node.Has(attribute)) return value;
  const Graph& body = *node.Subgraph(attribute);
  if (body.inputs.size() != 1 || body.outputs.size() != 1)
    Fail(ErrorCode::kUnsupported, Describe(node), ": ", attribute, " must have one input and one output");
  AddLine("{");
  GraphWriter inside = Inside(body);
  inside.Bind(body.inputs[0].name, value);
  inside.WriteNodes(body, {body.outputs[0].name});
  const int made = inside.Find(body.outputs[0].name);
  AddLine("}");
  const Value &before = program_.values[static_cast<size_t>(value)],
              &after = program_.values[static_cast<size_t>(made)];
  if (!(before.shape == after.shape) || before.type != after.type)
    Fail(ErrorCode::kUnsupported, Describe(node), ": ", attribute, " changes the type or shape of what it gets");
  return made;
}

bool GraphWriter::AddFlexAttention(const Node& node) {
  if (node.domain != kPreviewDomain || node.op_type != "FlexAttention" || node.inputs.size() < 3) return false;
  int ids[3];
  for (size_t i = 0; i < 3; ++i) ids[i] = Find(node.inputs[i]);
  auto value = [&](int id) { return program_.values[static_cast<size_t>(id)]; };
  const HeadLayout q(value(ids[0]).shape, 0, "Q"), k(value(ids[1]).shape, 0, "K"), v(value(ids[2]).shape, 0, "V");
  if (q.is_packed || k.is_packed || v.is_packed || k.heads < 1 || q.heads % k.heads != 0 || k.heads != v.heads ||
      k.length != v.length || q.size != k.size || q.batch != k.batch || q.batch != v.batch)
    Fail(ErrorCode::kUnsupported, Describe(node), ": Q, K and V do not go together");
  const DType type = value(ids[0]).type,
              precision = SoftmaxType(node.Int("softmax_precision", 0),
                                      type == DType::kDouble ? DType::kDouble : DType::kFloat);
  const float scale = node.Float("scale", 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(q.size, 1))));
  const Shape shape{q.batch, q.heads, q.length, k.length};
  auto step = [&](const std::vector<int>& in, int out, auto write) {
    StepWriter w(node, options_);
    for (size_t i = 0; i < in.size(); ++i) w.in.push_back(OperandOf(value(in[i]), Cat("a", i)));
    w.out.push_back(OperandOf(value(out), "y0"));
    write(w);
    Emit(w, in, {out});
  };
  int scores = NewValue("scores", precision, shape);
  step({ids[0], ids[1]}, scores, [&](StepWriter& w) { WriteScores(w, q, k, scale); });
  scores = AddBody(node, "score_mod", scores);
  int shares = NewValue("shares", precision, shape);
  step({scores}, shares, [&](StepWriter& w) { WriteSoftmaxRows(w, q.batch * q.heads * q.length, k.length); });
  shares = AddBody(node, "prob_mod", shares);
  step({shares, ids[2]}, MakeOutput(node, node.outputs[0]), [&](StepWriter& w) { WriteWeighted(w, q, v); });
  return true;
}

}  // namespace ferry::c
