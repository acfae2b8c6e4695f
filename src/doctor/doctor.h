// Looks a model over before it is deployed, and mends what can be mended.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"
#include "measure/finding.h"

namespace ferry {

struct DoctorOptions {
  std::string path;                  // the model's file, for what lies beside it; empty for a model in memory
  std::vector<std::string> data;     // .npz recordings; without any, inputs are generated
  std::vector<std::string> targets;  // runtimes the model is for (see doctor/targets.h)
  std::vector<std::string> only;     // lints to apply, by name; empty: all
};

// Every finding, the gravest first. Throws for names of lints or targets that do not exist, and for unusable
// recordings.
std::vector<Finding> Examine(const Model& model, const DoctorOptions& options = {});

// One thing that was run to see that a mended model is as good as the original.
struct ProofStep {
  std::string what;  // "outputs on generated inputs 'random'"
  bool holds = false;
  double max_abs = 0;  // the largest difference
  std::string detail;  // why it does not hold, or what was compared
};

// What became of one lint's fix.
struct Mending {
  std::string_view lint;
  std::vector<std::string> changes;
  std::vector<std::string> refusals;  // why something stays as it is
  std::vector<ProofStep> proof;
  bool applied = false;  // false when nothing could be changed, or the proof failed
};

struct MendedModel {
  Model model;
  std::vector<Mending> mendings;
};

MendedModel Mend(const Model& model, const DoctorOptions& options = {});

Json ToJson(const Mending& mending);

}  // namespace ferry
