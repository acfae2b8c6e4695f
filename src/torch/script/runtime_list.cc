#include "torch/script/runtime_list.h"

#include <algorithm>

#include "base/error.h"
#include "torch/script/builtins.h"

namespace ferry::torch::script {
namespace {

// What is known of the items holds for each of them, though ONNX's rules for sequences forget it.
Operand WithType(const Operand& value, const Type& type) {
  Type& known = value.record()->facts.type;
  if (known.dtype == DType::kUndefined) known.dtype = type.dtype;
  known.kind = Type::Kind::kTensor;
  if (!known.has_rank()) known.shape = type.shape;
  return value;
}

void RefuseIfWritten(const RuntimeList& list) {
  if (!list.number && list.shares.IsDoubtful()) Cell::RefuseDoubt();
}

void AddRoots(const ScriptValue& item, Sharing& shares) {
  const auto* cell = item.get<ScriptValue::Tensor>();
  if (!cell) return;
  std::vector<std::shared_ptr<Cell>> roots;
  Cell::CollectRoots(*cell, roots);
  for (const auto& root : roots) shares.Add(root);
}

Type WithAxis(const Type& item, size_t axis, const Dim& size) {
  Type type = item;
  if (type.shape) type.shape->insert(type.shape->begin() + static_cast<ptrdiff_t>(axis), size);
  return type;
}

RuntimeList WithItem(Interpreter& in, const RuntimeList& list, const ScriptValue& item, const Operand& position) {
  const Scalar* number = item.get<Scalar>();
  if ((number && number->kind() != list.number) || (!number && (list.number || !item.is_tensor())))
    Fail(ErrorCode::kUnsupported, "a list that grows while the model runs holds tensors of one type, or numbers; ",
         item.KindName(), " is added to it");
  Operand added = CarriedOperand(in, item);
  if (added.type().dtype != list.item.dtype || added.is_complex())
    Fail(ErrorCode::kUnsupported, "a list that grows while the model runs holds ", list.item.dtype, "; a tensor of ",
         added.dtype(), " is added to it");
  RuntimeList longer = list;
  longer.stacked = Operand();
  longer.sequence = in.builder().Emit("SequenceInsert", {SequenceOf(in, list), added, position});
  longer.item = Union(list.item, added.type());
  AddRoots(item, longer.shares);
  return longer;
}

Operand Stacked(Interpreter& in, const RuntimeList& list, int64_t axis) {
  RefuseIfWritten(list);
  Builder& b = in.builder();
  auto rank = static_cast<int64_t>(list.item.shape ? list.item.shape->size() + 1 : 1);
  size_t at = NormalizeAxis(axis, static_cast<size_t>(rank));
  if (list.stacked) return b.MoveAxis(list.stacked, 0, static_cast<int64_t>(at));
  Operand stacked =
      b.Emit("ConcatFromSequence", {list.sequence}, {{"axis", static_cast<int64_t>(at)}, {"new_axis", int64_t{1}}});
  return WithType(stacked, WithAxis(list.item, at, Dim()));
}

Operand Joined(Interpreter& in, const RuntimeList& list, int64_t axis) {
  RefuseIfWritten(list);
  Builder& b = in.builder();
  if (!list.item.shape || list.item.shape->empty()) return Stacked(in, list, 0);
  size_t at = NormalizeAxis(axis, list.item.shape->size());
  auto place = static_cast<int64_t>(at);
  if (!list.stacked) {
    Type type = list.item;
    (*type.shape)[at] = Dim();
    return WithType(b.Emit("ConcatFromSequence", {list.sequence}, {{"axis", place}, {"new_axis", int64_t{0}}}), type);
  }
  Operand side_by_side = b.MoveAxis(list.stacked, 0, place);
  std::vector<Scalar> sizes = b.Sizes(side_by_side);
  Scalar joined = in.Run("_operator.mul", {sizes[at], sizes[at + 1]});
  sizes.erase(sizes.begin() + place);
  sizes[at] = joined;
  return b.View(side_by_side, sizes);
}

ScriptValue Reversed(Interpreter& in, const RuntimeList& list) {
  if (!list.stacked) RefuseRuntimeList(list, "reverse");
  RefuseIfWritten(list);
  RuntimeList turned = list;
  Builder& b = in.builder();
  turned.stacked = b.Emit("Slice", {list.stacked, b.Ints({-1}), b.Ints({INT64_MIN}), b.Ints({0}), b.Ints({-1})});
  return MakeRuntimeList(in, turned);
}

ScriptValue Sliced(Interpreter& in, const RuntimeList& list, const Arguments& args) {
  if (!list.stacked) RefuseRuntimeList(list, "slice");
  RefuseIfWritten(list);
  auto number = [&](size_t i, const char* name, int64_t otherwise) {
    const ScriptValue* value = args.Find(i, name);
    return !value || value->is_none() ? Scalar(otherwise) : in.ScalarOf(*value);
  };
  RuntimeList part = list;
  part.stacked = in.builder().Slice(list.stacked, 0, number(1, "start", 0), number(2, "end", INT64_MAX),
                                    number(3, "step", 1).AsInt());
  return MakeRuntimeList(in, part);
}

ScriptValue AsTensor(Interpreter& in, const RuntimeList& list, const Arguments& args) {
  const ScriptValue* type = args.Find(1, "dtype");
  DType dtype = type && !type->is_none()              ? DTypeOf(*type)
                : list.number == Scalar::Kind::kFloat ? DType::kFloat
                                                      : list.item.dtype;
  return in.TensorValue(in.builder().Cast(Stacked(in, list, 0), dtype));
}

// The list that the first argument is from now on.
void Replace(Interpreter& in, const ScriptValue& list, RuntimeList by) {
  in.WillChange(list);
  (*list.get<ScriptValue::List>())->runtime = std::make_shared<const RuntimeList>(std::move(by));
}

ScriptValue Extend(Interpreter& in, const ScriptValue& list, const std::vector<ScriptValue>& items) {
  in.Spend(items.size() + 1);
  const RuntimeList& before = *list.runtime_list();
  if (before.collected) {
    if (before.collected->level != in.level()) throw ListIsRead{&before};
    before.collected->items.insert(before.collected->items.end(), items.begin(), items.end());
    return list;
  }
  RuntimeList longer = before;
  for (const ScriptValue& item : items) longer = WithItem(in, longer, item, Operand());
  Replace(in, list, std::move(longer));
  return list;
}

ScriptValue Sum(Interpreter& in, const ScriptValue& left, const ScriptValue& right) {
  const RuntimeList *first = left.runtime_list(), *second = right.runtime_list();
  if (first && second) RefuseRuntimeList(*first, "add");
  RuntimeList sum = first ? *first : *second;
  const std::vector<ScriptValue>* items = (first ? right : left).items();
  if (!items) RefuseRuntimeList(sum, "add");
  for (size_t i = 0; i < items->size(); ++i)
    sum = WithItem(in, sum, (*items)[i], first ? Operand() : in.builder().Int(static_cast<int64_t>(i)));
  return MakeRuntimeList(in, std::move(sum));
}

}  // namespace

void RefuseRuntimeList(const RuntimeList& list, std::string_view function) {
  if (list.collected) throw ListIsRead{&list};
  Fail(ErrorCode::kUnsupported, "a list whose length is only known while the model runs is ",
       function.empty() ? std::string("used where a list of known length is needed") : Cat("given to '", function, "'"),
       "; write to a tensor of the largest length instead, fix the length, or trace the program");
}

DType CarriedType(Scalar::Kind kind) {
  static constexpr DType kTypes[] = {DType::kBool, DType::kInt64, DType::kDouble, DType::kComplex128};
  return kTypes[static_cast<size_t>(kind)];
}

Operand CarriedOperand(Interpreter& in, const ScriptValue& value) {
  if (const Scalar* number = value.get<Scalar>()) return in.builder().Of(*number, CarriedType(number->kind()));
  return in.TensorOf(value);
}

ScriptValue MakeRuntimeList(Interpreter& in, RuntimeList list) {
  // It stands for the items: a write to one that was taken from the list is a doubt about the list.
  if (!list.number && list.shares.tensors().empty()) {
    auto items = std::make_shared<Cell>(Operand());
    items->level = in.level();
    list.shares.Add(items);
  }
  auto made = std::make_shared<ListValue>();
  made->runtime = std::make_shared<const RuntimeList>(std::move(list));
  made->level = in.level();
  return ScriptValue(std::move(made));
}

std::optional<RuntimeList> DescribeItems(Interpreter& in, const std::vector<ScriptValue>& items) {
  RuntimeList described;
  for (const ScriptValue& item : items) {
    const Scalar* number = item.get<Scalar>();
    if (!number && !item.is_tensor()) return std::nullopt;
    std::optional<Scalar::Kind> kind = number ? std::optional(number->kind()) : std::nullopt;
    Operand operand = CarriedOperand(in, item);
    bool first = &item == &items.front();
    if (operand.is_complex() || (!first && (kind != described.number || operand.type().dtype != described.item.dtype)))
      return std::nullopt;
    described.number = kind;
    described.item = first ? operand.type() : Union(described.item, operand.type());
  }
  return described;
}

std::optional<RuntimeList> AsRuntimeList(Interpreter& in, const ScriptValue& list, const RuntimeList* like) {
  if (const RuntimeList* runtime = list.runtime_list()) return *runtime;
  const std::vector<ScriptValue>* items = list.items();
  if (!items || !list.is<ScriptValue::List>() || (items->empty() && !like)) return std::nullopt;
  std::optional<RuntimeList> described = items->empty() ? *like : DescribeItems(in, *items);
  if (!described || (like && (like->number != described->number || like->item.dtype != described->item.dtype)))
    return std::nullopt;
  described->stacked = Operand();
  described->shares = {};
  for (const ScriptValue& item : *items) AddRoots(item, described->shares);
  if (items->empty()) {
    described->sequence =
        in.builder().Emit("SequenceEmpty", {}, {{"dtype", static_cast<int64_t>(described->item.dtype)}});
  } else {
    Operands parts;
    for (const ScriptValue& item : *items) parts.push_back(CarriedOperand(in, item));
    described->sequence = in.builder().Emit("SequenceConstruct", parts);
  }
  return described;
}

Operand SequenceOf(Interpreter& in, const RuntimeList& list) {
  if (list.collected) throw ListIsRead{&list};
  RefuseIfWritten(list);
  if (list.sequence) return list.sequence;
  return in.builder().Emit("SplitToSequence", {list.stacked}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}});
}

Scalar LengthOf(Interpreter& in, const RuntimeList& list) {
  if (list.collected) throw ListIsRead{&list};
  if (list.stacked) return in.builder().SizeScalar(list.stacked, 0);
  return Scalar(Scalar::Kind::kInt, in.builder().Emit("SequenceLength", {list.sequence})).AsSize();
}

ScriptValue ItemAt(Interpreter& in, const RuntimeList& list, const Scalar& index) {
  if (list.collected) throw ListIsRead{&list};
  RefuseIfWritten(list);
  Builder& b = in.builder();
  Operand place = b.Of(index, DType::kInt64);
  Operand item = list.stacked ? b.Gather(list.stacked, place, 0) : b.Emit("SequenceAt", {list.sequence, place});
  item = WithType(item, list.item);
  if (list.number) return Scalar(*list.number, item);
  ScriptValue taken = in.TensorValue(item);
  for (const auto& [cell, writes] : list.shares.tensors()) (*taken.get<ScriptValue::Tensor>())->MayShare(cell);
  return taken;
}

ScriptValue ItemAt(Interpreter& in, const std::vector<ScriptValue>& items, const Scalar& index) {
  std::optional<RuntimeList> list = AsRuntimeList(in, in.MakeList(items));
  if (!list)
    Fail(ErrorCode::kUnsupported,
         "an item is taken from a list at a place that is only known while the model runs; that takes tensors of one "
         "type, or numbers");
  return ItemAt(in, *list, index);
}

std::optional<ScriptValue> CallRuntimeListFunction(Interpreter& in, std::string_view name, const Arguments& args) {
  auto is_runtime = [](const ScriptValue& value) { return value.runtime_list() != nullptr; };
  auto found = std::find_if(args.values.begin(), args.values.end(), is_runtime);
  if (found == args.values.end()) return std::nullopt;
  const RuntimeList& list = *found->runtime_list();
  const ScriptValue& first = args.values[0];
  const ScriptValue* second = args.Find(1, "dim");
  if (name == "append" && args.values.size() == 2) return Extend(in, first, {args.values[1]});
  bool extends = name == "extend" || name == "add_";
  if (extends && first.runtime_list() && second && second->items()) return Extend(in, first, *second->items());
  if (list.collected) throw ListIsRead{&list};
  if (name == "len") return ScriptValue(LengthOf(in, list));
  if (name == "add" && args.values.size() == 2) return Sum(in, first, args.values[1]);
  if (name == "list" || name == "copy") return MakeRuntimeList(in, list);
  if (name == "slice") return Sliced(in, list, args);
  if (name == "__not__") return ScriptValue(in.Run("_operator.not_", {TruthOf(in, first)}));
  if (name == "reverse") {
    Replace(in, first, *Reversed(in, list).runtime_list());
    return ScriptValue();
  }
  if ((name == "tensor" || name == "as_tensor") && list.number) return AsTensor(in, list, args);
  int64_t axis = second && !second->is_none() && second->is<Scalar>() ? in.ScalarOf(*second).AsInt() : 0;
  if (name == "stack" && !list.number) return in.TensorValue(Stacked(in, list, axis));
  bool joins = name == "cat" || name == "concat" || name == "concatenate";
  if (joins && !list.number) return in.TensorValue(Joined(in, list, axis));
  RefuseRuntimeList(list, name);
}

}  // namespace ferry::torch::script
