#include <algorithm>
#include <numeric>

#include "passes/gradient_builder.h"

namespace ferry {
namespace {

using Context = GradientContext;

std::string SwapLastTwo(Context& c, const std::string& a, size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 1], order[rank - 2]);
  return c.Transpose(a, order);
}

void MatMul(Context& c) {
  size_t rank_a = c.RankOf(0), rank_b = c.RankOf(1);
  if (rank_a == 0 || rank_b == 0) c.Unsupported("an input is a scalar");
  // Vectors become matrices first, as the product itself does it.
  std::string a = rank_a == 1 ? c.Op("Unsqueeze", {c.In(0), c.Ints({0})}) : c.In(0);
  std::string b = rank_b == 1 ? c.Op("Unsqueeze", {c.In(1), c.Ints({1})}) : c.In(1);
  std::string g = rank_a == 1 ? c.Op("Unsqueeze", {c.G(), c.Ints({rank_b == 1 ? -1 : -2})}) : c.G();
  if (rank_b == 1) g = c.Op("Unsqueeze", {g, c.Ints({-1})});
  size_t matrix_a = std::max<size_t>(rank_a, 2), matrix_b = std::max<size_t>(rank_b, 2);
  if (c.Needs(0)) {
    std::string da = c.Op("MatMul", {g, SwapLastTwo(c, b, matrix_b)});
    c.Give(0, c.ReshapeLike(c.ReduceLike(da, da, a), c.In(0)));
  }
  if (c.Needs(1)) {
    std::string db = c.Op("MatMul", {SwapLastTwo(c, a, matrix_a), g});
    c.Give(1, c.ReshapeLike(c.ReduceLike(db, db, b), c.In(1)));
  }
}

void Gemm(Context& c) {
  int64_t trans_a = c.node().Int("transA", 0) != 0, trans_b = c.node().Int("transB", 0) != 0;
  float alpha = c.node().Float("alpha", 1.0f);
  auto product = [&](const std::string& a, const std::string& b, int64_t ta, int64_t tb) {
    return c.Op("Gemm", {a, b}, {{"transA", ta}, {"transB", tb}, {"alpha", alpha}});
  };
  if (c.Needs(0)) c.Give(0, trans_a ? product(c.In(1), c.G(), trans_b, 1) : product(c.G(), c.In(1), 0, !trans_b));
  if (c.Needs(1)) c.Give(1, trans_b ? product(c.G(), c.In(0), 1, trans_a) : product(c.In(0), c.G(), !trans_a, 0));
  if (c.Needs(2)) c.GiveReduced(2, c.Mul(c.G(), c.Scalar(c.node().Float("beta", 1.0f), c.G())));
}

struct Window {
  explicit Window(Context& c, const std::vector<int64_t>& kernel) : spatial(c.RankOf(0) - 2) {
    auto list = [&](const char* name, size_t count, int64_t otherwise) {
      std::vector<int64_t> values = c.node().Ints(name);
      if (values.empty()) values.assign(count, otherwise);
      if (values.size() != count) c.Unsupported(Cat("attribute '", name, "' has the wrong length"));
      return values;
    };
    strides = list("strides", spatial, 1);
    dilations = list("dilations", spatial, 1);
    pads = list("pads", 2 * spatial, 0);
    std::string automatic = c.node().String("auto_pad", "NOTSET");
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      for (size_t i = 0; i < spatial; ++i) {
        if (i >= kernel.size() || strides[i] != 1) c.Unsupported(Cat("auto_pad ", automatic, " with strides"));
        int64_t total = dilations[i] * (kernel[i] - 1), small = total / 2, large = total - small;
        pads[i] = automatic == "SAME_UPPER" ? small : large;
        pads[i + spatial] = total - pads[i];
      }
    }
  }
  std::vector<int64_t> PadsBefore() const {
    std::vector<int64_t> before(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
    before.resize(2 * spatial, 0);
    return before;
  }

  size_t spatial;
  std::vector<int64_t> strides, dilations, pads;
};

// [A, groups·B, …] to [groups·B, A, …] within each group, or to [B, groups·A, …].
std::string SwapBatch(Context& c, const std::string& a, int64_t groups, size_t rank, bool groups_first) {
  std::vector<int64_t> order(rank + 1);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.begin() + 3);  // groups, B, A
  if (!groups_first) std::swap(order[0], order[1]);                  // B, groups, A
  std::string tail = c.Op("Shape", {a}, {{"start", int64_t{2}}});
  auto shape = [&](const std::vector<std::string>& parts) { return c.Op("Concat", parts, {{"axis", int64_t{0}}}); };
  std::string split = c.Op("Reshape", {a, shape({c.DimOf(a, 0), c.Ints({groups, -1}), tail})});
  std::string moved = c.Transpose(split, order);
  std::string group_count = c.Ints({groups}), others = c.DimOf(a, 0);
  std::string inner = c.Div(c.DimOf(a, 1), group_count);
  std::string merged =
      groups_first ? shape({c.DimOf(a, 1), others, tail}) : shape({inner, c.Mul(others, group_count), tail});
  return c.Op("Reshape", {moved, merged});
}

std::vector<int64_t> KernelShape(Context& c, size_t weight) {
  std::vector<int64_t> kernel = c.node().Ints("kernel_shape");
  if (kernel.empty())
    if (const Tensor* w = c.ConstantOf(c.In(weight)))
      for (size_t i = 2; i < w->rank(); ++i) kernel.push_back(w->dim(i));
  return kernel;
}

// The kernel's gradient: the larger side convolved with the smaller one, batch and channels exchanged, strides and
// dilations too. The bias's: a sum.
void GiveKernelAndBias(Context& c, const Window& w, const std::string& large, const std::string& small,
                       int64_t groups) {
  size_t rank = c.RankOf(0);
  if (c.Needs(1)) {
    std::string image = SwapBatch(c, large, groups, rank, false), kernel = SwapBatch(c, small, groups, rank, true);
    std::string dw = c.Op("Conv", {image, kernel},
                          {{"strides", w.dilations}, {"dilations", w.strides}, {"pads", w.pads}, {"group", groups}});
    std::vector<int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[1]);
    c.Give(1, c.FitTo(c.Transpose(dw, order), c.In(1)));
  }
  if (c.Needs(2)) {
    std::vector<int64_t> axes{0};
    for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    c.Give(2, c.Sum(c.G(), axes, false));
  }
}

void Conv(Context& c) {
  Window w(c, KernelShape(c, 1));
  int64_t groups = c.node().Int("group", 1);
  if (c.Needs(0)) {
    // The scattered gradient reaches as far as the windows do; what lies beyond is cut off, or was never read.
    std::string full =
        c.Op("ConvTranspose", {c.G(), c.In(1)},
             {{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.PadsBefore()}, {"group", groups}});
    c.Give(0, c.FitTo(full, c.In(0)));
  }
  GiveKernelAndBias(c, w, c.In(0), c.G(), groups);
}

void ConvTranspose(Context& c) {
  Window w(c, KernelShape(c, 1));
  std::string automatic = c.node().String("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID") c.Unsupported("auto_pad");
  if (c.node().Has("output_shape")) c.Unsupported("attribute 'output_shape'");
  int64_t groups = c.node().Int("group", 1);
  if (c.Needs(0)) {
    std::string dx = c.Op("Conv", {c.G(), c.In(1)},
                          {{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}, {"group", groups}});
    c.Give(0, c.FitTo(dx, c.In(0)));
  }
  GiveKernelAndBias(c, w, c.G(), c.In(0), groups);
}

// "ij,jk->ik": the gradient of an operand is the same sum with that operand and the result exchanged.
void Einsum(Context& c) {
  std::string equation = c.node().String("equation", "");
  std::erase(equation, ' ');
  size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos)
    c.Unsupported("its equation must be written out, with '->' and without '...'");
  std::vector<std::string> terms = SplitText(std::string_view(equation).substr(0, arrow), ',');
  std::string result = equation.substr(arrow + 2);
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!c.Needs(i)) continue;
    std::string known = result;
    std::vector<std::string> parts{result}, inputs{c.G()};
    for (size_t j = 0; j < terms.size(); ++j) {
      if (j == i) continue;
      parts.push_back(terms[j]);
      inputs.push_back(c.In(j));
      known += terms[j];
    }
    std::string kept;  // letters that only this operand has were summed away: the gradient spreads along them
    for (char letter : terms[i]) {
      if (std::count(terms[i].begin(), terms[i].end(), letter) > 1)
        c.Unsupported("a letter stands twice in an operand");
      if (known.find(letter) != std::string::npos) kept.push_back(letter);
    }
    std::string g = c.Op("Einsum", inputs, {{"equation", Cat(Join(parts, ","), "->", kept)}});
    std::vector<int64_t> absent;
    for (size_t k = 0; k < terms[i].size(); ++k)
      if (known.find(terms[i][k]) == std::string::npos) absent.push_back(static_cast<int64_t>(k));
    if (!absent.empty()) g = c.Op("Expand", {c.Op("Unsqueeze", {g, c.Ints(absent)}), c.ShapeOf(c.In(i))});
    c.Give(i, g);
  }
}

}  // namespace

std::span<const GradientRule> LinearGradients() {
  static constexpr GradientRule kRules[] = {
      {"MatMul", MatMul}, {"Gemm", Gemm}, {"Conv", Conv}, {"ConvTranspose", ConvTranspose}, {"Einsum", Einsum},
  };
  return kRules;
}

}  // namespace ferry
