#include "providers/cpu/tuner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/process.h"
#include "kernels/packed_gemm.h"

namespace ferry {
namespace {

constexpr size_t kMostBytes = 4 << 20;
constexpr size_t kLongestText = 300;  // of a processor, problem or name
constexpr const char* kFormat = "ferry tuning 1";

// Candidates take turns, so that other work on the machine hits all of them; the shortest time of each counts.
constexpr int kFewestRounds = 3, kMostRounds = 20;
constexpr double kEnoughSeconds = 0.02;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void FailToRead(const std::string& file, const std::string& why) {
  Fail(ErrorCode::kInvalidArgument, "'", Printable(file), "' is no file of measured choices (", why,
       "): name another file, or remove it");
}

std::string ReadSmallFile(const std::string& file) {
  std::shared_ptr<MappedFile> mapped;
  try {
    mapped = MappedFile::Open(file);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return {};
    FailToRead(file, error.message());
  }
  if (mapped->size() > kMostBytes) FailToRead(file, Cat("it has ", mapped->size(), " bytes"));
  return std::string(mapped->text());
}

const std::string& ShortText(const std::string& text) {
  Require(text.size() <= kLongestText, "a text of ", text.size(), " bytes");
  return text;
}

}  // namespace

std::string Tuner::ProcessorName() { return Cat(Printable(ProcessorModel()), ", ", BestGemmKernels().isa); }

Tuner::Tuner(std::string file, Clock clock)
    : file_(std::move(file)), clock_(clock ? std::move(clock) : Clock(Now)), processor_(ProcessorName()) {
  if (!file_.empty()) known_ = Read()[processor_];
}

std::map<std::string, Tuner::Choices> Tuner::Read() const {
  std::map<std::string, Choices> read;
  std::string text = ReadSmallFile(file_);
  if (text.empty()) return read;
  try {
    Json json = Json::Parse(text, {.depth = 4, .bytes = kMostBytes, .values = 200000});
    Require(json.At("format").AsString() == kFormat, "another format");
    for (const auto& [processor, choices] : json.At("choices").AsObject())
      for (const auto& [problem, name] : choices.AsObject())
        read[ShortText(processor)][ShortText(problem)] = ShortText(name.AsString());
  } catch (const Error& error) {
    FailToRead(file_, error.message());
  }
  return read;
}

std::string Tuner::Choose(const std::string& problem, std::span<const Candidate> candidates) {
  if (candidates.size() == 1) return std::string(candidates[0].name);
  std::lock_guard lock(mutex_);
  auto known = known_.find(problem);
  // Whatever the file says, only what fits here is taken.
  if (known != known_.end())
    for (const Candidate& candidate : candidates)
      if (candidate.name == known->second) return known->second;
  return known_[problem] = learned_[problem] = Measure(candidates);
}

std::string Tuner::Measure(std::span<const Candidate> candidates) const {
  for (const Candidate& candidate : candidates) candidate.run();  // memory, caches, lazy set-up
  std::vector<double> shortest(candidates.size(), std::numeric_limits<double>::infinity());
  double begin = clock_();
  for (int round = 0; round < kMostRounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      double start = clock_();
      candidates[i].run();
      shortest[i] = std::min(shortest[i], clock_() - start);
    }
    if (round + 1 >= kFewestRounds && clock_() - begin > kEnoughSeconds * static_cast<double>(candidates.size())) break;
  }
  return std::string(
      candidates[static_cast<size_t>(std::min_element(shortest.begin(), shortest.end()) - shortest.begin())].name);
}

void Tuner::Save() {
  std::lock_guard lock(mutex_);
  if (file_.empty() || learned_.empty()) return;
  std::map<std::string, Choices> all = Read();
  for (const auto& [problem, name] : learned_) all[processor_][problem] = name;
  Json choices = Json::Object{};
  for (const auto& [processor, by_problem] : all) {
    Json one = Json::Object{};
    for (const auto& [problem, name] : by_problem) one.Set(problem, name);
    choices.Set(processor, std::move(one));
  }
  AtomicFile out(file_);
  out.Write(Json().Set("format", kFormat).Set("choices", std::move(choices)).Dump() + "\n");
  out.Commit();
  learned_.clear();
}

}  // namespace ferry
