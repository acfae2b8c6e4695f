// Lists, dicts and strings.
#include <algorithm>

#include "base/error.h"
#include "torch/script/builtins.h"

namespace ferry::torch::script {
namespace {

constexpr size_t kLongestText = size_t{1} << 20;

using Items = std::vector<ScriptValue>;
using Function = std::optional<ScriptValue> (*)(Interpreter&, const Arguments&);

const ScriptValue& At(const Arguments& args, size_t i) {
  if (i >= args.values.size()) Fail(ErrorCode::kInvalidModel, "a function is called with ", args.size(), " arguments");
  return args.values[i];
}

ListValue& ChangedList(Interpreter& in, const Arguments& args) {
  const auto* list = At(args, 0).get<ScriptValue::List>();
  if (!list) Fail(ErrorCode::kInvalidModel, "a list is changed that is ", args.values[0].KindName());
  in.WillChange(args.values[0]);
  return **list;
}

DictValue& DictAt(const Arguments& args, size_t i) {
  const auto* dict = At(args, i).get<ScriptValue::Dict>();
  if (!dict) Fail(ErrorCode::kInvalidModel, "a dict is needed where there is ", args.values[i].KindName());
  return **dict;
}

bool IsList(const Arguments& args) { return !args.values.empty() && args.values[0].is<ScriptValue::List>(); }
bool IsDict(const Arguments& args) { return !args.values.empty() && args.values[0].is<ScriptValue::Dict>(); }
bool IsText(const Arguments& args) { return !args.values.empty() && args.values[0].is<std::string>(); }

ScriptValue Text(std::string text) {
  if (text.size() > kLongestText) Fail(ErrorCode::kLimit, "a string grows to ", text.size(), " bytes");
  return ScriptValue(std::move(text));
}

std::optional<ScriptValue> Len(Interpreter&, const Arguments& args) {
  const ScriptValue& value = At(args, 0);
  if (const Items* items = value.items()) return Scalar(static_cast<int64_t>(items->size()));
  if (const auto* dict = value.get<ScriptValue::Dict>()) return Scalar(static_cast<int64_t>((*dict)->items.size()));
  if (const auto* text = value.get<std::string>()) return Scalar(static_cast<int64_t>(text->size()));
  return std::nullopt;
}

std::optional<ScriptValue> Add(Interpreter& in, const Arguments& args) {
  if (args.values.size() != 2) return std::nullopt;
  const auto *left = args.values[0].get<ScriptValue::List>(), *right = args.values[1].get<ScriptValue::List>();
  if (left && right) {
    Items joined = (*left)->items;
    joined.insert(joined.end(), (*right)->items.begin(), (*right)->items.end());
    return in.MakeList(std::move(joined));
  }
  const auto *first = args.values[0].get<std::string>(), *second = args.values[1].get<std::string>();
  if (first && second) return Text(*first + *second);
  return std::nullopt;
}

std::optional<ScriptValue> Multiply(Interpreter& in, const Arguments& args) {
  if (!IsList(args) || args.values.size() != 2 || !args.values[1].is<Scalar>()) return std::nullopt;
  const Items& items = *args.values[0].items();
  Items repeated;
  for (int64_t i = 0, count = args.values[1].get<Scalar>()->AsInt(); i < count; ++i) {
    in.Spend(items.size() + 1);
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return in.MakeList(std::move(repeated));
}

std::optional<ScriptValue> Append(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  in.Spend(1);
  ListValue& list = ChangedList(in, args);
  list.WillHold(At(args, 1));
  list.items.push_back(args.values[1]);
  return args.values[0];
}
std::optional<ScriptValue> Extend(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  const Items* more = At(args, 1).items();
  if (!more) return std::nullopt;
  Items copy = *more;
  in.Spend(copy.size());
  ListValue& list = ChangedList(in, args);
  for (const ScriptValue& item : copy) list.WillHold(item);
  list.items.insert(list.items.end(), copy.begin(), copy.end());
  return args.values[0];
}
std::optional<ScriptValue> Insert(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  in.Spend(1);
  ListValue& list = ChangedList(in, args);
  list.WillHold(At(args, 2));
  Items& items = list.items;
  auto size = static_cast<int64_t>(items.size());
  int64_t at = in.ScalarOf(At(args, 1)).AsInt();
  at = std::clamp(at < 0 ? at + size : at, int64_t{0}, size);
  items.insert(items.begin() + at, At(args, 2));
  return ScriptValue();
}
std::optional<ScriptValue> Pop(Interpreter& in, const Arguments& args) {
  if (IsDict(args)) {
    DictValue& dict = DictAt(args, 0);
    in.WillChange(args.values[0]);
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (!SameKey(dict.items[i].first, At(args, 1))) continue;
      ScriptValue value = dict.items[i].second;
      dict.items.erase(dict.items.begin() + static_cast<ptrdiff_t>(i));
      return value;
    }
    if (args.values.size() > 2) return args.values[2];
    throw Raised{"KeyError"};
  }
  if (!IsList(args)) return std::nullopt;
  Items& items = ChangedList(in, args).items;
  size_t at = ItemIndex(args.values.size() > 1 ? in.ScalarOf(args.values[1]).AsInt() : -1, items.size());
  ScriptValue value = items[at];
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return value;
}
std::optional<ScriptValue> Clear(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  ChangedList(in, args).items.clear();
  return ScriptValue();
}
std::optional<ScriptValue> Reverse(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  Items& items = ChangedList(in, args).items;
  std::reverse(items.begin(), items.end());
  return ScriptValue();
}
std::optional<ScriptValue> CopyList(Interpreter& in, const Arguments& args) {
  if (IsDict(args)) return in.MakeDict(DictAt(args, 0).items);
  if (const auto* text = args.values.empty() ? nullptr : args.values[0].get<std::string>()) {
    Items letters;
    for (char c : *text) letters.emplace_back(std::string(1, c));
    return in.MakeList(std::move(letters));
  }
  if (args.values.empty() || !args.values[0].items()) return std::nullopt;
  return in.MakeList(*args.values[0].items());
}

std::optional<ScriptValue> SliceOf(Interpreter& in, const Arguments& args) {
  if (!IsList(args) && !IsText(args) && !(args.values.size() > 0 && args.values[0].is<ScriptValue::Tuple>()))
    return std::nullopt;
  const std::string* text = args.values[0].get<std::string>();
  const Items* items = args.values[0].items();
  auto size = static_cast<int64_t>(text ? text->size() : items->size());
  auto number = [&](size_t i, const char* name, int64_t otherwise) {
    const ScriptValue* value = args.Find(i, name);
    return !value || value->is_none() ? otherwise : in.ScalarOf(*value).AsInt();
  };
  int64_t step = number(3, "step", 1);
  if (step <= 0) Fail(ErrorCode::kUnsupported, "a list is sliced with step ", step);
  auto bounded = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, int64_t{0}, size); };
  int64_t begin = bounded(number(1, "start", 0)), end = bounded(number(2, "end", size));
  Items picked;
  std::string letters;
  for (int64_t i = begin; i<end; i = step> end - i ? end : i + step) {
    if (text)
      letters.push_back((*text)[static_cast<size_t>(i)]);
    else
      picked.push_back((*items)[static_cast<size_t>(i)]);
  }
  if (text) return Text(std::move(letters));
  return args.values[0].is<ScriptValue::Tuple>() ? MakeTuple(std::move(picked)) : in.MakeList(std::move(picked));
}

std::optional<ScriptValue> Contains(Interpreter& in, const Arguments& args) {
  if (IsDict(args)) return Scalar(FindKey(DictAt(args, 0), At(args, 1)) != nullptr);
  if (IsText(args) && At(args, 1).is<std::string>())
    return Scalar(args.values[0].get<std::string>()->find(*args.values[1].get<std::string>()) != std::string::npos);
  const Items* items = At(args, 0).items();
  if (!items) return std::nullopt;
  in.Spend(items->size());
  for (const ScriptValue& item : *items)
    if (AreEqual(in, item, At(args, 1)).AsBool()) return Scalar(true);
  return Scalar(false);
}
std::optional<ScriptValue> In(Interpreter& in, const Arguments& args) {
  return Contains(in, {{At(args, 1), At(args, 0)}, {}});
}

std::optional<ScriptValue> Index(Interpreter& in, const Arguments& args) {
  if (!IsList(args) || args.values.size() < 2) return std::nullopt;
  const Items& items = *args.values[0].items();
  in.Spend(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    if (AreEqual(in, items[i], args.values[1]).AsBool()) return Scalar(static_cast<int64_t>(i));
  throw Raised{"ValueError"};
}

std::optional<ScriptValue> Extreme(Interpreter& in, const Arguments& args, bool largest) {
  const Items* items = args.size() == 1 && IsList(args) ? args.values[0].items() : &args.values;
  if (items->empty()) return std::nullopt;
  for (const ScriptValue& item : *items)
    if (!item.is<Scalar>()) return std::nullopt;
  Scalar best = *(*items)[0].get<Scalar>();
  in.Spend(items->size());
  auto is_limit = [&](const Scalar& number) {
    return !largest && number.kind() == Scalar::Kind::kInt && number.is_known() && number.AsInt() == INT64_MAX;
  };
  for (size_t i = 1; i < items->size(); ++i) {
    const Scalar& next = *(*items)[i].get<Scalar>();
    if (is_limit(next) || (!next.is_known() && SameDim(best.AsDim(), next.AsDim()))) continue;
    best = is_limit(best) ? next : in.Run(largest ? "torch.sym_max" : "torch.sym_min", {best, next});
  }
  return ScriptValue(best);
}
std::optional<ScriptValue> Smallest(Interpreter& in, const Arguments& args) { return Extreme(in, args, false); }
std::optional<ScriptValue> Largest(Interpreter& in, const Arguments& args) { return Extreme(in, args, true); }
std::optional<ScriptValue> Sum(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  Scalar sum(0);
  for (const ScriptValue& item : *args.values[0].items()) sum = in.Run("_operator.add", {sum, in.ScalarOf(item)});
  return ScriptValue(sum);
}
std::optional<ScriptValue> SortList(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  Items& items = ChangedList(in, args).items;
  in.Spend(items.size());
  for (const ScriptValue& item : items)
    if (!item.is<Scalar>() || !item.get<Scalar>()->is_known()) return std::nullopt;
  bool down = args.values.size() > 1 && in.ScalarOf(args.values[1]).AsBool();
  std::stable_sort(items.begin(), items.end(), [&](const ScriptValue& a, const ScriptValue& b) {
    double x = a.get<Scalar>()->AsDouble(), y = b.get<Scalar>()->AsDouble();
    return down ? y < x : x < y;
  });
  return ScriptValue();
}

std::optional<ScriptValue> Keys(Interpreter& in, const Arguments& args) {
  if (!IsDict(args)) return std::nullopt;
  Items keys;
  for (const auto& [key, value] : DictAt(args, 0).items) keys.push_back(key);
  return in.MakeList(std::move(keys));
}
std::optional<ScriptValue> Values(Interpreter& in, const Arguments& args) {
  if (!IsDict(args)) return std::nullopt;
  Items values;
  for (const auto& [key, value] : DictAt(args, 0).items) values.push_back(value);
  return in.MakeList(std::move(values));
}
std::optional<ScriptValue> Pairs(Interpreter& in, const Arguments& args) {
  if (!IsDict(args)) return std::nullopt;
  Items pairs;
  for (const auto& [key, value] : DictAt(args, 0).items) pairs.push_back(MakeTuple({key, value}));
  return in.MakeList(std::move(pairs));
}
std::optional<ScriptValue> Get(Interpreter&, const Arguments& args) {
  if (!IsDict(args)) return std::nullopt;
  if (const ScriptValue* found = FindKey(DictAt(args, 0), At(args, 1))) return *found;
  return args.values.size() > 2 ? args.values[2] : ScriptValue();
}
std::optional<ScriptValue> NewDict(Interpreter& in, const Arguments& args) {
  if (args.values.empty()) return in.MakeDict({});
  if (IsDict(args)) return in.MakeDict(DictAt(args, 0).items);
  if (!IsList(args)) return std::nullopt;
  std::vector<std::pair<ScriptValue, ScriptValue>> pairs;
  for (const ScriptValue& item : *args.values[0].items()) {
    const Items* parts = item.items();
    if (!parts || parts->size() != 2) return std::nullopt;
    pairs.emplace_back((*parts)[0], (*parts)[1]);
  }
  return in.MakeDict(std::move(pairs));
}
std::optional<ScriptValue> SetItem(Interpreter& in, const Arguments& args) {
  if (IsList(args)) {
    ListValue& list = ChangedList(in, args);
    list.WillHold(At(args, 2));
    list.items[ItemIndex(in.ScalarOf(At(args, 1)).AsInt(), list.items.size())] = args.values[2];
    return args.values[0];
  }
  if (!IsDict(args)) return std::nullopt;
  DictValue& dict = DictAt(args, 0);
  in.WillChange(args.values[0]);
  dict.WillHold(At(args, 2));
  in.Spend(1);
  for (auto& [key, value] : dict.items)
    if (SameKey(key, At(args, 1))) {
      value = At(args, 2);
      return ScriptValue();
    }
  dict.items.emplace_back(At(args, 1), At(args, 2));
  return ScriptValue();
}

std::optional<ScriptValue> Update(Interpreter& in, const Arguments& args) {
  if (!IsDict(args) || !At(args, 1).is<ScriptValue::Dict>()) return std::nullopt;
  auto more = DictAt(args, 1).items;
  for (const auto& [key, value] : more) SetItem(in, {{args.values[0], key, value}, {}});
  return ScriptValue();
}

// "{}".format(…)
std::optional<ScriptValue> Format(Interpreter&, const Arguments& args) {
  if (!IsText(args)) return std::nullopt;
  const std::string& pattern = *args.values[0].get<std::string>();
  std::string made;
  size_t next = 1;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.compare(i, 2, "{}") == 0 && next < args.values.size()) {
      made += ShowValue(args.values[next++]);
      ++i;
    } else {
      made.push_back(pattern[i]);
    }
  }
  return Text(std::move(made));
}
std::optional<ScriptValue> JoinTexts(Interpreter&, const Arguments& args) {
  if (!IsText(args) || !At(args, 1).items()) return std::nullopt;
  std::string joined;
  for (const ScriptValue& item : *args.values[1].items()) {
    const std::string* text = item.get<std::string>();
    if (!text) return std::nullopt;
    if (&item != &args.values[1].items()->front()) joined += *args.values[0].get<std::string>();
    joined += *text;
    if (joined.size() > kLongestText) break;
  }
  return Text(std::move(joined));
}
std::optional<ScriptValue> StartsWith(Interpreter&, const Arguments& args) {
  if (!IsText(args) || !At(args, 1).is<std::string>()) return std::nullopt;
  return Scalar(args.values[0].get<std::string>()->starts_with(*args.values[1].get<std::string>()));
}

std::optional<ScriptValue> FindText(Interpreter& in, const Arguments& args) {
  if (!IsText(args) || !At(args, 1).is<std::string>()) return std::nullopt;
  const std::string& text = *args.values[0].get<std::string>();
  int64_t begin = args.values.size() > 2 ? in.ScalarOf(args.values[2]).AsInt() : 0;
  if (begin != 0) return std::nullopt;
  size_t at = text.find(*args.values[1].get<std::string>());
  return Scalar(at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(at));
}

std::optional<ScriptValue> All(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  Scalar all(true);
  for (const ScriptValue& item : *args.values[0].items()) all = Both(in, all, TruthOf(in, item));
  return ScriptValue(all);
}
std::optional<ScriptValue> Any(Interpreter& in, const Arguments& args) {
  if (!IsList(args)) return std::nullopt;
  Scalar none(true);
  for (const ScriptValue& item : *args.values[0].items())
    none = Both(in, none, in.Run("_operator.not_", {TruthOf(in, item)}));
  return ScriptValue(in.Run("_operator.not_", {none}));
}

std::optional<ScriptValue> RangeList(Interpreter& in, const Arguments& args) {
  int64_t begin = 0, end = 0, step = 1;
  if (args.values.size() == 1) end = in.ScalarOf(args.values[0]).AsInt();
  if (args.values.size() > 1) {
    begin = in.ScalarOf(args.values[0]).AsInt();
    end = in.ScalarOf(args.values[1]).AsInt();
  }
  if (args.values.size() > 2) step = in.ScalarOf(args.values[2]).AsInt();
  if (step == 0) throw Raised{"ValueError"};
  Items items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    in.Spend(1);
    items.emplace_back(Scalar(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return in.MakeList(std::move(items));
}
// How many steps lead from one number up to, but not to, another: rounded up, and none where it leads away.
Scalar OpenRangeLength(Interpreter& in, const Scalar& begin, const Scalar& end, int64_t step) {
  Scalar reach = in.Run("_operator.sub", {end, begin});
  Scalar rounded = in.Run("_operator.add", {reach, Scalar(step - (step > 0 ? 1 : -1))});
  return in.Run("torch.sym_max", {in.Run("_operator.floordiv", {rounded, Scalar(step)}), Scalar(0)});
}
std::optional<ScriptValue> RangeLength(Interpreter& in, const Arguments& args) {
  Scalar from = in.ScalarOf(At(args, 0)), to = in.ScalarOf(At(args, 1));
  int64_t step = in.ScalarOf(At(args, 2)).AsInt(), reach;
  if (step == 0) throw Raised{"ValueError"};
  if (!from.is_known() || !to.is_known()) return OpenRangeLength(in, from, to, step);
  int64_t begin = from.AsInt(), end = to.AsInt();
  if (__builtin_sub_overflow(end, begin, &reach)) Fail(ErrorCode::kUnsupported, "a range is too long");
  if (reach == 0 || (reach < 0) != (step < 0)) return Scalar(0);
  return Scalar((reach - (step > 0 ? 1 : -1)) / step + 1);
}
std::optional<ScriptValue> DeriveIndex(Interpreter& in, const Arguments& args) {
  Scalar offset = in.Run("_operator.mul", {in.ScalarOf(At(args, 0)), in.ScalarOf(At(args, 2))});
  return ScriptValue(in.Run("_operator.add", {in.ScalarOf(At(args, 1)), offset}));
}

std::optional<ScriptValue> NotOf(Interpreter& in, const Arguments& args) {
  if (args.values.size() != 1 || args.values[0].is_tensor()) return std::nullopt;
  return ScriptValue(in.Run("_operator.not_", {TruthOf(in, args.values[0])}));
}

constexpr struct {
  std::string_view name;
  Function call;
} kFunctions[] = {
    {"len", Len},
    {"add", Add},
    {"add_", Extend},
    {"mul", Multiply},
    {"append", Append},
    {"extend", Extend},
    {"insert", Insert},
    {"pop", Pop},
    {"clear", Clear},
    {"reverse", Reverse},
    {"list", CopyList},
    {"copy", CopyList},
    {"slice", SliceOf},
    {"__contains__", Contains},
    {"in", In},
    {"index", Index},
    {"min", Smallest},
    {"max", Largest},
    {"sum", Sum},
    {"sort", SortList},
    {"keys", Keys},
    {"values", Values},
    {"items", Pairs},
    {"get", Get},
    {"find", FindText},
    {"all", All},
    {"any", Any},
    {"dict", NewDict},
    {"_set_item", SetItem},
    {"update", Update},
    {"format", Format},
    {"join", JoinTexts},
    {"startswith", StartsWith},
    {"range", RangeList},
    {"rangelist", RangeList},
    {"__range_length", RangeLength},
    {"__derive_index", DeriveIndex},
    {"__not__", NotOf},
};

}  // namespace

std::optional<ScriptValue> CallContainerFunction(Interpreter& in, std::string_view name, const Arguments& args) {
  for (const auto& function : kFunctions)
    if (function.name == name) return function.call(in, args);
  return std::nullopt;
}

bool SameKey(const ScriptValue& a, const ScriptValue& b) {
  const Scalar *x = a.get<Scalar>(), *y = b.get<Scalar>();
  if (x && y) return x->AsComplex() == y->AsComplex();
  const std::string *left = a.get<std::string>(), *right = b.get<std::string>();
  if (left && right) return *left == *right;
  const DeviceName *first = a.get<DeviceName>(), *second = b.get<DeviceName>();
  if (first && second) return first->name == second->name;
  if (a.is_none() && b.is_none()) return true;
  const auto *one = a.get<ScriptValue::Tensor>(), *other = b.get<ScriptValue::Tensor>();
  if (one && other) return *one == *other;
  const auto *object = a.get<ScriptValue::Object>(), *same = b.get<ScriptValue::Object>();
  return object && same && *object == *same;
}

const ScriptValue* FindKey(const DictValue& dict, const ScriptValue& key) {
  for (const auto& [own, value] : dict.items)
    if (SameKey(own, key)) return &value;
  return nullptr;
}

size_t ItemIndex(int64_t index, size_t count) {
  auto size = static_cast<int64_t>(count);
  if (index < -size || index >= size) throw Raised{"IndexError"};
  return static_cast<size_t>(index < 0 ? index + size : index);
}

std::string ShowValue(const ScriptValue& value) {
  if (value.is_none()) return "None";
  if (const std::string* text = value.get<std::string>()) return *text;
  if (const DeviceName* device = value.get<DeviceName>()) return device->name;
  if (const Scalar* number = value.get<Scalar>()) {
    if (!number->is_known()) return "?";
    if (number->kind() == Scalar::Kind::kBool) return number->AsBool() ? "True" : "False";
    return number->is_integral() ? Cat(number->AsInt()) : Cat(number->AsComplex().real());
  }
  if (const Items* items = value.items()) {
    std::string text = value.is<ScriptValue::List>() ? "[" : "(";
    for (const ScriptValue& item : *items) {
      if (text.size() > kLongestText) break;
      if (text.size() > 1) text += ", ";
      text += ShowValue(item);
    }
    return text + (value.is<ScriptValue::List>() ? "]" : ")");
  }
  return value.KindName();
}

bool IsInstance(const ScriptValue& value, const Expression& type) {
  if (type.kind == Expression::Kind::kList || type.kind == Expression::Kind::kTuple)
    return std::any_of(type.parts.begin(), type.parts.end(),
                       [&](const ExpressionPtr& part) { return IsInstance(value, *part); });
  const std::string& name = type.kind == Expression::Kind::kSubscript ? type.parts[0]->text : type.text;
  const Scalar* number = value.get<Scalar>();
  if (name == "Tensor") return value.is_tensor();
  if (name == "int") return number && number->kind() == Scalar::Kind::kInt;
  if (name == "float") return number && number->kind() == Scalar::Kind::kFloat;
  if (name == "bool") return number && number->kind() == Scalar::Kind::kBool;
  if (name == "str") return value.is<std::string>();
  if (name == "List" || name == "list") return value.is<ScriptValue::List>();
  if (name == "Tuple" || name == "tuple") return value.is<ScriptValue::Tuple>();
  if (name == "Dict") return value.is<ScriptValue::Dict>();
  if (name == "NoneType") return value.is_none();
  Fail(ErrorCode::kUnsupported, "it asks whether a value is of class '", Printable(name), "'");
}

bool AlwaysRaises(const Block& block) {
  for (const auto& statement : block) {
    if (statement->kind == Statement::Kind::kRaise) return true;
    if (statement->kind != Statement::Kind::kExpression || statement->value->kind != Expression::Kind::kCall) continue;
    if (statement->value->parts[0]->text == "RaiseException") return true;
  }
  return false;
}

}  // namespace ferry::torch::script
