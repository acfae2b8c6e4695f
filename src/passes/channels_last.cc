#include "passes/channels_last.h"

#include <algorithm>
#include <unordered_set>

#include "graph/editor.h"
#include "graph/scopes.h"
#include "ops/infer_graph.h"
#include "ops/support/fused.h"
#include "ops/support/nhwc.h"
#include "ops/support/quantized_step.h"
#include "ops/traits.h"
#include "passes/batch_norm_pattern.h"
#include "passes/match.h"

namespace ferry {
namespace {

// The first layer reads the caller's image as it is when it has at most this many channels.
constexpr int64_t kMostDirectChannels = 4;

class ChannelsLast {
 public:
  ChannelsLast(Graph& graph, const GraphFacts& facts) : editor_(graph), facts_(facts) {}

  bool Run() {
    size_t count = editor_.size();
    for (size_t i = 0; i < count; ++i) {
      if (editor_.removed(i) || Convert(i)) continue;
      for (const std::string& input : editor_.node(i).inputs) Restore(input, i);
      for (const std::string& name : CapturedNames(editor_.node(i))) Restore(name, i);
    }
    for (const ValueInfo& output : editor_.graph().outputs) Restore(output.name, count);
    return editor_.Finish();
  }

 private:
  const SymbolicShape* ShapeOf(const std::string& value) const {
    const ValueFacts* facts = facts_.Find(value);
    bool known = facts && facts->type.is_tensor() && facts->type.shape;
    return known && (facts->type.dtype == DType::kFloat || IsByte(facts->type.dtype)) ? &*facts->type.shape : nullptr;
  }
  bool IsImage(const std::string& value, size_t rank) const {
    const SymbolicShape* shape = ShapeOf(value);
    return shape && shape->size() == rank && rank >= 3 && rank <= 5;
  }
  size_t RankOf(const std::string& value) const {
    const SymbolicShape* shape = ShapeOf(value);
    return shape ? shape->size() : 0;
  }
  bool HasLast(const std::string& value) const { return last_.count(value) > 0; }

  // Whether working on these values channels last saves a transposition rather than asking for more of them: one of
  // them exists in no other form, or all of them exist in this one.
  bool PaysOff(const std::vector<std::string>& values) const {
    bool any = false, all = true;
    for (const std::string& value : values) {
      if (moved_.count(value)) return true;
      any |= HasLast(value);
      all &= HasLast(value) || editor_.Constant(value);
    }
    return any && all;
  }

  // The channels-last form of a value, transposed in front of `position` if there is none yet.
  std::string Last(const std::string& value, size_t position) {
    auto known = last_.find(value);
    if (known != last_.end()) return known->second;
    std::string name = editor_.FreshName(value + "_last");
    Turn(value, name, ChannelsLastOrder(RankOf(value)), position);
    return last_[value] = name;
  }

  // Makes a value that only exists channels-last available as the model wrote it.
  void Restore(const std::string& value, size_t position) {
    if (!moved_.erase(value)) return;
    Turn(last_[value], value, ChannelsFirstOrder(RankOf(value)), position);
  }

  void Turn(const std::string& from, const std::string& to, std::vector<int64_t> order, size_t position) {
    Node node;
    node.op_type = "Transpose";
    node.inputs = {from};
    node.outputs = {to};
    node.Set("perm", std::move(order));
    editor_.InsertBefore(position, std::move(node));
  }

  std::string MoveOutput(const std::string& value) {
    std::string name = editor_.FreshName(value + "_last");
    last_[value] = name;
    moved_.insert(value);
    return name;
  }

  // Replaces a node by one that reads and writes channels-last images.
  void Put(size_t index, Node node, std::vector<std::string> inputs) {
    node.inputs = std::move(inputs);
    for (std::string& output : node.outputs)
      if (!output.empty()) output = MoveOutput(output);
    editor_.Replace(index, std::move(node));
  }

  // Not of a node that is looked at afterwards: it is taken.
  Node Renamed(size_t index, std::string_view op) {
    Node renamed = editor_.Take(index);
    renamed.op_type = op;
    renamed.domain = kInternalDomain;
    return renamed;
  }

  bool Convert(size_t index) {
    const Node& node = editor_.node(index);
    if (node.inputs.empty() || node.outputs.empty()) return false;
    const std::string& op = node.op_type;
    if (node.domain == kInternalDomain) return ConvertQuantized(index);
    const Elementwise elementwise = TraitsOf(node).elementwise;
    if (elementwise == Elementwise::kOfSeveral) return ConvertElementwise(index);
    if (elementwise == Elementwise::kOfOne) return ConvertUnary(index);
    if (!CanonicalDomain(node.domain).empty()) return false;
    if (op == "Conv") return ConvertConv(index);
    if (op == "ConvTranspose") return ConvertConvTranspose(index);
    if (op == "Transpose") return ConvertTranspose(index);
    if (op == "Concat") return ConvertConcat(index);
    if (IsWholeQuantization(node)) return ConvertUnary(index);
    if (!HasLast(node.inputs[0]) || RankOf(node.inputs[0]) == 0) return false;
    if (op == "Split") return ConvertSplit(index);
    if (op == "Resize") return ConvertResize(index);
    if (op == "MaxPool" || op == "AveragePool") return ConvertPool(index);
    if (op == "ReduceMean" || op == "GlobalAveragePool") return ConvertMean(index);
    if (op == "BatchNormalization") return ConvertBatchNorm(index);
    if (op == "Reshape") return ConvertShuffle(index);
    return false;
  }

  bool ConvertConv(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* weight = editor_.Constant(node.inputs[1]);
    if (!weight || weight->dtype() != DType::kFloat || !IsImage(node.inputs[0], weight->rank())) return false;
    if (node.HasInput(2) && !editor_.Constant(node.inputs[2])) return false;
    PutConv(index, *weight, "NhwcConv");
    return true;
  }

  // The first layer of a network may read what the caller gave.
  void PutConv(size_t index, const Tensor& weight, std::string_view op) {
    const Node& node = editor_.node(index);
    std::vector<std::string> inputs = node.inputs;
    bool direct = !HasLast(inputs[0]) && weight.dim(1) <= kMostDirectChannels && node.Int("group", 1) == 1 &&
                  LastDilation(node) == 1;
    if (!direct) inputs[0] = Last(inputs[0], index);
    Node conv = Renamed(index, op);
    if (direct) conv.Set("channels_first", int64_t{1});
    Put(index, std::move(conv), std::move(inputs));
  }

  // Steps that passes/fold_qdq has made.
  bool ConvertQuantized(size_t index) {
    const Node& node = editor_.node(index);
    const std::string& op = node.op_type;
    if (op == "QuantizedConv") {
      const Tensor* weight = editor_.Constant(node.inputs[1]);
      if (!weight || !IsImage(node.inputs[0], weight->rank())) return false;
      PutConv(index, *weight, "QuantizedNhwcConv");
      return true;
    }
    if (op == "QuantizedAdd") return ConvertElementwise(index);
    if (op == "QuantizedLookup") return ConvertUnary(index);
    if (op != "QuantizedMean" || !HasLast(node.inputs[0]) || RankOf(node.inputs[0]) == 0) return false;
    Node mean = node;
    mean.Set("channels_last", int64_t{1});
    std::string input = Last(node.inputs[0], index);
    if (node.Int("keepdims", 1) != 0) {
      Put(index, std::move(mean), {input});
    } else {
      mean.inputs = {input};
      editor_.Replace(index, std::move(mean));
    }
    return true;
  }

  // QuantizeLinear and DequantizeLinear with one scale for all channels.
  bool IsWholeQuantization(const Node& node) const {
    if (!IsStandard(node, {"QuantizeLinear", "DequantizeLinear"}) || node.inputs.size() < 2) return false;
    const Tensor* scale = editor_.Constant(node.inputs[1]);
    return scale && scale->size() == 1;
  }

  bool ConvertConvTranspose(size_t index) {
    const Node& node = editor_.node(index);
    const Tensor* weight = editor_.Constant(node.inputs[1]);
    if (!weight || weight->dtype() != DType::kFloat || !IsImage(node.inputs[0], weight->rank())) return false;
    if (node.HasInput(2) && !editor_.Constant(node.inputs[2])) return false;
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = Last(inputs[0], index);
    Put(index, Renamed(index, "NhwcConvTranspose"), std::move(inputs));
    return true;
  }

  // An answer that is larger than what it is made from: turning the smaller image around is less work.
  bool EndsLarger(const Node& node) const {
    const SymbolicShape *from = ShapeOf(node.inputs[0]), *to = ShapeOf(node.outputs[0]);
    if (!from || !to || from->size() != to->size() || !editor_.Readers(node.outputs[0]).empty()) return false;
    for (size_t axis = 2; axis < to->size(); ++axis)
      if (!(*from)[axis].known() || !(*to)[axis].known() || *(*to)[axis].value < *(*from)[axis].value) return false;
    return true;
  }

  // Sizes and scales stay in the order of the axes they speak of.
  bool ConvertResize(size_t index) {
    const Node& node = editor_.node(index);
    size_t rank = RankOf(node.inputs[0]);
    if (!IsImage(node.inputs[0], rank) || EndsLarger(node)) return false;
    std::vector<int64_t> axes = node.Ints("axes");
    if (!node.Has("axes"))
      for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
    for (int64_t& axis : axes) {
      axis = MovedAxis(axis, rank);
      if (axis < 0) return false;
    }
    Node moved = node;
    moved.Set("axes", axes);
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = Last(inputs[0], index);
    Put(index, std::move(moved), std::move(inputs));
    return true;
  }

  static int64_t LastDilation(const Node& node) {
    std::vector<int64_t> dilations = node.Ints("dilations");
    return dilations.empty() ? 1 : dilations.back();
  }

  // Not when the result is of a type that stays as the model wrote it, as that of a comparison.
  bool ConvertUnary(size_t index) {
    const Node& node = editor_.node(index);
    if (!HasLast(node.inputs[0]) || RankOf(node.inputs[0]) == 0 || RankOf(node.outputs[0]) == 0) return false;
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = Last(inputs[0], index);
    Put(index, editor_.Take(index), std::move(inputs));
    return true;
  }

  // A constant that spreads over an image, as it must be for the other layout; empty when it cannot be.
  std::string Turned(const std::string& name, size_t rank) {
    const Tensor* constant = editor_.Constant(name);
    if (!constant || constant->dtype() != DType::kFloat || constant->rank() > rank) return {};
    if (constant->size() == 1) return constant->rank() <= rank ? name : std::string();
    Shape shape = Shape::Filled(rank, 1);
    std::copy(constant->shape().begin(), constant->shape().end(),
              shape.end() - static_cast<std::ptrdiff_t>(constant->rank()));
    int64_t batch = shape[0], channels = shape[1], pixels = shape.CountBetween(2, rank);
    Tensor turned(DType::kFloat, ToChannelsLast(shape));
    const float* from = constant->Data<float>();
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < pixels; ++p)
          turned.MutableData<float>()[(n * pixels + p) * channels + c] = from[(n * channels + c) * pixels + p];
    return editor_.AddConstant(name + "_last", std::move(turned));
  }

  bool ConvertElementwise(size_t index) {
    const Node& node = editor_.node(index);
    size_t rank = RankOf(node.outputs[0]);
    if (!PaysOff(node.inputs)) return false;
    for (const std::string& input : node.inputs) {
      bool fits = IsImage(input, rank) || (editor_.Constant(input) && RankOf(input) <= rank && ShapeOf(input));
      if (!fits) return false;
    }
    if (ConvertScaling(index)) return true;
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs) {
      inputs.push_back(editor_.Constant(input) ? Turned(input, rank) : Last(input, index));
      if (inputs.back().empty()) return false;
    }
    if (inputs.size() == 2 && ConvertGate(index, inputs)) return true;
    Put(index, editor_.Take(index), std::move(inputs));
    return true;
  }

  const Tensor* Number(const std::string& name, size_t most_rank) const {
    const Tensor* constant = editor_.Constant(name);
    bool fits =
        constant && constant->dtype() == DType::kFloat && constant->size() == 1 && constant->rank() <= most_rank;
    return fits ? constant : nullptr;
  }

  // x · number + number, as one step.
  bool ConvertScaling(size_t index) {
    const Node& node = editor_.node(index);
    int reader = editor_.OnlyReader(node.outputs[0]);
    if (node.op_type != "Mul" || reader < 0) return false;
    const Node& sum = editor_.node(static_cast<size_t>(reader));
    if (!IsStandard(sum, "Add")) return false;
    size_t image = HasLast(node.inputs[0]) ? 0 : 1, rank = RankOf(node.inputs[image]);
    const Tensor* factor = Number(node.inputs[1 - image], rank);
    const Tensor* offset = Number(sum.inputs[sum.inputs[0] == node.outputs[0] ? 1 : 0], rank);
    const Dim channels = rank >= 3 ? (*ShapeOf(node.inputs[image]))[1] : Dim();
    if (!factor || !offset || !HasLast(node.inputs[image]) || !channels.known()) return false;
    // Adding constants moves those that are there.
    float scale = *factor->Data<float>(), shift = *offset->Data<float>();
    auto spread = [&](float number, const std::string& hint) {
      std::vector<float> values(static_cast<size_t>(*channels.value), number);
      return editor_.AddConstant(hint, Tensor::FromVector(values));
    };
    std::string factors = spread(scale, node.outputs[0] + "_factor");
    std::string offsets = spread(shift, sum.outputs[0] + "_offset");
    std::vector<std::string> inputs = {last_[node.inputs[image]], factors, offsets};
    Node affine = Renamed(index, "NhwcAffine");
    affine.outputs = sum.outputs;
    editor_.Remove(static_cast<size_t>(reader));
    Put(index, std::move(affine), std::move(inputs));
    return true;
  }

  // x · gate where the gate has one value per image and channel.
  bool ConvertGate(size_t index, const std::vector<std::string>& inputs) {
    const Node& node = editor_.node(index);
    if (node.op_type != "Mul") return false;
    for (size_t gate = 0; gate < 2; ++gate) {
      const SymbolicShape* small = ShapeOf(node.inputs[gate]);
      const SymbolicShape* image = ShapeOf(node.inputs[1 - gate]);
      if (!small || !image || small->size() != image->size()) continue;
      bool fits = SameDim((*small)[0], (*image)[0]) && SameDim((*small)[1], (*image)[1]);
      for (size_t axis = 2; axis < small->size(); ++axis) fits &= SameDim((*small)[axis], Dim(1));
      if (!fits || editor_.Constant(node.inputs[gate])) continue;
      Put(index, Renamed(index, "NhwcAffine"), {inputs[1 - gate], inputs[gate]});
      return true;
    }
    return false;
  }

  // -1 when the axis is out of range.
  static int64_t MovedAxis(int64_t axis, size_t rank) {
    int64_t count = static_cast<int64_t>(rank);
    if (axis < 0) axis += count;
    if (axis < 0 || axis >= count) return -1;
    return axis == 0 ? 0 : axis == 1 ? count - 1 : axis - 1;
  }

  bool ConvertConcat(size_t index) {
    const Node& node = editor_.node(index);
    size_t rank = RankOf(node.outputs[0]);
    int64_t axis = MovedAxis(node.Int("axis", 0), rank);
    bool images =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& i) { return IsImage(i, rank); });
    if (!images || axis < 0 || !PaysOff(node.inputs)) return false;
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs) inputs.push_back(Last(input, index));
    Node moved = editor_.Take(index);
    moved.Set("axis", axis);
    Put(index, std::move(moved), std::move(inputs));
    return true;
  }

  bool ConvertSplit(size_t index) {
    const Node& node = editor_.node(index);
    int64_t axis = MovedAxis(node.Int("axis", 0), RankOf(node.inputs[0]));
    if (axis < 0) return false;
    std::vector<std::string> inputs = node.inputs;
    inputs[0] = Last(inputs[0], index);
    Node moved = editor_.Take(index);
    moved.Set("axis", axis);
    Put(index, std::move(moved), std::move(inputs));
    return true;
  }

  bool ConvertPool(size_t index) {
    const Node& node = editor_.node(index);
    if (node.outputs.size() != 1 || !IsImage(node.inputs[0], RankOf(node.inputs[0]))) return false;
    bool average = node.op_type == "AveragePool";
    if (average && node.Int("ceil_mode", 0) != 0) return false;
    std::string input = Last(node.inputs[0], index);
    Put(index, Renamed(index, average ? "NhwcAveragePool" : "NhwcMaxPool"), {input});
    return true;
  }

  bool ConvertMean(size_t index) {
    const Node& node = editor_.node(index);
    size_t rank = RankOf(node.inputs[0]);
    bool keep = true;
    if (node.op_type == "ReduceMean") {
      const Tensor* axes = node.HasInput(1) ? editor_.Constant(node.inputs[1]) : nullptr;
      if (!axes || !CoversSpatialAxes(*axes, rank)) return false;
      keep = node.Int("keepdims", 1) != 0;
    }
    std::string input = Last(node.inputs[0], index);
    Node mean = Renamed(index, "NhwcMean");
    mean.attributes.clear();
    mean.Set("keepdims", int64_t{keep});
    if (keep) {
      Put(index, std::move(mean), {input});
    } else {  // [N, C] is the same in either layout
      mean.inputs = {input};
      editor_.Replace(index, std::move(mean));
    }
    return true;
  }

  bool ConvertBatchNorm(size_t index) {
    const Node& node = editor_.node(index);
    std::optional<ChannelAffine> affine = MatchBatchNorm(editor_, node);
    const SymbolicShape* shape = ShapeOf(node.inputs[0]);
    if (!affine || !SameDim((*shape)[1], Dim(static_cast<int64_t>(affine->factor.size())))) return false;
    auto constant = [&](const std::vector<double>& values, const std::string& hint) {
      return editor_.AddConstant(hint, Tensor::FromVector(std::vector<float>(values.begin(), values.end())));
    };
    std::string factor = constant(affine->factor, node.outputs[0] + "_factor");
    std::string offset = constant(affine->offset, node.outputs[0] + "_offset");
    std::string input = Last(node.inputs[0], index);
    Node moved = Renamed(index, "NhwcAffine");
    moved.attributes.clear();
    moved.outputs.resize(1);
    Put(index, std::move(moved), {input, factor, offset});
    return true;
  }

  // A transpose to channels-last is the value we have; one from channels-last gives us a form of its result.
  bool ConvertTranspose(size_t index) {
    const Node& node = editor_.node(index);
    std::vector<int64_t> order = node.Ints("perm");
    if (!ShapeOf(node.inputs[0]) || order.size() != RankOf(node.inputs[0]) || order.size() < 3) return false;
    if (HasLast(node.inputs[0]) && order == ChannelsLastOrder(order.size())) {
      Node same;
      same.name = node.name;
      same.op_type = "Identity";
      same.inputs = {last_[node.inputs[0]]};
      same.outputs = node.outputs;
      editor_.Replace(index, std::move(same));
      return true;
    }
    if (order == ChannelsFirstOrder(order.size()) && !moved_.count(node.inputs[0]) && order.size() <= 5)
      last_[node.outputs[0]] = node.inputs[0];
    return false;
  }

  // [N, C, …] as [N, groups, C / groups, …], the two swapped, and back.
  bool ConvertShuffle(size_t index) {
    const Node& node = editor_.node(index);
    const SymbolicShape* from = ShapeOf(node.inputs[0]);
    const SymbolicShape* split = ShapeOf(node.outputs[0]);
    if (!from || !split || split->size() != from->size() + 1 || from->size() > 5) return false;
    size_t rank = split->size();
    if (!SameDim((*from)[0], (*split)[0]) || !(*split)[1].known() || !(*split)[2].known()) return false;
    for (size_t axis = 3; axis < rank; ++axis)
      if (!SameDim((*from)[axis - 1], (*split)[axis])) return false;
    int turn = editor_.OnlyReader(node.outputs[0]);
    if (turn < 0) return false;
    const Node& transpose = editor_.node(static_cast<size_t>(turn));
    std::vector<int64_t> order(rank);
    for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(i);
    std::swap(order[1], order[2]);
    if (transpose.op_type != "Transpose" || transpose.Ints("perm") != order) return false;
    int join = editor_.OnlyReader(transpose.outputs[0]);
    if (join < 0) return false;
    const Node& reshape = editor_.node(static_cast<size_t>(join));
    const SymbolicShape* to = ShapeOf(reshape.outputs[0]);
    if (reshape.op_type != "Reshape" || !to || to->size() != from->size()) return false;
    for (size_t axis = 0; axis < to->size(); ++axis)
      if (!SameDim((*from)[axis], (*to)[axis])) return false;
    std::string input = Last(node.inputs[0], index);
    Node shuffle = Renamed(index, "NhwcShuffle");
    shuffle.attributes.clear();
    shuffle.Set("groups", *(*split)[1].value);
    shuffle.outputs = {reshape.outputs[0]};
    editor_.Remove(static_cast<size_t>(join));
    editor_.Remove(static_cast<size_t>(turn));
    Put(index, std::move(shuffle), {input});
    return true;
  }

  GraphEditor editor_;
  const GraphFacts& facts_;
  std::unordered_map<std::string, std::string> last_;  // value to its channels-last form
  std::unordered_set<std::string> moved_;              // values that exist in that form only
};

}  // namespace

bool MoveChannelsLast(Graph& graph, GraphFacts& facts) {
  if (!HasAny(graph, {"Conv", "QuantizedConv", "ConvTranspose"})) return false;
  InferNew(graph, facts);
  return ChannelsLast(graph, facts).Run();
}

}  // namespace ferry
