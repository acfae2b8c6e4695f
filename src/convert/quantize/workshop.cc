#include "convert/quantize/workshop.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"
#include "convert/convert.h"
#include "convert/optimize.h"
#include "graph/editor.h"
#include "graph/standard.h"
#include "onnx/schema.h"
#include "ops/evaluate.h"
#include "tensor/alignment.h"

namespace ferry::quantize {
namespace {

// A range chosen for each run gains less than this: one chosen beforehand costs nothing while running.
constexpr double kDynamicGain = 1.0;  // dB
constexpr int64_t kDeepestSpreading =
    1024;  // products of as many channels are worth their time without being asked for

constexpr double kNoWork = 1e-3;      // part of all products that takes no time worth speaking of
constexpr double kFewWeights = 5e-3;  // part of all weights that takes no room worth speaking of
constexpr int64_t kFinestBlock = 32;  // of weights that are decoded before they are used

bool LiesByRows(const Layer& layer) {
  return layer.kind == LayerKind::kRecurrent || layer.kind == LayerKind::kConv ||
         (layer.kind == LayerKind::kProduct && layer.axis == 0);
}

// Blocks of rows that lie together are rows themselves, where they divide them.
int64_t BlockOf(const Layer& layer, int64_t depth, const Rung& rung) {
  if (!LiesByRows(layer) || rung.bits != 8 || rung.block == 0 || rung.way != Way::kWeights) return rung.block;
  for (int64_t block = rung.block; block >= rung.block / 2; --block)
    if (depth % block == 0) return block;
  return 0;
}

int ThreadsOf(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Product kernels read transposed weights as they are, so that optimising leaves them; codes are wanted in order.
void FoldTransposes(Graph& graph) {
  GraphEditor editor(graph);
  for (size_t i = 0, count = editor.size(); i < count; ++i) {
    const Node& node = editor.node(i);
    if (!IsStandard(node, "Transpose") || node.outputs.size() != 1) continue;
    const Tensor* weight = editor.Constant(node.inputs[0]);
    if (!weight || weight->dtype() != DType::kFloat) continue;
    const Value value(Readable(*weight));
    const Value* const inputs[] = {&value};
    Tensor turned = EvaluateNode(node, inputs, RunServices{})[0].tensor().Persistent();
    const std::string output = node.outputs[0];
    editor.Remove(i);
    editor.DefineConstant(output, std::move(turned));
  }
  editor.Finish();
}

}  // namespace

Model MakeBase(const Model& model) {
  const int64_t newest = NewestOpset("");
  OptimizedModel made = OptimizeModel(model.OpsetOf("") == newest ? model : ConvertOpset(model, newest));
  FoldTransposes(made.model.graph);
  return std::move(made.model);
}

Workshop::Workshop(Model base, int64_t opset, const QuantizeOptions& options)
    : base_(std::move(base)),
      opset_(opset),
      options_(options),
      layers_(FindLayers(base_.graph)),
      pool_(ThreadsOf(options.threads)),
      spreads_(options.weights == WeightMethod::kGptq ||
               (options.weights == WeightMethod::kBest && options.form == QuantizeForm::kWeights)) {}

void Workshop::SetSpreading(bool on) {
  if (spreads_ != on) coded_.clear();
  spreads_ = on;
}

bool Workshop::IsKept(const Layer& layer) const {
  auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(options_.keep, layer.name) || has(options_.keep, layer.output)) return true;
  if (!options_.nodes.empty() && !has(options_.nodes, layer.name) && !has(options_.nodes, layer.output)) return true;
  return !options_.operators.empty() && !has(options_.operators, layer.op);
}

const Observation* Workshop::Seen(const Layer& layer) const {
  auto found = calibration_.seen.find(layer.input);
  return found == calibration_.seen.end() || found->second.count() == 0 ? nullptr : &found->second;
}

void Workshop::Calibrate(const Samples& samples, const std::vector<size_t>& chosen, bool with_products) {
  CalibrationRequest request;
  request.model = &base_;
  request.threads = options_.threads;
  request.progress = options_.progress;
  request.as_optimized = work_ > 5e8;
  std::vector<Way> ways;
  for (const Layer& layer : layers_) {
    const bool may_be_static = layer.kind == LayerKind::kConv || layer.kind == LayerKind::kProduct;
    ways.push_back(may_be_static && !IsKept(layer) ? Way::kStatic : Way::kFloat);
  }
  const bool wants_ranges = options_.form == QuantizeForm::kInt8 || options_.form == QuantizeForm::kStatic;
  if (wants_ranges)
    for (const std::string& name : FindCodedValues(base_.graph, layers_, ways, options_.conventions).names)
      request.channels[name] = -2;
  for (const Layer& layer : layers_) {
    if (layer.kind == LayerKind::kLookup || IsKept(layer)) continue;
    const bool is_image = layer.kind == LayerKind::kConv || layer.kind == LayerKind::kConvTranspose;
    request.channels[layer.input] = is_image ? 1 : -1;
    const bool is_deep = layer.depth > kDeepestSpreading && options_.weights != WeightMethod::kGptq;
    if (!with_products || is_deep) continue;
    if (layer.kind == LayerKind::kProduct) request.products.insert(layer.input);
    std::optional<Patches> patches = PatchesOf(base_.graph, layer);
    if (patches) request.patches[layer.input].push_back(std::move(*patches));
  }
  coded_.clear();
  calibration_ = quantize::Calibrate(request, samples, chosen);
}

Rung Workshop::FirstRung(const Layer& layer, std::string& why) const {
  const Conventions& how = options_.conventions;
  const bool for_weights = options_.form == QuantizeForm::kWeights;
  if (IsKept(layer)) return why = "kept as the options say", Rung{};
  if (layer.kind == LayerKind::kLookup || layer.kind == LayerKind::kRecurrent ||
      layer.kind == LayerKind::kConvTranspose) {
    if (!how.weights_only && !for_weights) return why = Cat(Name(how.reader), " takes it in float"), Rung{};
    return {Way::kWeights, 8, layer.kind == LayerKind::kRecurrent ? kFinestBlock : 0};
  }
  if (for_weights) {
    if (layer.kind == LayerKind::kConv) return {Way::kWeights, 8, kFinestBlock};
    const double all = TotalWeights();
    if (options_.bits < 8 && layer.weights_count() < kFewWeights * all)
      return why = "so few weights that four bits would save nothing", Rung{Way::kWeights, 8, options_.block};
    return {Way::kWeights, options_.bits, options_.block};
  }
  const bool may_be_dynamic = layer.kind == LayerKind::kProduct && how.dynamic;
  if (options_.form == QuantizeForm::kDynamic) {
    if (may_be_dynamic) return {Way::kDynamic, 8, 0};
    return why = "a convolution with ranges of each run is slower than float", Rung{Way::kWeights, 8, 0};
  }
  const Observation* seen = Seen(layer);
  if (!seen) {
    if (may_be_dynamic) return why = "nothing was seen of its input", Rung{Way::kDynamic, 8, 0};
    return why = "nothing was seen of its input", Rung{how.weights_only ? Way::kWeights : Way::kFloat, 8, 0};
  }
  if (seen->not_finite() > 0)
    return why = Cat("its input has ", seen->not_finite(), " numbers that are not finite"),
           Rung{how.weights_only ? Way::kWeights : Way::kFloat, 8, 0};
  if (options_.form == QuantizeForm::kInt8 && how.weights_only && layer.work < kNoWork * TotalWork()) {
    why = "so little is multiplied here that codes of its input would save no time";
    if (layer.weights_count() < kFewWeights * TotalWeights()) return {Way::kHalfWeights, 16, 0};
    return {Way::kWeights, 8, LiesByRows(layer) ? kFinestBlock : 0};
  }
  if (options_.form == QuantizeForm::kStatic || !may_be_dynamic) return {Way::kStatic, 8, 0};
  const Coding coding = seen->Choose(RangeMethod::kMse, options_.percentile, how);
  const double fixed = seen->Noise(coding), own = seen->dynamic_noise();
  if (own > 0 && 10 * std::log10(fixed / own) > kDynamicGain)
    return why = Cat("ranges of each run lose ", static_cast<int64_t>(std::lround(10 * std::log10(fixed / own))),
                     " dB less than one for all"),
           Rung{Way::kDynamic, 8, 0};
  return {Way::kStatic, 8, 0};
}

Rung Workshop::NextRung(const Layer& layer, const Rung& rung) const {
  const bool weights = options_.conventions.weights_only || options_.form == QuantizeForm::kWeights;
  switch (rung.way) {
    case Way::kStatic:
    case Way::kDynamic:
      if (weights && rung.way == Way::kStatic && layer.kind == LayerKind::kProduct && options_.conventions.dynamic &&
          options_.form == QuantizeForm::kInt8)
        return {Way::kDynamic, 8, 0};
      return weights ? Rung{Way::kWeights, 8, 0} : Rung{};
    case Way::kWeights:
      if (rung.bits < 8 && rung.block > kFinestBlock) return {Way::kWeights, rung.bits, kFinestBlock};
      if (rung.bits < 8) return {Way::kWeights, 8, options_.block};
      if (rung.block == 0 && LiesByRows(layer)) return {Way::kWeights, 8, kFinestBlock};
      return {Way::kHalfWeights, 16, 0};
    default: return {};
  }
}

double Workshop::TotalWork() const {
  double total = 0;
  for (const Layer& layer : layers_) total += layer.work;
  return total;
}

double Workshop::TotalWeights() const {
  double total = 0;
  for (const Layer& layer : layers_) total += layer.weights_count();
  return total;
}

std::vector<float> Workshop::Importance(const Layer& layer) const {
  const Observation* seen = Seen(layer);
  if (!seen || layer.kind == LayerKind::kLookup || layer.kind == LayerKind::kConvTranspose) return {};
  std::vector<float> squares = seen->ChannelSquares();
  double mean = 0;
  for (float square : squares) mean += square;
  mean /= std::max<double>(1, static_cast<double>(squares.size()));
  if (!(mean > 0)) return {};
  // Nothing counts for nothing: what calibration did not see may come.
  for (float& square : squares) square = static_cast<float>(square / mean + 0.01);
  if (layer.kind != LayerKind::kConv) return squares;
  if (layer.groups != 1) return {};
  const int64_t taps = layer.depth / std::max<int64_t>(1, static_cast<int64_t>(squares.size()));
  std::vector<float> spread;
  for (float square : squares) spread.insert(spread.end(), static_cast<size_t>(taps), square);
  return spread;
}

CodingRequest Workshop::RequestFor(const Layer& layer, const Rung& rung) const {
  CodingRequest request;
  request.bits = options_.conventions.seven_bits && rung.bits == 8 && rung.way != Way::kWeights ? 7 : rung.bits;
  request.block = rung.block;
  request.symmetric = rung.way != Way::kWeights || rung.bits == 8;
  request.method = options_.weights == WeightMethod::kBest ? WeightMethod::kSearch : options_.weights;
  request.one_scale = !options_.conventions.per_channel && rung.way == Way::kStatic;
  const std::string key = layer.kind == LayerKind::kConv ? Cat("patches of ", layer.output) : layer.input;
  auto products = calibration_.products.find(key);
  const bool may_spread = layer.kind == LayerKind::kProduct || layer.kind == LayerKind::kConv;
  if (spreads_ && may_spread && products != calibration_.products.end() &&
      static_cast<int64_t>(products->second.size()) == layer.depth * layer.depth) {
    request.method = WeightMethod::kGptq;
    request.products = products->second;
  }
  return request;
}

std::vector<float> Workshop::CorrectedBias(const Layer& layer, const CodedMatrix& matrix,
                                           std::span<const float> weights) const {
  const Observation* seen = Seen(layer);
  const bool has_place = layer.kind == LayerKind::kConv || !layer.bias.empty();
  if (!options_.methods || !seen || !has_place || seen->not_finite() > 0) return {};
  if (layer.kind != LayerKind::kConv && layer.kind != LayerKind::kProduct) return {};
  const std::vector<float> means = seen->ChannelMeans();
  const int64_t channels = static_cast<int64_t>(means.size());
  if (channels == 0 || channels % layer.groups != 0) return {};
  const int64_t in_group = channels / layer.groups, out_group = std::max<int64_t>(1, matrix.rows / layer.groups);
  if (in_group == 0 || matrix.depth % in_group != 0) return {};
  const int64_t taps = matrix.depth / in_group;
  std::vector<float> bias(static_cast<size_t>(matrix.rows), 0.0f);
  if (!layer.bias.empty()) {
    const Tensor& old = base_.graph.FindInitializer(layer.bias)->Get();
    bias.assign(old.Data<float>(), old.Data<float>() + old.size());
  }
  for (int64_t row = 0; row < matrix.rows; ++row) {
    double off = 0;
    const int64_t first = std::min(row / out_group, layer.groups - 1) * in_group;
    for (int64_t i = 0; i < matrix.depth; ++i)
      off += (weights[static_cast<size_t>(row * matrix.depth + i)] - matrix.Value(row, i)) *
             means[static_cast<size_t>(first + i / taps)];
    bias[static_cast<size_t>(row)] += static_cast<float>(off);
  }
  return bias;
}

LayerScheme Workshop::CodeLayer(const Layer& layer, const Rung& rung) {
  LayerScheme made;
  made.way = rung.way;
  if (rung.way == Way::kFloat || rung.way == Way::kHalfWeights) return made;
  const std::vector<float> importance = Importance(layer);
  for (size_t i = 0; i < layer.weights.size(); ++i) {
    const Tensor& weight = base_.graph.FindInitializer(layer.weights[i])->Get();
    const std::vector<float> matrix = ToMatrix(layer, Readable(weight));
    const int64_t rows = layer.channels, depth = static_cast<int64_t>(matrix.size()) / rows;
    CodingRequest request = RequestFor(layer, rung);
    request.block = BlockOf(layer, depth, rung);
    if (i == 0 && static_cast<int64_t>(importance.size()) == depth) request.importance = importance;
    try {
      made.matrices.push_back(std::make_shared<const CodedMatrix>(CodeMatrix(matrix, rows, depth, request, pool_)));
    } catch (Error& error) {
      throw error.At(Cat("weight '", Printable(layer.weights[i]), "'"));
    }
    if (i == 0) made.bias = CorrectedBias(layer, *made.matrices[0], matrix);
    DropPages(weight.raw(), weight.bytes());  // of a file, which can be read again: a model larger than memory passes
  }
  return made;
}

Scheme Workshop::MakeScheme(const std::vector<Rung>& rungs, RangeMethod ranges) {
  Scheme scheme;
  scheme.conventions = options_.conventions;
  scheme.layers = layers_;
  scheme.bit_blocks = options_.form == QuantizeForm::kWeights && !options_.standard_blocks &&
                      options_.conventions.reader != Reader::kTensorRt &&
                      options_.conventions.reader != Reader::kTfLite;
  std::vector<Way> ways;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Rung& rung = rungs[i];
    ways.push_back(rung.way);
    LayerScheme& coded = coded_[{i, rung.bits, rung.block, rung.way == Way::kWeights}];
    const bool needs_codes = rung.way != Way::kFloat && rung.way != Way::kHalfWeights;
    if (coded.matrices.empty() && needs_codes) coded = CodeLayer(layers_[i], rung);
    scheme.how.push_back(needs_codes ? coded : LayerScheme());
    scheme.how.back().way = rung.way;
  }
  CodedValues values = FindCodedValues(base_.graph, layers_, ways, options_.conventions);
  scheme.everywhere = std::move(values.everywhere);
  for (const std::string& name : values.names) {
    auto seen = calibration_.seen.find(name);
    if (seen == calibration_.seen.end() || seen->second.count() == 0) continue;
    scheme.values[name] = seen->second.Choose(ranges, options_.percentile, options_.conventions);
  }
  return scheme;
}

Model Workshop::Write(const Scheme& scheme) const { return WriteScheme(base_, scheme, opset_); }

double Workshop::WeightSnr(const Scheme& scheme, size_t index) const {
  if (scheme.how[index].matrices.empty()) return kNoNoise;
  const Layer& layer = layers_[index];
  const CodedMatrix& coded = *scheme.how[index].matrices[0];
  std::vector<float> importance = Importance(layer);
  if (static_cast<int64_t>(importance.size()) != coded.depth) importance.clear();
  const Tensor& weight = base_.graph.FindInitializer(layer.weights[0])->Get();
  return SnrOf(ToMatrix(layer, Readable(weight)), coded, importance);
}

Trial Workshop::Try(const std::vector<Rung>& rungs, RangeMethod ranges, const Judge& judge) {
  Trial trial;
  trial.scheme = MakeScheme(rungs, ranges);
  trial.model = Write(trial.scheme);
  SessionOptions options;
  options.threads = options_.threads;
  trial.session = Session::FromModel(trial.model, options);
  trial.found = judge.Compare(*trial.session);
  return trial;
}

}  // namespace ferry::quantize
