// What a comparison runs: recordings that the user gives, and samples that are made beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/session.h"

namespace ferry {

struct Sample {
  enum class Kind : uint8_t { kRecorded, kRandom, kEdgeCase };

  std::string name;  // a file, "random 1", "zeros"
  Kind kind = Kind::kRecorded;
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> recorded_outputs;
};
const char* Name(Sample::Kind kind);

// Files, and the .npz files of folders, in order. Throws when a folder has none.
std::vector<std::string> FindRecordings(const std::vector<std::string>& paths);
Sample ReadSample(const std::string& path, const Session& session);

std::vector<Sample> MakeRandomSamples(const Session& session, const std::map<std::string, int64_t>& dimensions,
                                      int64_t count, uint64_t seed);

// Zeros, ones, large, tiny, denormal and constant floats in place of `like`'s, its rows in another order. Integers and
// bools stay as they are, for they are places and lengths more often than quantities.
std::vector<Sample> MakeEdgeCases(const Sample& like);

}  // namespace ferry
