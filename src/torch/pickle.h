// The part of Python's pickle format that PyTorch writes, as a machine that builds data and runs nothing.
//
// A pickle is a program for a stack machine whose GLOBAL and REDUCE opcodes import and call anything. This one knows a
// short list of names, each of which makes a plain value; every other name ends the reading with an error that says it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace ferry::torch {

// Elements somewhere else in the archive, as a tensor in a pickle refers to them.
struct StorageRef {
  std::string key;                  // the name of the entry
  DType dtype = DType::kUndefined;  // kUInt8 for untyped storage
  int64_t elements = 0;
};

struct PickleValue;
// What the integers of a quantised tensor mean: (q − zero) · scale, of the whole tensor or of each row along an axis.
struct Quantizer {
  double scale = 1;
  int64_t zero = 0;
  const PickleValue *scales = nullptr, *zeros = nullptr;  // tensors, instead of the numbers
  int64_t axis = 0;
};

// A tensor as the pickle describes it; its elements are still in the archive.
struct TensorRecipe {
  StorageRef storage;
  DType dtype = DType::kUndefined;
  int64_t offset = 0;  // in elements
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool requires_grad = false;
  std::optional<Quantizer> quantizer;
};

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,
    kTuple,
    kList,
    kDict,  // items: key, value, key, value …
    kSet,
    kTensor,
    kStorage,
    kGlobal,  // text: the name; stands for itself (torch.float32, a class)
    kObject,  // text: its class; items: its state, at most one
    kDevice,  // text: "cpu", "cuda:0"
  };

  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also of kBool
  double number = 0;
  std::string text;
  std::vector<PickleValue*> items;
  std::unique_ptr<TensorRecipe> tensor;  // of kTensor
  std::unique_ptr<StorageRef> storage;   // of kStorage
  const char* KindName() const;

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_none() const { return kind == Kind::kNone; }
  bool is_sequence() const { return kind == Kind::kTuple || kind == Kind::kList; }
  // Each throws kInvalidModel, saying what is there instead.
  int64_t AsInt() const;
  bool AsBool() const;
  const std::string& AsString() const;
  const std::vector<PickleValue*>& AsSequence() const;
  // The value of a string key in a dict, or in the state of an object; null when there is none.
  const PickleValue* Find(std::string_view key) const;
};

struct PickleLimits {
  int depth = 1000;                       // of values inside values
  uint64_t expanded = uint64_t{1} << 26;  // values, counting a shared one wherever it appears
};

// A loaded pickle owns its values; what it holds may be shared but never contains itself.
class Pickle {
 public:
  static Pickle Load(std::string_view bytes, const PickleLimits& limits = {});
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

// PyTorch's numbers for element types in TorchScript and in c10 (Byte = 0, Char = 1 …); kUndefined when ONNX lacks it.
DType DTypeFromScalarType(int64_t number);

}  // namespace ferry::torch
