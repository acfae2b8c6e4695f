// A fault in one random layer of each network: the comparison must name that layer.
//
// FERRY_FAULT_TRIALS=300 runs more of them; FERRY_FAULT_VERBOSE=1 prints each one that is missed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "base/directory.h"
#include "convert/convert.h"
#include "convert/export_model.h"
#include "measure/compare/comparison.h"
#include "onnx/reader.h"
#include "tests/measure/fault_injection.h"

namespace ferry {
namespace {

using testing::Fault;
using testing::FaultKind;
using testing::InjectFault;
using testing::Random;

std::string Networks() { return std::string(FERRY_TEST_DATA) + "/torch-models"; }

// Sanitizers look at the code, not at the share of faults that are found: one for each network is enough for them.
#ifdef FERRY_SANITIZE_ADDRESS
constexpr int kTrials = 30;
#else
constexpr int kTrials = 60;
#endif

int TrialsWanted() {
  const char* asked = std::getenv("FERRY_FAULT_TRIALS");
  return asked ? std::atoi(asked) : kTrials;
}

Side::How OneThread(const char* label) { return {label, false, SessionOptions{.threads = 1}}; }

// A head that multiplies by 0, as torchvision initialises it, hides everything before it.
void FillZeroWeights(Model& model, Random& random) {
  for (StoredTensor& initializer : model.graph.initializers) {
    if (initializer.dtype != DType::kFloat || initializer.dims.size() != 2) continue;
    Tensor tensor = initializer.Get().Clone();  // in a file it may lie at any address
    auto elements = tensor.Span<float>();
    bool all_zero = std::all_of(elements.begin(), elements.end(), [](float x) { return x == 0; });
    if (all_zero) initializer = MakeStored(initializer.name, random.Floats(tensor.shape()));
  }
}

struct Network {
  std::string name;
  Model model;
  Sample sample;
};

// PyTorch's own export, or ours where PyTorch has none.
std::optional<Model> LoadNetwork(const std::string& folder) {
  if (IsFile(folder + "/torch.onnx")) return ReadModel(folder + "/torch.onnx");
  for (const char* archive : {"/model.pt2", "/model.pt"})
    if (IsFile(folder + archive)) return ExportModel(folder + archive).model;
  return std::nullopt;
}

std::vector<Network> LoadNetworks() {
  std::vector<Network> networks;
  Random random(5);
  for (const std::string& name : ListDirectory(Networks())) {
    std::string folder = JoinPath(Networks(), name);
    std::optional<Model> model = LoadNetwork(folder);
    if (!model) continue;
    Network network{name, std::move(*model), {}};
    FillZeroWeights(network.model, random);
    Side side = Side::FromModel(CopyDeep(network.model), OneThread("good"));
    network.sample = ReadSample(folder + "/io_2.npz", side.session());
    networks.push_back(std::move(network));
  }
  return networks;
}

struct Tally {
  int trials = 0, named = 0, named_without_names = 0, named_across_opsets = 0;
  int no_effect = 0, cannot_run = 0;
};

// True when the comparison points at the layer that was broken.
bool Judge(const Network& network, const Fault& fault, const Comparison& comparison, const char* how, bool verbose) {
  const FaultyLayer* said = comparison.trace && comparison.trace->first ? &*comparison.trace->first : nullptr;
  bool named = said && said->name == fault.node;
  if (!named && verbose)
    std::cerr << network.name << how << ": " << fault.node << " (" << fault.what
              << "), but was said: " << (said ? said->name + " " + said->op : "none") << "\n";
  return named;
}

// One fault that changes the outputs beyond tolerance; others are drawn again and counted apart.
void RunTrial(const Network& network, uint32_t seed, bool verbose, Tally& tally) {
  Random random(seed);
  for (int attempt = 0; attempt < 200; ++attempt) {
    Model broken = CopyDeep(network.model);
    auto kind = static_cast<FaultKind>(random.Int(0, testing::kFaultKinds - 1));
    std::optional<Fault> fault = InjectFault(broken, kind, random);
    if (!fault) continue;
    std::optional<Side> faulty;
    Side good = Side::FromModel(CopyDeep(network.model), OneThread("good"));
    Comparison comparison;
    try {
      faulty = Side::FromModel(std::move(broken), OneThread("faulty"));
      faulty->Run(network.sample.inputs);
      comparison = CompareSides(*faulty, good, NameTrust::kHints, {network.sample}, {});
    } catch (const Error&) {
      ++tally.cannot_run;
      continue;
    }
    if (comparison.within()) {
      ++tally.no_effect;
      continue;
    }
    ++tally.trials;
    Model nameless = CopyDeep(network.model);
    testing::TakeNamesAway(nameless);
    Side renamed = Side::FromModel(std::move(nameless), OneThread("nameless"));
    Comparison by_structure = CompareSides(*faulty, renamed, NameTrust::kHints, {network.sample}, {});
    Side older = Side::FromModel(ConvertOpset(network.model, 11), OneThread("opset 11"));
    Comparison across_opsets = CompareSides(*faulty, older, NameTrust::kHints, {network.sample}, {});
    tally.named += Judge(network, *fault, comparison, "", verbose);
    tally.named_without_names += Judge(network, *fault, by_structure, " without names", verbose);
    tally.named_across_opsets += Judge(network, *fault, across_opsets, " against opset 11", verbose);
    return;
  }
  ADD_FAILURE() << network.name << ": no fault of 200 had an effect";
}

TEST(CompareFaults, TheFaultyLayerIsNamed) {
  std::vector<Network> networks = LoadNetworks();
  ASSERT_EQ(networks.size(), 30u);
  Tally tally;
  bool verbose = std::getenv("FERRY_FAULT_VERBOSE") != nullptr;
  int wanted = TrialsWanted();
  for (int trial = 0; trial < wanted; ++trial)
    RunTrial(networks[static_cast<size_t>(trial) % networks.size()], 1000u + static_cast<uint32_t>(trial), verbose,
             tally);
  std::cerr << tally.named << " of " << tally.trials << " faulty layers named, " << tally.named_without_names
            << " with every name taken away, " << tally.named_across_opsets
            << " against opset 11; drawn again: " << tally.no_effect << " without effect, " << tally.cannot_run
            << " that could not run\n";
  EXPECT_EQ(tally.trials, wanted);
  EXPECT_GE(tally.named, 0.95 * tally.trials);
  EXPECT_GE(tally.named_without_names, 0.95 * tally.trials);
  EXPECT_GE(tally.named_across_opsets, 0.95 * tally.trials);
}

}  // namespace
}  // namespace ferry
