// A convolution with what follows it as a graph of cuDNN's: the fastest of the engines that its heuristics name.
#pragma once

#include <memory>
#include <vector>

#include "providers/cuda/convolution.h"

namespace ferry::cuda {

// A descriptor of cuDNN's graph interface. Throws where cuDNN refuses.
class DnnObject {
 public:
  explicit DnnObject(dnn::DescriptorKind kind);
  ~DnnObject();
  DnnObject(DnnObject&& other) noexcept;
  DnnObject(const DnnObject&) = delete;
  DnnObject& operator=(const DnnObject&) = delete;

  DnnDescriptor get() const { return object_; }
  void Set(dnn::AttributeName name, dnn::ValueKind kind, int64_t count, const void* values);
  void SetInt(dnn::AttributeName name, int64_t value) { Set(name, dnn::kInt64Value, 1, &value); }
  void SetObject(dnn::AttributeName name, const DnnObject& value) {
    Set(name, dnn::kDescriptorValue, 1, &value.object_);
  }
  template <class Enum>
  void SetEnum(dnn::AttributeName name, dnn::ValueKind kind, Enum value) {
    const int number = static_cast<int>(value);
    Set(name, kind, 1, &number);
  }
  void Finalize();

 private:
  DnnDescriptor object_ = nullptr;
};

class ConvolutionGraph {
 public:
  // Throws kUnsupported or kInternal where cuDNN has no engine for the shape.
  ConvolutionGraph(const ConvolutionShape& shape, DnnHandle handle, const std::string& what);
  // With one way, which another process made ready: see Text. Throws where cuDNN does not take it.
  ConvolutionGraph(const ConvolutionShape& shape, DnnHandle handle, const std::string& what, const std::string& text);
  // The activations that a graph can hold.
  static bool CanApply(const Activation& activation);

  int ways() const { return static_cast<int>(plans_.size()); }
  // Makes the engine ready, which may compile it; throws where that cannot be.
  void Prepare(DnnHandle handle, int way);
  // After Prepare: the engine as text, whatever was compiled for it included; empty where cuDNN has none.
  std::string Text(int way) const;
  size_t workspace_bytes(int way) const { return plans_[static_cast<size_t>(way)].workspace_bytes; }
  void Run(const Device& device, DnnHandle handle, int way, const ConvolutionOperands& operands) const;

 private:
  struct Way {
    DnnObject config;
    std::vector<DnnObject> plan;  // one, when it is ready
    size_t workspace_bytes = 0;
  };
  void Describe(DnnHandle handle);
  DnnObject Image(int64_t id, int64_t channels, int64_t height, int64_t width, int64_t batch, bool is_virtual);
  void AddPointwise(int mode, const DnnObject& x, const DnnObject* b, const DnnObject& y);
  void FindWays(int mode);
  bool IsWelcome(DnnDescriptor config) const;
  static void Keep(DnnObject plan, Way& way);

  const ConvolutionShape shape_;
  std::vector<DnnObject> tensors_, operations_, parts_;
  std::vector<DnnObject> graph_;  // one
  std::vector<Way> plans_;
};

}  // namespace ferry::cuda
