#include "providers/cuda/choices.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "providers/cuda/record.h"

namespace ferry::cuda {
namespace {

constexpr int kMostWays = 256;

std::string PathFor(const Device& device) {
  const std::string folder = CacheFolder("cuda");
  if (folder.empty()) return {};
  std::string name = Cat("choices ", device.facts().name, " ", Driver().report.version, " ", CublasLt().report.version,
                         " ", Cudnn().report.version);
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
  return Cat(folder, "/", name, ".txt");
}

std::map<std::string, int> Read(const std::string& path) {
  try {
    if (path.empty()) return {};
    return ParseChoices(std::string(MappedFile::Open(path)->text()));
  } catch (const Error&) {
    return {};  // timed again
  }
}

// The shortest of a few: others that use the device make times longer, never shorter. Short work is played from a
// graph, as it will be later: the host takes longer to ask for it than the device to do it.
float Milliseconds(const Device& device, FunctionRef<void()> run) {
  struct Events {
    const DriverApi& driver;
    EventHandle begin = nullptr, end = nullptr;
    explicit Events(const Device& device) : driver(device.Use()) {
      CheckDriver(driver.EventCreate(&begin, 0), "cuEventCreate");
      CheckDriver(driver.EventCreate(&end, 0), "cuEventCreate");
    }
    ~Events() {
      for (EventHandle event : {begin, end})
        if (event) driver.EventDestroy(event);
    }
  } events(device);
  auto time = [&](FunctionRef<void()> work) {
    CheckDriver(events.driver.EventRecord(events.begin, device.stream()), "cuEventRecord");
    work();
    CheckDriver(events.driver.EventRecord(events.end, device.stream()), "cuEventRecord");
    CheckDriver(events.driver.EventSynchronize(events.end), "cuEventSynchronize");
    float ms = 0;
    CheckDriver(events.driver.EventElapsedTime(&ms, events.begin, events.end), "cuEventElapsedTime");
    return ms;
  };
  constexpr float kShort = 0.2f;
  constexpr int kRuns = 8, kTurns = 3;
  run();
  float best = time(run);
  std::unique_ptr<RecordedWork> recorded;
  if (best < kShort)
    recorded = RecordGraph(device, [&] {
      for (int i = 0; i < kRuns; ++i) run();
    });
  if (recorded) {
    recorded->Replay();
    best = std::numeric_limits<float>::infinity();
  }
  for (int turn = 0; turn < kTurns; ++turn)
    best = std::min(best, recorded ? time([&] { recorded->Replay(); }) / kRuns : time(run));
  return best;
}

}  // namespace

std::map<std::string, int> ParseChoices(const std::string& text) {
  std::map<std::string, int> choices;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || tab == 0 || end == text.size()) continue;
    char* rest = nullptr;
    const long number = std::strtol(line.c_str() + tab + 1, &rest, 10);
    if (rest == line.c_str() + tab + 1 || *rest || number < 0 || number >= kMostWays) continue;
    choices[line.substr(0, tab)] = static_cast<int>(number);
  }
  return choices;
}

std::string ToText(const std::map<std::string, int>& choices) {
  std::string text;
  for (const auto& [key, choice] : choices) text += Cat(key, "\t", choice, "\n");
  return text;
}

Choices::Choices(std::string path) : path_(std::move(path)), known_(Read(path_)) {}

Choices& Choices::Of(const Device& device) {
  static std::mutex mutex;
  static std::map<int, Choices*> all;
  std::lock_guard lock(mutex);
  Choices*& choices = all[device.facts().ordinal];
  if (!choices) choices = new Choices(PathFor(device));
  return *choices;
}

int Choices::Known(const std::string& key) {
  std::lock_guard lock(mutex_);
  auto known = known_.find(key);
  return known == known_.end() ? -1 : known->second;
}

std::map<std::string, int> Choices::All() {
  std::lock_guard lock(mutex_);
  return known_;
}

void Choices::Add(const std::map<std::string, int>& choices) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, choice] : choices) known_.try_emplace(key, choice);
}

int Choices::Fastest(const Device& device, const std::string& key, int count, FunctionRef<void(int)> run,
                     FunctionRef<size_t(int)> bytes) {
  if (count <= 1) return 0;
  if (const int known = Known(key); known >= 0 && known < count) return known;
  if (device.recording()) return 0;
  constexpr float kNearly = 1.02f;
  struct Way {
    float ms;
    size_t bytes;
    int number;
  };
  std::vector<Way> ways;
  float best = std::numeric_limits<float>::infinity();
  bool was_full = false;
  for (int i = 0; i < std::min(count, kMostWays); ++i) {
    try {
      const float ms = Milliseconds(device, [&] { run(i); });
      ways.push_back({ms, bytes(i), i});
      best = std::min(best, ms);
    } catch (const Error& error) {
      // One of several ways cannot be had: the others can.
      was_full = was_full || error.code() == ErrorCode::kLimit;
    }
  }
  std::erase_if(ways, [&](const Way& way) { return way.ms > best * kNearly; });
  const auto chosen = std::min_element(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.ms < b.ms;
  });
  const int fastest = chosen == ways.end() ? 0 : chosen->number;
  // What there was no memory for may be the fastest another day.
  was_full ? Remember(key, fastest) : Keep(key, fastest);
  return fastest;
}

void Choices::Remember(const std::string& key, int choice) {
  std::lock_guard lock(mutex_);
  known_[key] = choice;
}

void Choices::Keep(const std::string& key, int choice) {
  std::lock_guard lock(mutex_);
  known_[key] = choice;
  if (path_.empty()) return;
  try {
    // What other processes have added since stays.
    for (const auto& [other, known] : Read(path_)) known_.try_emplace(other, known);
    AtomicFile file(path_, AtomicFile::Link::kReplaced);
    file.Write(ToText(known_));
    file.CommitUnsynced();
  } catch (const Error&) {
    // Timed again next time.
  }
}

}  // namespace ferry::cuda
