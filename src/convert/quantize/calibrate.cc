#include "convert/quantize/calibrate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/gemm.h"
#include "ops/infer_graph.h"

namespace ferry::quantize {
namespace {

// The engine keeps images with channels last under this name (passes/channels_last.cc).
constexpr std::string_view kLast = "_last";
constexpr int64_t kFewestPatches = 1024;

class Pass {
 public:
  Pass(const CalibrationRequest& request, const Samples& samples) : request_(request), samples_(samples) {}

  // False when values that are wanted were not seen.
  bool Run(const Session& session, const std::vector<size_t>& chosen, const std::vector<std::string>& asked,
           bool asked_for_all = false) {
    RunOptions options;
    options.watch = [this](const std::string& name, const Value& value) { Look(name, value); };
    runs_ = static_cast<int64_t>(chosen.size());
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (request_.progress)
        request_.progress("calibrating", static_cast<int64_t>(i), static_cast<int64_t>(chosen.size()));
      done_.clear();
      const std::vector<NamedValue> inputs = samples_.Inputs(chosen[i]);
      for (const auto& [name, value] : inputs) Look(name, value);
      const std::vector<Value> results = session.Run(inputs, asked, options);
      for (size_t k = 0; k < asked.size(); ++k) Look(asked[k], results[k]);
      if (i == 0 && !asked_for_all && !Unseen().empty()) return false;
    }
    return true;
  }

  std::vector<std::string> Unseen() const {
    std::vector<std::string> names;
    for (const auto& [name, axis] : request_.channels)
      if (!made_.seen.count(name)) names.push_back(name);
    return names;
  }

  Calibration Take() {
    for (auto& [name, sums] : made_.products) {
      // The fewer rows there are for each channel, the less is known of how channels go together.
      const size_t channels = static_cast<size_t>(std::sqrt(static_cast<double>(sums.size())) + 0.5);
      const double rows = rows_[name], trust = rows / (rows + static_cast<double>(channels));
      if (rows < static_cast<double>(channels)) sums.clear();
      for (size_t i = 0; i < sums.size(); ++i) sums[i] *= (i % (channels + 1) == 0 ? 1.0 : trust) / rows;
    }
    return std::move(made_);
  }

 private:
  void Look(const std::string& name, const Value& value) {
    if (!value.is_tensor() || value.tensor().dtype() != DType::kFloat) return;
    auto wanted = request_.channels.find(name);
    bool is_last = false;
    if (wanted == request_.channels.end() && name.size() > kLast.size() && name.ends_with(kLast)) {
      wanted = request_.channels.find(name.substr(0, name.size() - kLast.size()));
      is_last = true;
    }
    if (wanted == request_.channels.end() || !done_.insert(wanted->first).second) return;
    const int64_t rank = static_cast<int64_t>(value.tensor().rank());
    int64_t axis = wanted->second;
    if (axis == -1 || (is_last && axis > 0)) axis = rank - 1;
    made_.seen[wanted->first].Add(value.tensor(), axis);
    if (request_.products.count(wanted->first) && rank > 0) {
      const int64_t depth = value.tensor().shape().back();
      AddProducts(wanted->first, value.tensor().Data<float>(), value.tensor().size() / std::max<int64_t>(1, depth),
                  depth);
    }
    auto patches = request_.patches.find(wanted->first);
    if (patches == request_.patches.end()) return;
    for (const Patches& one : patches->second) AddPatches(one, value.tensor(), is_last);
  }

  // Some places of the output, always the same ones for the same shapes.
  void AddPatches(const Patches& patches, const Tensor& tensor, bool is_last) {
    const size_t axes = patches.kernel.size();
    if (tensor.rank() != axes + 2 || tensor.size() == 0) return;
    Window window;
    int64_t places = tensor.dim(0);
    for (size_t i = 0; i < axes; ++i) {
      window.size[i] = tensor.dim((is_last ? 1 : 2) + i);
      const int64_t reach = (patches.kernel[i] - 1) * patches.dilations[i] + 1;
      window.count[i] = (window.size[i] + patches.pads[i] + patches.pads[axes + i] - reach) / patches.strides[i] + 1;
      if (window.count[i] <= 0) return;
      places *= window.count[i];
    }
    window.channels = tensor.dim(is_last ? axes + 1 : 1);
    const int64_t inner = window.size[0] * window.size[1];
    window.channel_step = is_last ? 1 : inner, window.place_step = is_last ? window.channels : 1;
    window.sample_step = window.channels * inner;
    if (window.channels * Taps(patches) != patches.depth) return;
    const int64_t wanted = (std::max<int64_t>(kFewestPatches, 3 * patches.depth) + runs_ - 1) / runs_;
    const int64_t rows = std::min(wanted, places);
    std::vector<float> matrix(static_cast<size_t>(rows * patches.depth));
    for (int64_t row = 0; row < rows; ++row)
      CopyPatch(patches, window, tensor.Data<float>(), (row * places + places / 2) / rows,
                matrix.data() + row * patches.depth);
    AddProducts(patches.key, matrix.data(), rows, patches.depth);
  }

  struct Window {
    int64_t size[2] = {1, 1}, count[2] = {1, 1};  // of the input, of the output
    int64_t channels = 0, channel_step = 0, place_step = 0, sample_step = 0;
  };

  static int64_t Taps(const Patches& patches) {
    int64_t taps = 1;
    for (int64_t size : patches.kernel) taps *= size;
    return taps;
  }

  static void CopyPatch(const Patches& patches, const Window& window, const float* from, int64_t place, float* to) {
    const bool is_plane = patches.kernel.size() == 2;
    // One axis is taken as the second of two.
    const int64_t high = is_plane ? patches.kernel[0] : 1, wide = patches.kernel.back();
    const int64_t per_sample = window.count[0] * window.count[1],
                  columns = is_plane ? window.count[1] : window.count[0];
    const int64_t row = place % per_sample / columns, column = place % columns;
    from += place / per_sample * window.sample_step;
    const int64_t width = is_plane ? window.size[1] : window.size[0], height = is_plane ? window.size[0] : 1;
    const int64_t axes = static_cast<int64_t>(patches.kernel.size());
    const int64_t top = is_plane ? row * patches.strides[0] - patches.pads[0] : 0;
    const int64_t left = column * patches.strides.back() - patches.pads[static_cast<size_t>(axes - 1)];
    for (int64_t c = 0; c < window.channels; ++c)
      for (int64_t i = 0; i < high; ++i)
        for (int64_t k = 0; k < wide; ++k) {
          const int64_t y = top + i * (is_plane ? patches.dilations[0] : 1), x = left + k * patches.dilations.back();
          const bool inside = y >= 0 && y < height && x >= 0 && x < width;
          *to++ = inside ? from[c * window.channel_step + (y * width + x) * window.place_step] : 0.0f;
        }
  }

  void AddProducts(const std::string& name, const float* values, int64_t rows, int64_t depth) {
    std::vector<double>& sums = made_.products[name];
    sums.resize(static_cast<size_t>(depth * depth), 0.0);
    std::vector<float> part(sums.size());
    GemmArgs<float> args;
    args.m = args.n = depth, args.k = rows;
    args.a = args.b = values;
    args.a_row = 1, args.a_col = depth, args.b_row = depth, args.b_col = 1;
    args.c = part.data(), args.c_row = depth;
    Gemm(args, nullptr);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    rows_[name] += static_cast<double>(rows);
  }

  const CalibrationRequest& request_;
  const Samples& samples_;
  Calibration made_;
  std::map<std::string, double> rows_;
  std::set<std::string> done_;  // in this run
  int64_t runs_ = 1;
};

Model WithOutputs(const Model& model, const std::vector<std::string>& names) {
  Model open = model;
  for (const std::string& name : names)
    for (const ValueInfo& info : model.graph.value_infos)
      if (info.name == name) {
        open.graph.outputs.push_back(info);
        break;
      }
  return open;
}

}  // namespace

Calibration Calibrate(const CalibrationRequest& request, const Samples& samples, const std::vector<size_t>& chosen) {
  SessionOptions options;
  options.threads = request.threads;
  if (request.as_optimized) {
    Pass pass(request, samples);
    if (pass.Run(*Session::FromModel(*request.model, options), chosen, {})) return pass.Take();
    // What the engine took into other steps it keeps apart when it is an output; what is only another shape of a value
    // has to be asked for.
    std::vector<std::string> asked, hidden = pass.Unseen();
    for (const ValueInfo& output : request.model->graph.outputs) asked.push_back(output.name);
    for (int round = 0; round < 3; ++round) {
      Pass again(request, samples);
      if (again.Run(*Session::FromModel(WithOutputs(*request.model, hidden), options), chosen, asked))
        return again.Take();
      for (const std::string& name : again.Unseen())
        (std::find(hidden.begin(), hidden.end(), name) == hidden.end() ? hidden : asked).push_back(name);
    }
  }
  options.optimize = false;
  const std::shared_ptr<Session> session = Session::FromModel(*request.model, options);
  Pass first(request, samples);
  if (first.Run(*session, chosen, {})) return first.Take();
  // Values that are an input under another shape pass by unseen unless they are asked for.
  // The model's own outputs are asked for too, or what only they need would not be computed.
  std::vector<std::string> asked = first.Unseen();
  for (const ValueInfo& output : session->outputs()) asked.push_back(output.name);
  Pass second(request, samples);
  second.Run(*session, chosen, asked, true);
  return second.Take();
}

std::optional<Patches> PatchesOf(const Graph& graph, const Layer& layer) {
  if (layer.kind != LayerKind::kConv || layer.groups != 1) return std::nullopt;
  const Node& node = graph.nodes[layer.node];
  const StoredTensor* weight = graph.FindInitializer(layer.weights[0]);
  if (!weight || weight->tensor.rank() < 3 || weight->tensor.rank() > 4) return std::nullopt;
  if (node.String("auto_pad", "NOTSET") != "NOTSET") return std::nullopt;
  const size_t axes = weight->tensor.rank() - 2;
  Patches patches;
  patches.key = Cat("patches of ", layer.output);
  patches.depth = layer.depth;
  for (size_t i = 0; i < axes; ++i) patches.kernel.push_back(weight->tensor.dim(2 + i));
  patches.strides = node.Ints("strides"), patches.dilations = node.Ints("dilations"), patches.pads = node.Ints("pads");
  if (patches.strides.empty()) patches.strides.assign(axes, 1);
  if (patches.dilations.empty()) patches.dilations.assign(axes, 1);
  if (patches.pads.empty()) patches.pads.assign(2 * axes, 0);
  const bool fits =
      patches.strides.size() == axes && patches.dilations.size() == axes && patches.pads.size() == 2 * axes;
  if (!fits || *std::min_element(patches.strides.begin(), patches.strides.end()) < 1) return std::nullopt;
  return patches;
}

double WorkOf(const Graph& graph, std::vector<Layer>& layers, const std::vector<NamedValue>& inputs) {
  FactsByName known;
  for (const auto& [name, value] : inputs) known[name].type = TypeOf(value);
  InferOptions options;
  options.on_error = [](const Node&, const Error&) {};
  const GraphFacts facts = InferGraph(graph, known, options);
  double work = 0;
  for (Layer& layer : layers) {
    if (layer.kind == LayerKind::kLookup) continue;
    const ValueFacts* found = facts.Find(layer.output);
    if (!found || !found->type.shape) continue;
    double elements = 1;
    for (const Dim& dim : *found->type.shape) elements *= dim.known() ? static_cast<double>(*dim.value) : 1.0;
    // Each hidden number of a recurrent layer takes the products of all its gates.
    const double gates = layer.op == "LSTM" ? 4 : layer.op == "GRU" ? 3 : 1;
    layer.work = elements * gates * static_cast<double>(layer.depth);
    work += layer.work;
  }
  return work;
}

}  // namespace ferry::quantize
