#include "convert/c/fit.h"

#include <algorithm>

#include "convert/c/stripes.h"

namespace ferry::c {
namespace {

constexpr size_t kMostTries = 48;  // programs written for one run
constexpr size_t kMostRuns = 6;

int64_t MultiplyAdds(const Program& program) {
  int64_t sum = 0;
  for (const Step& step : program.steps) sum += step.report.multiply_adds;
  return sum;
}

// What is alive at the step of each node, and what it costs, by the value it makes.
struct StepTable {
  std::unordered_map<std::string, int64_t> costs;
  std::vector<size_t> alive;  // by node
  size_t first_over;          // the first node with more than fits; that with the most where it is the packing

  StepTable(const Graph& graph, const Program& program, size_t most_bytes) : alive(graph.nodes.size()) {
    std::unordered_map<std::string, size_t> node_of;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const std::string& output : graph.nodes[i].outputs) node_of[output] = i;
    for (const Step& step : program.steps) {
      if (step.output < 0) continue;
      const std::string& name = program.values[static_cast<size_t>(step.output)].name;
      costs[name] += step.report.multiply_adds;
      if (auto node = node_of.find(name); node != node_of.end())
        alive[node->second] = std::max(alive[node->second], step.report.live_bytes);
    }
    auto over = std::find_if(alive.begin(), alive.end(), [&](size_t bytes) { return bytes > most_bytes; });
    if (over == alive.end()) over = std::max_element(alive.begin(), alive.end());
    first_over = static_cast<size_t>(over - alive.begin());
  }

  size_t MostOutside(const StripedRun& run) const {
    size_t most = 0;
    for (size_t i = 0; i < alive.size(); ++i)
      if (i < run.begin || i >= run.end) most = std::max(most, alive[i]);
    return most;
  }
};

std::string NameOf(const Node& node) { return node.name.empty() ? node.outputs[0] : node.name; }

struct Least {
  size_t bytes = SIZE_MAX;
  std::string how;
};

enum class Search : uint8_t {
  kCheapest,  // mends one place after the other, each by the cheapest run
  kAhead,     // the same, but first by runs after which the next node fits
  kAtOnce,    // one run that mends all
};

class Fitter {
 public:
  Fitter(const ProgramRequest& request, size_t most_bytes, Search search, Least& least)
      : request_(request), most_(most_bytes), search_(search), least_(least) {}

  std::optional<FittedProgram> Fit(const RewrittenGraph& whole, const Program& program) {
    FittedProgram made{program, {}};
    RewrittenGraph graph = whole;
    for (size_t run = 0; run < kMostRuns && made.program.arena_bytes > most_; ++run)
      if (!AddRun(graph, made)) return std::nullopt;
    if (made.program.arena_bytes > most_) return std::nullopt;
    return made;
  }

 private:
  // The cheapest run that mends the first place that does not fit.
  bool AddRun(RewrittenGraph& graph, FittedProgram& made) {
    const StepTable table(graph.graph, made.program, most_);
    const StripeFinder finder(graph, table.costs);
    std::vector<std::pair<int, StripeEstimate>> runs;
    for (const StripeEstimate& estimate : finder.RunsAround(table.first_over))
      runs.emplace_back(Rank(estimate, table), estimate);
    std::stable_sort(runs.begin(), runs.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      if (a.first < kHopeless) return Cost(a.second) < Cost(b.second);
      return std::max(a.second.bytes, table.MostOutside(a.second.run)) <
             std::max(b.second.bytes, table.MostOutside(b.second.run));
    });
    size_t tries = 0;
    for (const auto& [rank, estimate] : runs) {
      // What cannot fit is only written to know how small it gets.
      if (tries++ >= (rank < kHopeless ? kMostTries : kMostTries / 6)) break;
      RewrittenGraph split = finder.Split(estimate.run);
      Program program = WriteProgram(split, request_);
      const std::string first = NameOf(graph.graph.nodes[estimate.run.begin]),
                        last = NameOf(graph.graph.nodes[estimate.run.end - 1]);
      if (program.arena_bytes < least_.bytes) {
        least_ = {program.arena_bytes, {}};
        for (const CStripes& before : made.stripes)
          least_.how += Cat("'", before.first, "' to '", before.last, "' in ", before.stripes, " stripes, ");
        least_.how += Cat("'", first, "' to '", last, "' in ", estimate.stripes, " stripes");
      }
      if (program.arena_bytes > most_) {
        const size_t behind = split.graph.nodes.size() - (graph.graph.nodes.size() - estimate.run.end);
        const StepTable left(split.graph, program, most_);
        if (search_ == Search::kAtOnce || left.first_over < behind || left.alive[left.first_over] <= most_) continue;
      }
      made.stripes.push_back({first, last, estimate.run.end - estimate.run.begin, estimate.stripes,
                              MultiplyAdds(program) - MultiplyAdds(made.program)});
      made.program = std::move(program);
      graph = std::move(split);
      return true;
    }
    return false;
  }

  static constexpr int kHopeless = 4;
  int Rank(const StripeEstimate& estimate, const StepTable& table) const {
    if (estimate.least > most_) return kHopeless;
    const size_t end = estimate.run.end;
    if (search_ == Search::kAtOnce && table.MostOutside(estimate.run) > most_) return kHopeless;
    const bool more = search_ == Search::kAhead && end < table.alive.size() && table.alive[end] > most_;
    return (more ? 2 : 0) + (estimate.bytes > most_);
  }
  // Few stripes are better than many where they cost the same.
  static double Cost(const StripeEstimate& estimate) {
    return estimate.extra + 1e-4 * static_cast<double>(estimate.stripes) * estimate.whole;
  }

  const ProgramRequest& request_;
  const size_t most_;
  const Search search_;
  Least& least_;
};

}  // namespace

Program WriteProgram(const RewrittenGraph& rewritten, const ProgramRequest& request) {
  Program program;
  WriteSteps(rewritten.graph, rewritten.facts, request.inputs, request.outputs, request.options, program);
  program.Place();
  return program;
}

FittedProgram FitProgram(const RewrittenGraph& whole, const Program& program, const ProgramRequest& request,
                         size_t most_bytes) {
  auto attempt = [&](size_t bytes, Least& least) {
    std::optional<FittedProgram> best;
    for (Search search : {Search::kCheapest, Search::kAhead, Search::kAtOnce}) {
      std::optional<FittedProgram> made = Fitter(request, bytes, search, least).Fit(whole, program);
      if (made && (!best || MultiplyAdds(made->program) < MultiplyAdds(best->program))) best = std::move(made);
    }
    return best;
  };
  Least least;
  if (std::optional<FittedProgram> made = attempt(most_bytes, least)) return std::move(*made);
  // How small it can be: each turn halves what is not known, where a turn takes little.
  size_t weights = 0, low = most_bytes;
  for (const Tensor& constant : program.constants) weights += constant.bytes();
  constexpr size_t kQuickly = 4 << 20;
  for (int turn = 0; turn < 6 && weights < kQuickly && least.bytes < program.arena_bytes; ++turn) {
    const size_t middle = low + (least.bytes - low) / 2;
    if (!attempt(middle, least)) low = middle;
  }
  const std::string reached = least.bytes < program.arena_bytes
                                  ? Cat("; by stripes of rows it comes down to ", least.bytes, " (", least.how, ")")
                                  : std::string("; stripes of rows do not make it smaller");
  Fail(ErrorCode::kLimit, "the arena needs ", program.arena_bytes, " bytes, more than ", most_bytes, reached);
}

}  // namespace ferry::c
