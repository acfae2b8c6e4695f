#include "cli/measure_code.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/directory.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/run_program.h"

namespace ferry::cli {
namespace {

std::string ReadText(const std::string& path) {
  return IsFile(path) ? std::string(MappedFile::Open(path)->text()) : std::string();
}

// What stands between quotation marks after `key`.
std::string Quoted(const std::string& line, const std::string& key) {
  const size_t at = line.find(key + ": \"");
  if (at == std::string::npos) return {};
  const size_t from = at + key.size() + 3;
  return line.substr(from, line.find('"', from) - from);
}

class CallGraph {
 public:
  explicit CallGraph(const std::string& text) {
    for (const std::string& line : SplitText(text, '\n')) {
      if (line.rfind("node:", 0) == 0) {
        const std::string label = Quoted(line, "label");
        const size_t bytes = label.rfind("\\n");
        if (bytes != std::string::npos && label.find(" bytes (", bytes) != std::string::npos)
          frames_[Quoted(line, "title")] = std::strtoul(label.c_str() + bytes + 2, nullptr, 10);
      } else if (line.rfind("edge:", 0) == 0) {
        calls_[Quoted(line, "sourcename")].push_back(Quoted(line, "targetname"));
      }
    }
  }

  // What the C of a network calls never calls itself; in another program each function counts once.
  size_t Deepest(const std::string& function) {
    auto [known, is_new] = deepest_.emplace(function, 0);
    if (!is_new) return known->second;
    size_t below = 0;
    for (const std::string& called : calls_[function]) below = std::max(below, Deepest(called));
    return deepest_[function] = frames_[function] + below;
  }

 private:
  std::map<std::string, size_t> frames_, deepest_;
  std::map<std::string, std::vector<std::string>> calls_;
};

}  // namespace

std::vector<std::string> CompilerWords() {
  const char* chosen = std::getenv("CC");
  std::vector<std::string> words = SplitText(chosen ? chosen : "", ' ');
  std::erase(words, "");
  if (words.empty()) words.push_back("cc");
  return words;
}

CodeSize MeasureCode(const CBuild& built, const std::string& folder) {
  if (!built.weights.empty()) return {};
  const TemporaryFolder work;
  const std::string object = JoinPath(work.path(), "net.o"), log = JoinPath(work.path(), "log");
  std::vector<std::string> words = CompilerWords();
  CodeSize measured;
  const bool has_level =
      std::any_of(words.begin(), words.end(), [](const std::string& word) { return word.rfind("-O", 0) == 0; });
  if (!has_level) words.emplace_back("-Os");
  for (const std::string& word : words) measured.compiler += Cat(measured.compiler.empty() ? "" : " ", word);
  for (const std::string& word : {std::string("-std=gnu99"), std::string("-w"), std::string("-c"), Cat("-I", folder),
                                  JoinPath(folder, Cat(built.name, ".c")), std::string("-o"), object})
    words.push_back(word);
  words.emplace_back("-fcallgraph-info=su");  // gcc's
  try {
    if (RunProgram(words, log) != 0) {
      words.pop_back();
      if (RunProgram(words, log) != 0) return {};
    }
    if (RunProgram({"size", object}, log) != 0) return {};
  } catch (const Error&) {  // no compiler: the report goes without
    return {};
  }
  const std::string text = ReadText(log);
  const size_t line = text.find('\n');
  const size_t all = line == std::string::npos ? 0 : std::strtoul(text.c_str() + line, nullptr, 10);
  measured.bytes = all > built.weight_bytes ? all - built.weight_bytes : 0;
  measured.stack = DeepestStack(ReadText(JoinPath(work.path(), "net.ci")), Cat(built.name, "_run"));
  return measured;
}

size_t DeepestStack(const std::string& call_graph, const std::string& function) {
  return CallGraph(call_graph).Deepest(function);
}

}  // namespace ferry::cli
