#include <re2/re2.h>

#include "base/error.h"
#include "ops/support/regular_expression.h"

namespace ferry {
namespace {

class Re2Expression : public RegularExpression {
 public:
  Re2Expression(const std::string& pattern, const RE2::Options& options) : compiled_(pattern, options) {
    if (!compiled_.ok())
      Fail(ErrorCode::kInvalidModel, "'", Printable(pattern),
           "' is not a regular expression of RE2: ", compiled_.error());
  }

  bool MatchesAll(std::string_view text) const override {
    return RE2::FullMatch(re2::StringPiece(text.data(), text.size()), compiled_);
  }

  bool Find(std::string_view text, size_t from, size_t& begin, size_t& length) const override {
    re2::StringPiece found;
    re2::StringPiece all(text.data(), text.size());
    if (from > text.size() || !compiled_.Match(all, from, text.size(), RE2::UNANCHORED, &found, 1)) return false;
    begin = static_cast<size_t>(found.data() - text.data());
    length = found.size();
    return true;
  }

 private:
  const RE2 compiled_;
};

}  // namespace

std::unique_ptr<const RegularExpression> CompileExpression(const std::string& pattern) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_longest_match(true);
  return std::make_unique<Re2Expression>(pattern, options);
}

}  // namespace ferry
