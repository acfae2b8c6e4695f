#include "convert/c/program.h"

#include <algorithm>
#include <climits>
#include <numeric>

namespace ferry::c {
namespace {

constexpr size_t kAlignment = 8;
constexpr char kBegin = '\x01', kEnd = '\x02';

size_t Padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Block {
  int value;
  size_t bytes;
  int first, last;
};

// Each block in this order at the lowest place where nothing lies that is alive at the same time.
size_t Pack(const std::vector<Block>& blocks, std::vector<size_t>& offsets) {
  offsets.assign(blocks.size(), 0);
  size_t whole = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<std::pair<size_t, size_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last)
        taken.emplace_back(offsets[j], offsets[j] + blocks[j].bytes);
    std::sort(taken.begin(), taken.end());
    size_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= at && begin - at >= blocks[i].bytes) break;
      at = std::max(at, end);
    }
    offsets[i] = at;
    whole = std::max(whole, at + blocks[i].bytes);
  }
  return whole;
}

}  // namespace

int Program::Root(int value) const {
  while (values[static_cast<size_t>(value)].root != value) value = values[static_cast<size_t>(value)].root;
  return value;
}

size_t Program::Shift(int value) const {
  size_t shift = 0;
  for (; values[static_cast<size_t>(value)].root != value; value = values[static_cast<size_t>(value)].root)
    shift += values[static_cast<size_t>(value)].shift;
  return shift;
}

int Program::AddValue(Value value) {
  const int id = static_cast<int>(values.size());
  if (value.root < 0) value.root = id;
  value.bytes = StorageBytes(value.type, value.shape.ElementCount());
  values.push_back(std::move(value));
  return id;
}

int Program::AddConstant(Tensor tensor) {
  std::vector<int>& known = constant_of_[tensor.address()];
  for (int id : known) {
    const Tensor& there = constants[static_cast<size_t>(values[static_cast<size_t>(id)].number)];
    if (there.dtype() == tensor.dtype() && there.shape() == tensor.shape()) return id;
  }
  // Another shape of the same elements is the same constant.
  int number = -1;
  for (int id : known) {
    const int candidate = values[static_cast<size_t>(id)].number;
    const Tensor& there = constants[static_cast<size_t>(candidate)];
    if (there.dtype() == tensor.dtype() && there.size() == tensor.size()) number = candidate;
  }
  if (number < 0) number = FindSameContent(tensor);
  Value value{.name = {}, .type = tensor.dtype(), .shape = tensor.shape(), .place = Value::Place::kConstant};
  value.number = number >= 0 ? number : static_cast<int>(constants.size());
  if (number < 0) constants.push_back(tensor);
  const int id = AddValue(std::move(value));
  // A tensor that is not kept, because there is one like it, may leave its address to another.
  if (constants[static_cast<size_t>(values[static_cast<size_t>(id)].number)].address() == tensor.address())
    known.push_back(id);
  return id;
}

// Tables that several steps make alike are there once. The number of the constant; a new one is noted for those to
// come.
int Program::FindSameContent(const Tensor& tensor) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  std::vector<int>& alike = constants_by_hash_[std::hash<std::string_view>()(bytes)];
  for (int number : alike) {
    const Tensor& there = constants[static_cast<size_t>(number)];
    if (there.dtype() == tensor.dtype() && there.size() == tensor.size() &&
        std::equal(bytes.begin(), bytes.end(), reinterpret_cast<const char*>(there.raw())))
      return number;
  }
  alike.push_back(static_cast<int>(constants.size()));
  return -1;
}

void Program::Touch(int value, int time) {
  Value& root = values[static_cast<size_t>(Root(value))];
  root.first = root.first < 0 ? time : std::min(root.first, time);
  root.last = std::max(root.last, time);
}

std::string Program::Mark(int value, bool is_written) { return Cat(kBegin, is_written ? "w" : "r", value, kEnd); }

std::string Program::Pointer(int id, bool is_written) const {
  const Value& value = values[static_cast<size_t>(id)];
  const Value& root = values[static_cast<size_t>(Root(id))];
  const std::string_view type = StoredType(value.type);
  const size_t shift = Shift(id);
  const bool same = StoredType(root.type) == type;
  const std::string cast = Cat(is_written ? "(" : "(const ", type, " *)"),
                    none = is_written ? "(void *)" : "(const void *)";
  auto named = [&](const char* letters) {
    if (shift > 0)
      return Cat("(", cast, none, is_written ? "((unsigned char *)" : "((const unsigned char *)", letters, root.number,
                 " + ", shift, "))");
    return same ? Cat(letters, root.number) : Cat("(", cast, none, letters, root.number, ")");
  };
  switch (root.place) {
    case Value::Place::kArena:
      return Cat("(", cast, none, "(m", root.offset + shift ? Cat(" + ", root.offset + shift) : "", "))");
    case Value::Place::kConstant: return named("W");
    case Value::Place::kInput: return named("IN");
    case Value::Place::kOutput: return named("OUT");
  }
  return {};
}

std::string Program::Resolve(const std::string& line) const {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != kBegin) {
      out += line[i];
      continue;
    }
    const size_t end = line.find(kEnd, i);
    out += Pointer(std::stoi(line.substr(i + 2, end - i - 2)), line[i + 1] == 'w');
    i = end;
  }
  return out;
}

void Program::ShareInPlace() {
  for (const Step& step : steps) {
    if (step.overwrites == 0 || step.output < 0) continue;
    const int out = Root(step.output);
    Value& result = values[static_cast<size_t>(out)];
    if (result.place != Value::Place::kArena && result.place != Value::Place::kOutput) continue;
    if (result.first != step.time || values[static_cast<size_t>(step.output)].bytes != result.bytes) continue;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0 || (step.overwrites >> i & 1) == 0) continue;
      const int in = Root(step.inputs[i]);
      Value& from = values[static_cast<size_t>(in)];
      if (in == out || from.place != Value::Place::kArena || from.last != step.time || from.bytes != result.bytes ||
          values[static_cast<size_t>(step.inputs[i])].bytes != result.bytes)
        continue;
      bool read_otherwise = false;
      for (size_t j = 0; j < step.inputs.size(); ++j)
        read_otherwise |= step.inputs[j] >= 0 && (step.overwrites >> j & 1) == 0 && Root(step.inputs[j]) == in;
      if (read_otherwise) continue;
      result.first = std::min(result.first, from.first);
      from.root = out;
      break;
    }
  }
}

void Program::Place() {
  ShareInPlace();
  std::vector<Block> blocks;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    if (value.place == Value::Place::kArena && value.root == static_cast<int>(i) && value.first >= 0)
      blocks.push_back({static_cast<int>(i), Padded(value.bytes), value.first, value.last});
  }
  size_t best = SIZE_MAX;
  auto attempt = [&](auto before) {
    std::vector<Block> order = blocks;
    std::stable_sort(order.begin(), order.end(), before);
    std::vector<size_t> offsets;
    const size_t whole = Pack(order, offsets);
    if (whole >= best) return;
    best = whole;
    for (size_t i = 0; i < order.size(); ++i) values[static_cast<size_t>(order[i].value)].offset = offsets[i];
  };
  attempt([](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  attempt([](const Block& a, const Block& b) { return a.first < b.first; });
  attempt([](const Block& a, const Block& b) { return a.last - a.first > b.last - b.first; });
  attempt([](const Block& a, const Block& b) {
    return static_cast<double>(a.bytes) * (a.last - a.first + 1) >
           static_cast<double>(b.bytes) * (b.last - b.first + 1);
  });
  arena_bytes = blocks.empty() ? 0 : best;
  for (Step& step : steps)
    for (const Block& block : blocks)
      if (block.first <= step.time && step.time <= block.last) step.report.live_bytes += block.bytes;
}

}  // namespace ferry::c
