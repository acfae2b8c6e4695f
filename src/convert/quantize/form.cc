#include "base/error.h"
#include "convert/quantize/quantize.h"

namespace ferry::quantize {
namespace {

struct NamedForm {
  std::string_view word;
  QuantizeForm form;
  int bits;
  bool says_bits = false;
};

// The first name of each form is the one that reports show.
constexpr NamedForm kNames[] = {
    {"int8", QuantizeForm::kInt8, 8},
    {"static", QuantizeForm::kStatic, 8},
    {"dynamic", QuantizeForm::kDynamic, 8},
    {"weights", QuantizeForm::kWeights, 4},
    {"weights4", QuantizeForm::kWeights, 4, true},
    {"weights8", QuantizeForm::kWeights, 8, true},
    {"float16", QuantizeForm::kFloat16, 8},
    {"fp16", QuantizeForm::kFloat16, 8},
    {"bfloat16", QuantizeForm::kBFloat16, 8},
    {"bf16", QuantizeForm::kBFloat16, 8},
};

}  // namespace

void SetForm(QuantizeOptions& options, const std::string& word, std::optional<int> bits) {
  std::vector<std::string> all;
  for (const NamedForm& name : kNames) {
    all.emplace_back(name.word);
    if (name.word != word) continue;
    Require(!name.says_bits || !bits || *bits == name.bits, "the form '", word, "' and ", bits.value_or(0),
            " bits contradict each other");
    options.form = name.form;
    options.bits = bits.value_or(name.bits);
    return;
  }
  Fail(ErrorCode::kInvalidArgument, "there is no form '", Printable(word), "'; it is one of ", Join(all, ", "));
}

const char* FormName(QuantizeForm form) {
  for (const NamedForm& name : kNames)
    if (name.form == form) return name.word.data();
  return "";
}

}  // namespace ferry::quantize
