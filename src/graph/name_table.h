// Numbers for names: 0, 1, 2 … in the order they come. One table in place of a map for each thing that is known by
// name, and no memory of its own for each name: graphs are indexed many times while a model loads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

class NameTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit NameTable(size_t expected = 0);

  size_t size() const { return names_.size(); }
  // kNone when the name is not there.
  uint32_t Find(std::string_view name) const { return slots_[SlotOf(name, Hash(name))]; }
  bool Has(std::string_view name) const { return Find(name) != kNone; }
  // The number of a name, which is size() before the call when the name is new.
  uint32_t Add(std::string_view name);

 private:
  struct Name {
    uint32_t hash;
    uint32_t begin, size;  // in text_
  };
  static uint32_t Hash(std::string_view name);
  size_t SlotOf(std::string_view name, uint32_t hash) const;
  void Grow(size_t slots);

  std::string text_;  // all names, one behind the other
  std::vector<Name> names_;
  std::vector<uint32_t> slots_;  // a power of two, half of them empty at least
};

}  // namespace ferry
