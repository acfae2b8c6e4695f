#include "providers/cuda/device.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"

namespace ferry::cuda {
namespace {

constexpr int kMostDevices = 64;

int AttributeOf(const DriverApi& driver, DeviceNumber device, int attribute) {
  int value = 0;
  CheckDriver(driver.DeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

DeviceFacts FactsOf(const DriverApi& driver, int ordinal) {
  DeviceNumber device = 0;
  CheckDriver(driver.DeviceGet(&device, ordinal), "cuDeviceGet");
  char name[256] = {};
  CheckDriver(driver.DeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  DeviceFacts facts;
  facts.ordinal = ordinal;
  facts.name = name;
  facts.compute_major = AttributeOf(driver, device, kComputeMajor);
  facts.compute_minor = AttributeOf(driver, device, kComputeMinor);
  facts.multiprocessors = AttributeOf(driver, device, kMultiprocessors);
  facts.shared_bytes_per_block = AttributeOf(driver, device, kSharedBytesPerBlock);
  CheckDriver(driver.DeviceTotalMem(&facts.total_bytes, device), "cuDeviceTotalMem");
  return facts;
}

// 0 where the driver finds none: it then refuses to start with "no device".
int CountDevices(const DriverApi& driver) {
  int count = 0;
  if (driver.Init(0) != kSuccess || driver.DeviceGetCount(&count) != kSuccess) return 0;
  return std::min(count, kMostDevices);
}

// "cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)"
std::string NamesOf(const DriverApi& driver, int count) {
  std::string names;
  for (int i = 0; i < count; ++i) names += Cat(i > 0 ? ", " : "", "cuda:", i, " (", FactsOf(driver, i).name, ")");
  return names.empty() ? "none" : names;
}

// Small requests share sizes, so that one fits the next; large ones waste at most 2 MB.
size_t RoundedSize(size_t bytes) {
  constexpr size_t kSmallest = 512, kLarge = size_t{2} << 20;
  if (bytes >= kLarge) return (bytes + kLarge - 1) / kLarge * kLarge;
  size_t size = kSmallest;
  while (size < bytes) size *= 2;
  return size;
}

DeviceAddress AddressOf(const std::byte* data) { return reinterpret_cast<DeviceAddress>(data); }

}  // namespace

void CheckDriver(int status, const char* function) {
  if (status == kSuccess) return;
  const char *name = nullptr, *text = nullptr;
  const DriverApi& driver = Driver().Get();
  driver.GetErrorName(status, &name);
  driver.GetErrorString(status, &text);
  Fail(status == kErrorOutOfMemory ? ErrorCode::kLimit : ErrorCode::kInternal, function, ": ",
       name ? name : Cat("CUDA error ", status), " (", text ? text : "unknown to the driver", ")");
}

std::vector<DeviceFacts> FindDevices() {
  std::vector<DeviceFacts> found;
  const Library<DriverApi>& driver = Driver();
  if (!driver.report.usable()) return found;
  const int count = CountDevices(driver.api);
  for (int i = 0; i < count; ++i) found.push_back(FactsOf(driver.api, i));
  return found;
}

DeviceMemory::DeviceMemory(const Device& device) : device_(device), name_(Cat("cuda:", device.facts().ordinal)) {}

bool DeviceMemory::TakeFromDriver(size_t bytes, DeviceAddress& address) {
  if (limit_ != 0 && (bytes > limit_ || in_use_ + kept_ > limit_ - bytes)) return false;
  int status = device_.Use().MemAlloc(&address, bytes);
  if (status == kErrorOutOfMemory) return false;
  CheckDriver(status, "cuMemAlloc");
  return true;
}

std::byte* DeviceMemory::Allocate(size_t bytes) {
  if (RecordedNeeds* recording = device_.recording()) return recording->Allocate(RoundedSize(bytes));
  StreamHandle stream = device_.stream();
  std::lock_guard lock(mutex_);
  if (bytes > device_.facts().total_bytes) FailFull(bytes);
  const size_t size = RoundedSize(bytes);
  DeviceAddress address = 0;
  auto idle = idle_.find({stream, size});
  if (idle != idle_.end() && !idle->second.empty()) {
    address = idle->second.back();
    idle->second.pop_back();
    kept_ -= size;
  } else if (!TakeFromDriver(size, address)) {
    TrimLocked();
    if (!TakeFromDriver(size, address)) FailFull(bytes);
  }
  in_use_ += size;
  return reinterpret_cast<std::byte*>(address);
}

void DeviceMemory::Free(std::byte* data, size_t bytes) {
  if (!data) return;
  const size_t size = RoundedSize(bytes);
  if (RecordedNeeds* recording = device_.recording(); recording && recording->Free(data, size)) return;
  StreamHandle stream = device_.stream();
  std::lock_guard lock(mutex_);
  idle_[{stream, size}].push_back(AddressOf(data));
  in_use_ -= size;
  kept_ += size;
}

std::byte* DeviceMemory::AllocateForRecording(size_t size) {
  std::lock_guard lock(mutex_);
  DeviceAddress address = 0;
  if (size > device_.facts().total_bytes || !TakeFromDriver(size, address)) FailFull(size);
  in_use_ += size;
  return reinterpret_cast<std::byte*>(address);
}

void DeviceMemory::FreeOfRecording(std::byte* data, size_t size) {
  const DriverApi& driver = device_.Use();
  std::lock_guard lock(mutex_);
  driver.MemFree(AddressOf(data));
  in_use_ -= size;
}

RecordedNeeds::~RecordedNeeds() {
  for (const auto& [data, size] : all_) device_.memory().FreeOfRecording(data, size);
  if (fault_) device_.GiveBackFault(fault_);
}

std::byte* RecordedNeeds::Allocate(size_t size) {
  std::vector<std::byte*>& idle = idle_[size];
  if (idle.empty()) {
    idle.push_back(device_.memory().AllocateForRecording(size));
    all_[idle.back()] = size;
  }
  std::byte* data = idle.back();
  idle.pop_back();
  in_use_ += size;
  return data;
}

bool RecordedNeeds::Free(std::byte* data, size_t size) {
  if (!all_.count(data)) return false;
  idle_[size].push_back(data);
  in_use_ -= size;
  return true;
}

// Kernels recorded before keep the smaller one that they were given.
std::byte* RecordedNeeds::Workspace(size_t bytes) {
  if (workspace_bytes_ >= bytes) return workspace_;
  workspace_bytes_ = RoundedSize(bytes);
  workspace_ = device_.memory().AllocateForRecording(workspace_bytes_);
  all_[workspace_] = workspace_bytes_;
  return workspace_;
}

std::atomic<int>* RecordedNeeds::Fault() {
  if (!fault_) fault_ = device_.TakeFault();
  return fault_;
}

void DeviceMemory::TrimLocked() {
  const DriverApi& driver = device_.Use();  // which waits for what is still at work there
  for (auto& [key, addresses] : idle_)
    for (DeviceAddress address : addresses) driver.MemFree(address);
  idle_.clear();
  kept_ = 0;
}

void DeviceMemory::Trim() {
  std::lock_guard lock(mutex_);
  TrimLocked();
}

void DeviceMemory::FailFull(size_t bytes) {
  size_t free = 0, total = 0;
  device_.Use().MemGetInfo(&free, &total);
  Fail(ErrorCode::kLimit, name_, ": no memory for ", bytes, " bytes: ", in_use_, " bytes are in use here, ", free,
       " of the device's ", total, " are free", limit_ ? Cat(", and the limit is ", limit_) : std::string(),
       "; take a smaller batch, or end other programs on this device");
}

DeviceMemory::Use DeviceMemory::use() const {
  std::lock_guard lock(mutex_);
  return {in_use_, kept_};
}

void DeviceMemory::SetLimit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void DeviceMemory::CopyFromHost(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  const DriverApi& driver = device_.Use();
  CheckDriver(driver.MemcpyHtoDAsync(AddressOf(to), from, bytes, device_.stream()), "cuMemcpyHtoDAsync");
  device_.Synchronize();
}

void DeviceMemory::CopyToHost(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return device_.Synchronize();
  const DriverApi& driver = device_.Use();
  CheckDriver(driver.MemcpyDtoHAsync(to, AddressOf(from), bytes, device_.stream()), "cuMemcpyDtoHAsync");
  device_.Synchronize();
}

void DeviceMemory::CopyInside(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  const DriverApi& driver = device_.Use();
  CheckDriver(driver.MemcpyDtoDAsync(AddressOf(to), AddressOf(from), bytes, device_.stream()), "cuMemcpyDtoDAsync");
}

// Those of one thread, by device. They go to threads that come later.
struct LanesOfThread {
  std::array<Device::Lane*, kMostDevices> lanes{};
  std::array<const Device*, kMostDevices> devices{};

  ~LanesOfThread() {
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (!lanes[i]) continue;
      std::lock_guard lock(devices[i]->mutex_);
      devices[i]->idle_lanes_.push_back(lanes[i]);
      lanes[i] = nullptr;
    }
  }
};

static thread_local LanesOfThread lanes_of_thread;

Device::Device(DeviceFacts facts) : facts_(std::move(facts)) {
  const DriverApi& driver = Driver().Get();
  if (facts_.compute_major < 7)
    Fail(ErrorCode::kUnsupported, "device cuda:", facts_.ordinal, " (", facts_.name, ") has compute capability ",
         facts_.compute_major, ".", facts_.compute_minor, "; 7.0 is the oldest that works");
  DeviceNumber number = 0;
  CheckDriver(driver.DeviceGet(&number, facts_.ordinal), "cuDeviceGet");
  CheckDriver(driver.PrimaryCtxRetain(&context_, number), "cuDevicePrimaryCtxRetain");
  memory_ = std::make_unique<DeviceMemory>(*this);
}

Device& Device::Get(int ordinal) {
  static std::mutex mutex;
  static std::array<Device*, kMostDevices> devices{};  // never closed: streams and memory may be in use until the end
  std::lock_guard lock(mutex);
  if (ordinal >= 0 && ordinal < kMostDevices && devices[static_cast<size_t>(ordinal)])
    return *devices[static_cast<size_t>(ordinal)];
  const DriverApi& driver = Driver().Get();
  CheckDriver(driver.Init(0), "cuInit");
  const int count = CountDevices(driver);
  if (ordinal < 0 || ordinal >= count)
    Fail(ErrorCode::kInvalidArgument, "there is no device cuda:", ordinal, "; the driver shows ",
         NamesOf(driver, count));
  return *(devices[static_cast<size_t>(ordinal)] = new Device(FactsOf(driver, ordinal)));
}

const DriverApi& Device::Use() const {
  const DriverApi& driver = Driver().api;
  CheckDriver(driver.CtxSetCurrent(context_), "cuCtxSetCurrent");
  return driver;
}

Device::Lane& Device::lane() const {
  const auto index = static_cast<size_t>(facts_.ordinal);
  Lane*& mine = lanes_of_thread.lanes[index];
  if (mine) return *mine;
  lanes_of_thread.devices[index] = this;
  {
    std::lock_guard lock(mutex_);
    if (!idle_lanes_.empty()) {
      mine = idle_lanes_.back();
      idle_lanes_.pop_back();
      return *mine;
    }
  }
  auto made = std::make_unique<Lane>();
  const DriverApi& driver = Use();
  CheckDriver(driver.StreamCreate(&made->stream, kStreamNonBlocking), "cuStreamCreate");
  made->fault = TakeFault();
  mine = made.release();
  return *mine;
}

StreamHandle Device::stream() const { return lane().stream; }

std::atomic<int>* Device::TakeFault() const {
  std::lock_guard lock(mutex_);
  if (idle_faults_.empty()) {
    constexpr size_t kWords = 256;
    void* words = nullptr;
    CheckDriver(Use().MemAllocHost(&words, kWords * sizeof(std::atomic<int>)), "cuMemAllocHost");
    for (size_t i = 0; i < kWords; ++i)
      idle_faults_.push_back(new (static_cast<std::atomic<int>*>(words) + i) std::atomic<int>(0));
  }
  std::atomic<int>* fault = idle_faults_.back();
  idle_faults_.pop_back();
  return fault;
}

void Device::GiveBackFault(std::atomic<int>* fault) const {
  std::lock_guard lock(mutex_);
  fault->store(0);
  idle_faults_.push_back(fault);
}

DeviceAddress Device::fault() const {
  Lane& mine = lane();
  return reinterpret_cast<DeviceAddress>(mine.recording ? mine.recording->Fault() : mine.fault);
}

void Device::SetRecording(RecordedNeeds* needs) const { lane().recording = needs; }
RecordedNeeds* Device::recording() const { return lane().recording; }
void Device::WatchFault(std::atomic<int>* fault) const { lane().watched.push_back(fault); }

void Device::Synchronize() const {
  Lane& mine = lane();
  CheckDriver(Use().StreamSynchronize(mine.stream), "cuStreamSynchronize");
  int faults = mine.fault->exchange(0);
  for (std::atomic<int>* watched : mine.watched) faults |= watched->exchange(0);
  mine.watched.clear();
  if (faults != 0) Fail(ErrorCode::kInvalidArgument, "an index lies outside the tensor that it is for");
}

std::byte* Device::Workspace(size_t bytes) const {
  Lane& mine = lane();
  if (mine.recording) return mine.recording->Workspace(bytes);
  if (mine.workspace_bytes >= bytes) return mine.workspace;
  if (mine.workspace) {
    Synchronize();
    memory_->Free(mine.workspace, mine.workspace_bytes);
    mine.workspace = nullptr, mine.workspace_bytes = 0;
  }
  mine.workspace = memory_->Allocate(bytes);
  mine.workspace_bytes = bytes;
  return mine.workspace;
}

void Device::ReleaseIdle() const {
  Lane& mine = lane();
  if (mine.workspace) memory_->Free(mine.workspace, mine.workspace_bytes);
  mine.workspace = nullptr, mine.workspace_bytes = 0;
  memory_->Trim();
}

}  // namespace ferry::cuda
