// Dropout and BatchNormalization as training wants them, in the form of every opset, and what training leaves behind.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "doctor/lint.h"
#include "doctor/proof.h"
#include "measure/difference.h"
#include "measure/elements.h"
#include "onnx/upgrade/upgrade.h"

namespace ferry {
namespace {

struct TrainingForm {
  std::string message;
  std::vector<std::pair<std::string, std::string>> evidence;
};

std::optional<double> ScalarOf(const Patient& patient, const std::vector<Node>& nodes, const std::string& name) {
  const Tensor* constant = patient.ConstantOf(name);
  for (const Node& node : nodes)
    if (!constant && IsStandard(node, "Constant") && node.HasOutput(0) && node.outputs[0] == name && node.Has("value"))
      constant = &node.TensorAttribute("value");
  if (!constant || constant->size() != 1 || constant->dtype() == DType::kString || IsComplex(constant->dtype()))
    return std::nullopt;
  return ToDoubles(*constant)[0];
}

size_t NamedOutputs(const Node& node) {
  return static_cast<size_t>(
      std::count_if(node.outputs.begin(), node.outputs.end(), [](const std::string& name) { return !name.empty(); }));
}

std::optional<TrainingForm> DropoutForm(const Patient& patient, const std::vector<Node>& nodes, const Node& node,
                                        int64_t opset) {
  if (opset < 7) {  // is_test came to an end with opset 7, which knows inference only, until opset 12
    if (node.Int("is_test", 0) != 0 || node.Float("ratio", 0.5f) == 0) return std::nullopt;
    return TrainingForm{"drops elements at random: is_test is not set",
                        {{"is_test", "0"}, {"ratio", Cat(node.Float("ratio", 0.5f))}}};
  }
  if (opset < 12 || !node.HasInput(2)) return std::nullopt;
  std::optional<double> training = ScalarOf(patient, nodes, node.inputs[2]);
  std::optional<double> ratio = node.HasInput(1) ? ScalarOf(patient, nodes, node.inputs[1]) : 0.5;
  if ((training && *training == 0) || (ratio && *ratio == 0)) return std::nullopt;
  std::string ratio_text = ratio ? Cat(*ratio) : Cat("from '", node.inputs[1], "'");
  if (!training)
    return TrainingForm{Cat("drops elements at random when '", Printable(node.inputs[2]), "' is true"),
                        {{"training_mode", Cat("from '", node.inputs[2], "'")}, {"ratio", ratio_text}}};
  return TrainingForm{"drops elements at random: it is in training mode",
                      {{"training_mode", "true"}, {"ratio", ratio_text}}};
}

std::optional<TrainingForm> BatchNormForm(const Node& node, int64_t opset) {
  std::string outputs = Cat(NamedOutputs(node));
  if (opset < 7) {
    if (node.Int("is_test", 0) != 0) return std::nullopt;
    return TrainingForm{"normalises by the statistics of the batch at hand: is_test is not set",
                        {{"is_test", "0"}, {"outputs", outputs}}};
  }
  if (opset < 14) {  // the number of outputs says which form it is
    if (NamedOutputs(node) < 2) return std::nullopt;
    return TrainingForm{"normalises by the statistics of the batch at hand: it has the outputs of training",
                        {{"outputs", outputs}}};
  }
  if (node.Int("training_mode", 0) == 0) return std::nullopt;
  return TrainingForm{"normalises by the statistics of the batch at hand: it is in training mode",
                      {{"training_mode", "1"}, {"outputs", outputs}}};
}

std::optional<TrainingForm> FormOf(const Patient& patient, const std::vector<Node>& nodes, const Node& node,
                                   int64_t opset) {
  if (IsStandard(node, "Dropout")) return DropoutForm(patient, nodes, node, opset);
  if (IsStandard(node, "BatchNormalization")) return BatchNormForm(node, opset);
  if (node.domain == "ai.onnx.preview.training")
    return TrainingForm{"belongs to training, not to inference", {{"domain", node.domain}}};
  return std::nullopt;
}

int64_t OpsetOf(const std::vector<OpsetImport>& opsets) {
  for (const OpsetImport& import : opsets)
    if (CanonicalDomain(import.domain).empty()) return import.version;
  return 1;
}

// Calls visit(nodes, where, opset) for every list of nodes: graphs, bodies, functions.
template <class AnyModel, class Visit>
void ForEachNodeList(AnyModel& model, const Visit& visit) {
  auto inside = [&](auto& self, auto& nodes, const std::string& where, int64_t opset) -> void {
    visit(nodes, where, opset);
    for (auto& node : nodes)
      ForEachSubgraph(node, [&](const Graph& body) {
        self(self, const_cast<Graph&>(body).nodes, Cat("body of ", Describe(node)), opset);
      });
  };
  inside(inside, model.graph.nodes, "", OpsetOf(model.opsets));
  for (auto& function : model.functions)
    inside(inside, function.nodes, Cat("function '", function.name, "'"), OpsetOf(function.opsets));
}

bool IsGraphOutput(const Graph& graph, const std::string& name) {
  return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const ValueInfo& output) { return output.name == name; });
}

void Look(const Patient& patient, FindingList& findings) {
  const Model& model = patient.model();
  ForEachNodeList(model, [&](const std::vector<Node>& nodes, const std::string& where, int64_t opset) {
    for (const Node& node : nodes) {
      std::optional<TrainingForm> form = FormOf(patient, nodes, node, opset);
      if (!form) continue;
      Finding& finding = findings.Add(PlaceOf(node, where), form->message);
      finding.evidence = std::move(form->evidence);
      finding.fixable = node.domain != "ai.onnx.preview.training";
      if (!IsStandard(node, "BatchNormalization")) continue;
      for (size_t i = 1; i < node.outputs.size(); ++i) {
        if (!where.empty() || !IsGraphOutput(model.graph, node.outputs[i])) continue;
        Place place = PlaceOf(node, where);
        place.value = node.outputs[i];
        findings.Add(place, "an output of the model holds running statistics, which only training wants");
      }
    }
  });
  if (!model.training.empty()) {
    Finding& finding = findings.Add({}, "the model carries information for training");
    finding.severity = Severity::kNote;
    finding.fixable = true;
  }
}

// Every name that something reads: nodes, and the outputs of bodies and functions.
std::unordered_set<std::string> ReadNames(const Model& model) {
  std::unordered_set<std::string> names;
  ForEachNode(model, [&](const Node& node, const std::string&) {
    names.insert(node.inputs.begin(), node.inputs.end());
    ForEachSubgraph(node, [&](const Graph& body) {
      for (const ValueInfo& output : body.outputs) names.insert(output.name);
    });
  });
  for (const Function& function : model.functions) names.insert(function.outputs.begin(), function.outputs.end());
  return names;
}

class TrainingFix {
 public:
  TrainingFix(const Patient& patient, Model& model, FixLog& log)
      : patient_(patient), model_(model), log_(log), read_(ReadNames(model)) {}

  void Run() {
    ForEachNodeList(model_, [&](std::vector<Node>& nodes, const std::string&, int64_t opset) { Fix(nodes, opset); });
    if (!model_.training.empty()) {
      model_.training.clear();
      log_.changes.push_back("training information is removed");
    }
    RemoveUnreadConstants();
  }

 private:
  void Fix(std::vector<Node>& nodes, int64_t opset) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!FormOf(patient_, nodes, nodes[i], opset)) continue;
      if (IsStandard(nodes[i], "Dropout")) FixDropout(nodes[i], opset);
      if (IsStandard(nodes[i], "BatchNormalization")) FixBatchNorm(nodes, i, opset);
    }
  }

  void FixDropout(Node& node, int64_t opset) {
    if (opset < 7) {
      node.Set("is_test", int64_t{1});
    } else {
      for (size_t i = 1; i < node.inputs.size(); ++i) dropped_.insert(node.inputs[i]);
      node.inputs.resize(1);
      node.Remove("seed");
    }
    log_.changes.push_back(Cat(Describe(node), " is in inference form: it passes its input on"));
  }

  // Statistics that something reads are those that inference uses; statistics that are outputs of the model go.
  void FixBatchNorm(std::vector<Node>& nodes, size_t at, int64_t opset) {
    if (opset < 7) nodes[at].Set("is_test", int64_t{1});
    nodes[at].Remove("training_mode");
    std::vector<std::string> extra(nodes[at].outputs.begin() + 1, nodes[at].outputs.end());
    nodes[at].outputs.resize(1);
    log_.changes.push_back(Cat(Describe(nodes[at]), " is in inference form: it uses the running statistics"));
    for (size_t k = 0; k < extra.size(); ++k) {
      const std::string& name = extra[k];
      if (name.empty()) continue;
      auto is_it = [&](const ValueInfo& info) { return info.name == name; };
      auto& outputs = model_.graph.outputs;
      if (outputs.size() > 1 && std::any_of(outputs.begin(), outputs.end(), is_it)) {
        outputs.erase(std::remove_if(outputs.begin(), outputs.end(), is_it), outputs.end());
        log_.changes.push_back(Cat("output '", Printable(name), "' (running statistics) is removed"));
      }
      auto& infos = model_.graph.value_infos;
      if (!read_.count(name)) infos.erase(std::remove_if(infos.begin(), infos.end(), is_it), infos.end());
      bool still_wanted = read_.count(name) || std::any_of(outputs.begin(), outputs.end(), is_it);
      if (!still_wanted || nodes[at].inputs.size() < 5) continue;
      Node copy;
      copy.op_type = "Identity";
      copy.name = Cat(nodes[at].name, "_statistics_", k);
      copy.inputs = {nodes[at].inputs[3 + k % 2]};
      copy.outputs = {name};
      nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
      ++at;
    }
  }

  void RemoveUnreadConstants() {
    std::unordered_set<std::string> read = ReadNames(model_);
    auto unread = [&](const std::string& name) {
      return dropped_.count(name) && !read.count(name) && !IsGraphOutput(model_.graph, name);
    };
    auto& nodes = model_.graph.nodes;
    nodes.erase(
        std::remove_if(nodes.begin(), nodes.end(),
                       [&](const Node& node) { return IsStandard(node, "Constant") && unread(node.outputs[0]); }),
        nodes.end());
    auto& stored = model_.graph.initializers;
    stored.erase(
        std::remove_if(stored.begin(), stored.end(), [&](const StoredTensor& tensor) { return unread(tensor.name); }),
        stored.end());
  }

  const Patient& patient_;
  Model& model_;
  FixLog& log_;
  std::unordered_set<std::string> read_;
  std::unordered_set<std::string> dropped_;
};

void Fix(const Patient& patient, Model& model, FixLog& log) { TrainingFix(patient, model, log).Run(); }

// Values in front of the nodes in training form: what the two models must agree on.
std::vector<std::string> ValuesBeforeTraining(const Patient& before) {
  const Model& model = before.model();
  std::unordered_set<std::string> behind;
  std::vector<std::string> names;
  for (const Node& node : model.graph.nodes) {
    bool is_training = FormOf(before, model.graph.nodes, node, OpsetOf(model.opsets)).has_value();
    bool is_behind = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](const std::string& input) { return behind.count(input) > 0; });
    for (const std::string& output : node.outputs) {
      if (is_training || is_behind) behind.insert(output);
      if (!is_training && !is_behind && !output.empty() && node.op_type != "Constant") names.push_back(output);
    }
  }
  return names;
}

ProofStep ProveRepeatable(const Session& mended, const Trial& trial) {
  ProofStep step{.what = Cat("two runs on inputs '", trial.name, "' give the same outputs"), .holds = true};
  std::vector<Value> first = mended.Run(trial.inputs), second = mended.Run(trial.inputs);
  for (size_t i = 0; i < first.size(); ++i)
    if (!Identical(first[i], second[i])) step.holds = false;
  if (!step.holds) step.detail = "something else in the model is random; see the lint 'random-operator'";
  return step;
}

// In training mode the original's answers are not the ones wanted, so they are no yardstick; recordings are.
void Prove(const Patient& before, const Model& mended, Proof& proof) {
  if (before.trials().empty()) return ProveSameOutputs(before, mended, proof);
  std::shared_ptr<Session> session = Session::FromModel(CopyDeep(mended), {.optimize = false});
  std::vector<std::string> names = ValuesBeforeTraining(before);
  const Trial* shown = nullptr;
  for (const Trial& trial : before.trials()) {
    if (!trial.fits) continue;
    shown = &trial;
    if (!names.empty()) {
      std::vector<Value> results = before.session()->Run(trial.inputs, names);
      std::vector<NamedValue> expected;
      for (size_t i = 0; i < names.size(); ++i) expected.emplace_back(names[i], std::move(results[i]));
      proof.push_back(CompareRun(Cat(names.size(), " values in front of the mended nodes on inputs '", trial.name, "'"),
                                 *session, trial.inputs, expected));
    }
    if (trial.outputs.empty()) continue;
    ProofStep step = CompareRun(Cat("recorded outputs of '", trial.name, "'"), *session, trial.inputs, trial.outputs);
    if (!step.holds) {
      step.what += " are others (were they recorded in training mode?)";
      step.holds = true;
    }
    proof.push_back(std::move(step));
  }
  if (!shown) return;
  ProofStep repeatable = ProveRepeatable(*session, *shown);
  if (!repeatable.holds) repeatable.what = Cat("not shown: ", repeatable.what);
  repeatable.holds = true;  // another random operator is another fault
  proof.push_back(std::move(repeatable));
}

}  // namespace

extern const Lint lint_training_mode;
constinit const Lint lint_training_mode = {
    .name = "training-mode",
    .meaning = "Dropout and BatchNormalization are in inference form, and nothing else is left of training.",
    .remedy = "Export after model.eval(), or let 'ferry doctor --fix' bring the nodes into inference form.",
    .look = Look,
    .stage = 20,
    .fix = Fix,
    .prove = Prove,
};

}  // namespace ferry
