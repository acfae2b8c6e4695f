#include "engine/program_cache.h"

#include <algorithm>

namespace ferry {

void ProgramCache::KeepAtLeast(size_t programs) {
  std::lock_guard lock(mutex_);
  most_ = std::max(most_, programs);
}

size_t ProgramCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

std::shared_ptr<const ProgramCache::Entry> ProgramCache::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  clock_.fetch_add(1, std::memory_order_relaxed);
  auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second->Use();
  return found->second;
}

std::shared_ptr<const ProgramCache::Entry> ProgramCache::Keep(const std::string& key,
                                                              std::shared_ptr<const Program> program) {
  auto entry = std::make_shared<const Entry>(clock_, std::move(program));
  std::shared_ptr<const Entry> leaving;  // its memory is given back without the lock
  std::lock_guard lock(mutex_);
  if (entries_.size() >= most_) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use() < b.second->last_use();
    });
    leaving = std::move(oldest->second);
    entries_.erase(oldest);
  }
  clock_.fetch_add(1, std::memory_order_relaxed);
  entry->Use();
  entries_[key] = entry;
  return entry;
}

std::shared_ptr<const ProgramCache::Entry> ProgramCache::Get(const std::string& key,
                                                             FunctionRef<std::shared_ptr<const Program>()> make) {
  if (auto found = Find(key)) return found;
  return flights_.Do(key, [&] {
    auto found = Find(key);  // made between the first look and now
    return found ? found : Keep(key, make());
  });
}

}  // namespace ferry
