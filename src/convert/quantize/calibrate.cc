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

class Pass {
 public:
  Pass(const CalibrationRequest& request, const Samples& samples) : request_(request), samples_(samples) {}

  // False when values that are wanted were not seen.
  bool Run(const Session& session, const std::vector<size_t>& chosen, const std::vector<std::string>& asked) {
    RunOptions options;
    options.watch = [this](const std::string& name, const Value& value) { Look(name, value); };
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (request_.progress)
        request_.progress("calibrating", static_cast<int64_t>(i), static_cast<int64_t>(chosen.size()));
      done_.clear();
      const std::vector<NamedValue> inputs = samples_.Inputs(chosen[i]);
      for (const auto& [name, value] : inputs) Look(name, value);
      const std::vector<Value> results = session.Run(inputs, asked, options);
      for (size_t k = 0; k < asked.size(); ++k) Look(asked[k], results[k]);
      if (i == 0 && asked.empty() && !Unseen().empty()) return false;
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
    if (request_.products.count(wanted->first) && rank > 0) AddProducts(wanted->first, value.tensor());
  }

  void AddProducts(const std::string& name, const Tensor& tensor) {
    const int64_t depth = tensor.shape().back(), rows = tensor.size() / std::max<int64_t>(1, depth);
    std::vector<double>& sums = made_.products[name];
    sums.resize(static_cast<size_t>(depth * depth), 0.0);
    std::vector<float> part(sums.size());
    GemmArgs<float> args;
    args.m = args.n = depth, args.k = rows;
    args.a = args.b = tensor.Data<float>();
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
};

}  // namespace

Calibration Calibrate(const CalibrationRequest& request, const Samples& samples, const std::vector<size_t>& chosen) {
  SessionOptions options;
  options.threads = request.threads;
  if (request.as_optimized) {
    Pass pass(request, samples);
    if (pass.Run(*Session::FromModel(*request.model, options), chosen, {})) return pass.Take();
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
  second.Run(*session, chosen, asked);
  return second.Take();
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
