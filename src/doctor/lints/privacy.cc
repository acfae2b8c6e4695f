// What a model tells about those who made it: paths of their machines, names, stack traces.
#include <algorithm>
#include <cctype>
#include <map>

#include "doctor/lint.h"
#include "doctor/proof.h"
#include "graph/stored_tensors.h"

namespace ferry {
namespace {

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool HasAbsolutePath(std::string_view text) {
  for (const char* start : {"/home/", "/Users/", "/root/", "/mnt/", "/opt/", "/usr/", "/tmp/", "/var/", "/data/",
                            "/workspace/", "/srv/", "/media/", "/private/", "/content/", "file://", "\\\\"})
    if (size_t at = text.find(start); at != std::string_view::npos) {
      // The middle of a longer name ("encoder/data/0") is no absolute path.
      char before = at == 0 ? ' ' : text[at - 1];
      if (!std::isalnum(static_cast<unsigned char>(before)) && before != '_' && before != '.' && before != '-')
        return true;
    }
  for (size_t i = 0; i + 2 < text.size(); ++i)
    if (std::isalpha(static_cast<unsigned char>(text[i])) && text[i + 1] == ':' && text[i + 2] == '\\' &&
        (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))
      return true;
  return false;
}

bool HasMailAddress(std::string_view text) {
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    bool name = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1]));
    size_t end = at + 1;
    bool dot = false;
    for (; end < text.size(); ++end) {
      char c = text[end];
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') break;
      dot = dot || (c == '.' && end > at + 1);
    }
    if (name && dot) return true;
  }
  return false;
}

bool NamesAPerson(std::string_view key) {
  std::string lower = Lower(key);
  for (const char* word : {"author", "creator", "username", "user_name", "owner", "e-mail", "email", "hostname"})
    if (Contains(lower, word)) return true;
  return lower == "user" || lower == "host";
}

bool IsStackTrace(std::string_view key, std::string_view text) {
  return Contains(Lower(key), "stack_trace") || Contains(text, "Traceback (most recent call last)") ||
         (Contains(text, "File \"") && Contains(text, ", line "));
}

// What a piece of text gives away; empty when nothing.
std::string Reveals(std::string_view key, std::string_view text) {
  if (text.empty()) return {};
  if (IsStackTrace(key, text)) return "a stack trace";
  if (HasAbsolutePath(text)) return "an absolute path";
  if (HasMailAddress(text)) return "a mail address";
  if (NamesAPerson(key)) return "a person's or machine's name";
  return {};
}

// Calls visit(what, key, text) for every text in a model that nothing depends on; it may clear the text.
template <class Visit>
void ForEachText(Model& model, const Visit& visit) {
  auto metadata = [&](const std::string& what, Metadata& entries) {
    for (auto& [key, text] : entries) visit(what, key, text);
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [](const auto& entry) { return entry.second.empty() && !entry.first.empty(); }),
                  entries.end());
  };
  visit("model", "doc_string", model.doc);
  visit("model", "producer_name", model.producer_name);
  visit("model", "domain", model.domain);
  metadata("model", model.metadata);
  ForEachGraph(model.graph, [&](const Graph& found) {
    Graph& graph = const_cast<Graph&>(found);
    visit("graph", "doc_string", graph.doc);
    metadata("graph", graph.metadata);
    for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_infos})
      for (ValueInfo& value : *list) {
        visit(Cat("value '", value.name, "'"), "doc_string", value.doc);
        metadata(Cat("value '", value.name, "'"), value.metadata);
      }
  });
  ForEachNode(model, [&](Node& node, const std::string&) {
    visit(Describe(node), "doc_string", node.doc);
    metadata(Describe(node), node.metadata);
    for (Attribute& attribute : node.attributes) visit(Describe(node), "doc_string", attribute.doc);
  });
  for (Function& function : model.functions) {
    visit(Cat("function '", function.name, "'"), "doc_string", function.doc);
    metadata(Cat("function '", function.name, "'"), function.metadata);
  }
  ForEachStoredTensor(model, [&](StoredTensor& tensor) {
    visit(Cat("tensor '", tensor.name, "'"), "doc_string", tensor.doc);
    metadata(Cat("tensor '", tensor.name, "'"), tensor.metadata);
  });
}

void Look(const Patient& patient, FindingList& findings) {
  struct Group {
    int64_t count = 0;
    std::string first, example;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;  // by what is revealed, and where
  Model copy = CopyDeep(patient.model());
  ForEachText(copy, [&](const std::string& what, const std::string& key, std::string& text) {
    std::string revealed = Reveals(key, text);
    if (revealed.empty()) return;
    Group& group = groups[{revealed, key}];
    if (group.count++ == 0) group.first = what, group.example = Printable(text, 120);
  });
  for (const auto& [kind, group] : groups) {
    Finding& finding = findings.Add({.value = kind.second},
                                    Cat("'", Printable(kind.second), "' of ", group.first, " holds ", kind.first));
    finding.evidence = {{"text", group.example}, {"places", Cat(group.count)}};
    // Exporters write these into every model; they name files rather than people.
    if (kind.first == "a stack trace") finding.severity = Severity::kNote;
  }
}

void Fix(const Patient&, Model& model, FixLog& log) {
  std::map<std::string, int64_t> cleared;
  ForEachText(model, [&](const std::string&, const std::string& key, std::string& text) {
    if (Reveals(key, text).empty()) return;
    text.clear();
    ++cleared[key];
  });
  for (const auto& [key, count] : cleared)
    log.changes.push_back(Cat("'", Printable(key), "' is removed in ", count, count == 1 ? " place" : " places"));
}

}  // namespace

extern const Lint lint_privacy;
constinit const Lint lint_privacy = {
    .name = "privacy",
    .meaning = "Metadata and documentation tell nothing of their makers: no absolute paths, names or stack traces.",
    .remedy = "Let 'ferry doctor --fix' remove the text; nothing depends on it.",
    .look = Look,
    .stage = 80,
    .fix = Fix,
    .prove = ProveSameWhereItRuns,
};

}  // namespace ferry
