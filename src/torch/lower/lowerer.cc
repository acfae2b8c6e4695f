#include "torch/lower/lowerer.h"

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "torch/lower/cell.h"

namespace ferry::torch {
namespace {

using NamedArgs = std::vector<std::pair<std::string, Arg>>;

// A target and the form of it that a rule exists for.
struct Found {
  enum class Form { kAsIs, kInPlace, kCopy } form = Form::kAsIs;
  const Signature* signature = nullptr;
};

// relu_ is relu written back; permute_copy is permute whose result is no view.
Found FindForm(const std::string& target) {
  size_t begin = target.find('.') + 1;
  size_t end = std::min(target.find('.', begin), target.size());
  std::string_view name = std::string_view(target).substr(begin, end - begin);
  bool in_place = target.starts_with("aten.") && name.ends_with('_') && !name.ends_with("__");
  if (const Signature* signature = FindSignature(target))
    return {in_place ? Found::Form::kInPlace : Found::Form::kAsIs, signature};
  auto without = [&](size_t suffix) { return FindSignature(target.substr(0, end - suffix) + target.substr(end)); };
  if (!target.starts_with("aten.")) return {};
  if (in_place) return {Found::Form::kInPlace, without(1)};
  constexpr std::string_view kCopy = "_copy";
  if (name.ends_with(kCopy)) return {Found::Form::kCopy, without(kCopy.size())};
  return {};
}

std::vector<Arg> Bind(const Signature& signature, const NamedArgs& arguments) {
  const std::vector<Parameter>& parameters = signature.parameters;
  std::vector<Arg> args(parameters.size());
  std::vector<bool> given(parameters.size());
  size_t position = 0;
  for (const auto& [name, value] : arguments) {
    size_t at = position;
    if (!name.empty())
      at = static_cast<size_t>(std::find_if(parameters.begin(), parameters.end(),
                                            [&, &wanted = name](const Parameter& p) { return p.name == wanted; }) -
                               parameters.begin());
    // Forms of one operator call their first argument "self" or "input".
    if (at == parameters.size() && (name == "self" || name == "input")) at = 0;
    if (at >= parameters.size() || given[at])
      Fail(ErrorCode::kUnsupported, "argument '", Printable(name), "' is not one this export knows");
    given[at] = true;
    args[at] = value;
    ++position;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i]) continue;
    if (!parameters[i].has_default && !parameters[i].optional)
      Fail(ErrorCode::kInvalidModel, "argument '", parameters[i].name, "' is missing");
    args[i] = parameters[i].default_value;
  }
  return args;
}

bool HoldsComplex(const Arg& arg, const Lowerer& lowerer) {
  if (arg.get<std::shared_ptr<Cell>>()) return lowerer.Read(arg).is_complex();
  if (const Scalar* scalar = arg.get<Scalar>()) return scalar->kind() == Scalar::Kind::kComplex;
  if (const Arg::List* list = arg.get<Arg::List>())
    return std::any_of(list->begin(), list->end(), [&](const Arg& element) { return HoldsComplex(element, lowerer); });
  return false;
}

bool IsCertainView(RuleKind kind, const Cell& base) {
  if (kind == RuleKind::kView || kind == RuleKind::kSelf) return true;
  return kind == RuleKind::kMaybeView && base.meta && IsContiguous(*base.meta);
}

// x.to(…) makes a copy when something changes, or when it is told to.
bool IsCopyOfSelf(const Signature& signature, const std::vector<Arg>& args, const Operand& self, const Result& result) {
  if (signature.rule->kind != RuleKind::kSelf) return false;
  for (size_t i = 0; i < args.size(); ++i)
    if (const Scalar* flag = args[i].get<Scalar>(); flag && signature.parameters[i].name == "copy" && flag->AsBool())
      return true;
  return !(std::get<Operand>(result.items.at(0)) == self);
}

}  // namespace

bool IsContiguous(const TensorMeta& meta) {
  // Sizes of 1 have any stride. A stride is the product of the sizes after it; named ones are compared by their name.
  Dim expected(1);
  for (size_t axis = meta.sizes.size(); axis-- > 0;) {
    if (SameDim(meta.sizes[axis], Dim(1))) continue;
    if (expected.unknown() || !SameDim(meta.strides[axis], expected)) return false;
    expected = expected * meta.sizes[axis];
  }
  return true;
}

Arg Lowerer::MakeCell(Operand value) {
  auto cell = std::make_shared<Cell>(std::move(value));
  cell->level = level_;
  return Arg(std::move(cell));
}

Operand Lowerer::Read(const Arg& tensor) const {
  const auto* cell = tensor.get<std::shared_ptr<Cell>>();
  if (!cell) Fail(ErrorCode::kInvalidModel, "a tensor is needed where the program has something else");
  return (*cell)->Read();
}

// Rules read lists by place and take axes off: a list or a tensor with too few of them is the program's fault.
Result Lowerer::Lower(const Rule& rule, const std::string& target, const std::vector<Arg>& args) {
  Call call(*this, *builder_, target, args);
  try {
    return rule.lower(call);
  } catch (const std::out_of_range&) {
    Fail(ErrorCode::kInvalidModel, "a list given to it is shorter than the operator needs");
  } catch (const std::length_error&) {
    Fail(ErrorCode::kInvalidModel, "a tensor given to it has fewer axes than the operator needs");
  }
}

std::vector<Arg> Lowerer::Run(const std::string& target, const NamedArgs& arguments) {
  auto [form, signature] = FindForm(target);
  if (!signature) Fail(ErrorCode::kUnsupported, "there is no export for ", Printable(target));
  std::vector<Arg> args = Bind(*signature, arguments);
  if (!signature->rule->takes_complex)
    for (const Arg& arg : args)
      if (HoldsComplex(arg, *this)) Fail(ErrorCode::kUnsupported, "there is no export for complex numbers");
  Result result = Lower(*signature->rule, target, args);
  std::vector<Arg> results;
  if (form == Found::Form::kInPlace)
    results = WriteBack(*signature, args, result);
  else if (signature->rule->kind == RuleKind::kViewOfEach)
    results = MakeViewsOfEach(args[0], result);
  else if (signature->rule->kind != RuleKind::kPlain && form != Found::Form::kCopy &&
           !IsCopyOfSelf(*signature, args, Read(args[0]), result))
    results = MakeViews(*signature, target, args, result);
  else
    for (const Result::Item& item : result.items) results.push_back(MakeArg(item));
  for (size_t i = 0; i < results.size(); ++i) {
    const auto* cell = results[i].get<std::shared_ptr<Cell>>();
    const TensorMeta* described = DescribedResult(i);
    if (!cell || !described || i >= signature->rule->described) continue;
    (*cell)->meta = meta(i);
    builder_->Refine((*cell)->Read(), described->dtype,
                     meta(i) ? described->sizes : SymbolicShape(described->sizes.size()));
  }
  return results;
}

Arg Lowerer::MakeArg(const Result::Item& item) {
  if (const Operand* operand = std::get_if<Operand>(&item)) return MakeCell(*operand);
  if (const Scalar* scalar = std::get_if<Scalar>(&item)) return Arg(*scalar);
  return {};
}

// In-place forms keep the type and the shape of what they write to.
std::vector<Arg> Lowerer::WriteBack(const Signature& signature, const std::vector<Arg>& args, const Result& result) {
  Operand self = Read(args[0]);
  const Operand* made = result.items.size() == 1 ? std::get_if<Operand>(&result.items[0]) : nullptr;
  bool is_view = signature.rule->kind != RuleKind::kPlain && signature.rule->kind != RuleKind::kSelf;
  if (!made || (is_view && !(*made == self))) Fail(ErrorCode::kUnsupported, "there is no export for its in-place form");
  if (is_view || *made == self) return {args[0]};
  const auto& target = *args[0].get<std::shared_ptr<Cell>>();
  WillWrite(target);
  target->Write(builder_->ExpandLike(builder_->CastLike(*made, self), self));
  return {args[0]};
}

void Lowerer::WillWrite(const std::shared_ptr<Cell>& tensor) {
  std::shared_ptr<Cell> root = Cell::RootOf(tensor);
  if (root->level >= level_) return;
  if (!changes_)
    Fail(ErrorCode::kUnsupported,
         "a tensor from outside is written to in a branch or loop that is only decided while the model runs");
  bool noted =
      std::any_of(changes_->begin(), changes_->end(), [&](const auto& change) { return change.first == root; });
  if (!noted) changes_->emplace_back(root, root->Peek());
}

std::vector<Arg> Lowerer::MakeViews(const Signature& signature, const std::string& target, const std::vector<Arg>& args,
                                    const Result& result) {
  std::vector<Arg> views;
  for (size_t i = 0; i < result.items.size(); ++i) {
    Cell::MakeView view = [this, &signature, target, args, i](const Operand& base) {
      std::vector<Arg> again = args;
      again[0] = MakeCell(base);
      Call call(*this, *builder_, target, std::move(again));
      return std::get<Operand>(signature.rule->lower(call).items[i]);
    };
    Cell::WriteBack write_back;
    if (IsCertainView(signature.rule->kind, **args[0].get<std::shared_ptr<Cell>>()))
      write_back = [this, view](const Operand& base, const Operand& written) {
        return builder_->WriteThrough(base, written, view);
      };
    auto cell = std::make_shared<Cell>(std::get<Operand>(result.items[i]), *args[0].get<std::shared_ptr<Cell>>(),
                                       std::move(view), std::move(write_back));
    cell->level = level_;
    views.emplace_back(std::move(cell));
  }
  return views;
}

std::vector<Arg> Lowerer::MakeViewsOfEach(const Arg& tensors, const Result& result) {
  const Arg::List* bases = tensors.get<Arg::List>();
  std::vector<Arg> views;
  for (size_t i = 0; i < result.items.size(); ++i) {
    const auto* base = bases && i < bases->size() ? bases->at(i).get<std::shared_ptr<Cell>>() : nullptr;
    const Operand* value = std::get_if<Operand>(&result.items[i]);
    views.push_back(base && value ? MakeDoubtfulCell(*value, *base) : MakeArg(result.items[i]));
  }
  return views;
}

Arg Lowerer::MakeDoubtfulCell(Operand value, const std::shared_ptr<Cell>& base) {
  auto cell = std::make_shared<Cell>(std::move(value), base, nullptr, nullptr);
  cell->level = level_;
  return Arg(std::move(cell));
}

}  // namespace ferry::torch
