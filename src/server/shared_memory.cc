#include "server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/refusal.h"

namespace ferry::server {

SharedRegion::SharedRegion(std::string name, std::string key, size_t offset, size_t byte_size)
    : name_(std::move(name)), key_(std::move(key)), offset_(offset), byte_size_(byte_size) {
  const size_t first = key_.find_first_not_of('/');
  if (first == std::string::npos)
    Refuse(Code::kInvalidArgument, "cannot register shared memory region '", Printable(name_), "' - invalid shm key '",
           Printable(key_), "'");
  // A key names an object of shared memory, never a path elsewhere.
  if (key_.find_first_of(std::string_view("/\0", 2), first) != std::string::npos || key_.substr(first) == "..")
    Refuse(Code::kInternal, "Unable to open shared memory region: '", Printable(key_), "'");
  const int descriptor = shm_open(key_.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (descriptor < 0) Refuse(Code::kInternal, "Unable to open shared memory region: '", Printable(key_), "'");
  struct stat status {};
  const bool known = fstat(descriptor, &status) == 0 && status.st_size >= 0;
  const auto size = known ? static_cast<size_t>(status.st_size) : 0;
  if (!known || byte_size == 0 || offset > size || byte_size > size - offset) {
    close(descriptor);
    Refuse(Code::kInvalidArgument, "failed to register shared memory region '", Printable(name_),
           "': invalid args: ", byte_size, " bytes at offset ", offset, " do not lie in its ", size, " bytes");
  }
  mapped_bytes_ = offset + byte_size;
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    Refuse(Code::kInternal, "failed to register shared memory region '", Printable(name_), "': it cannot be mapped");
  }
  data_ = static_cast<std::byte*>(mapped_) + offset;
}

SharedRegion::~SharedRegion() {
  if (mapped_) munmap(mapped_, mapped_bytes_);
}

Json SharedRegion::Status() const {
  return Json().Set("name", name_).Set("key", key_).Set("offset", offset_).Set("byte_size", byte_size_);
}

void SharedMemory::RequireAllowed() const {
  if (!allowed_)
    Refuse(Code::kUnimplemented,
           "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.");
}

void SharedMemory::Register(const std::string& name, const std::string& key, uint64_t offset, uint64_t byte_size) {
  RequireAllowed();
  std::lock_guard lock(mutex_);
  if (regions_.count(name))
    Refuse(Code::kAlreadyExists, "shared memory region '", Printable(name), "' already in manager");
  constexpr size_t kMostRegions = 10'000;
  if (regions_.size() >= kMostRegions) Refuse(Code::kExhausted, "there are ", kMostRegions, " regions already");
  regions_[name] = std::make_shared<SharedRegion>(name, key, offset, byte_size);
}

void SharedMemory::Unregister(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (name.empty())
    regions_.clear();
  else
    regions_.erase(name);
}

Json SharedMemory::Status(const std::string& name) const {
  std::lock_guard lock(mutex_);
  Json list = Json::Array{};
  if (!name.empty() && !regions_.count(name))
    Refuse(Code::kNotFound, "Unable to find system shared memory region: '", Printable(name), "'");
  for (const auto& [known, region] : regions_)
    if (name.empty() || name == known) list.Add(region->Status());
  return list;
}

MemoryRange SharedMemory::Find(const std::string& name, uint64_t offset, uint64_t byte_size) const {
  RequireAllowed();
  std::lock_guard lock(mutex_);
  auto found = regions_.find(name);
  if (found == regions_.end()) Refuse(Code::kNotFound, "Unable to find shared memory region: '", Printable(name), "'");
  const SharedRegion& region = *found->second;
  if (offset >= region.byte_size())
    Refuse(Code::kInvalidArgument, "Invalid offset for shared memory region: '", Printable(name), "'");
  if (byte_size > region.byte_size() - offset)
    Refuse(Code::kInvalidArgument, "Invalid offset + byte size for shared memory region: '", Printable(name), "'");
  return {found->second, region.data() + offset, static_cast<size_t>(byte_size)};
}

}  // namespace ferry::server
