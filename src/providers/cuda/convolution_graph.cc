#include "providers/cuda/convolution_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{512} << 20;
constexpr size_t kMostPlans = 4;  // engines made at run time take long to compile
enum TensorId : int64_t { kX = 1, kW, kBias, kSum, kY, kFirstInside };

void Check(int status, const char* function) {
  if (status == kSuccess) return;
  const char* text = Cudnn().api.GetErrorString(status);
  Fail(ErrorCode::kUnsupported, function, ": ", text ? text : "unknown status");
}

int DnnType(DType type) {
  return type == DType::kFloat ? kDnnFloat : type == DType::kFloat16 ? kDnnHalf : kDnnBfloat16;
}

int ModeOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kSilu: return dnn::kModeSwish;
    case ActivationKind::kGelu: return dnn::kModeGelu;
    case ActivationKind::kGeluTanh: return dnn::kModeGeluTanh;
    default: return dnn::kModeRelu;
  }
}

}  // namespace

DnnObject::DnnObject(dnn::DescriptorKind kind) {
  Check(Cudnn().Get().CreateDescriptor(kind, &object_), "cudnnBackendCreateDescriptor");
}

DnnObject::~DnnObject() {
  if (object_) Cudnn().api.DestroyDescriptor(object_);
}

DnnObject::DnnObject(DnnObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}

void DnnObject::Set(dnn::AttributeName name, dnn::ValueKind kind, int64_t count, const void* values) {
  Check(Cudnn().api.SetAttribute(object_, name, kind, count, values), "cudnnBackendSetAttribute");
}

void DnnObject::Finalize() { Check(Cudnn().api.Finalize(object_), "cudnnBackendFinalize"); }

ConvolutionGraph::ConvolutionGraph(const ConvolutionShape& shape, DnnHandle handle, const std::string& what)
    : shape_(shape) {
  try {
    Describe(handle);
    FindWays(dnn::kHeuristicA);
    if (plans_.empty()) FindWays(dnn::kHeuristicFallback);
  } catch (Error& error) {
    throw error.At(what);
  }
  if (plans_.empty()) Fail(ErrorCode::kUnsupported, "cuDNN has no engine for a convolution ", what);
}

bool ConvolutionGraph::CanApply(const Activation& activation) {
  return IsLimit(activation.kind) || activation.kind == ActivationKind::kSilu ||
         activation.kind == ActivationKind::kGelu || activation.kind == ActivationKind::kGeluTanh;
}

// Channels last: cuDNN names the axes N, C, H, W and is told their strides.
DnnObject ConvolutionGraph::Image(int64_t id, int64_t channels, int64_t height, int64_t width, int64_t batch,
                                  bool is_virtual) {
  DnnObject tensor(dnn::kTensor);
  tensor.SetEnum(dnn::kTensorType, dnn::kDataTypeValue, is_virtual ? kDnnFloat : DnnType(shape_.dtype));
  const int64_t dims[] = {batch, channels, height, width},
                strides[] = {height * width * channels, 1, width * channels, channels};
  tensor.Set(dnn::kTensorDims, dnn::kInt64Value, 4, dims);
  tensor.Set(dnn::kTensorStrides, dnn::kInt64Value, 4, strides);
  tensor.SetInt(dnn::kTensorId, id);
  tensor.SetInt(dnn::kTensorAlignment, 16);
  tensor.Set(dnn::kTensorIsVirtual, dnn::kBooleanValue, 1, &is_virtual);
  tensor.Finalize();
  return tensor;
}

void ConvolutionGraph::AddPointwise(int mode, const DnnObject& x, const DnnObject* b, const DnnObject& y) {
  DnnObject how(dnn::kPointwise);
  how.SetEnum(dnn::kPointwiseMode, dnn::kPointwiseModeValue, mode);
  how.SetEnum(dnn::kPointwiseMathType, dnn::kDataTypeValue, kDnnFloat);
  if (mode == dnn::kModeRelu && shape_.after.kind == ActivationKind::kClip) {
    const double low = shape_.after.alpha, high = shape_.after.beta;
    how.Set(dnn::kReluLower, dnn::kDoubleValue, 1, &low);
    if (std::isfinite(high)) how.Set(dnn::kReluUpper, dnn::kDoubleValue, 1, &high);
  }
  if (mode == dnn::kModeSwish) {
    const double beta = shape_.after.alpha;
    how.Set(dnn::kSwishBeta, dnn::kDoubleValue, 1, &beta);
  }
  how.Finalize();
  DnnObject operation(dnn::kOperationPointwise);
  operation.SetObject(dnn::kPointwiseDescriptor, how);
  operation.SetObject(dnn::kPointwiseX, x);
  if (b) operation.SetObject(dnn::kPointwiseB, *b);
  operation.SetObject(dnn::kPointwiseY, y);
  operation.Finalize();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void ConvolutionGraph::Describe(DnnHandle handle) {
  const WindowAxis &y = shape_.axes[0], &x = shape_.axes[1];
  const int64_t features = shape_.features, batch = shape_.batch;
  tensors_.reserve(16);
  auto add = [&](DnnObject tensor) -> const DnnObject& { return tensors_.emplace_back(std::move(tensor)); };
  const DnnObject& from = add(Image(kX, shape_.channels, y.input, x.input, batch, false));
  const DnnObject& filter = add(Image(kW, shape_.channels / shape_.groups, y.kernel, x.kernel, features, false));
  const bool activates = shape_.after.kind != ActivationKind::kNone;
  int following = shape_.has_sum + shape_.has_bias + activates;
  int64_t inside = kFirstInside;
  auto result = [&]() -> const DnnObject& {
    const bool last = following-- == 0;
    return add(Image(last ? int64_t{kY} : inside++, features, y.output, x.output, batch, !last));
  };

  DnnObject how(dnn::kConvolution);
  how.SetEnum(dnn::kConvolutionComputeType, dnn::kDataTypeValue, kDnnFloat);
  how.SetEnum(dnn::kConvolutionMode, dnn::kConvolutionModeValue, kDnnCrossCorrelation);
  how.SetInt(dnn::kConvolutionAxes, 2);
  const int64_t dilations[] = {y.dilation, x.dilation}, strides[] = {y.stride, x.stride},
                pads[] = {y.pad_begin, x.pad_begin};
  how.Set(dnn::kConvolutionDilations, dnn::kInt64Value, 2, dilations);
  how.Set(dnn::kConvolutionStrides, dnn::kInt64Value, 2, strides);
  how.Set(dnn::kConvolutionPrePaddings, dnn::kInt64Value, 2, pads);
  how.Set(dnn::kConvolutionPostPaddings, dnn::kInt64Value, 2, pads);
  how.Finalize();
  DnnObject forward(dnn::kOperationConvolution);
  const float one = 1, zero = 0;
  const DnnObject* value = &result();
  forward.Set(dnn::kForwardAlpha, dnn::kFloatValue, 1, &one);
  forward.Set(dnn::kForwardBeta, dnn::kFloatValue, 1, &zero);
  forward.SetObject(dnn::kForwardConvolution, how);
  forward.SetObject(dnn::kForwardX, from);
  forward.SetObject(dnn::kForwardW, filter);
  forward.SetObject(dnn::kForwardY, *value);
  forward.Finalize();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(forward));

  // In the order that cuDNN's ready-made engines know: sum, bias, activation.
  auto then = [&](int mode, const DnnObject* other) {
    const DnnObject& next = result();
    AddPointwise(mode, *value, other, next);
    value = &next;
  };
  if (shape_.has_sum) then(dnn::kModeAdd, &add(Image(kSum, features, y.output, x.output, batch, false)));
  if (shape_.has_bias) then(dnn::kModeAdd, &add(Image(kBias, features, 1, 1, 1, false)));
  if (activates) then(ModeOf(shape_.after.kind), nullptr);

  DnnObject& graph = graph_.emplace_back(dnn::kOperationGraph);
  graph.Set(dnn::kGraphHandle, dnn::kHandleValue, 1, &handle);
  std::vector<DnnDescriptor> operations;
  for (const DnnObject& operation : operations_) operations.push_back(operation.get());
  graph.Set(dnn::kGraphOperations, dnn::kDescriptorValue, static_cast<int64_t>(operations.size()), operations.data());
  graph.Finalize();
}

// Engines that round operands are for those who allowed it.
bool ConvolutionGraph::IsWelcome(DnnDescriptor config) const {
  const CudnnApi& api = Cudnn().api;
  DnnObject engine(dnn::kEngine);
  DnnDescriptor found = engine.get();
  int64_t count = 0;
  if (api.GetAttribute(config, dnn::kConfigEngine, dnn::kDescriptorValue, 1, &count, &found) != kSuccess) return false;
  int notes[16] = {};
  if (api.GetAttribute(found, dnn::kEngineNotes, dnn::kNumericalNoteValue, 16, &count, notes) != kSuccess) return false;
  const int *begin = notes, *end = notes + std::clamp<int64_t>(count, 0, 16);
  if (std::find(begin, end, dnn::kNoteDownConverts) != end) return false;
  const bool exact = shape_.dtype == DType::kFloat && !shape_.tf32;
  return !exact || std::find(begin, end, dnn::kNoteTensorCore) == end;
}

void ConvolutionGraph::FindWays(int mode) {
  const CudnnApi& api = Cudnn().api;
  DnnObject heuristic(dnn::kHeuristic);
  heuristic.SetObject(dnn::kHeuristicGraph, graph_[0]);
  heuristic.SetEnum(dnn::kHeuristicMode, dnn::kHeuristicModeValue, mode);
  heuristic.Finalize();
  constexpr int64_t kMostConfigs = 24;
  std::vector<DnnObject> configs;
  std::vector<DnnDescriptor> places;
  for (int64_t i = 0; i < kMostConfigs; ++i) places.push_back(configs.emplace_back(dnn::kEngineConfig).get());
  int64_t count = 0;
  Check(api.GetAttribute(heuristic.get(), dnn::kHeuristicResults, dnn::kDescriptorValue, kMostConfigs, &count,
                         places.data()),
        "cudnnBackendGetAttribute");
  count = std::clamp<int64_t>(count, 0, kMostConfigs);
  for (size_t i = 0; i < static_cast<size_t>(count) && plans_.size() < kMostPlans; ++i)
    if (IsWelcome(places[i])) plans_.push_back({std::move(configs[i]), {}, 0});
}

void ConvolutionGraph::Prepare(DnnHandle handle, int way) {
  Way& chosen = plans_[static_cast<size_t>(way)];
  if (!chosen.plan.empty()) return;
  DnnObject plan(dnn::kExecutionPlan);
  plan.Set(dnn::kPlanHandle, dnn::kHandleValue, 1, &handle);
  plan.SetObject(dnn::kPlanConfig, chosen.config);
  plan.Finalize();
  Keep(std::move(plan), chosen);
}

ConvolutionGraph::ConvolutionGraph(const ConvolutionShape& shape, DnnHandle handle, const std::string&,
                                   const std::string& text)
    : shape_(shape) {
  DnnObject plan(dnn::kExecutionPlan);
  plan.Set(dnn::kPlanHandle, dnn::kHandleValue, 1, &handle);
  plan.Set(dnn::kPlanText, dnn::kCharValue, static_cast<int64_t>(text.size()), text.data());
  plan.Finalize();
  Keep(std::move(plan), plans_.emplace_back(Way{DnnObject(dnn::kEngineConfig), {}, 0}));
}

std::string ConvolutionGraph::Text(int way) const {
  constexpr int64_t kLongest = int64_t{64} << 20;
  const Way& ready = plans_[static_cast<size_t>(way)];
  const CudnnApi& api = Cudnn().api;
  int64_t size = 0;
  if (ready.plan.empty() ||
      api.GetAttribute(ready.plan[0].get(), dnn::kPlanText, dnn::kCharValue, 0, &size, nullptr) != kSuccess ||
      size <= 0 || size > kLongest)
    return {};
  std::string text(static_cast<size_t>(size), '\0');
  if (api.GetAttribute(ready.plan[0].get(), dnn::kPlanText, dnn::kCharValue, size, &size, text.data()) != kSuccess)
    return {};
  return text;
}

void ConvolutionGraph::Keep(DnnObject plan, Way& chosen) {
  int64_t bytes = 0, found = 0;
  Check(Cudnn().api.GetAttribute(plan.get(), dnn::kPlanWorkspace, dnn::kInt64Value, 1, &found, &bytes),
        "cudnnBackendGetAttribute");
  if (bytes < 0 || static_cast<size_t>(bytes) > kMostWorkspace)
    Fail(ErrorCode::kUnsupported, "an engine of cuDNN needs a workspace of ", bytes, " bytes");
  chosen.workspace_bytes = static_cast<size_t>(bytes);
  chosen.plan.push_back(std::move(plan));
}

void ConvolutionGraph::Run(const Device& device, DnnHandle handle, int way, const ConvolutionOperands& operands) const {
  const Way& ready = plans_[static_cast<size_t>(way)];
  std::vector<int64_t> ids{kX, kW, kY};
  std::vector<const void*> pointers{operands.x, operands.w, operands.y};
  if (shape_.has_bias) ids.push_back(kBias), pointers.push_back(operands.bias);
  if (shape_.has_sum) ids.push_back(kSum), pointers.push_back(operands.sum);
  const void* workspace = ready.workspace_bytes > 0 ? device.Workspace(ready.workspace_bytes) : nullptr;
  DnnObject pack(dnn::kVariantPack);
  pack.Set(dnn::kPackPointers, dnn::kPointerValue, static_cast<int64_t>(pointers.size()), pointers.data());
  pack.Set(dnn::kPackIds, dnn::kInt64Value, static_cast<int64_t>(ids.size()), ids.data());
  pack.Set(dnn::kPackWorkspace, dnn::kPointerValue, 1, &workspace);
  pack.Finalize();
  Check(Cudnn().api.Execute(handle, ready.plan[0].get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace ferry::cuda
