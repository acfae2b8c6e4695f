#include "ops/support/einsum_equation.h"

#include <algorithm>

#include "base/error.h"

namespace ferry {
namespace {

constexpr size_t kLetters = 52;
constexpr size_t kEllipsis = static_cast<size_t>(-1);  // stands in a raw term for all its axes

// Upper case comes before lower case, as in ASCII.
size_t LabelOf(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<size_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<size_t>(c - 'a') + 26;
  Fail(ErrorCode::kInvalidArgument, "the equation has '", Printable(std::string_view(&c, 1)),
       "' where only letters, '...', ',' and '->' may stand");
}

std::vector<size_t> ParseTerm(std::string_view text) {
  std::vector<size_t> term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "...") {
      Require(std::find(term.begin(), term.end(), kEllipsis) == term.end(), "a term has two ellipses");
      term.push_back(kEllipsis);
      i += 2;
    } else {
      term.push_back(LabelOf(text[i]));
    }
  }
  return term;
}

bool HasEllipsis(const std::vector<size_t>& term) {
  return std::find(term.begin(), term.end(), kEllipsis) != term.end();
}

// Replaces the ellipsis by the labels of `axes` axes, outermost first.
std::vector<size_t> Expand(const std::vector<size_t>& term, size_t axes) {
  std::vector<size_t> out;
  for (size_t label : term) {
    if (label != kEllipsis) {
      out.push_back(label);
      continue;
    }
    for (size_t axis = axes; axis-- > 0;) out.push_back(kLetters + axis);
  }
  return out;
}

// Without "->": the ellipsis first, then every label that appears exactly once, in order.
std::vector<size_t> ImplicitOutput(const std::vector<std::vector<size_t>>& raw) {
  std::vector<int> seen(kLetters);
  std::vector<size_t> output;
  for (const auto& term : raw)
    for (size_t label : term)
      if (label != kEllipsis) ++seen[label];
  if (std::any_of(raw.begin(), raw.end(), HasEllipsis)) output.push_back(kEllipsis);
  for (size_t label = 0; label < kLetters; ++label)
    if (seen[label] == 1) output.push_back(label);
  return output;
}

}  // namespace

EinsumEquation EinsumEquation::Parse(const std::string& text, const std::vector<size_t>& ranks) {
  std::string plain;
  for (char c : text)
    if (c != ' ') plain.push_back(c);
  size_t arrow = plain.find("->");
  std::vector<std::vector<size_t>> raw;
  for (const std::string& term : SplitText(plain.substr(0, arrow), ',')) raw.push_back(ParseTerm(term));
  Require(raw.size() == ranks.size(), "the equation '", Printable(text), "' has ", raw.size(), " terms for ",
          ranks.size(), " operands");

  EinsumEquation equation;
  size_t ellipsis_axes = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    size_t letters = raw[i].size() - (HasEllipsis(raw[i]) ? 1 : 0);
    Require(HasEllipsis(raw[i]) ? ranks[i] >= letters : ranks[i] == letters, "term ", i, " of '", Printable(text),
            "' does not fit an operand of rank ", ranks[i]);
    equation.terms.push_back(Expand(raw[i], ranks[i] - letters));
    ellipsis_axes = std::max(ellipsis_axes, ranks[i] - letters);
  }
  std::vector<size_t> raw_output =
      arrow == std::string::npos ? ImplicitOutput(raw) : ParseTerm(std::string_view(plain).substr(arrow + 2));
  equation.output = Expand(raw_output, ellipsis_axes);
  equation.label_count = kLetters + ellipsis_axes;

  std::vector<bool> known(equation.label_count), used(equation.label_count);
  for (const auto& term : equation.terms)
    for (size_t label : term) known[label] = true;
  for (size_t label : equation.output) {
    Require(known[label], "the output of '", Printable(text), "' has a label that no operand has");
    Require(!used[label], "the output of '", Printable(text), "' has a label twice");
    used[label] = true;
  }
  return equation;
}

}  // namespace ferry
