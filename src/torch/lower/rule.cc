#include "torch/lower/rule.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "torch/lower/families.h"

namespace ferry::torch {
namespace {

using Table = std::span<const Rule> (*)();
constexpr Table kTables[] = {
    SymbolRules,         PointwiseRules,       ComparisonRules,    ActivationRules,    CreationRules,
    ViewRules,           SliceRules,           JoinRules,          MatrixRules,        ConvolutionRules,
    NormalizationRules,  PoolingRules,         ReductionRules,     IndexRules,         PaddingRules,
    AttentionRules,      RecurrentRules,       ControlFlowRules,   ResampleRules,      SortingRules,
    LossRules,           DifferenceRules,      ErrorFunctionRules, GammaFunctionRules, BesselRules,
    RecurrenceRules,     FourierRules,         LinalgRules,        MatrixNormRules,    EmbeddingRules,
    OrderStatisticRules, IncompleteGammaRules, SpectrogramRules,   DecompositionRules, TransformerRules,
    DetectionRules,      RandomRules,          LdlRules,
};

// Other names that PyTorch has for the same operator with the same parameters.
constexpr struct {
  std::string_view alias, name;
} kAliases[] = {
    {"absolute", "abs"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arctanh", "atanh"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"divide", "div"},
    {"fix", "trunc"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"linalg_matmul", "matmul"},
    {"moveaxis", "movedim"},
    {"multiply", "mul"},
    {"negative", "neg"},
    {"not_equal", "ne"},
    {"row_stack", "vstack"},
    {"special_digamma", "digamma"},
    {"special_erf", "erf"},
    {"special_erfc", "erfc"},
    {"special_erfinv", "erfinv"},
    {"special_exp2", "exp2"},
    {"special_expit", "sigmoid"},
    {"special_expm1", "expm1"},
    {"special_gammainc", "igamma"},
    {"special_gammaincc", "igammac"},
    {"special_gammaln", "lgamma"},
    {"special_i0", "i0"},
    {"special_log1p", "log1p"},
    {"special_logit", "logit"},
    {"special_logsumexp", "logsumexp"},
    {"special_multigammaln", "mvlgamma"},
    {"special_polygamma", "polygamma"},
    {"special_psi", "digamma"},
    {"special_round", "round"},
    {"special_sinc", "sinc"},
    {"special_xlogy", "xlogy"},
    {"subtract", "sub"},
    {"true_divide", "div"},
};

class SignatureParser {
 public:
  explicit SignatureParser(const Rule& rule) : rule_(rule), text_(rule.signature) {}

  Signature Parse() {
    Signature signature;
    signature.rule = &rule_;
    ParseName(std::string(TakeUntil("(")), signature);
    bool keyword_only = false;
    for (SkipSpace(); !TakeText(")"); SkipSpace()) {
      if (TakeText("*")) {
        keyword_only = true;
      } else {
        signature.parameters.push_back(ParseParameter());
        signature.parameters.back().keyword_only = keyword_only;
      }
      SkipSpace();
      TakeText(",");
    }
    return signature;
  }

 private:
  [[noreturn]] void Wrong() const {
    Fail(ErrorCode::kInternal, "the signature '", rule_.signature, "' cannot be read");
  }
  void SkipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool TakeText(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  std::string_view TakeUntil(std::string_view ends) {
    size_t end = text_.find_first_of(ends, at_);
    if (end == std::string_view::npos) Wrong();
    std::string_view taken = text_.substr(at_, end - at_);
    at_ = end + (ends == "(" ? 1 : 0);
    return taken;
  }

  // "add.Tensor,Scalar": overloads follow the last dot; names outside aten have dots of their own ("_operator.mul").
  static void ParseName(const std::string& full, Signature& signature) {
    size_t dot = full.rfind('.');
    bool foreign = full.starts_with("_operator.") || full.starts_with("math.") || full.starts_with("torch.") ||
                   full.starts_with("higher_order.") || full.starts_with("prim.") || full.starts_with("torchvision.");
    if (foreign || dot == std::string::npos) {
      signature.name = full;
      signature.overloads = {""};
      return;
    }
    signature.name = full.substr(0, dot);
    signature.overloads = SplitText(std::string_view(full).substr(dot + 1), ',');
    for (std::string& overload : signature.overloads)
      if (overload == "default") overload.clear();
  }

  Parameter ParseParameter() {
    Parameter parameter;
    parameter.type = TakeUntil(" ");
    if (parameter.type.ends_with('?')) {
      parameter.type.pop_back();
      parameter.optional = true;
    }
    // int[2] is a list like any other, only that one number may stand for it.
    if (size_t bracket = parameter.type.find('['); bracket != std::string::npos && parameter.type[bracket + 1] != ']')
      parameter.type = parameter.type.substr(0, bracket) + "[]";
    SkipSpace();
    parameter.name = TakeUntil(",)=");
    if (TakeText("=")) {
      parameter.has_default = true;
      parameter.default_value = ParseDefault();
    }
    return parameter;
  }

  Arg ParseDefault() {
    if (TakeText("[")) {
      Arg::List list;
      for (SkipSpace(); !TakeText("]"); SkipSpace()) {
        list.push_back(ParseDefault());
        SkipSpace();
        TakeText(",");
      }
      return Arg(std::move(list));
    }
    std::string word(TakeUntil(",)]"));
    if (word == "None") return Arg();
    if (word == "True" || word == "False") return Arg(Scalar(word == "True"));
    if (word.starts_with('"')) return Arg(word.substr(1, word.size() - 2));
    if (word == "Mean") return Arg(Scalar(int64_t{1}));  // at::Reduction
    if (word.find_first_of(".e") != std::string::npos) return Arg(Scalar(std::stod(word)));
    return Arg(Scalar(static_cast<int64_t>(std::stoll(word))));
  }

  const Rule& rule_;
  std::string_view text_;
  size_t at_ = 0;
};

using Index = std::map<std::string, std::vector<Signature>, std::less<>>;

const Index& AllSignatures() {
  static const Index index = [] {
    Index made;
    for (Table table : kTables)
      for (const Rule& rule : table()) {
        Signature signature = SignatureParser(rule).Parse();
        made[signature.name].push_back(std::move(signature));
      }
    return made;
  }();
  return index;
}

}  // namespace

std::span<const Signature> FindSignatures(std::string_view name) {
  auto it = AllSignatures().find(name);
  if (it == AllSignatures().end())
    for (const auto& known : kAliases)
      if (known.alias == name) it = AllSignatures().find(known.name);
  return it == AllSignatures().end() ? std::span<const Signature>() : std::span<const Signature>(it->second);
}

const Signature* FindSignature(std::string_view target) {
  constexpr std::string_view kAten = "aten.";
  if (!target.starts_with(kAten)) {
    constexpr std::string_view kDefault = ".default";
    if (target.ends_with(kDefault)) target.remove_suffix(kDefault.size());
    std::span<const Signature> found = FindSignatures(target);
    return found.empty() ? nullptr : &found[0];
  }
  std::string_view name = target.substr(kAten.size());
  std::string_view overload;
  if (size_t dot = name.find('.'); dot != std::string_view::npos) {
    overload = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  if (overload == "default") overload = {};
  for (const Signature& signature : FindSignatures(name))
    if (std::find(signature.overloads.begin(), signature.overloads.end(), overload) != signature.overloads.end())
      return &signature;
  return nullptr;
}

std::vector<std::string> RuleNames() {
  std::vector<std::string> names;
  for (const auto& [name, signatures] : AllSignatures()) names.push_back(name);
  return names;
}

}  // namespace ferry::torch
