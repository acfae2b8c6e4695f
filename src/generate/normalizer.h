// The first stage of a tokenizer: text to text.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"

namespace ferry {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string Apply(const std::string& text) const = 0;
};

// Null for JSON's null. Throws kUnsupported naming a type that it does not know.
std::unique_ptr<const Normalizer> MakeNormalizer(const Json& json, int depth = 0);

// SentencePiece's table of replacements, as a tokenizer.json has it (base64).
std::unique_ptr<const Normalizer> MakePrecompiledNormalizer(const std::string& table);

}  // namespace ferry
