#include "graph/name_table.h"

#include <functional>

#include "base/error.h"

namespace ferry {

NameTable::NameTable(size_t expected) {
  names_.reserve(expected);
  size_t slots = 16;
  while (slots < 2 * expected) slots *= 2;
  Grow(slots);
}

uint32_t NameTable::Hash(std::string_view name) { return static_cast<uint32_t>(std::hash<std::string_view>()(name)); }

size_t NameTable::SlotOf(std::string_view name, uint32_t hash) const {
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
    const Name& known = names_[slots_[slot]];
    if (known.hash == hash && std::string_view(text_).substr(known.begin, known.size) == name) break;
  }
  return slot;
}

uint32_t NameTable::Add(std::string_view name) {
  const uint32_t hash = Hash(name);
  size_t slot = SlotOf(name, hash);
  if (slots_[slot] != kNone) return slots_[slot];
  if (2 * (names_.size() + 1) > slots_.size()) {
    Grow(2 * slots_.size());
    slot = SlotOf(name, hash);
  }
  if (text_.size() + name.size() > UINT32_MAX) Fail(ErrorCode::kLimit, "the names of a graph take more than 4 GB");
  names_.push_back({hash, static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(name.size())});
  text_ += name;
  return slots_[slot] = static_cast<uint32_t>(names_.size() - 1);
}

void NameTable::Grow(size_t slots) {
  slots_.assign(slots, kNone);
  for (size_t i = 0; i < names_.size(); ++i) {
    size_t slot = names_[i].hash & (slots - 1);
    while (slots_[slot] != kNone) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<uint32_t>(i);
  }
}

}  // namespace ferry
