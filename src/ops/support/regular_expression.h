// Regular expressions as RE2 writes them, for the string operators: by RE2 itself, or where it is not at hand, as in a
// browser, by SmallExpression.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ferry {

class RegularExpression {
 public:
  virtual ~RegularExpression() = default;
  // The text from its first to its last character.
  virtual bool MatchesAll(std::string_view text) const = 0;
  // The first match at or after a place, and of those that begin there the longest.
  virtual bool Find(std::string_view text, size_t from, size_t& begin, size_t& length) const = 0;
};

// Throws kInvalidModel with what is wrong with it.
std::unique_ptr<const RegularExpression> CompileExpression(const std::string& pattern);
// Takes time in proportion to the text and the pattern, whatever they are.
std::unique_ptr<const RegularExpression> CompileSmallExpression(const std::string& pattern);

}  // namespace ferry
