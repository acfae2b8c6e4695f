#include "mutants/damage.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/zip.h"
#include "mutants/wound_graph.h"
#include "ops/operator.h"

namespace ferry::mutants {
namespace {

using Bytes = std::string;

ptrdiff_t Offset(size_t at) { return static_cast<ptrdiff_t>(at); }

// A byte or a bit changed, bytes set to an extreme, copied from elsewhere, and, rarely because little then can be read
// at all, removed or doubled.
void WoundBytes(Bytes& bytes, Random& random) {
  const size_t at = random() % bytes.size(), length = std::min<size_t>(1 + random() % 9, bytes.size() - at);
  switch (random() % 14) {
    case 0: bytes.erase(at, length); break;
    case 1: bytes.insert(at, bytes.substr(at, length)); break;
    case 2:
    case 3:
    case 4:
    case 5: bytes[at] = static_cast<char>(random()); break;
    case 6:
    case 7:
    case 8: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
    case 9: std::fill_n(bytes.begin() + Offset(at), length, static_cast<char>(0xff)); break;
    case 10:
    case 11: {
      const size_t from = random() % (bytes.size() - length + 1);
      std::memmove(bytes.data() + at, bytes.data() + from, length);
      break;
    }
    default: std::fill_n(bytes.begin() + Offset(at), length, static_cast<char>(random() % 2 ? 0x7f : 0)); break;
  }
}

// Another number in place of one of a text.
void WoundNumber(Bytes& text, Random& random) {
  static constexpr const char* kNumbers[] = {
      "0", "-1", "1", "2", "255", "2147483647", "4294967296", "9223372036854775807", "1e9", "-2", "null", "1000000"};
  size_t at = random() % text.size(), looked = 0;
  auto is_digit = [&](size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  while (looked++ < text.size() && !is_digit(at)) at = (at + 1) % text.size();
  size_t end = at;
  while (end < text.size() && is_digit(end)) ++end;
  if (end > at) text.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
}

// The name of one operator in place of another's of the same length, so that the file around it stays sound.
void WoundOperator(Bytes& bytes, Random& random) {
  const auto operators = AllOperators();
  const size_t first = random() % operators.size();
  for (size_t i = 0; i < operators.size(); ++i) {
    const std::string_view name = operators[(first + i) % operators.size()]->name;
    const size_t at = bytes.find(name);
    if (at == Bytes::npos) continue;
    for (size_t tries = 0; tries < 50; ++tries)
      if (const std::string_view other = operators[random() % operators.size()]->name;
          other != name && other.size() == name.size()) {
        bytes.replace(at, name.size(), other);
        return;
      }
  }
}

void WoundAten(Bytes& text, const Corpus& corpus, Random& random) {
  if (corpus.aten_names.empty()) return;
  const std::string& name = corpus.aten_names[random() % corpus.aten_names.size()];
  const size_t begin = text.find("torch.ops.aten.", random() % text.size());
  const size_t end = begin == Bytes::npos ? begin : text.find('"', begin);
  if (end != Bytes::npos) text.replace(begin, end - begin, name);
}

bool IsText(const Bytes& bytes) {
  return std::none_of(bytes.begin(), bytes.begin() + Offset(std::min<size_t>(bytes.size(), 200)),
                      [](char c) { return c == 0 || (c & 0x80) != 0; });
}

void Wound(Bytes& bytes, const Corpus& corpus, Random& random) {
  for (size_t wounds = 1 + random() % 2; wounds > 0 && !bytes.empty(); --wounds) {
    const uint64_t kind = random() % 8;
    if (IsText(bytes) && kind < 3)
      WoundNumber(bytes, random);
    else if (IsText(bytes) && kind < 5)
      WoundAten(bytes, corpus, random);
    else
      WoundBytes(bytes, random);
  }
}

struct Entry {
  std::string name;
  Bytes contents;
};

std::vector<Entry> TakeApart(const Bytes& bytes) {
  auto kept = std::make_shared<Bytes>(bytes);
  auto archive = ZipArchive::Open(SharedBytes{{reinterpret_cast<const std::byte*>(kept->data()), kept->size()}, kept});
  std::vector<Entry> entries;
  for (const ZipEntry& entry : archive->entries()) entries.push_back({entry.name, Bytes(archive->Read(entry).text())});
  return entries;
}

Bytes PutTogether(const std::vector<Entry>& entries, const std::string& scratch) {
  {
    ZipWriter writer(scratch);
    for (const Entry& entry : entries) writer.Add(entry.name, entry.contents);
    writer.Finish();
  }
  return ReadAll(scratch);
}

Bytes WithDamagedEntry(const Bytes& bytes, const Corpus& corpus, Random& random, const std::string& scratch) {
  std::vector<Entry> entries = TakeApart(bytes);
  if (entries.empty()) return bytes;
  Entry& victim = entries[random() % entries.size()];
  switch (random() % 16) {
    case 0: victim.contents.clear(); break;
    case 1: victim.contents = entries[random() % entries.size()].contents; break;
    default: Wound(victim.contents, corpus, random); break;
  }
  return PutTogether(entries, scratch);
}

}  // namespace

Bytes Damaged(const Specimen& specimen, const Corpus& corpus, Random& random, const std::string& scratch) {
  Bytes bytes = ReadAll(specimen.path);
  if (bytes.empty()) return bytes;
  if (specimen.format != Format::kOnnx && random() % 4 != 0) return WithDamagedEntry(bytes, corpus, random, scratch);
  if (specimen.format == Format::kOnnx && random() % 2 == 0) try {
      return WithWoundedGraph(bytes, random);
    } catch (const Error&) {  // a specimen that was broken before, or is now beyond writing
    }
  if (specimen.format == Format::kOnnx && random() % 8 == 0) WoundOperator(bytes, random);
  Wound(bytes, corpus, random);
  return bytes;
}

}  // namespace ferry::mutants
