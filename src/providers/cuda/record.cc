#include "providers/cuda/record.h"

#include "base/error.h"

namespace ferry::cuda {
namespace {

class GraphRecording final : public RecordedWork {
 public:
  explicit GraphRecording(const Device& device) : device_(device), needs_(device) {}
  ~GraphRecording() override {
    const DriverApi& driver = Driver().api;
    if (played_on_) driver.StreamSynchronize(played_on_);
    if (exec_) driver.GraphExecDestroy(exec_);
  }

  // False: nothing can be played.
  bool Record(FunctionRef<void()> work) {
    const DriverApi& driver = device_.Use();
    if (driver.StreamBeginCapture(device_.stream(), kCaptureRelaxed) != kSuccess) return false;
    bool is_whole = true;
    device_.SetRecording(&needs_);
    try {
      work();
    } catch (const std::exception&) {
      is_whole = false;
    }
    device_.SetRecording(nullptr);
    GraphHandle graph = nullptr;
    is_whole &= driver.StreamEndCapture(device_.stream(), &graph) == kSuccess && graph && needs_.is_settled();
    is_whole = is_whole && driver.GraphInstantiate(&exec_, graph, 0) == kSuccess;
    if (graph) driver.GraphDestroy(graph);
    return is_whole;
  }

  // Runs with one frame follow each other, so it never plays twice at once.
  void Replay() override {
    const DriverApi& driver = device_.Use();
    played_on_ = device_.stream();
    CheckDriver(driver.GraphLaunch(exec_, played_on_), "cuGraphLaunch");
    if (needs_.fault()) device_.WatchFault(needs_.fault());
  }

 private:
  const Device& device_;
  RecordedNeeds needs_;
  GraphExec exec_ = nullptr;
  StreamHandle played_on_ = nullptr;
};

}  // namespace

std::unique_ptr<RecordedWork> RecordGraph(const Device& device, FunctionRef<void()> work) {
  auto recording = std::make_unique<GraphRecording>(device);
  if (!recording->Record(work)) return nullptr;
  return recording;
}

}  // namespace ferry::cuda
