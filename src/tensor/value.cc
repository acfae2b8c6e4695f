#include "tensor/value.h"

#include <algorithm>

namespace ferry {

Value::Value(Sequence sequence) : held_(std::make_shared<const Sequence>(std::move(sequence))) {}
Value::Value(Map map) : held_(std::make_shared<const Map>(std::move(map))) {}
Value::Value(SparseTensor sparse) : held_(std::make_shared<const SparseTensor>(std::move(sparse))) {}

const char* Value::KindName() const {
  if (is_tensor()) return "a tensor";
  if (is_sequence()) return "a sequence";
  if (is_map()) return "a map";
  if (is_sparse()) return "a sparse tensor";
  if (is_nothing()) return "an empty optional";
  return "nothing";
}

namespace {
[[noreturn]] void WrongKind(const char* wanted, const Value& value) {
  Fail(ErrorCode::kInvalidArgument, "expected ", wanted, ", got ", value.KindName());
}
}  // namespace

const Tensor& Value::tensor() const {
  if (const Tensor* t = std::get_if<Tensor>(&held_)) return *t;
  WrongKind("a tensor", *this);
}

Tensor& Value::tensor() {
  if (Tensor* t = std::get_if<Tensor>(&held_)) return *t;
  WrongKind("a tensor", *this);
}

const Sequence& Value::sequence() const {
  if (!is_sequence()) WrongKind("a sequence", *this);
  return *std::get<std::shared_ptr<const Sequence>>(held_);
}

const Map& Value::map() const {
  if (!is_map()) WrongKind("a map", *this);
  return *std::get<std::shared_ptr<const Map>>(held_);
}

const SparseTensor& Value::sparse() const {
  if (!is_sparse()) WrongKind("a sparse tensor", *this);
  return *std::get<std::shared_ptr<const SparseTensor>>(held_);
}

Value Value::Persistent() const {
  // Containers hold only persistent tensors already: they are made from Persistent() parts.
  return is_tensor() ? Value(tensor().Persistent()) : *this;
}

bool Identical(const Value& a, const Value& b) {
  if (a.is_tensor() && b.is_tensor()) return Identical(a.tensor(), b.tensor());
  if (a.is_sequence() && b.is_sequence())
    return std::equal(a.sequence().elements.begin(), a.sequence().elements.end(), b.sequence().elements.begin(),
                      b.sequence().elements.end(), [](const Value& x, const Value& y) { return Identical(x, y); });
  if (a.is_map() && b.is_map())
    return Identical(a.map().keys, b.map().keys) && Identical(a.map().values, b.map().values);
  if (a.is_sparse() && b.is_sparse())
    return a.sparse().shape == b.sparse().shape && Identical(a.sparse().values, b.sparse().values) &&
           Identical(a.sparse().indices, b.sparse().indices);
  return a.is_nothing() == b.is_nothing() && a.present() == b.present();
}

}  // namespace ferry
