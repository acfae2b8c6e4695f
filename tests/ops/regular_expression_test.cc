// Ferry's own regular expressions against RE2.
#include "ops/support/regular_expression.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace ferry {
namespace {

const char* const kPatterns[] = {"",
                                 "a",
                                 "a*",
                                 "(a|b)*c",
                                 "a+b?c",
                                 "^a$",
                                 "a{2}",
                                 "a{2,}",
                                 "a{0,2}b",
                                 "a{,2}",
                                 "[a-c]+",
                                 "[^a-c]+",
                                 "[]a]",
                                 "[^]a]",
                                 "[a-]",
                                 "\\d+",
                                 "\\D",
                                 "[\\d_]+",
                                 "\\w+\\s\\w+",
                                 "\\bfoo\\b",
                                 "\\Bo",
                                 ".",
                                 ".*",
                                 "(?s).*",
                                 "(?i)abc",
                                 "(?i:AB)c",
                                 "a(?i)b",
                                 "(?m)^b$",
                                 "\\x41",
                                 "\\x{e9}+",
                                 "\\101",
                                 "[[:alpha:]]+",
                                 "[[:^digit:]]",
                                 "[[:space:][:digit:]]*",
                                 "\\pL+",
                                 "\\p{Lu}",
                                 "\\P{L}",
                                 "\\p{^Nd}",
                                 "(?P<name>a)b",
                                 "(?:ab)+",
                                 "\\Qa.b\\E",
                                 "\\Aab\\z",
                                 "é|ü",
                                 "[à-ü]+",
                                 "(?i)É",
                                 "(a*)*b",
                                 "(a?){3}a{3}",
                                 "x*y*|z",
                                 "\\.\\*",
                                 "[^\\S\\n]+",
                                 "(|a)b",
                                 "()",
                                 "a||b",
                                 "[\\]\\-x]+",
                                 "(?U)a+?",
                                 "\\t|\\n",
                                 "[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?",
                                 "^[\\w.]+@[\\w.]+\\.[a-z]{2,4}$",
                                 "(?s:.)b.",
                                 "\\0",
                                 "[a-z&&]+"};
const char* const kTexts[] = {"",    "a",     "b",      "aa",      "aab",          "abc", "ABC",  "aBc",
                              "c",   "ab\nb", "b\na",   "foo bar", "foobar",       "12",  "a1_",  " \t",
                              "é",   "É",     "üé",     "A",       "AA",           "xyz", "]",    "-",
                              "a.b", "aXb",   "a.b*",   "3.14e-5", "me@ferry.org", "\n",  "aaab", "aaaaaa",
                              "σ",   "Σ",     "日本語", "\xff",    "a\xff",        "&z",  ".*"};

TEST(SmallExpression, MatchesWhatRe2Matches) {
  for (const char* pattern : kPatterns) {
    auto theirs = CompileExpression(pattern);
    auto ours = CompileSmallExpression(pattern);
    for (const char* text : kTexts) {
      EXPECT_EQ(ours->MatchesAll(text), theirs->MatchesAll(text)) << "'" << pattern << "' on '" << text << "'";
      for (size_t from = 0; from <= std::string_view(text).size(); ++from) {
        if (from < std::string_view(text).size() && (text[from] & 0xC0) == 0x80) continue;
        size_t begin = 0, length = 0, our_begin = 0, our_length = 0;
        const bool found = theirs->Find(text, from, begin, length);
        ASSERT_EQ(ours->Find(text, from, our_begin, our_length), found)
            << "'" << pattern << "' in '" << text << "' from " << from;
        if (!found) continue;
        EXPECT_EQ(our_begin, begin) << "'" << pattern << "' in '" << text << "' from " << from;
        EXPECT_EQ(our_length, length) << "'" << pattern << "' in '" << text << "' from " << from;
      }
    }
  }
}

TEST(SmallExpression, RefusesWhatRe2Refuses) {
  for (const char* pattern : {"(",          ")",       "[",    "[a",  "*",     "a**",         "a{1001}", "a{3,2}",
                              "(?<=a)b",    "(?=a)",   "\\8",  "\\q", "[b-a]", "\\x{110000}", "\\xg",    "\\p{Nope}",
                              "[[:nope:]]", "(?P<>a)", "(?z)", "a\\", "\xff",  "\\C\\C\\k"}) {
    EXPECT_THROW(CompileExpression(pattern), Error) << pattern;
    EXPECT_THROW(CompileSmallExpression(pattern), Error) << pattern;
  }
  EXPECT_THROW(CompileSmallExpression("((a{1000}){1000}){1000}"), Error);
  EXPECT_THROW(CompileSmallExpression(std::string(100000, '(')), Error);
}

// Drawn from few letters, so that much matches.
TEST(SmallExpression, MatchesWhatRe2MatchesOnRandomPatterns) {
  std::mt19937 random(7);
  const std::string_view pieces[] = {"a", "b",    "(",    ")",   "|", "*", "+",  "?",
                                     ".", "[ab]", "[^a]", "{2}", "^", "$", "\\b"};
  int compiled = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string pattern, text;
    for (uint32_t n = random() % 8; n > 0; --n) pattern += pieces[random() % std::size(pieces)];
    for (uint32_t n = random() % 6; n > 0; --n) text += "ab c"[random() % 4];
    std::unique_ptr<const RegularExpression> theirs, ours;
    try {
      theirs = CompileExpression(pattern);
    } catch (const Error&) {
      continue;
    }
    ASSERT_NO_THROW(ours = CompileSmallExpression(pattern)) << pattern;
    ++compiled;
    EXPECT_EQ(ours->MatchesAll(text), theirs->MatchesAll(text)) << "'" << pattern << "' on '" << text << "'";
  }
  EXPECT_GT(compiled, 500);
}

TEST(SmallExpression, TakesNoLongerThanTheTextIsLong) {
  const std::string text(3000, 'a');
  EXPECT_FALSE(CompileSmallExpression("(a*)*(a|aa)*b")->MatchesAll(text));
}

}  // namespace
}  // namespace ferry
