// An NVIDIA GPU: its context, its memory as a space of tensors, and streams, one for each thread that uses it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "providers/cuda/libraries.h"
#include "tensor/memory_space.h"

namespace ferry::cuda {

// Throws for any status but success, with CUDA's own name for it: "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (…)".
void CheckDriver(int status, const char* function);

struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int shared_bytes_per_block = 0;
  size_t total_bytes = 0;
};
// Of every device that the driver shows; none where there is no driver or it shows none. Makes no contexts.
std::vector<DeviceFacts> FindDevices();

class Device;

// What kernels need beside their operands while they are recorded. It belongs to the recording, which is played on any
// stream: memory for values inside a step, a workspace for libraries, a word for indices that lie outside.
class RecordedNeeds {
 public:
  explicit RecordedNeeds(const Device& device) : device_(device) {}
  ~RecordedNeeds();
  RecordedNeeds(const RecordedNeeds&) = delete;
  RecordedNeeds& operator=(const RecordedNeeds&) = delete;

  std::byte* Allocate(size_t size);
  bool Free(std::byte* data, size_t size);  // false: it is not from here
  std::byte* Workspace(size_t bytes);
  std::atomic<int>* Fault();
  std::atomic<int>* fault() const { return fault_; }  // null: no kernel asked for it
  bool is_settled() const { return in_use_ == 0; }    // nothing of it outlives the recording

 private:
  const Device& device_;
  std::map<std::byte*, size_t> all_;
  std::map<size_t, std::vector<std::byte*>> idle_;
  size_t in_use_ = 0;
  std::byte* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::atomic<int>* fault_ = nullptr;
};

// Memory that a thread freed stays here for its next request, which comes behind on the same stream: it may be freed
// while the device still works with it there. All of it goes back to the driver before a request is refused.
class DeviceMemory final : public MemorySpace {
 public:
  explicit DeviceMemory(const Device& device);

  std::string_view name() const override { return name_; }
  std::byte* Allocate(size_t bytes) override;
  void Free(std::byte* data, size_t bytes) override;
  // On the calling thread's stream, behind what it was given before.
  void CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) override;
  void CopyToHost(std::byte* to, const std::byte* from, size_t bytes) override;
  void CopyInside(std::byte* to, const std::byte* from, size_t bytes) override;

  struct Use {
    size_t in_use, kept;  // bytes handed out, bytes waiting for the next request
  };
  Use use() const;
  // More than this is never taken from the driver (0: no such limit).
  void SetLimit(size_t bytes);
  // Gives memory that nobody uses back to the driver.
  void Trim();

  // As Allocate, apart from what any thread keeps: for what a recording uses whenever it is played.
  std::byte* AllocateForRecording(size_t size);
  void FreeOfRecording(std::byte* data, size_t size);

 private:
  bool TakeFromDriver(size_t bytes, DeviceAddress& address);
  void TrimLocked();
  [[noreturn]] void FailFull(size_t bytes);

  const Device& device_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::map<std::pair<StreamHandle, size_t>, std::vector<DeviceAddress>> idle_;  // by stream and size
  size_t in_use_ = 0, kept_ = 0, limit_ = 0;
};

class Device {
 public:
  // Opened at first use. Throws kUnsupported saying what is missing, kInvalidArgument when there is no such device.
  static Device& Get(int ordinal = 0);

  const DeviceFacts& facts() const { return facts_; }
  // What the driver calls need: this device's context on the calling thread. Everything below does it by itself.
  const DriverApi& Use() const;
  DeviceMemory& memory() const { return *memory_; }
  // The calling thread's own stream, which lasts as long as the thread.
  StreamHandle stream() const;
  void Synchronize() const;  // waits for that stream
  // Memory that libraries use while they compute on that stream; what was there is gone with the next call.
  std::byte* Workspace(size_t bytes) const;
  // Gives that memory, and all that nobody uses, back to the driver.
  void ReleaseIdle() const;
  // Where kernels on that stream report an index that lies outside (as an int that is not 0): Synchronize throws it.
  DeviceAddress fault() const;
  // While this is set, what the calling thread's kernels need comes from there (null: from the thread's own lane).
  void SetRecording(RecordedNeeds* needs) const;
  RecordedNeeds* recording() const;
  // The next Synchronize of this thread looks at this word too.
  void WatchFault(std::atomic<int>* fault) const;
  // A word that kernels can write and the host can read, and its way back.
  std::atomic<int>* TakeFault() const;
  void GiveBackFault(std::atomic<int>* fault) const;

 private:
  // What a thread needs to work with the device.
  struct Lane {
    StreamHandle stream = nullptr;
    std::atomic<int>* fault = nullptr;  // host memory that the device writes
    std::byte* workspace = nullptr;
    size_t workspace_bytes = 0;
    RecordedNeeds* recording = nullptr;
    std::vector<std::atomic<int>*> watched;
  };
  friend struct LanesOfThread;

  explicit Device(DeviceFacts facts);
  Lane& lane() const;

  DeviceFacts facts_;
  Context context_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  mutable std::mutex mutex_;
  mutable std::vector<Lane*> idle_lanes_;  // of threads that have ended
  mutable std::vector<std::atomic<int>*> idle_faults_;
};

}  // namespace ferry::cuda
