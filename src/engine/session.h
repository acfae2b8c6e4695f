// The thread-safe door to a model: many threads may call Run on one session at once.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/run_scope.h"
#include "engine/precision.h"
#include "graph/model.h"
#include "tensor/value.h"

namespace ferry {

class Runtime;

struct SessionOptions {
  int threads = 0;  // of one run, the caller included; 0: one per core, 1: no pool at all
  // Who runs it, in the order of preference ("cuda,cpu"); the CPU takes what is left.
  std::string provider = "cpu";
  // Usually those of the scope it is opened in.
  Limits limits = RunScope::CurrentLimits();  // of opening the model, and of every run that is not given its own
  int max_programs = 32;  // kept for as many sets of input shapes; the one not used for the longest time leaves first
  // Sessions with the same runtime share its threads and the providers it adds, and `threads` is left at 0; null: each
  // has threads of its own.
  std::shared_ptr<Runtime> runtime;
  const std::atomic<bool>* cancelled = nullptr;    // set by another thread to end the opening with kCancelled
  std::map<std::string, int64_t> free_dimensions;  // sizes for named dimensions, held against each run's inputs
  // Axes of inputs, by the input's name, whose size changes from run to run, as a growing cache does: one program
  // serves all sizes, with what depends on them placed while it runs.
  std::map<std::string, std::vector<size_t>> open_axes;
  bool optimize = true;
  // A folder for packed weights, which the next start maps instead of packing again; made if it is not there. Empty:
  // none.
  std::string cache_folder;
  // For callers whose runs, on all sessions of a model, come one after the other: files in memory that nobody else has
  // open (base/memory_files.h) may lose their weights to the packed ones, while one program serves all runs.
  bool packs_in_place = false;
  bool exact = false;  // only algorithms that add up products as the operators' texts do: no Winograd
  // A file that remembers which algorithms were fastest on this processor; what is not in it is timed when a program is
  // made. "none" times without remembering; empty: no timing, a model of the costs decides.
  std::string tune;
  Precision precision = Precision::kFloat32;
  // Bytes that all sessions of this process together may take of a device's own memory; 0: any. The last session to
  // name a number decides.
  size_t device_memory = 0;
};

class Profile;

struct RunOptions {
  const std::atomic<bool>* cancelled = nullptr;  // set by another thread to end the run with kCancelled
  // Limits of this run; 0: those of the session. Making ready for new shapes is part of a run.
  std::chrono::nanoseconds time_limit{0};
  size_t max_bytes = 0;
  int64_t max_iterations = 0;
  Profile* profile = nullptr;  // gets what each step took
  // Memory for the result with this index, or an undefined tensor for memory of its own; see PlaceResult.
  std::function<Tensor(size_t, DType, const Shape&)> place_result;
  // By index, memory for results whose sizes turn up while the graph runs but are known to the caller: what is made
  // with this type and shape is made there. It may be an input's, where the caller knows that this does no harm.
  std::vector<Tensor> homes;
  // Told of the values that the run makes, by name, which need not be kept as results then; see WatchValue.
  std::function<void(const std::string&, const Value&)> watch;
};

using NamedValue = std::pair<std::string, Value>;

class Session {
 public:
  // Sessions on the same file share its weights and everything made from them.
  static std::shared_ptr<Session> Open(const std::string& path, const SessionOptions& options = {});
  static std::shared_ptr<Session> FromModel(Model model, const SessionOptions& options = {});
  ~Session();

  const Model& model() const;
  // What a run must be given: graph inputs that have no initializer.
  const std::vector<ValueInfo>& inputs() const;
  // Graph inputs that an initializer gives a default.
  const std::vector<ValueInfo>& overridable_inputs() const;
  const std::vector<ValueInfo>& outputs() const;
  int threads() const;
  const SessionOptions& options() const;

  // `outputs` names what is wanted, intermediate values too; empty means all outputs of the model, in order.
  std::vector<Value> Run(std::span<const NamedValue> inputs, std::span<const std::string> outputs = {},
                         const RunOptions& options = {}) const;

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "the model has no input 'x'; did you mean 'X'?"
[[noreturn]] void FailUnknownName(const char* what, const std::string& name, const std::vector<std::string>& there);

}  // namespace ferry
