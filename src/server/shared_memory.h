// Memory that clients on the same machine share with the server: POSIX shared memory, registered by a name.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/json.h"

namespace ferry::server {

class SharedRegion {
 public:
  // Throws Refusal.
  SharedRegion(std::string name, std::string key, size_t offset, size_t byte_size);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  std::byte* data() const { return data_; }
  size_t byte_size() const { return byte_size_; }
  Json Status() const;

 private:
  const std::string name_, key_;
  const size_t offset_, byte_size_;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

// A part of a region, which stays mapped as long as somebody has one.
struct MemoryRange {
  std::shared_ptr<SharedRegion> region;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class SharedMemory {
 public:
  explicit SharedMemory(bool allowed) : allowed_(allowed) {}
  void Register(const std::string& name, const std::string& key, uint64_t offset, uint64_t byte_size);
  void Unregister(const std::string& name);    // empty: all
  Json Status(const std::string& name) const;  // a list; empty name: all
  MemoryRange Find(const std::string& name, uint64_t offset, uint64_t byte_size) const;
  void RequireAllowed() const;

 private:
  const bool allowed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SharedRegion>> regions_;
};

}  // namespace ferry::server
