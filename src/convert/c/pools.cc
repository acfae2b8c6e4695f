// Poolings over either layout.
#include "convert/c/kernels.h"
#include "ops/support/nhwc.h"

namespace ferry::c {
namespace {

struct Pool {
  std::vector<WindowAxis> axes;
  int64_t batch, channels;
  std::vector<int64_t> x, y;  // strides: image, channel, spatial axes
};

Pool PlanPool(const Shape& x, const Shape& y, bool last, std::vector<WindowAxis> axes) {
  Pool pool{std::move(axes), x[0], last ? x.back() : x[1], {}, {}};
  auto strides = [&](const Shape& shape) {
    std::vector<int64_t> all = shape.Strides();
    if (last) all.insert(all.begin() + 1, 1), all.pop_back();
    return all;
  };
  pool.x = strides(x), pool.y = strides(y);
  return pool;
}

// visit(index of the input) for every tap that lies on the image; first and then are texts before and after.
template <class Before, class Tap, class After>
void WritePool(StepWriter& w, const Pool& pool, const Before& before, const Tap& tap, const After& after) {
  w.For("n", pool.batch);
  w.For("c", pool.channels);
  std::string y = Cat("n * ", pool.y[0], " + c * ", pool.y[1]), x = Cat("n * ", pool.x[0], " + c * ", pool.x[1]);
  const size_t rank = pool.axes.size();
  for (size_t a = 0; a < rank; ++a) {
    w.For(Cat("o", a), pool.axes[a].output);
    y += Cat(" + o", a, " * ", pool.y[a + 2]);
  }
  before();
  for (size_t a = 0; a < rank; ++a) {
    const WindowAxis& axis = pool.axes[a];
    w.For(Cat("k", a), axis.kernel);
    w.Line("const int i", a, " = o", a, " * ", axis.stride, " + k", a, " * ", axis.dilation, " - ", axis.pad_begin,
           ";");
    w.Line("if (i", a, " < 0 || i", a, " >= ", axis.input, ") continue;");
    x += Cat(" + i", a, " * ", pool.x[a + 2]);
  }
  tap(x);
  w.Close(static_cast<int>(rank));
  after(y);
  w.Close(static_cast<int>(rank) + 2);
}

void WriteMax(StepWriter& w, bool last) {
  const Shape first = last ? ToChannelsFirst(w.in[0].shape) : w.in[0].shape;
  const PoolPlan plan(w.node, first);
  const Pool pool = PlanPool(w.in[0].shape, w.out[0].shape, last, plan.axes);
  const std::string type(ArithmeticC(w.in[0].type));
  const bool indices = w.Wants(1), columns = w.node.Int("storage_order", 0) != 0;
  const bool is_float = IsFloatType(w.in[0].type);
  WritePool(
      w, pool,
      [&] {
        w.Line(type, " best = ", is_float ? Cat("(", type, ")-INFINITY") : "0", ";");
        if (!is_float || indices) w.Line("int64_t place = -1;");
      },
      [&](const std::string& x) {
        w.Line("const ", type, " v = ", w.Load(w.in[0], x), ";");
        const std::string wins = is_float ? "v > best || v != v" : "place < 0 || v > best";
        if (!indices) return w.Line("if (", wins, ") ", is_float ? "best = v;" : "best = v, place = 0;");
        std::string place = "(n * " + std::to_string(pool.channels) + " + c)";
        if (!columns) {
          for (size_t a = 0; a < pool.axes.size(); ++a)
            place = Cat("(", place, " * ", pool.axes[a].input, " + i", a, ")");
        } else {
          for (size_t a = pool.axes.size(); a-- > 0;)
            place = Cat("(", place, " * ", pool.axes[a].input, " + i", a, ")");
        }
        w.Line("if (", wins, " || place < 0) best = v, place = ", place, ";");
      },
      [&](const std::string& y) {
        w.Line(w.Store(w.out[0], y, "best"));
        if (indices) w.Line(w.Store(w.out[1], y, "place"));
      });
}

void WriteMaxPool(StepWriter& w) { WriteMax(w, false); }
void WriteNhwcMaxPool(StepWriter& w) { WriteMax(w, true); }

void WriteAverage(StepWriter& w, bool last) {
  const PoolPlan plan(w.node, last ? ToChannelsFirst(w.in[0].shape) : w.in[0].shape);
  const Pool pool = PlanPool(w.in[0].shape, w.out[0].shape, last, plan.axes);
  const std::string type(ArithmeticC(w.in[0].type));
  const bool padding = w.node.Int("count_include_pad", 0) != 0;
  WritePool(
      w, pool, [&] { w.Line(type, " sum = 0;"), w.Line("int count = 0;"); },
      [&](const std::string& x) { w.Line("sum += ", w.Load(w.in[0], x), ";"), w.Line("count++;"); },
      [&](const std::string& y) {
        if (padding) {
          // Windows may reach beyond the padding where the output was rounded up.
          w.Line("count = 1;");
          for (size_t a = 0; a < pool.axes.size(); ++a) {
            const WindowAxis& axis = pool.axes[a];
            w.Open("");
            w.Line("int inside = 0;");
            w.Line("for (int k = 0; k < ", axis.kernel, "; k++) inside += o", a, " * ", axis.stride, " + k * ",
                   axis.dilation, " - ", axis.pad_begin, " < ", axis.input + axis.pad_end, ";");
            w.Line("count *= inside;");
            w.Close();
          }
        }
        w.Line(w.Store(w.out[0], y, Cat("count ? sum / (", type, ")count : 0")));
      });
}

void WriteAveragePool(StepWriter& w) { WriteAverage(w, false); }
void WriteNhwcAveragePool(StepWriter& w) { WriteAverage(w, true); }

void WriteLpPool(StepWriter& w) {
  const PoolPlan plan(w.node, w.in[0].shape);
  const Pool pool = PlanPool(w.in[0].shape, w.out[0].shape, false, plan.axes);
  const DType type = ArithmeticType(w.in[0].type);
  const std::string p = Literal(static_cast<double>(w.node.Int("p", 2)), type);
  WritePool(
      w, pool, [&] { w.Line(StoredType(type), " sum = 0;"); },
      [&](const std::string& x) {
        w.Line("sum += ", Math("pow", type), "(", Math("fabs", type), "(", w.Load(w.in[0], x), "), ", p, ");");
      },
      [&](const std::string& y) {
        w.Line(w.Store(w.out[0], y, Cat(Math("pow", type), "(sum, ", Literal(1, type), " / ", p, ")")));
      });
}

// Over all spatial axes.
void WriteGlobal(StepWriter& w, bool last, int64_t p, bool is_max) {
  const int64_t batch = w.in[0].shape[0], channels = last ? w.in[0].shape.back() : w.in[0].shape[1],
                pixels = w.in[0].size() / std::max<int64_t>(1, batch * channels);
  const DType type = ArithmeticType(w.in[0].type);
  const std::string x = w.Load(w.in[0], last ? Cat("(n * ", pixels, " + p) * ", channels, " + c")
                                             : Cat("(n * ", channels, " + c) * ", pixels, " + p"));
  w.For("n", batch);
  w.For("c", channels);
  w.Line(StoredType(type), " sum = ", is_max ? Cat("(", StoredType(type), ")-INFINITY") : "0", ";");
  w.For("p", pixels);
  if (is_max)
    w.Line("const ", StoredType(type), " v = ", x, ";"), w.Line("if (v > sum || v != v) sum = v;");
  else
    w.Line("sum += ",
           p == 0 ? x
                  : Cat(Math("pow", type), "(", Math("fabs", type), "(", x, "), ",
                        Literal(static_cast<double>(p), type), ")"),
           ";");
  w.Close();
  w.Line(w.Store(w.out[0], Cat("n * ", channels, " + c"),
                 is_max   ? "sum"
                 : p == 0 ? Cat("sum / ", Literal(static_cast<double>(pixels), type))
                          : Cat(Math("pow", type), "(sum, ", Literal(1, type), " / ",
                                Literal(static_cast<double>(p), type), ")")));
  w.Close(2);
}

void WriteGlobalAverage(StepWriter& w) { WriteGlobal(w, false, 0, false); }
void WriteGlobalMax(StepWriter& w) { WriteGlobal(w, false, 0, true); }
void WriteGlobalLp(StepWriter& w) { WriteGlobal(w, false, w.node.Int("p", 2), false); }
void WriteNhwcMean(StepWriter& w) { WriteGlobal(w, true, 0, false); }

}  // namespace

const std::vector<KernelEntry>& PoolKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"MaxPool", WriteMaxPool},         {"ferry.NhwcMaxPool", WriteNhwcMaxPool},
      {"AveragePool", WriteAveragePool}, {"ferry.NhwcAveragePool", WriteNhwcAveragePool},
      {"LpPool", WriteLpPool},           {"GlobalAveragePool", WriteGlobalAverage},
      {"GlobalMaxPool", WriteGlobalMax}, {"GlobalLpPool", WriteGlobalLp},
      {"ferry.NhwcMean", WriteNhwcMean},
  };
  return kernels;
}

}  // namespace ferry::c
