#include "doctor/targets.h"

#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace ferry {
namespace {

std::vector<DType> TypesOf(std::string_view word) {
  static constexpr std::pair<std::string_view, DType> kWords[] = {
      {"f64", DType::kDouble},    {"f32", DType::kFloat},  {"f16", DType::kFloat16},   {"bf16", DType::kBFloat16},
      {"i64", DType::kInt64},     {"i32", DType::kInt32},  {"i16", DType::kInt16},     {"i8", DType::kInt8},
      {"i4", DType::kInt4},       {"i2", DType::kInt2},    {"u64", DType::kUInt64},    {"u32", DType::kUInt32},
      {"u16", DType::kUInt16},    {"u8", DType::kUInt8},   {"u4", DType::kUInt4},      {"u2", DType::kUInt2},
      {"bool", DType::kBool},     {"str", DType::kString}, {"c64", DType::kComplex64}, {"c128", DType::kComplex128},
      {"f4", DType::kFloat4E2M1},
  };
  if (word == "f8") return {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ};
  for (const auto& [name, type] : kWords)
    if (name == word) return {type};
  Fail(ErrorCode::kInternal, "a table of targets speaks of the type '", word, "'");
}

std::string Rest(const std::string& line, size_t words) {
  size_t at = 0;
  for (size_t i = 0; i < words && at != std::string::npos; ++i) at = line.find(' ', at) + 1;
  return line.substr(at);
}

int64_t Number(const std::string& word) { return std::strtoll(word.c_str(), nullptr, 10); }

void ReadOperatorFact(Target& target, const std::vector<std::string>& words) {
  TargetOperator& op = target.operators[words.at(1)];
  const std::string& key = words[0];
  if (key == "op") {
    for (size_t i = 2; i < words.size(); ++i)
      for (DType type : TypesOf(words[i])) op.types.insert(type);
  } else if (key == "part") {
    op.in_part = true;
  } else if (key == "constant") {
    op.constant_inputs.insert(static_cast<size_t>(Number(words.at(2))));
  } else if (key == "rank") {
    op.least_rank = Number(words.at(2));
    op.most_rank = Number(words.at(3));
  } else if (key == "outputs") {
    op.most_outputs = Number(words.at(2));
  } else if (key == "zero-point") {
    op.zero_point_is_zero = true;
  } else {
    Fail(ErrorCode::kInternal, "a table of targets has the line '", key, "'");
  }
}

void ReadFact(Target& target, const std::string& line) {
  std::vector<std::string> words = SplitText(line, ' ');
  const std::string& key = words[0];
  if (key == "title") {
    target.title = Rest(line, 1);
  } else if (key == "source") {
    target.source = Rest(line, 1);
  } else if (key == "date") {
    target.date = Rest(line, 1);
  } else if (key == "missing") {
    target.missing = Rest(line, 1);
  } else if (key == "functions") {
    target.takes_functions_apart = true;
  } else if (key == "opset") {
    target.oldest_opset = Number(words.at(1));
    target.newest_opset = Number(words.at(2));
    target.opset_reason = Rest(line, 3);
  } else if (key == "slow") {
    for (DType type : TypesOf(words.at(1))) target.slow[type] = Rest(line, 2);
  } else {
    ReadOperatorFact(target, words);
  }
}

}  // namespace

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kTargetSourceCount; ++i) names.emplace_back(kTargetSources[i].name);
  return names;
}

Target FindTarget(std::string_view name) {
  for (size_t i = 0; i < kTargetSourceCount; ++i) {
    if (kTargetSources[i].name != name) continue;
    Target target;
    target.name = name;
    for (const std::string& line : SplitText(kTargetSources[i].facts, '\n'))
      if (!line.empty()) ReadFact(target, line);
    return target;
  }
  Fail(ErrorCode::kInvalidArgument, "there is no target '", Printable(name), "'; known are ",
       Join(TargetNames(), ", "));
}

}  // namespace ferry
