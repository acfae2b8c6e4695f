#include "convert/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/error.h"
#include "convert/quantize/equalize.h"
#include "convert/quantize/half.h"
#include "convert/quantize/qoperator.h"
#include "convert/quantize/search.h"
#include "graph/standard.h"
#include "onnx/writer.h"

namespace ferry::quantize {
namespace {

constexpr double kManyProducts = 2.5e9;  // of one run: beyond it there is one trial, and no second session in memory
constexpr int64_t kWideBlock = 128;      // of 4 bits where size is what counts
constexpr double kWorthwhile = 0.9;      // of the size, for which a slower form may be taken
constexpr size_t kTimedBytes = size_t{256} << 20;  // of models that are opened only to be timed
constexpr double kSameAnswers = 100;               // dB: but for the order of sums
constexpr size_t kFewestForTail = 32;              // of a proof, so that an eighth or a quarter of it is a tail
constexpr size_t kFewestRows = 8;  // of data, some of which are kept; and of a proof that says what others lose

size_t FileBytes(const Model& model) {
  Model shell = CopyDeep(model);
  size_t bytes = 0;
  for (StoredTensor& tensor : shell.graph.initializers) bytes += tensor.tensor.bytes() + 16;
  shell.graph.initializers.clear();
  return bytes + SerializeModel(shell).size();
}

void RequireFloat(const Graph& graph, const std::vector<Layer>& layers) {
  for (const Node& node : graph.nodes)
    if (IsStandard(node, {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger",
                          "ConvInteger", "DynamicQuantizeLinear"}) ||
        node.op_type == "MatMulNBits")
      Fail(ErrorCode::kInvalidArgument, "the model is quantised already (", Describe(node),
           "); give the float model that it was made of");
  if (!layers.empty()) return;
  Fail(ErrorCode::kInvalidArgument,
       "there is nothing to quantise: no Conv, MatMul, Gemm, LSTM, GRU, RNN or Gather has a constant float32 weight");
}

// Standard errors to spare. What is proved again after a failure has had more chances to pass: more are asked for, so
// that all turns together are wrong no more often than `share` of one in twenty (2 % + 1.5 % + 0.75 % + …).
double ConfidenceAt(int turn, double share) {
  const double error = share * (turn == 0 ? 0.02 : 0.03 * std::pow(0.5, turn));
  double low = 0, high = 5;
  while (high - low > 1e-6) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::numbers::sqrt2) > error ? low : high) = middle;
  }
  return high;
}

Faithfulness Worse(const Faithfulness& a, const Faithfulness& b) {
  Faithfulness worse = a;
  worse.snr = std::min(a.snr, b.snr), worse.cosine = std::min(a.cosine, b.cosine);
  worse.max_rel = std::max(a.max_rel, b.max_rel), worse.agree = std::min(a.agree, b.agree);
  if (a.top1 && b.top1) worse.top1 = *a.float_top1 - std::max(*a.float_top1 - *a.top1, *b.float_top1 - *b.top1);
  return worse;
}

class Job {
 public:
  // `share` of the errors that are allowed, where other jobs try the same.
  Job(const Model& model, const QuantizeOptions& options, double share)
      : original_(model), options_(options), opset_(model.OpsetOf("")), share_(share) {}

  QuantizedModel Run() {
    Say("preparing", 0, 0);
    auto base = std::make_shared<Model>(MakeBase(original_));
    workshop_ = std::make_unique<Workshop>(*base, opset_, options_);
    if (!IsHalf()) RequireFloat(original_.graph, workshop_->layers());
    Describe();
    OpenData();
    if (IsHalf())
      MakeHalf();
    else
      MakeCodes();
    Prove();
    return std::move(made_);
  }

 private:
  QuantizeReport& report() { return made_.report; }
  void Say(const char* what, int64_t done, int64_t total) {
    if (options_.progress) options_.progress(what, done, total);
  }
  std::shared_ptr<Session> Open(const Model& model) const {
    SessionOptions options;
    options.threads = options_.threads;
    return Session::FromModel(model, options);
  }
  // As a device computes halves: here they are computed as float32.
  std::shared_ptr<Session> OpenAsWritten(const Model& model) const {
    SessionOptions options;
    options.threads = options_.threads;
    options.optimize = false;
    return Session::FromModel(model, options);
  }
  bool IsHalf() const { return options_.form == QuantizeForm::kFloat16 || options_.form == QuantizeForm::kBFloat16; }

  void Describe() {
    report().form = FormName(options_.form);
    if (options_.form == QuantizeForm::kWeights) report().form += Cat(", ", options_.bits, " bits");
    report().target = Name(options_.conventions.reader);
    report().bytes_before = FileBytes(original_);
    report().budget = options_.budget;
    if (options_.budget) proof_goal_ = {*options_.budget, MostLoss(*options_.budget), ConfidenceAt(0, share_)};
    if (std::string said = LayersInBodies(workshop_->base().graph); !said.empty()) report().notes.push_back(said);
  }

  void OpenData() {
    if (options_.data.empty()) {
      Require(!options_.budget, "a budget can only be held on data: give --data");
      if (options_.form == QuantizeForm::kStatic)
        Fail(ErrorCode::kInvalidArgument, "static quantisation needs samples to find ranges with: give --data");
      report().warnings.push_back("no data was given: nothing is measured or proved, and ranges come with each run");
      return;
    }
    float_session_ = Open(workshop_->base());
    samples_ = std::make_unique<Samples>(options_.data, *float_session_, 1);
    const double work = WorkOf(workshop_->base().graph, workshop_->layers(), samples_->Inputs(0));
    const double rows = std::max<double>(1, static_cast<double>(samples_->rows(0)));
    if (work / rows < 3e8 && samples_->rows(0) == 1) {
      samples_ = std::make_unique<Samples>(options_.data, *float_session_, 16);
      workshop_->set_work(work * static_cast<double>(samples_->rows(0)));
    } else {
      workshop_->set_work(work);
    }
    if (!options_.test.empty())
      test_ = std::make_unique<Samples>(options_.test, *float_session_, samples_->rows(0) > 0 ? samples_->rows(0) : 1);
    Split();
  }

  // Every fourth row is for the proof; trials take a few of the others.
  void Split() {
    std::vector<size_t> proof;
    const size_t count = samples_->size();
    const bool keeps =
        options_.keep_rows && !test_ && count > 1 && samples_->all_rows() >= static_cast<int64_t>(kFewestRows);
    for (size_t i = 0; i < count; ++i) {
      const bool is_kept = keeps && (samples_->is_proof(i) || (count < 4 && i == count - 1));
      (is_kept ? proof : calibration_).push_back(i);
    }
    report().proof_is_apart = keeps || test_;
    if (!report().proof_is_apart) proof = calibration_;
    for (size_t i = 0; test_ && i < test_->size(); ++i) proof.push_back(i);
    // A proof of large networks need not take longer than finding the ranges.
    const double affordable = std::max(2.0, 2e10 / std::max(1.0, workshop_->work()));
    if (!test_ && !options_.budget && static_cast<double>(proof.size()) > affordable)
      proof.resize(static_cast<size_t>(affordable));
    int64_t rows = 0;
    for (size_t i : calibration_) rows += std::max<int64_t>(1, samples_->rows(i));
    report().samples = rows;
    for (size_t i : proof) report().proof_samples += std::max<int64_t>(1, (test_ ? *test_ : *samples_).rows(i));
    proof_ = std::move(proof);
    const double most = std::clamp(4e9 / std::max(1.0, workshop_->work()), 2.0, 8.0);
    std::vector<size_t> trial;
    const size_t stride = std::max<size_t>(1, calibration_.size() / static_cast<size_t>(most));
    for (size_t i = 0; i < calibration_.size() && trial.size() < static_cast<size_t>(most); i += stride)
      trial.push_back(calibration_[i]);
    // Methods are chosen by a few samples, layers to be lifted by all.
    const bool blends = options_.budget.has_value();
    quick_judge_ = judge_ = std::make_shared<Judge>(float_session_, *samples_, trial);
    if (options_.budget) judge_ = std::make_shared<Judge>(float_session_, *samples_, calibration_, true);
    proof_judge_ = std::make_unique<Judge>(float_session_, test_ ? *test_ : *samples_, proof_, blends && !test_);
    if (options_.budget) RequireMeasurable(proof_judge_->Compare(*float_session_));
    if (!IsLarge()) return;
    report().ms_before = TimeOf(*float_session_, samples_->Inputs(0));
    float_session_.reset();
  }

  // `itself`: the float model held against itself.
  void RequireMeasurable(const Faithfulness& itself) {
    if (const std::string why = WhyNotMeasured(*options_.budget, itself, (test_ ? *test_ : *samples_).labels_said());
        !why.empty())
      Fail(ErrorCode::kInvalidArgument, why);
    // Rows whose answers cannot be told apart are one.
    size_t answers = static_cast<size_t>(report().proof_samples);
    for (const OutputEvidence& output : itself.outputs) answers = std::min(answers, output.units());
    const bool is_tail = options_.budget->measure == QuantizeBudget::Measure::kMaxRel;
    if (report().proof_is_apart && answers >= (is_tail ? kFewestForTail : kFewestRows) && proof_goal_.Met(itself))
      return;
    proof_goal_.confidence = 0;
    report().warnings.push_back(Cat("the proof has ", answers, answers == 1 ? " answer" : " answers",
                                    report().proof_is_apart ? "" : ", of rows that are used to choose, too",
                                    ": too few to say that ", ToText(*options_.budget),
                                    " holds on others, which is looked at as measured; give more samples"));
  }

  bool IsLarge() const { return workshop_->work() > kManyProducts; }
  bool few_trials() const { return IsLarge() || !judge_; }

  void MakeHalf() {
    HalfOptions half;
    half.type = options_.form == QuantizeForm::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
    half.inputs = options_.half_inputs;
    half.keep.insert(options_.keep.begin(), options_.keep.end());
    if (samples_ && half.type == DType::kFloat16) {
      CalibrationRequest request;
      request.model = &workshop_->base();
      request.threads = options_.threads;
      request.progress = options_.progress;
      for (const Node& node : workshop_->base().graph.nodes)
        for (const std::string& output : node.outputs)
          if (!output.empty() && IsFloatValue(output)) request.channels[output] = -2;
      for (const auto& [name, seen] : quantize::Calibrate(request, *samples_, calibration_).seen)
        if (std::max(-seen.low(), seen.high()) > 0.5f * 65504 || seen.not_finite() > 0) half.too_large.insert(name);
    }
    HalfModel written = WriteHalf(workshop_->base(), half, opset_);
    made_.model = std::move(written.model);
    for (const auto& [name, why] : written.kept)
      report().notes.push_back(Cat("'", Printable(name), "' stays float32: ", why));
  }

  bool IsFloatValue(const std::string& name) const {
    for (const ValueInfo& info : workshop_->base().graph.value_infos)
      if (info.name == name) return info.type.dtype == DType::kFloat;
    return false;
  }

  void MakeCodes() {
    const double most = options_.form == QuantizeForm::kWeights ? 6 * kManyProducts : kManyProducts;
    wants_products_ = options_.weights == WeightMethod::kGptq ||
                      (options_.weights == WeightMethod::kBest && workshop_->work() < most &&
                       options_.form != QuantizeForm::kDynamic && options_.methods);
    if (samples_) workshop_->Calibrate(*samples_, calibration_, wants_products_);
    whys_.assign(workshop_->layers().size(), "");
    std::vector<Rung> rungs = FirstRungs(*workshop_);
    ranges_ = options_.ranges == RangeMethod::kBest ? RangeMethod::kMse : options_.ranges;
    if (!judge_) {
      scheme_ = workshop_->MakeScheme(rungs, ranges_);
      made_.model = workshop_->Write(scheme_);
      return Finish(rungs, {});
    }
    Trial best = workshop_->Try(rungs, ranges_, *quick_judge_);
    Improve(rungs, best);
    if (judge_ != quick_judge_) best.found = judge_->Compare(*best.session);
    Goal goal{options_.budget ? ChoosingBudget() : QuantizeBudget{QuantizeBudget::Measure::kSnr, options_.least_snr}};
    goal.most = MostLoss(goal.budget);
    if (options_.budget) goal.confidence = ConfidenceAt(0, share_);
    const Goal chosen = goal;
    const double first_snr = best.found.snr;
    if (!goal.Met(best.found)) best = Lift(goal, rungs, std::move(best));
    if (options_.budget) {
      Tighten(goal, rungs, best);
      report().is_float =
          std::all_of(rungs.begin(), rungs.end(), [](const Rung& rung) { return rung.way == Way::kFloat; });
      chosen_holds_ =
          Goal{chosen.budget, chosen.most, proof_goal_.confidence > 0 ? chosen.confidence : 0}.Met(best.found);
      chosen_found_ = std::move(best.found);
    } else if (options_.form == QuantizeForm::kWeights && search_) {
      report().warnings.push_back(Cat(options_.bits, " bits alone keep ", std::lround(first_snr),
                                      " dB: layers were lifted to reach ", options_.least_snr, " dB"));
    }
    scheme_ = std::move(best.scheme);
    made_.model = std::move(best.model);
    quantized_ = std::move(best.session);
    Finish(rungs, search_ ? search_->alone() : std::vector<double>());
  }

  Trial Lift(const Goal& goal, std::vector<Rung>& rungs, Trial start, size_t least = 0) {
    if (!search_) {
      const double taken = static_cast<double>(FileBytes(start.model));
      double most = INFINITY;
      if (options_.most_bytes > 0) most = 8 * (static_cast<double>(options_.most_bytes) - taken);
      search_ = std::make_unique<RungSearch>(*workshop_, *judge_, ranges_, rungs, most);
    }
    const std::vector<Rung> before = rungs;
    Trial found = search_->Run(goal, std::move(start), least);
    rungs = search_->rungs();
    for (size_t i = 0; i < rungs.size(); ++i)
      if (!(rungs[i] == before[i])) whys_[i] = Cat("lifted to hold ", ToText(goal.budget));
    return found;
  }

  // Where only the samples of the proof have labels, answers that change stand for those that become wrong: no fewer.
  QuantizeBudget ChoosingBudget() const {
    QuantizeBudget budget = *options_.budget;
    if (budget.measure == QuantizeBudget::Measure::kTop1 && !samples_->has_labels() && test_ && test_->has_labels())
      budget.measure = QuantizeBudget::Measure::kAgree;
    return budget;
  }

  std::vector<Rung> FirstRungs(const Workshop& workshop) {
    std::vector<Rung> rungs;
    for (size_t i = 0; i < workshop.layers().size(); ++i) {
      whys_[i].clear();
      rungs.push_back(workshop.FirstRung(workshop.layers()[i], whys_[i]));
    }
    return rungs;
  }

  // What helps on these data is kept.
  void Improve(std::vector<Rung>& rungs, Trial& best) {
    if (few_trials()) return;
    const bool has_static =
        std::any_of(rungs.begin(), rungs.end(), [](const Rung& r) { return r.way == Way::kStatic; });
    if (has_static && options_.ranges == RangeMethod::kBest)
      for (RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kEntropy}) {
        Trial trial = workshop_->Try(rungs, method, *quick_judge_);
        if (!(trial.found.snr > best.found.snr + 0.1)) continue;
        best = std::move(trial);
        ranges_ = method;
      }
    if (!options_.methods || options_.form == QuantizeForm::kWeights) return;
    TryTransformed("SmoothQuant", SmoothActivations, rungs, best);
    TryTransformed("cross-layer equalisation", EqualizeLayers, rungs, best);
    TryRounding(rungs, best);
  }

  // Weights rounded one after the other, each making up for those before.
  void TryRounding(const std::vector<Rung>& rungs, Trial& best) {
    if (!workshop_->can_spread() || options_.weights != WeightMethod::kBest) return;
    workshop_->SetSpreading(true);
    Trial trial = workshop_->Try(rungs, ranges_, *quick_judge_);
    const double gain = trial.found.snr - best.found.snr;
    const bool helps = gain > 0.2;
    report().notes.push_back(
        helps ? Cat("rounding by second order is on: ", Decibels(gain), " gained")
              : Cat("rounding by second order was tried and gives nothing here (", Decibels(gain), ")"));
    if (helps)
      best = std::move(trial);
    else
      workshop_->SetSpreading(false);
  }

  using Transform = bool (*)(Model& base, const std::vector<Layer>& layers, const Observations& seen);

  void TryTransformed(const char* what, Transform transform, std::vector<Rung>& rungs, Trial& best) {
    Model base = CopyDeep(workshop_->base());
    if (!transform(base, workshop_->layers(), workshop_->seen())) return;
    auto other = std::make_unique<Workshop>(std::move(base), opset_, options_);
    other->set_work(workshop_->work());
    for (size_t i = 0; i < other->layers().size(); ++i) other->layers()[i].work = workshop_->layers()[i].work;
    other->Calibrate(*samples_, calibration_, wants_products_);
    const std::vector<std::string> whys = whys_;
    std::vector<Rung> other_rungs = FirstRungs(*other);
    Trial trial = other->Try(other_rungs, ranges_, *quick_judge_);
    const double gain = trial.found.snr - best.found.snr;
    if (!(gain > 0.2)) {
      whys_ = whys;
      report().notes.push_back(Cat(what, " was tried and gives nothing here (", Decibels(gain), ")"));
      return;
    }
    report().notes.push_back(Cat(what, " is on: ", Decibels(gain), " gained"));
    workshop_ = std::move(other);
    rungs = std::move(other_rungs);
    best = std::move(trial);
  }

  static std::string Decibels(double value) {
    const double tenths = std::nearbyint(value * 10) / 10;
    return Cat(tenths < 0 ? "−" : "+", std::abs(tenths), " dB");
  }

  // What holds on the samples that were used to choose must hold on others too; where it does not, less is asked of it,
  // and each time more is lifted: samples that lose nothing cannot say how much.
  void Tighten(Goal goal, std::vector<Rung>& rungs, Trial& best) {
    for (int turn = 0;; ++turn) {
      if (proof_goal_.confidence > 0) proof_goal_.confidence = ConfidenceAt(turn, share_);
      Faithfulness proof = proof_judge_->Compare(*best.session);
      if (!test_) proof.TakeLeads(best.found);
      if (proof_goal_.Met(proof) || (search_ && search_->at_end())) return;
      Goal next = proof_goal_;
      if (next.confidence > 0) next.confidence = ConfidenceAt(turn + 1, share_);
      const double found = next.Loss(proof);
      const double part = std::isfinite(found) ? goal.Loss(best.found) * next.most / found : 0;
      goal.most = part > 0 ? std::clamp(0.9 * part, 0.3 * goal.most, 0.6 * goal.most) : 0;
      best = Lift(goal, rungs, std::move(best), size_t{1} << std::clamp(turn - 2, 0, 20));
    }
  }

  void Finish(const std::vector<Rung>& rungs, const std::vector<double>& alone) {
    static constexpr const char* kRanges[] = {"best", "min/max", "percentile", "entropy", "least square error"};
    report().ranges = kRanges[static_cast<size_t>(ranges_)];
    for (size_t i = 0; i < rungs.size(); ++i) report().layers.push_back(LayerOf(i, rungs[i], alone));
    for (const auto& [name, seen] : workshop_->seen())
      if (seen.not_finite() > 0)
        report().warnings.push_back(Cat("'", Printable(name), "' has ", seen.not_finite(),
                                        " numbers that are not finite on the calibration data"));
    if (options_.qoperator) made_.model = ToQOperators(made_.model);
  }

  LayerReport LayerOf(size_t i, const Rung& rung, const std::vector<double>& alone) {
    const Layer& layer = workshop_->layers()[i];
    LayerReport said;
    said.name = layer.name, said.op = layer.op, said.way = rung.way, said.why = whys_[i];
    const LayerScheme& how = scheme_.how[i];
    if (!how.matrices.empty()) {
      const Tensor& weight = workshop_->base().graph.FindInitializer(layer.weights[0])->Get();
      if (weight.IsAligned(4) && weight.size() < (1 << 22))
        said.weight_snr = SnrOf(ToMatrix(layer, weight), *how.matrices[0]);
    }
    if (i < alone.size()) said.alone = alone[i];
    const Observation* seen = workshop_->Seen(layer);
    if (!seen || layer.kind == LayerKind::kLookup) return said;
    said.low = seen->low(), said.high = seen->high();
    said.histogram = seen->Histogram(32);
    auto coding = scheme_.values.find(layer.input);
    if (rung.way != Way::kStatic || coding == scheme_.values.end()) return said;
    said.coded_low = coding->second.low(), said.coded_high = coding->second.high();
    said.saturated = seen->CutOff(coding->second);
    const double noise = seen->Noise(coding->second);
    said.input_snr = noise > 0 && seen->variance() > 0 ? 10 * std::log10(seen->variance() / noise) : 0;
    return said;
  }

  void Prove() {
    report().bytes_after = FileBytes(made_.model);
    if (!samples_) return TimeOnMadeUpInputs();
    Say("proving", 0, 0);
    if (!quantized_ || options_.qoperator) quantized_ = Open(made_.model);
    report().proof = proof_judge_->Compare(IsHalf() ? *OpenAsWritten(made_.model) : *quantized_);
    report().worst = report().proof.samples;
    std::sort(report().worst.begin(), report().worst.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    if (report().worst.size() > 3) report().worst.resize(3);
    if (options_.budget) {
      if (chosen_found_ && !test_) report().proof.TakeLeads(*chosen_found_);
      report().is_float &= report().proof.snr > kSameAnswers;
      report().holds = report().is_float || (chosen_holds_ && proof_goal_.Met(report().proof));
      if (proof_goal_.confidence > 0 && !report().is_float)
        report().assured = report().proof.Assured(proof_goal_.confidence);
      if (report().assured && chosen_found_)
        report().assured = Worse(*report().assured, chosen_found_->Assured(ConfidenceAt(0, share_)));
    }
    const std::vector<NamedValue> one = samples_->OneRow();
    if (float_session_)
      std::tie(report().ms_before, report().ms_after) = TimeInTurns(*float_session_, *quantized_, one);
    else
      report().ms_after = TimeOf(*quantized_, one);
    WarnIfSlow();
    if (!report().proof.finite) report().warnings.push_back("answers are no longer finite");
  }

  void WarnIfSlow() {
    if (report().ms_after > report().ms_before * 1.1)
      report().warnings.push_back(Cat("this form runs slower here than float32: ", report().ms_after, " ms against ",
                                      report().ms_before, " ms for one sample"));
  }

  // Time depends on sizes more than on numbers. Where sizes are open, or the model is large, data has to tell.
  void TimeOnMadeUpInputs() {
    if (report().bytes_before > kTimedBytes) return;
    try {
      const std::shared_ptr<Session> before = Open(workshop_->base()), after = Open(made_.model);
      const std::vector<NamedValue> inputs = MakeUpInputs(before->inputs());
      std::tie(report().ms_before, report().ms_after) = TimeInTurns(*before, *after, inputs);
    } catch (const Error&) {
      report().notes.push_back("its time was not measured: give --data");
      return;
    }
    WarnIfSlow();
  }

  const Model& original_;
  const QuantizeOptions& options_;
  const int64_t opset_;
  const double share_;
  std::unique_ptr<Workshop> workshop_;
  std::shared_ptr<Session> float_session_, quantized_;
  std::unique_ptr<Samples> samples_, test_;
  std::shared_ptr<Judge> judge_, quick_judge_;
  std::unique_ptr<Judge> proof_judge_;
  std::unique_ptr<RungSearch> search_;
  std::vector<size_t> calibration_, proof_;
  std::vector<std::string> whys_;
  RangeMethod ranges_ = RangeMethod::kMse;
  bool wants_products_ = false, chosen_holds_ = true;
  Goal proof_goal_;
  std::optional<Faithfulness> chosen_found_;
  Scheme scheme_;
  QuantizedModel made_;
};

double PartOfProducts(const Graph& graph) {
  double products = 0, all = 1;
  for (const Layer& layer : FindLayers(graph)) {
    const double weights = static_cast<double>(layer.channels) * static_cast<double>(layer.depth);
    all += weights, products += layer.kind == LayerKind::kProduct ? weights : 0;
  }
  return products / all;
}

}  // namespace

QuantizedModel QuantizeModel(const Model& model, const QuantizeOptions& options) {
  Require(options.bits == 4 || options.bits == 8, "weights can have 4 or 8 bits, not ", options.bits);
  Require(options.block == 0 ||
              (options.block >= 16 && options.block <= 4096 && (options.block & (options.block - 1)) == 0),
          "blocks must be a power of two from 16 to 4096, or 0 for whole channels; not ", options.block);
  Require(options.percentile > 50 && options.percentile <= 100, "the percentile must be above 50 and at most 100, not ",
          options.percentile);
  // Nothing but products becomes narrower.
  const bool tries_both =
      options.smallest && options.budget && options.form == QuantizeForm::kInt8 && PartOfProducts(model.graph) >= 0.5;
  // The smaller form has less to spare; bounds through a tail grow faster with what is asked of them.
  const bool is_tail = options.budget && options.budget->measure == QuantizeBudget::Measure::kMaxRel;
  const double of_first = is_tail ? 0.5 : 0.4;
  QuantizedModel made = Job(model, options, tries_both ? of_first : 1).Run();
  if (!tries_both || !made.report.holds) return made;
  QuantizeOptions fewer = options;
  fewer.form = QuantizeForm::kWeights, fewer.bits = 4, fewer.block = kWideBlock;
  fewer.most_bytes = static_cast<size_t>(kWorthwhile * static_cast<double>(made.report.bytes_after));
  QuantizedModel other = Job(model, fewer, 1 - of_first).Run();
  const QuantizeReport &wide = made.report, &narrow = other.report;
  const bool is_smaller = static_cast<double>(narrow.bytes_after) < kWorthwhile * static_cast<double>(wide.bytes_after);
  if (!narrow.holds || !is_smaller || narrow.ms_after > narrow.ms_before) return made;
  other.report.notes.push_back(Cat("weights alone hold the budget, too, in ", narrow.bytes_after, " bytes against ",
                                   wide.bytes_after, " for int8, which takes ", wide.ms_after,
                                   " ms a sample: ask for --form int8 to have that"));
  return other;
}

}  // namespace ferry::quantize
