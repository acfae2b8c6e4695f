// Reading the parts of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "generate/pattern.h"

namespace ferry {

inline constexpr int kMostNestedComponents = 20;

inline std::string TypeOfComponent(const Json& json, const char* stage, int depth) {
  if (depth > kMostNestedComponents) Fail(ErrorCode::kLimit, "the ", stage, "s are nested too deeply");
  return json.At("type").AsString();
}

[[noreturn]] inline void RefuseComponent(const char* stage, std::string_view type) {
  Fail(ErrorCode::kUnsupported, "the tokenizer has a ", stage, " '", Printable(type), "', which Ferry does not know");
}

// Members that may be left out or null.
inline bool BoolOr(const Json& json, std::string_view key, bool otherwise) {
  const Json* found = json.Find(key);
  return found && !found->is_null() ? found->AsBool() : otherwise;
}
inline std::string TextOr(const Json& json, std::string_view key, std::string_view otherwise) {
  const Json* found = json.Find(key);
  return found && !found->is_null() ? found->AsString() : std::string(otherwise);
}
inline int64_t IntOr(const Json& json, std::string_view key, int64_t otherwise) {
  const Json* found = json.Find(key);
  return found && !found->is_null() ? found->AsInt() : otherwise;
}
inline bool IsGiven(const Json& json, std::string_view key) {
  const Json* found = json.Find(key);
  return found && !found->is_null();
}

// {"String": "x"} or {"Regex": "x+"}.
inline Pattern PatternFrom(const Json& json) {
  if (const Json* regex = json.Find("Regex")) return Pattern::Regex(regex->AsString());
  return Pattern::Literal(json.At("String").AsString());
}

}  // namespace ferry
