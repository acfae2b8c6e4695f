// Choice by measurement: where several algorithms fit, each is timed once, and the fastest is remembered in a file for
// the next start.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace ferry {

class Tuner {
 public:
  using Clock = std::function<double()>;  // seconds

  struct Candidate {
    std::string_view name;
    std::function<void()> run;  // what is timed
  };

  // Reads what is remembered in `file` for this processor; an empty name remembers nothing beyond this object. A file
  // that is there but was not written by a Tuner is refused, so that none is overwritten by mistake.
  explicit Tuner(std::string file, Clock clock = {});

  // The name of one of the candidates. `problem` says what they solve: sizes, type, everything that time depends on.
  std::string Choose(const std::string& problem, std::span<const Candidate> candidates);

  // Writes what was learned since the last time, beside what other processes wrote meanwhile.
  void Save();

  // What entries of this machine stand under: the processor's name and the instruction set in use.
  static std::string ProcessorName();

 private:
  using Choices = std::map<std::string, std::string>;  // problem → name
  std::map<std::string, Choices> Read() const;         // by processor
  std::string Measure(std::span<const Candidate> candidates) const;

  const std::string file_;
  const Clock clock_;
  const std::string processor_;
  std::mutex mutex_;
  Choices known_, learned_;
};

}  // namespace ferry
