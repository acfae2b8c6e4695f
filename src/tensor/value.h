// What flows along an edge of a graph: a tensor, or one of ONNX's containers of tensors.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace ferry {

class Value;

struct Sequence {
  std::vector<Value> elements;
};

// map(int64|string → …): two parallel rank-1 tensors, keys in the order they were inserted.
struct Map {
  Tensor keys;
  Tensor values;
};

struct SparseTensor {
  Shape shape;
  Tensor values;   // [nnz]
  Tensor indices;  // int64, [nnz] linear or [nnz, rank]
};

// An optional that holds nothing. One that holds something is that something.
struct Nothing {};

class Value {
 public:
  Value() = default;
  Value(Tensor tensor) : held_(std::move(tensor)) {}
  Value(Sequence sequence);
  Value(Map map);
  Value(SparseTensor sparse);
  Value(Nothing nothing) : held_(nothing) {}

  bool present() const { return !std::holds_alternative<std::monostate>(held_); }  // false: an omitted input
  bool is_tensor() const { return std::holds_alternative<Tensor>(held_); }
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const Sequence>>(held_); }
  bool is_map() const { return std::holds_alternative<std::shared_ptr<const Map>>(held_); }
  bool is_sparse() const { return std::holds_alternative<std::shared_ptr<const SparseTensor>>(held_); }
  bool is_nothing() const { return std::holds_alternative<Nothing>(held_); }

  // Each throws, saying what is there instead.
  const Tensor& tensor() const;
  Tensor& tensor();
  const Sequence& sequence() const;
  const Map& map() const;
  const SparseTensor& sparse() const;

  // A value that stays valid after the run that made it (see Tensor::Persistent).
  Value Persistent() const;
  const char* KindName() const;

 private:
  std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>, std::shared_ptr<const Map>,
               std::shared_ptr<const SparseTensor>, Nothing>
      held_;
};

bool Identical(const Value& a, const Value& b);

}  // namespace ferry
