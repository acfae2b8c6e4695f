#include "providers/cuda/convolution.h"

#include <climits>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "providers/cuda/choices.h"
#include "providers/cuda/convolution_graph.h"
#include "providers/cuda/launch.h"
#include "tensor/tensor.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;

int DnnType(DType type) {
  return type == DType::kFloat ? kDnnFloat : type == DType::kFloat16 ? kDnnHalf : kDnnBfloat16;
}

// Everything that the choice of an algorithm depends on.
std::string KeyOf(const ConvolutionShape& s) {
  std::string key = Cat(ToText(s.dtype), " ", s.batch, " × ", s.channels, " → ", s.features, ", groups ", s.groups,
                        s.has_bias ? ", bias" : "", s.has_sum ? ", sum" : "", s.tf32 ? ", tf32" : "");
  if (s.after.kind != ActivationKind::kNone)
    key += Cat(", activation ", static_cast<int>(s.after.kind), " ", s.after.alpha, " ", s.after.beta);
  for (const WindowAxis& a : s.axes)
    key += Cat(", ", a.input, " → ", a.output, " by ", a.kernel, "/", a.stride, "/", a.dilation, " pad ", a.pad_begin);
  return key;
}

void Check(int status, const char* function, const std::string& what) {
  if (status == kSuccess) return;
  const char* text = Cudnn().api.GetErrorString(status);
  Fail(ErrorCode::kInternal, function, ": ", text ? text : "unknown status", " for a convolution ", what);
}

// cuDNN's handle of the calling thread: it belongs to one stream. Those of threads that ended wait for the next one.
class Handles {
 public:
  DnnHandle Take(const Device& device) {
    std::lock_guard lock(mutex_);
    std::vector<DnnHandle>& idle = idle_[device.facts().ordinal];
    if (!idle.empty()) {
      DnnHandle handle = idle.back();
      idle.pop_back();
      return handle;
    }
    DnnHandle handle = nullptr;
    Check(Cudnn().Get().Create(&handle), "cudnnCreate", "(the first one)");
    return handle;
  }
  void GiveBack(const Device& device, DnnHandle handle) {
    std::lock_guard lock(mutex_);
    idle_[device.facts().ordinal].push_back(handle);
  }
  static Handles& All() {
    static auto* all = new Handles;
    return *all;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<DnnHandle>> idle_;
};

class BorrowedHandle {
 public:
  explicit BorrowedHandle(const Device& device) : device_(device), handle_(Handles::All().Take(device)) {
    Check(Cudnn().api.SetStream(handle_, device.stream()), "cudnnSetStream", "");
  }
  ~BorrowedHandle() { Handles::All().GiveBack(device_, handle_); }
  BorrowedHandle(const BorrowedHandle&) = delete;
  BorrowedHandle& operator=(const BorrowedHandle&) = delete;
  DnnHandle get() const { return handle_; }

 private:
  const Device& device_;
  DnnHandle handle_;
};

bool IsRelu(const ConvolutionShape& shape) { return shape.after.kind == ActivationKind::kRelu; }

// By the functions that came before graphs: bias, sum and ReLU at most.
class OldPlan {
 public:
  OldPlan(const ConvolutionShape& shape, DnnHandle handle) : shape_(shape), what_(KeyOf(shape)), dnn_(Cudnn().Get()) {
    const auto n = static_cast<int>(shape.batch), c = static_cast<int>(shape.channels),
               m = static_cast<int>(shape.features);
    x_ = Image(n, c, shape.axes[0].input, shape.axes[1].input);
    y_ = Image(n, m, shape.axes[0].output, shape.axes[1].output);
    bias_ = Image(1, m, 1, 1);
    Check(dnn_.CreateFilter(&w_), "cudnnCreateFilterDescriptor", what_);
    const int filter[] = {m, static_cast<int>(shape.channels / shape.groups), static_cast<int>(shape.axes[0].kernel),
                          static_cast<int>(shape.axes[1].kernel)};
    Check(dnn_.SetFilterNd(w_, DnnType(shape.dtype), kDnnNhwc, 4, filter), "cudnnSetFilterNdDescriptor", what_);
    Check(dnn_.CreateConvolution(&convolution_), "cudnnCreateConvolutionDescriptor", what_);
    int pads[2], strides[2], dilations[2];
    for (int i = 0; i < 2; ++i) {
      pads[i] = static_cast<int>(shape.axes[i].pad_begin);
      strides[i] = static_cast<int>(shape.axes[i].stride);
      dilations[i] = static_cast<int>(shape.axes[i].dilation);
    }
    Check(dnn_.SetConvolutionNd(convolution_, 2, pads, strides, dilations, kDnnCrossCorrelation, kDnnFloat),
          "cudnnSetConvolutionNdDescriptor", what_);
    Check(dnn_.SetConvolutionGroups(convolution_, static_cast<int>(shape.groups)), "cudnnSetConvolutionGroupCount",
          what_);
    const bool tensor_cores = shape.dtype != DType::kFloat || shape.tf32;
    Check(dnn_.SetConvolutionMath(convolution_, tensor_cores ? kDnnTensorMath : kDnnFmaMath),
          "cudnnSetConvolutionMathType", what_);
    Check(dnn_.CreateActivation(&activation_), "cudnnCreateActivationDescriptor", what_);
    Check(dnn_.SetActivation(activation_, IsRelu(shape) ? kDnnRelu : kDnnIdentity, 1, 0),
          "cudnnSetActivationDescriptor", what_);
    Choose(handle);
  }

  void Run(const Device& device, DnnHandle handle, const ConvolutionOperands& operands) const {
    const float one = 1, sum = shape_.has_sum, zero = 0;
    std::byte* workspace = workspace_bytes_ > 0 ? device.Workspace(workspace_bytes_) : nullptr;
    if (!shape_.has_bias) {
      Check(dnn_.ConvolutionForward(handle, &one, x_, operands.x, w_, operands.w, convolution_, algorithm_, workspace,
                                    workspace_bytes_, &zero, y_, operands.y),
            "cudnnConvolutionForward", what_);
      return;
    }
    Check(dnn_.ConvolutionBiasActivation(
              handle, &one, x_, operands.x, w_, operands.w, convolution_, algorithm_, workspace, workspace_bytes_, &sum,
              y_, shape_.has_sum ? operands.sum : operands.y, bias_, operands.bias, activation_, y_, operands.y),
          "cudnnConvolutionBiasActivationForward", what_);
  }

 private:
  // Channels last: cuDNN names the axes N, C, H, W and is told their strides.
  DnnTensor Image(int n, int c, int64_t h, int64_t w) const {
    DnnTensor tensor = nullptr;
    Check(dnn_.CreateTensor(&tensor), "cudnnCreateTensorDescriptor", what_);
    const auto height = static_cast<int>(h), width = static_cast<int>(w);
    const int dims[] = {n, c, height, width}, strides[] = {height * width * c, 1, width * c, c};
    Check(dnn_.SetTensorNd(tensor, DnnType(shape_.dtype), 4, dims, strides), "cudnnSetTensorNdDescriptor", what_);
    return tensor;
  }

  // The first that cuDNN's heuristic names and that fits. Without an activation in the same kernel only one algorithm
  // adds bias and sum.
  void Choose(DnnHandle handle) {
    constexpr int kMost = 8;
    DnnConvolutionTiming results[kMost];
    int found = 0;
    Check(dnn_.GetConvolutionAlgorithms(handle, x_, w_, convolution_, y_, kMost, &found, results),
          "cudnnGetConvolutionForwardAlgorithm_v7", what_);
    for (int i = 0; i < found; ++i) {
      const DnnConvolutionTiming& result = results[i];
      if (result.status != kSuccess || result.workspace_bytes > kMostWorkspace) continue;
      const bool fused_only = shape_.has_bias && !IsRelu(shape_);
      if (fused_only && result.algorithm != kDnnImplicitPrecompGemm) continue;
      if (shape_.dtype == DType::kFloat && !shape_.tf32 && result.math != kDnnFmaMath && result.math != kDnnDefaultMath)
        continue;
      algorithm_ = result.algorithm;
      Check(dnn_.SetConvolutionMath(convolution_, result.math), "cudnnSetConvolutionMathType", what_);
      break;
    }
    Check(dnn_.GetConvolutionWorkspace(handle, x_, w_, convolution_, y_, algorithm_, &workspace_bytes_),
          "cudnnGetConvolutionForwardWorkspaceSize", what_);
  }

  const ConvolutionShape shape_;
  const std::string what_;
  const CudnnApi& dnn_;
  DnnTensor x_ = nullptr, y_ = nullptr, bias_ = nullptr;
  DnnFilter w_ = nullptr;
  DnnConvolution convolution_ = nullptr;
  DnnActivation activation_ = nullptr;
  int algorithm_ = kDnnImplicitPrecompGemm;
  size_t workspace_bytes_ = 0;
};

// What one shape came to: a graph with everything in it, one without the activation, or the older functions.
class Plan {
 public:
  Plan(const Device& device, const ConvolutionShape& shape, DnnHandle handle) : shape_(shape), what_(KeyOf(shape)) {
    if (ConvolutionGraph::CanApply(shape.after) && TryGraph(device, handle)) return;
    const bool old_can = (IsRelu(shape_) && shape_.has_bias) || shape_.after.kind == ActivationKind::kNone;
    if (!old_can) {
      shape_.after = {};
      applies_activation_ = false;
      if (TryGraph(device, handle)) return;
    }
    if (shape_.has_sum && !shape_.has_bias)
      Fail(ErrorCode::kUnsupported, "cuDNN adds a sum only beside a bias, for a convolution ", what_);
    old_ = std::make_unique<OldPlan>(shape_, handle);
  }

  bool Run(const Device& device, DnnHandle handle, const ConvolutionOperands& operands) {
    if (old_)
      old_->Run(device, handle, operands);
    else
      graph_->Run(device, handle, Way(device, handle, operands), operands);
    return applies_activation_;
  }

 private:
  bool TryGraph(const Device& device, DnnHandle handle) {
    if (const std::string text = KnownCode(device, TextName()); !text.empty() && TryText(handle, text)) return true;
    try {
      auto graph = std::make_unique<ConvolutionGraph>(shape_, handle, what_);
      const int known = Choices::Of(device).Known(Cat("convolution ", what_));
      for (int i = -1; i < graph->ways(); ++i)
        if (const int way = i < 0 ? known : i; way >= 0 && way < graph->ways() && IsReady(*graph, handle, way)) {
          graph_ = std::move(graph);
          return true;
        }
      return false;
    } catch (const Error&) {
      return false;
    }
  }

  std::string TextName() const { return Cat("cudnn ", applies_activation_ ? "" : "without activation ", what_); }

  bool TryText(DnnHandle handle, const std::string& text) {
    try {
      graph_ = std::make_unique<ConvolutionGraph>(shape_, handle, what_, text);
      way_ = 0;
      return true;
    } catch (const Error&) {
      return false;  // made anew
    }
  }

  static bool IsReady(ConvolutionGraph& graph, DnnHandle handle, int way) {
    try {
      graph.Prepare(handle, way);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Timed with another result: the sum may lie where the result will.
  int Way(const Device& device, DnnHandle handle, const ConvolutionOperands& operands) {
    std::lock_guard lock(mutex_);
    if (way_ >= 0) return way_;
    Tensor scratch(shape_.dtype, {shape_.batch, shape_.axes[0].output, shape_.axes[1].output, shape_.features},
                   device.memory());
    ConvolutionOperands timed = operands;
    timed.y = scratch.address();
    auto run = [&](int i) {
      graph_->Prepare(handle, i);
      graph_->Run(device, handle, i, timed);
    };
    const int way = Choices::Of(device).Fastest(device, Cat("convolution ", what_), graph_->ways(), run,
                                                [&](int i) { return graph_->workspace_bytes(i); });
    graph_->Prepare(handle, way);
    if (std::string text = graph_->Text(way); !text.empty()) KeepCode(device, TextName(), std::move(text));
    return way_ = way;
  }

  ConvolutionShape shape_;
  const std::string what_;
  bool applies_activation_ = true;
  std::unique_ptr<ConvolutionGraph> graph_;
  std::unique_ptr<OldPlan> old_;
  std::mutex mutex_;
  int way_ = -1;
};

// Stay until the process ends: descriptors may be in use.
Plan& FindPlan(const Device& device, const ConvolutionShape& shape, DnnHandle handle) {
  static std::mutex mutex;
  static auto* plans = new std::map<std::string, std::unique_ptr<Plan>>;
  std::lock_guard lock(mutex);
  const std::string key = Cat(device.facts().ordinal, ": ", KeyOf(shape));
  auto known = plans->find(key);
  if (known == plans->end()) known = plans->emplace(key, std::make_unique<Plan>(device, shape, handle)).first;
  return *known->second;
}

}  // namespace

bool CanConvolve(const ConvolutionShape& shape) {
  if (shape.dtype != DType::kFloat && shape.dtype != DType::kFloat16 && shape.dtype != DType::kBFloat16) return false;
  if (shape.batch < 1 || shape.channels < 1 || shape.features < 1) return false;
  for (const WindowAxis& axis : shape.axes) {
    // Padding at the end that no window reaches is none.
    const int64_t reach = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    const int64_t natural = (axis.input + 2 * axis.pad_begin - (axis.kernel - 1) * axis.dilation - 1) / axis.stride + 1;
    if (axis.output < 1 || axis.output != natural || reach > axis.input + 2 * axis.pad_begin) return false;
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number > 1 << 20) return false;
  }
  const int64_t pixels = shape.axes[0].input * shape.axes[1].input, made = shape.axes[0].output * shape.axes[1].output;
  return shape.batch <= INT_MAX / shape.channels / std::max<int64_t>(1, pixels) &&
         shape.batch <= INT_MAX / shape.features / std::max<int64_t>(1, made);
}

bool Convolve(const Device& device, const ConvolutionShape& shape, const ConvolutionOperands& operands) {
  device.Use();
  BorrowedHandle handle(device);
  return FindPlan(device, shape, handle.get()).Run(device, handle.get(), operands);
}

}  // namespace ferry::cuda
