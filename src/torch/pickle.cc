#include "torch/pickle.h"

#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "torch/pickle_names.h"

namespace ferry::torch {

using Kind = PickleValue::Kind;

const char* PickleValue::KindName() const {
  static constexpr const char* kNames[] = {"None",     "a bool",    "an int",        "a float",   "a string",
                                           "bytes",    "a tuple",   "a list",        "a dict",    "a set",
                                           "a tensor", "a storage", "a global name", "an object", "a device"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {
[[noreturn]] void WrongKind(const char* wanted, const PickleValue& value) {
  Fail(ErrorCode::kInvalidModel, "expected ", wanted, " in a pickle, found ", value.KindName());
}
}  // namespace

int64_t PickleValue::AsInt() const {
  if (kind != Kind::kInt) WrongKind("an int", *this);
  return integer;
}
bool PickleValue::AsBool() const {
  if (kind != Kind::kBool) WrongKind("a bool", *this);
  return integer != 0;
}
const std::string& PickleValue::AsString() const {
  if (kind != Kind::kString) WrongKind("a string", *this);
  return text;
}
const std::vector<PickleValue*>& PickleValue::AsSequence() const {
  if (!is_sequence()) WrongKind("a tuple or list", *this);
  return items;
}
const PickleValue* PickleValue::Find(std::string_view key) const {
  if (kind == Kind::kObject) return items.empty() || items[0]->kind != Kind::kDict ? nullptr : items[0]->Find(key);
  if (kind != Kind::kDict) WrongKind("a dict", *this);
  for (size_t i = 0; i < items.size(); i += 2)
    if (items[i]->kind == Kind::kString && items[i]->text == key) return items[i + 1];
  return nullptr;
}

class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : bytes_(bytes) {}

  Pickle Run() {
    while (!Step()) {
    }
    if (stack_.size() != 1) Wrong("it ends with more than one value");
    pickle_.root_ = stack_[0];
    return std::move(pickle_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void Wrong(const Parts&... parts) const {
    Fail(ErrorCode::kInvalidModel, "pickle, byte ", opcode_at_, ": ", parts...);
  }

  // --- the bytes

  std::string_view Take(uint64_t count) {
    if (count > bytes_.size() - at_) Wrong("it is cut");
    std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  uint64_t TakeUnsigned(int bytes) {
    std::string_view taken = Take(static_cast<uint64_t>(bytes));
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= uint64_t{static_cast<uint8_t>(taken[static_cast<size_t>(i)])} << (8 * i);
    return value;
  }
  std::string_view TakeLine() {
    size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) Wrong("it is cut");
    std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }
  int64_t TakeLong(uint64_t count) {
    std::string_view digits = Take(count);
    bool negative = !digits.empty() && (static_cast<uint8_t>(digits.back()) & 0x80);
    for (size_t i = 8; i < digits.size(); ++i)
      if (static_cast<uint8_t>(digits[i]) != (negative ? 0xFF : 0)) Wrong("an integer needs more than 64 bits");
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (size_t i = 0; i < digits.size() && i < 8; ++i) {
      value &= ~(uint64_t{0xFF} << (8 * i));
      value |= uint64_t{static_cast<uint8_t>(digits[i])} << (8 * i);
    }
    if (digits.size() > 8 && (value >> 63) != (negative ? 1u : 0u)) Wrong("an integer needs more than 64 bits");
    return static_cast<int64_t>(value);
  }

  // --- the stack

  PickleValue& New(Kind kind) {
    pickle_.values_.emplace_back();
    pickle_.values_.back().kind = kind;
    return pickle_.values_.back();
  }
  void Push(PickleValue& value) { stack_.push_back(&value); }
  void PushText(Kind kind, std::string_view text) {
    PickleValue& value = New(kind);
    value.text = text;
    Push(value);
  }
  void PushInt(Kind kind, int64_t number) {
    PickleValue& value = New(kind);
    value.integer = number;
    Push(value);
  }
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue& Top() {
    if (stack_.size() <= Floor()) Wrong("the stack is empty");
    return *stack_.back();
  }
  PickleValue& Pop() {
    PickleValue& value = Top();
    stack_.pop_back();
    return value;
  }
  std::vector<PickleValue*> PopToMark() {
    if (marks_.empty()) Wrong("no mark is set");
    auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  void PushItems(Kind kind, std::vector<PickleValue*> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) Wrong("a dict has a key without value");
    PickleValue& value = New(kind);
    value.items = std::move(items);
    Push(value);
  }
  void PushTuple(size_t count) {
    std::vector<PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = &Pop();
    PushItems(Kind::kTuple, std::move(items));
  }
  void Extend(Kind kind, std::vector<PickleValue*> items) {
    PickleValue& target = Top();
    if (target.kind != kind)
      Wrong("expected ", kind == Kind::kDict ? "a dict" : "a list or set", " to add to, found ", target.KindName());
    if (kind == Kind::kDict && items.size() % 2 != 0) Wrong("a dict has a key without value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  // --- the memo

  void Memoize(uint64_t index) { memo_[index] = &Top(); }
  void PushMemo(uint64_t index) {
    auto it = memo_.find(index);
    if (it == memo_.end()) Wrong("memo ", index, " is not set");
    Push(*it->second);
  }

  // --- the opcodes; true at the end

  bool Step() {
    opcode_at_ = at_;
    auto opcode = static_cast<uint8_t>(Take(1)[0]);
    if (StepContainer(opcode) || StepLiteral(opcode)) return false;
    switch (opcode) {
      case 0x80:  // PROTO
        if (uint64_t version = TakeUnsigned(1); version > 5) Wrong("protocol ", version, " is unknown");
        break;
      case 0x95: TakeUnsigned(8); break;  // FRAME
      case '.': Top(); return true;       // STOP
      case '0': DropTop(); break;         // POP
      case '1': PopToMark(); break;       // POP_MARK
      case '2': Push(Top()); break;       // DUP
      case '(':                           // MARK
        marks_.push_back(stack_.size());
        break;
      case 'q': Memoize(TakeUnsigned(1)); break;   // BINPUT
      case 'r': Memoize(TakeUnsigned(4)); break;   // LONG_BINPUT
      case 0x94: Memoize(memo_.size()); break;     // MEMOIZE
      case 'h': PushMemo(TakeUnsigned(1)); break;  // BINGET
      case 'j': PushMemo(TakeUnsigned(4)); break;  // LONG_BINGET
      case 'c': {                                  // GLOBAL
        std::string module(TakeLine());
        PushGlobal(module, TakeLine());
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        std::string name = Pop().AsString();
        PushGlobal(Pop().AsString(), name);
        break;
      }
      case 'R':     // REDUCE
      case 0x81: {  // NEWOBJ
        PickleValue& arguments = Pop();
        Call(Pop(), arguments);
        break;
      }
      case 'b': Build(); break;             // BUILD
      case 'Q': PushStorage(Pop()); break;  // BINPERSID
      default: Wrong("opcode ", int{opcode}, " is not one that PyTorch writes");
    }
    return false;
  }

  bool StepLiteral(uint8_t opcode) {
    switch (opcode) {
      case 'N': Push(New(Kind::kNone)); return true;
      case 0x88: PushInt(Kind::kBool, 1); return true;
      case 0x89: PushInt(Kind::kBool, 0); return true;
      case 'K': PushInt(Kind::kInt, static_cast<int64_t>(TakeUnsigned(1))); return true;  // BININT1
      case 'M': PushInt(Kind::kInt, static_cast<int64_t>(TakeUnsigned(2))); return true;  // BININT2
      case 'J': PushInt(Kind::kInt, static_cast<int32_t>(TakeUnsigned(4))); return true;  // BININT
      case 0x8a: PushInt(Kind::kInt, TakeLong(TakeUnsigned(1))); return true;             // LONG1
      case 0x8b: PushInt(Kind::kInt, TakeLong(TakeUnsigned(4))); return true;             // LONG4
      case 'G': PushFloat(); return true;                                                 // BINFLOAT
      case 'X': PushText(Kind::kString, Take(TakeUnsigned(4))); return true;              // BINUNICODE
      case 0x8c: PushText(Kind::kString, Take(TakeUnsigned(1))); return true;             // SHORT_BINUNICODE
      case 0x8d: PushText(Kind::kString, Take(TakeUnsigned(8))); return true;             // BINUNICODE8
      case 'U': PushText(Kind::kString, Take(TakeUnsigned(1))); return true;              // SHORT_BINSTRING
      case 'T': PushText(Kind::kString, Take(TakeUnsigned(4))); return true;              // BINSTRING
      case 'C': PushText(Kind::kBytes, Take(TakeUnsigned(1))); return true;               // SHORT_BINBYTES
      case 'B': PushText(Kind::kBytes, Take(TakeUnsigned(4))); return true;               // BINBYTES
      case 0x8e:                                                                          // BINBYTES8
      case 0x96: PushText(Kind::kBytes, Take(TakeUnsigned(8))); return true;              // BYTEARRAY8
      default: return false;
    }
  }

  bool StepContainer(uint8_t opcode) {
    switch (opcode) {
      case ')': PushTuple(0); return true;                          // EMPTY_TUPLE
      case 0x85: PushTuple(1); return true;                         // TUPLE1
      case 0x86: PushTuple(2); return true;                         // TUPLE2
      case 0x87: PushTuple(3); return true;                         // TUPLE3
      case 't': PushItems(Kind::kTuple, PopToMark()); return true;  // TUPLE
      case ']': PushItems(Kind::kList, {}); return true;            // EMPTY_LIST
      case 'l': PushItems(Kind::kList, PopToMark()); return true;   // LIST
      case '}': PushItems(Kind::kDict, {}); return true;            // EMPTY_DICT
      case 'd': PushItems(Kind::kDict, PopToMark()); return true;   // DICT
      case 0x8f: PushItems(Kind::kSet, {}); return true;            // EMPTY_SET
      case 0x91: PushItems(Kind::kSet, PopToMark()); return true;   // FROZENSET
      case 0x90: Extend(Kind::kSet, PopToMark()); return true;      // ADDITEMS
      case 'e': Extend(Kind::kList, PopToMark()); return true;      // APPENDS
      case 'u': Extend(Kind::kDict, PopToMark()); return true;      // SETITEMS
      case 'a': {                                                   // APPEND
        PickleValue& item = Pop();
        Extend(Kind::kList, {&item});
        return true;
      }
      case 's': {  // SETITEM
        PickleValue& value = Pop();
        PickleValue& key = Pop();
        Extend(Kind::kDict, {&key, &value});
        return true;
      }
      default: return false;
    }
  }

  void DropTop() {
    if (!marks_.empty() && stack_.size() == marks_.back())
      marks_.pop_back();
    else
      Pop();
  }

  void PushFloat() {
    std::string_view bytes = Take(8);
    uint64_t bits = 0;
    for (char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);
    PickleValue& value = New(Kind::kFloat);
    std::memcpy(&value.number, &bits, sizeof bits);
    Push(value);
  }

  // --- the names PyTorch writes

  void PushGlobal(std::string_view module, std::string_view name) {
    std::string full = Cat(module, ".", name);
    if (!IsKnownGlobal(full))
      Fail(ErrorCode::kUnsupported, "the pickle asks for '", Printable(full),
           "', which PyTorch's own files do not need; nothing was run. Save tensors, lists, dicts and numbers only");
    PushText(Kind::kGlobal, full);
  }

  void Call(PickleValue& callee, PickleValue& arguments) {
    if (callee.kind != Kind::kGlobal) Wrong("it calls ", callee.KindName());
    if (arguments.kind != Kind::kTuple) Wrong("a call has ", arguments.KindName(), " for arguments");
    PickleValue& made = New(Kind::kNone);
    CallKnownGlobal(callee.text, arguments.items, made);
    // Wrappers (a Parameter around a tensor, a type tag around a list) are the thing itself.
    Push(made.kind == Kind::kGlobal ? *made.items.at(0) : made);
  }

  // The state of an object; of an OrderedDict it is notes about versions, which nothing here needs.
  void Build() {
    PickleValue& state = Pop();
    PickleValue& target = Top();
    if (target.kind == Kind::kObject) {
      if (!target.items.empty()) Wrong("an object is given two states");
      target.items.push_back(&state);
    } else if (target.kind != Kind::kDict) {
      Wrong(target.KindName(), " is given a state");
    }
  }

  void PushStorage(PickleValue& id) {
    const std::vector<PickleValue*>& parts = id.AsSequence();
    if (parts.size() != 5 || parts[0]->AsString() != "storage") Wrong("a reference outside the pickle is no storage");
    if (parts[1]->kind != Kind::kGlobal) Wrong("a storage has no type");
    PickleValue& value = New(Kind::kStorage);
    value.storage = std::make_unique<StorageRef>();
    value.storage->dtype = StorageDType(parts[1]->text);
    value.storage->key = parts[2]->AsString();
    value.storage->elements = parts[4]->AsInt();
    if (value.storage->elements < 0) Wrong("a storage has ", value.storage->elements, " elements");
    Push(value);
  }

  std::string_view bytes_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

namespace {

// Refuses values that contain themselves, nest too deep, or would unfold to absurd sizes where they are shared.
void CheckStructure(const PickleValue& root, const PickleLimits& limits) {
  struct Visit {
    const PickleValue* value;
    size_t next;
    uint64_t size;
  };
  std::unordered_map<const PickleValue*, uint64_t> sizes;  // 0: being visited
  std::vector<Visit> path = {{&root, 0, 1}};
  sizes[&root] = 0;
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.size > limits.expanded) Fail(ErrorCode::kLimit, "a pickle shares values so that they unfold without end");
    if (visit.next == visit.value->items.size()) {
      uint64_t size = visit.size;
      sizes[visit.value] = size;
      path.pop_back();
      if (!path.empty()) path.back().size += size;
      continue;
    }
    const PickleValue* item = visit.value->items[visit.next++];
    auto [it, is_new] = sizes.emplace(item, 0);
    if (!is_new && it->second == 0) Fail(ErrorCode::kInvalidModel, "a value of a pickle contains itself");
    if (!is_new) {
      visit.size += it->second;
      continue;
    }
    if (path.size() >= static_cast<size_t>(limits.depth))
      Fail(ErrorCode::kLimit, "a pickle nests values more than ", limits.depth, " deep");
    path.push_back({item, 0, 1});
  }
}

}  // namespace

Pickle Pickle::Load(std::string_view bytes, const PickleLimits& limits) {
  Pickle pickle = PickleMachine(bytes).Run();
  CheckStructure(pickle.root(), limits);
  return pickle;
}

}  // namespace ferry::torch
