#include "tests/providers/island.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

namespace ferry::testing {
namespace {

class Island final : public MemorySpace {
 public:
  std::string_view name() const override { return "island"; }

  std::byte* Allocate(size_t bytes) override {
    const size_t length = (bytes + kPage - 1) / kPage * kPage + kPage;
    const int file = memfd_create("island", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(length)) != 0)
      Fail(ErrorCode::kLimit, "no memory on the island");
    void* shown = mmap(nullptr, length, PROT_NONE, MAP_SHARED, file, 0);
    void* real = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shown == MAP_FAILED || real == MAP_FAILED) Fail(ErrorCode::kLimit, "no memory on the island");
    std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(shown)] = {static_cast<std::byte*>(real), length};
    in_use_ += bytes;
    return static_cast<std::byte*>(shown);
  }

  void Free(std::byte* data, size_t bytes) override {
    if (!data) return;
    std::lock_guard lock(mutex_);
    auto block = blocks_.find(data);
    munmap(block->first, block->second.length);
    munmap(block->second.real, block->second.length);
    blocks_.erase(block);
    in_use_ -= bytes;
  }

  void CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(Real(to), from, bytes); }
  void CopyToHost(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, Real(from), bytes);  // none: somebody waits for the device, which is never late here
  }
  void CopyInside(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memmove(Real(to), Real(from), bytes);
  }

  std::byte* Real(const std::byte* shown) {
    std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(const_cast<std::byte*>(shown));
    --block;
    return block->second.real + (shown - block->first);
  }

  size_t in_use() {
    std::lock_guard lock(mutex_);
    return in_use_;
  }

 private:
  static constexpr size_t kPage = 4096;
  struct Block {
    std::byte* real;
    size_t length;
  };
  std::mutex mutex_;
  std::map<std::byte*, Block> blocks_;
  size_t in_use_ = 0;
};

Island& TheIsland() {
  static auto* island = new Island;  // outlives whatever tests leave behind
  return *island;
}

Tensor AsTheIslandSees(const Tensor& tensor) {
  return tensor.on_host() ? tensor : Tensor::Borrow(tensor.dtype(), tensor.shape(), TheIsland().Real(tensor.address()));
}

class IslandKernel final : public Kernel {
 public:
  explicit IslandKernel(const Operator& op) : op_(op) {}

  void Run(OpContext& context) const override {
    std::vector<Value> inputs(context.input_count()), outputs(context.output_count());
    std::vector<const Value*> input_places;
    std::vector<Value*> output_places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (context.Has(i)) inputs[i] = AsTheIslandSees(context.Input(i));
      input_places.push_back(&inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) output_places.push_back(context.Wants(i) ? &outputs[i] : nullptr);
    OpContext inside(context.node(), input_places, output_places, context.services());
    op_.compute(inside);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].present()) continue;
      const Tensor& made = outputs[i].tensor();
      Tensor& home = context.Output(i, made.dtype(), made.shape());
      if (made.bytes() > 0) home.space().CopyFromHost(home.address(), made.raw(), made.bytes());
    }
  }

 private:
  const Operator& op_;
};

class IslandCompiler final : public Compiler {
 public:
  explicit IslandCompiler(bool (*takes)(std::string_view)) : takes_(takes) {}
  std::optional<ChosenKernel> Choose(const KernelRequest& request) const override {
    if (!request.op.domain.empty() || !takes_(request.op.name)) return std::nullopt;
    KernelPlan plan{.name = "island"};
    if (request.op.name == "Slice" || request.op.name == "Expand") plan.reads_on_host = ~kInput0;
    return ChosenKernel{plan, std::make_unique<IslandKernel>(request.op)};
  }

 private:
  bool (*takes_)(std::string_view);
};

}  // namespace

MemorySpace& IslandMemory() { return TheIsland(); }
size_t IslandBytesInUse() { return TheIsland().in_use(); }

std::unique_ptr<const Compiler> IslandProvider::Open(const ProviderOptions&) const {
  return std::make_unique<IslandCompiler>(takes_);
}

}  // namespace ferry::testing
