// Archives for fuzzers. Checksums would keep a fuzzer from ever reaching what an archive holds, so its input is the
// entries one after the other, each after a line "@@ NAME", and the archive is made around them.
#pragma once

#include <string_view>

#include "tests/support/zip_bytes.h"

namespace ferry::testing {

inline SharedBytes ZipOfSections(std::string_view text) {
  constexpr std::string_view kMark = "@@ ";
  std::vector<ZipPart> parts;
  while (text.substr(0, kMark.size()) == kMark) {
    size_t name_end = std::min(text.find('\n'), text.size());
    std::string_view name = text.substr(kMark.size(), name_end - kMark.size());
    text.remove_prefix(std::min(name_end + 1, text.size()));
    size_t end = text.find("\n@@ ");
    parts.push_back({std::string(name), std::string(text.substr(0, end))});
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return Share(MakeZip(parts));
}

}  // namespace ferry::testing
