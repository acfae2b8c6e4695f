// Runs of steps over images, done by stripes of rows: only what goes into a run and what comes out of it is ever whole.
// Rows at the borders of stripes are computed again where a window reaches over them.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "convert/c/rewrite.h"

namespace ferry::c {

struct StripedRun {
  size_t begin = 0, end = 0;  // nodes of the graph
  int64_t rows = 0;           // of its result in one stripe
};

// What a run would take, without writing it.
struct StripeEstimate {
  StripedRun run;
  size_t stripes = 0;
  size_t bytes = 0;  // of the values that are alive together: a step's inputs and its output
  size_t least = 0;  // the same where every step may overwrite what it reads
  // Multiply-adds of its nodes (and one for each): of the whole, and what is computed again.
  double whole = 0, extra = 0;
};

class StripeFinder {
 public:
  // `costs`: multiply-adds by the name of a node's first output.
  StripeFinder(const RewrittenGraph& whole, const std::unordered_map<std::string, int64_t>& costs);

  // Every run that has this node in it and comes to one result.
  std::vector<StripeEstimate> RunsAround(size_t node) const;
  // The graph with that run as stripes: slices of rows, the nodes once for each stripe, and a Concat of the results.
  RewrittenGraph Split(const StripedRun& run) const;

 private:
  struct Rows {
    int64_t begin = 0, end = 0;
    int64_t count() const { return end - begin; }
  };
  // What a node reads to make some rows of its result.
  struct Demand {
    std::vector<std::optional<Rows>> inputs;  // nothing: all of it
    int64_t pad_begin = 0, pad_end = 0;       // of a window
  };
  struct NodeInfo {
    bool splits = false;
    bool is_window = false;
    int64_t input_rows = 0, kernel = 1, stride = 1, dilation = 1, pad = 0;  // of a window, along the rows
    std::vector<size_t> row_axes;                                           // of the inputs; SIZE_MAX: read whole
    size_t axis = 0;                                                        // of the rows of the result
  };
  // The rows of every value for one stripe.
  using Needed = std::unordered_map<std::string, Rows>;

  NodeInfo Examine(const Node& node) const;
  bool ExamineWindow(const Node& node, NodeInfo& info) const;
  bool ExaminePointwise(const Node& node, NodeInfo& info) const;
  const Shape* ShapeOf(const std::string& name) const;
  DType TypeOf(const std::string& name) const;
  size_t BytesOf(const std::string& name) const;
  // The one value that is made in these nodes and read after them; nothing where there are several.
  std::optional<std::string> ResultOf(size_t begin, size_t end) const;
  Demand DemandOf(size_t node, Rows rows) const;
  bool Propagate(const StripedRun& run, const std::string& result, Rows rows, Needed& needed) const;
  std::optional<StripeEstimate> Estimate(const StripedRun& run, const std::string& result) const;

  const RewrittenGraph& whole_;
  const std::unordered_map<std::string, int64_t>& costs_;
  std::vector<NodeInfo> info_;
  std::unordered_map<std::string, Shape> shapes_;
  std::unordered_map<std::string, size_t> maker_, last_reader_;
  std::unordered_map<std::string, size_t> axis_of_;  // of the rows, where a value is an image
};

}  // namespace ferry::c
