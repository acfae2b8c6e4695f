#include <cmath>
#include <numeric>

#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

// What is wanted is told by the outputs that have names; the first version also misspelled its default direction.
void UpgradeRecurrent(NodeRewrite& r) {
  r.node.Remove("output_sequence");
  if (r.node.String("direction", "forward") == "foward") r.node.Set("direction", std::string("forward"));
}

// The exponent was a float once. A whole number becomes an integer; for others the norm is written out.
bool MakeWhole(NodeRewrite& r) {
  const Attribute* p = r.node.Find("p");
  if (!p || p->type == AttributeType::kInt) return true;
  float value = r.node.Float("p", 2);
  if (std::floor(value) != value || std::fabs(value) > 1e6f) return false;
  r.node.Set("p", static_cast<int64_t>(value));
  return true;
}

void UpgradeGlobalLpPool(NodeRewrite& r) {
  if (MakeWhole(r)) return;
  Require(r.node.HasInput(0) && r.node.HasOutput(0), "needs an input and an output");
  const std::string x = r.node.inputs[0];
  float p = r.node.Float("p", 2);
  std::string powers = r.Before("Pow", {r.Before("Abs", {x}, "abs"), r.FloatLike(p, x, "p")}, "powers");
  std::string shape = r.Before("Shape", {x}, "shape");
  std::string rank = r.Before("Size", {shape}, "rank");
  std::string axes = r.Before("Range", {r.Int(2, "first"), rank, r.Int(1, "step")}, "axes");
  std::string sum = r.Before("ReduceSum", {powers, axes}, "sum", {Attribute("noop_with_empty_axes", int64_t{1})});
  r.After("Pow", {sum, r.FloatLike(1 / p, x, "root")}, r.node.outputs[0]);
  r.Drop();
}

// The sum over a window is its average, padding counted, times its size.
void UpgradeLpPool(NodeRewrite& r) {
  if (MakeWhole(r)) return;
  Require(r.node.HasInput(0) && r.node.HasOutput(0), "needs an input and an output");
  const std::string x = r.node.inputs[0];
  float p = r.node.Float("p", 2);
  std::vector<int64_t> kernel = r.node.Ints("kernel_shape");
  float window = std::accumulate(kernel.begin(), kernel.end(), 1.0f, [](float a, int64_t b) { return a * float(b); });
  r.node.Remove("p");
  r.node.op_type = "AveragePool";
  r.node.Set("count_include_pad", int64_t{1});
  r.node.inputs = {r.Before("Pow", {r.Before("Abs", {x}, "abs"), r.FloatLike(p, x, "p")}, "powers")};
  std::string output = r.Detour(0);
  std::string sum = r.FreshName(Cat(output, "/sum"));
  r.After("Mul", {r.node.outputs[0], r.FloatLike(window, x, "window")}, sum);
  r.After("Pow", {sum, r.FloatLike(1 / p, x, "root")}, output);
}

void UpgradeDft(NodeRewrite& r) {
  if (!r.MoveToInput("axis", 2)) r.SetInput(2, r.Int(1, "axis"));
}

// One list of classes served both ways, by the type of the input.
void UpgradeLabelEncoder(NodeRewrite& r) {
  Require(r.node.HasInput(0), "needs an input");
  std::vector<std::string> classes = r.node.Strings("classes_strings");
  std::vector<int64_t> numbers(classes.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  DType type = r.TypeOf(r.node.inputs[0]);
  r.node.Remove("classes_strings");
  if (type == DType::kString) {
    r.node.Set("keys_strings", std::move(classes));
    r.node.Set("values_int64s", std::move(numbers));
  } else if (type == DType::kInt64) {
    r.node.Set("keys_int64s", std::move(numbers));
    r.node.Set("values_strings", std::move(classes));
  } else {
    Fail(ErrorCode::kUnsupported,
         "LabelEncoder of ai.onnx.ml 1 needs an input of known type, string or int64; declare '",
         Printable(r.node.inputs[0]), "' in the graph's value_info");
  }
}

constexpr UpgradeRule kRules[] = {
    {"GRU", 7, UpgradeRecurrent},
    {"LSTM", 7, UpgradeRecurrent},
    {"RNN", 7, UpgradeRecurrent},
    {"GlobalLpPool", 2, UpgradeGlobalLpPool},
    {"LpPool", 2, UpgradeLpPool},
    {"DFT", 20, UpgradeDft},
    {"LabelEncoder", 2, UpgradeLabelEncoder, "ai.onnx.ml"},
};

}  // namespace

std::span<const UpgradeRule> VariousUpgrades() { return kRules; }

}  // namespace ferry
