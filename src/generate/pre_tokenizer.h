// The second stage of a tokenizer: text to words, none of which a token crosses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace ferry {

struct Word {
  std::string text;
  bool begins_text = false;  // nothing of the original text lies before it
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Takes one piece apart; empty words are left out.
  virtual void Split(const Word& piece, std::vector<Word>& words) const = 0;
};

// Null for JSON's null. Throws kUnsupported naming a type that it does not know.
std::unique_ptr<const PreTokenizer> MakePreTokenizer(const Json& json, int depth = 0);

}  // namespace ferry
