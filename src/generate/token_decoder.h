// The way back: tokens to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace ferry {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // What the tokens become; joined, it is the text.
  virtual std::vector<std::string> Apply(std::vector<std::string> tokens) const = 0;
};

// Null for JSON's null. Throws kUnsupported naming a type that it does not know.
std::unique_ptr<const TokenDecoder> MakeTokenDecoder(const Json& json, int depth = 0);

}  // namespace ferry
