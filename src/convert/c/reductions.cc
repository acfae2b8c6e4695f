// Sums, products, extremes over axes; softmax and its kin; cumulative sums.
#include <algorithm>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

std::vector<size_t> AxesOf(StepWriter& w, size_t rank, bool& none) {
  std::vector<int64_t> axes = w.node.Ints("axes");
  if (w.Has(1)) axes = w.ConstantInts(1);
  none = axes.empty() && w.node.Int("noop_with_empty_axes", 0) != 0;
  if (!axes.empty()) return NormalizeAxes(axes, rank);
  std::vector<size_t> all;
  for (size_t a = 0; a < rank && !none; ++a) all.push_back(a);
  return all;
}

struct Reduction {
  Nest outer, inner;
  int64_t count = 1;
};

Reduction PlanReduction(const Shape& x, const std::vector<size_t>& axes) {
  Reduction plan;
  const std::vector<int64_t> strides = x.Strides();
  plan.outer.strides.resize(1), plan.inner.strides.resize(1);
  for (size_t a = 0; a < x.rank(); ++a) {
    const bool reduced = std::find(axes.begin(), axes.end(), a) != axes.end();
    Nest& nest = reduced ? plan.inner : plan.outer;
    nest.dims.push_back(x[a]);
    nest.strides[0].push_back(strides[a]);
    if (reduced) plan.count *= x[a];
  }
  plan.outer.strides.push_back(Shape(plan.outer.dims).Strides());
  plan.outer.Collapse(), plan.inner.Collapse();
  return plan;
}

void WriteReduce(StepWriter& w) {
  const std::string& op = w.node.op_type;
  bool none = false;
  const Operand &x = w.in[0], &y = w.out[0];
  const std::vector<size_t> axes = AxesOf(w, x.shape.rank(), none);
  const Reduction plan = PlanReduction(x.shape, axes);
  const DType type = ArithmeticType(x.type);
  const bool is_float = IsFloatType(type);
  const std::string sum(is_float ? (op == "ReduceMax" || op == "ReduceMin" ? StoredType(type) : "double")
                                 : ArithmeticC(type));
  const DType sum_type = sum == "double" ? DType::kDouble : type;
  int outer = 0, inner = 0;
  const std::vector<std::string> at = w.OpenNest(plan.outer, "i", outer);
  auto loop = [&](const std::string& body) {
    const std::vector<std::string> in = w.OpenNest(plan.inner, "r", inner);
    w.Line("const ", sum, " v = (", sum, ")", w.Load(x, Cat(at[0], " + ", in[0])), ";");
    w.Line(body);
    w.Close(inner);
  };
  std::string result = "sum";
  if (op == "ReduceMax" || op == "ReduceMin") {
    const bool is_max = op == "ReduceMax";
    if (plan.count == 0) {
      static constexpr struct {
        DType type;
        const char *low, *high;
      } kRanges[] = {{DType::kInt8, "INT8_MIN", "INT8_MAX"},
                     {DType::kUInt8, "0", "UINT8_MAX"},
                     {DType::kInt32, "INT32_MIN", "INT32_MAX"},
                     {DType::kInt64, "INT64_MIN", "INT64_MAX"},
                     {DType::kUInt32, "0", "UINT32_MAX"},
                     {DType::kUInt64, "0", "UINT64_MAX"},
                     {DType::kInt16, "INT16_MIN", "INT16_MAX"},
                     {DType::kUInt16, "0", "UINT16_MAX"},
                     {DType::kBool, "0", "1"}};
      std::string start = is_max ? "-INFINITY" : "INFINITY";
      for (const auto& range : kRanges)
        if (range.type == type) start = is_max ? range.low : range.high;
      w.Line("const ", sum, " sum = (", sum, ")", start, ";");
    } else {
      w.Line(sum, " sum = ", w.Load(x, at[0]), ";");
      loop(Cat("if (v ", is_max ? ">" : "<", " sum", is_float ? " || v != v" : "", ") sum = v;"));
    }
  } else if (op == "ReduceLogSumExp") {
    w.Line(sum, " sum = 0, most = (", sum, ")-INFINITY;");
    loop("if (v > most) most = v;");
    w.Line("if (isinf(most)) most = 0;");
    loop(Cat("sum += ", Math("exp", sum_type), "(v - most);"));
    result = Cat(Math("log", sum_type), "(sum) + most");
  } else {
    w.Line(sum, " sum = ", op == "ReduceProd" ? "1" : "0", ";");
    const std::string square = "v * v", magnitude = is_float                ? "fabs(v)"
                                                    : IsSignedInteger(type) ? "(v < 0 ? -v : v)"
                                                                            : "v";
    const std::string term = op == "ReduceL1" ? magnitude : op == "ReduceL2" || op == "ReduceSumSquare" ? square : "v";
    loop(op == "ReduceProd" ? Cat("sum = (", sum, ")(sum * v);") : Cat("sum = (", sum, ")(sum + ", term, ");"));
    if (op == "ReduceMean")
      result = is_float ? Cat("sum / ", Literal(static_cast<double>(plan.count), DType::kDouble))
                        : Cat("sum / ", plan.count);
    if (op == "ReduceL2") result = is_float ? "sqrt(sum)" : Converted(w, "sqrt((double)sum)", DType::kDouble, type);
    if (op == "ReduceLogSum") result = is_float ? "log(sum)" : Converted(w, "log((double)sum)", DType::kDouble, type);
  }
  w.Line(w.Store(y, at[1], IsSmallFloat(y.type) ? Cat("(float)(", result, ")") : result));
  w.Close(outer);
}

void WriteArg(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", 0), x.shape.rank());
  const Reduction plan = PlanReduction(x.shape, {axis});
  const bool last = w.node.Int("select_last_index", 0) != 0;
  const std::string wins = Cat(w.node.op_type == "ArgMax" ? ">" : "<", last ? "=" : "");
  int outer = 0;
  const std::vector<std::string> at = w.OpenNest(plan.outer, "i", outer);
  const int64_t stride = x.shape.Strides()[axis];
  w.Line(ArithmeticC(x.type), " best = ", w.Load(x, at[0]), ";");
  w.Line("int64_t place = 0;");
  w.For("r", x.shape[axis]);
  w.Line("const ", ArithmeticC(x.type), " v = ", w.Load(x, Cat(at[0], " + r * ", stride)), ";");
  w.Line("if (v ", wins, " best) best = v, place = r;");
  w.Close();
  w.Line(w.Store(y, at[1], "place"));
  w.Close(outer);
}

void WriteSoftmax(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.node.Int("axis", -1), x.shape.rank());
  const Reduction plan = PlanReduction(x.shape, {axis});
  const int64_t stride = x.shape.Strides()[axis], count = x.shape[axis];
  const DType type = ArithmeticType(x.type);
  const std::string c(StoredType(type));
  if (count == 0 || x.size() == 0) return;
  w.MayOverwrite(0);
  int outer = 0;
  const std::vector<std::string> at = w.OpenNest({plan.outer.dims, {plan.outer.strides[0]}}, "i", outer);
  const std::string place = Cat(at[0], " + r * ", stride);
  w.Line(c, " most = ", w.Load(x, at[0]), ";");
  w.Line("for (int r = 1; r < ", count, "; r++) if (", w.Load(x, place), " > most) most = ", w.Load(x, place), ";");
  if (w.node.op_type == "Hardmax") {
    w.Line("int found = 0;");
    w.For("r", count);
    w.Line("const int is_it = !found && ", w.Load(x, place), " == most;");
    w.Line("found |= is_it;");
    w.Line(w.Store(y, place, Cat("(", c, ")is_it")));
    w.Close();
  } else {
    const bool log = w.node.op_type == "LogSoftmax", narrow = y.type != type || log;
    w.Line(c, " sum = 0;");
    w.For("r", count);
    w.Line("const ", c, " e = ", Math("exp", type), "(", w.Load(x, place), " - most);");
    w.Line("sum += e;");
    if (!narrow) w.Line(y.c, "[", place, "] = e;");
    w.Close();
    if (log) w.Line("sum = ", Math("log", type), "(sum);");
    w.For("r", count);
    w.Line(w.Store(y, place,
                   log      ? Cat(w.Load(x, place), " - most - sum")
                   : narrow ? Cat(Math("exp", type), "(", w.Load(x, place), " - most) / sum")
                            : Cat(y.c, "[", place, "] / sum")));
    w.Close();
  }
  w.Close(outer);
}

void WriteCumulative(StepWriter& w) {
  const Operand &x = w.in[0], &y = w.out[0];
  const size_t axis = NormalizeAxis(w.ConstantInts(1).at(0), x.shape.rank());
  const Reduction plan = PlanReduction(x.shape, {axis});
  const int64_t stride = x.shape.Strides()[axis], count = x.shape[axis];
  const bool product = w.node.op_type == "CumProd", exclusive = w.node.Int("exclusive", 0) != 0,
             reverse = w.node.Int("reverse", 0) != 0;
  int outer = 0;
  const std::vector<std::string> at = w.OpenNest({plan.outer.dims, {plan.outer.strides[0]}}, "i", outer);
  const std::string c(ArithmeticC(x.type));
  w.Line(c, " sum = ", product ? "1" : "0", ";");
  w.For("k", count);
  w.Line("const int at = ", at[0], " + ", reverse ? Cat("(", count - 1, " - k)") : "k", " * ", stride, ";");
  w.Line("const ", c, " v = ", w.Load(x, "at"), ";");
  const std::string step = Cat("sum = (", c, ")(sum ", product ? "*" : "+", " v);");
  if (!exclusive) w.Line(step);
  w.Line(w.Store(y, "at", "sum"));
  if (exclusive) w.Line(step);
  w.Close(1 + outer);
}

}  // namespace

const std::vector<KernelEntry>& ReductionKernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> entries = {{"ArgMax", WriteArg},        {"ArgMin", WriteArg},
                                        {"Softmax", WriteSoftmax},   {"LogSoftmax", WriteSoftmax},
                                        {"Hardmax", WriteSoftmax},   {"CumSum", WriteCumulative},
                                        {"CumProd", WriteCumulative}};
    for (const char* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                             "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
      entries.push_back({name, WriteReduce});
    return entries;
  }();
  return kernels;
}

}  // namespace ferry::c
