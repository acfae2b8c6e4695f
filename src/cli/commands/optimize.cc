#include "convert/optimize.h"

#include "base/text.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "doctor/proof.h"
#include "engine/plan_file.h"
#include "measure/random_input.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {kModelPosition};

constexpr Option kOptions[] = {
    {.name = "output",
     .letter = 'o',
     .value = "OUT",
     .help = "where to write the model; a name that ends in .plan: a plan for this machine",
     .completes = Completes::kModel,
     .required = true},
    {.name = "dim", .value = "NAME=VALUE", .help = "fix a named dimension to this size", .repeated = true},
    {.name = "data",
     .value = "FILE.npz",
     .help = "recorded inputs to prove it with, or a folder of them (else made-up ones)",
     .completes = Completes::kFile,
     .repeated = true},
    {.name = "unproved", .help = "write the model also where it can't be run here, so that nothing proves it"},
    kProviderOption,
    kPrecisionOption,
    kTimeLimitOption,
    kMemoryLimitOption,
    kMaxIterationsOption,
};

constexpr Example kExamples[] = {
    {"ferry optimize model.onnx -o smaller.onnx", "the same answers from fewer nodes"},
    {"ferry optimize model.onnx -o one.onnx --dim batch=1 --dim seq=128", "for a runtime that wants fixed sizes"},
    {"ferry optimize model.onnx -o smaller.onnx --data recorded.npz", "proved on data of your own"},
    {"ferry optimize model.onnx -o model.plan --provider cuda --precision fp16 --dim batch=8",
     "kernels and measured choices in a file, for a server that starts at once"},
};

Json ToJson(const OptimizedModel& made, const Proof& proof, const std::string& out) {
  Json steps = Json::Array{};
  for (const ProofStep& step : proof)
    steps.Add(
        Json().Set("what", step.what).Set("holds", step.holds).Set("max_abs", step.max_abs).Set("detail", step.detail));
  return Json()
      .Set("output", out)
      .Set("nodes_before", made.nodes_before)
      .Set("nodes_after", made.nodes_after)
      .Set("weight_bytes_before", made.weight_bytes_before)
      .Set("weight_bytes_after", made.weight_bytes_after)
      .Set("done", Json::List(made.done))
      .Set("proof", std::move(steps));
}

std::string ToLines(const OptimizedModel& made, const Proof& proof) {
  std::string text;
  for (const std::string& line : made.done) text += Cat("  ", line, "\n");
  Columns columns({}, "");
  columns.Add({"nodes", Cat(made.nodes_before, " → ", made.nodes_after)});
  columns.Add({"weights", Cat(HumanBytes(static_cast<double>(made.weight_bytes_before)), " → ",
                              HumanBytes(static_cast<double>(made.weight_bytes_after)))});
  text += columns.Text();
  for (const ProofStep& step : proof)
    text += Cat("proof: ", step.what, ": ", step.holds ? "yes" : "no",
                step.holds ? Cat(", largest difference ", HumanNumber(step.max_abs)) : "",
                step.detail.empty() ? "" : Cat(" (", Printable(step.detail, 300), ")"), "\n");
  return text;
}

bool EndsInPlan(const std::string& path) { return path.size() > 5 && path.compare(path.size() - 5, 5, ".plan") == 0; }

// Runs on inputs of the asked sizes until everything is compiled, timed and recorded, and keeps that.
int MakePlan(const Arguments& arguments, const std::string& path, const std::string& out) {
  constexpr int kRuns = 3;
  const auto session = Session::Open(path, SessionOptionsFrom(arguments));
  const std::vector<NamedValue> inputs = MakeRandomInputs(*session, {1, DimensionsFrom(arguments)});
  for (int i = 0; i < kRuns; ++i) session->Run(inputs);
  const PlanFile plan = MakePlanFile(*session);
  WritePlan(plan, out);
  size_t state_bytes = 0;
  for (const std::string& state : plan.states) state_bytes += state.size();
  if (arguments.json()) {
    PrintJson(Json()
                  .Set("output", out)
                  .Set("provider", plan.provider)
                  .Set("precision", plan.precision)
                  .Set("machine", plan.machine)
                  .Set("model_bytes", plan.model.size())
                  .Set("kernel_bytes", state_bytes));
    return kGood;
  }
  Columns columns({}, "");
  columns.Add({"provider", Cat(Printable(plan.provider), ", ", plan.precision)});
  columns.Add({"machine", Printable(plan.machine, 400)});
  columns.Add({"model", HumanBytes(static_cast<double>(plan.model.size()))});
  columns.Add({"kernels and choices", HumanBytes(static_cast<double>(state_bytes))});
  Print(Cat(columns.Text(), Printable(out), " is written\n"));
  return kGood;
}

int Run(const Arguments& arguments) {
  const RunScope scope("the optimisation", LimitsFrom(arguments), nullptr, RunScope::Memory::kNotCounted);
  const std::string& path = arguments.positions()[0];
  const std::string out = arguments.Get("output");
  if (EndsInPlan(out)) return MakePlan(arguments, path, out);
  if (arguments.Has("provider") || arguments.Has("precision"))
    throw UsageError{"--provider and --precision are for plans: give -o a name that ends in .plan"};
  const std::map<std::string, int64_t> dimensions = DimensionsFrom(arguments);
  const Model model = ReadModel(path);
  OptimizedModel made = OptimizeModel(model, {dimensions});

  const Model before = WithDimensions(model, dimensions);
  const DoctorOptions options{.path = path, .data = arguments.All("data"), .targets = {}, .only = {}};
  const Patient patient(before, options);
  Proof proof;
  if (arguments.Has("unproved"))
    ProveSameWhereItRuns(patient, made.model, proof);
  else
    ProveSameOutputs(patient, made.model, proof);
  const bool holds = Holds(proof);
  if (holds) WriteModel(made.model, out);
  if (arguments.json())
    PrintJson(ToJson(made, proof, holds ? out : ""));
  else
    Print(Cat(ToLines(made, proof), holds ? Cat(Printable(out), " is written\n")
                                          : "nothing is written: it is not proved that the answers stay the same "
                                            "(--data gives inputs that fit, --unproved writes it all the same)\n"));
  return holds ? kGood : kAnswerIsNo;
}

}  // namespace

extern const Command command_optimize;
constinit const Command command_optimize = {
    .name = "optimize",
    .group = Group::kMake,
    .summary = "Write a model with fewer nodes and the same answers",
    .details =
        "Folds constants and what follows from known shapes, merges equal nodes, folds batch norms into weights, and "
        "removes what passes its input on or is never read. The result is standard ONNX of the same opset, for any "
        "runtime ('ferry run' does this and more by itself). Both models are run and held against each other before "
        "anything is written. Exit status 1: the proof failed, and nothing is written. An output called NAME.plan is "
        "the model with what a provider compiled and measured for it on this machine; 'ferry run', 'ferry bench' and "
        "servers open it as they open a model, and refuse it on another machine.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
