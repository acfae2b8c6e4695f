#include <algorithm>
#include <atomic>
#include <csignal>

#include "base/directory.h"
#include "base/error.h"
#include "base/file_server.h"
#include "base/process.h"
#include "cli/output.h"
#include "cli/shared_options.h"
#include "graph/stored_tensors.h"
#include "onnx/reader.h"

namespace ferry::cli {
namespace {

constexpr Position kPositions[] = {
    {.name = "MODEL", .help = "an .onnx, .pt2 or .pt file", .completes = Completes::kModel}};
constexpr Option kOptions[] = {
    {.name = "port", .value = "N", .help = "of this machine alone (usually one that is free)"},
    {.name = "page",
     .value = "DIR",
     .help = "the workbench page (usually the one beside this program)",
     .completes = Completes::kDirectory},
};
constexpr Example kExamples[] = {
    {"ferry view model.onnx", "prints the address of a page on which the model is seen, checked, run and compared"},
};

std::atomic<bool> stop_serving{false};

std::string FindPage(const Arguments& arguments) {
  if (arguments.Has("page")) return arguments.Get("page");
  const std::string folder = ExecutableFolder();
  for (const char* place : {"web/workbench", "../share/ferry/workbench"})
    if (IsFile(JoinPath(JoinPath(folder, place), "index.html"))) return JoinPath(folder, place);
  Fail(ErrorCode::kNotFound,
       "the workbench page is not beside this program: 'scripts/build_web' builds it, --page DIR ", "says where it is");
}

bool IsOnnx(const std::string& path) { return path.size() > 5 && path.compare(path.size() - 5, 5, ".onnx") == 0; }

// The files beside a model that its weights lie in.
std::vector<std::string> DataFilesOf(const std::string& path) {
  std::vector<std::string> names;
  if (!IsOnnx(path)) return names;
  const Model model = ReadModel(path, {.load_external = false});
  ForEachStoredTensor(model, [&](const StoredTensor& tensor) {
    for (const auto& [key, value] : tensor.external.entries) {
      const bool inside = !value.empty() && value[0] != '/' && value.find("..") == std::string::npos;
      if (key == "location" && inside && std::find(names.begin(), names.end(), value) == names.end())
        names.push_back(value);
    }
  });
  return names;
}

std::string Escaped(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";
  std::string out;
  for (char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  }
  return out;
}

int Run(const Arguments& arguments) {
  const std::string path = arguments.positions()[0], page = FindPage(arguments);
  if (!IsFile(path)) Fail(ErrorCode::kNotFound, Printable(path), ": no such file");
  std::map<std::string, std::string> files;
  for (const std::string& name : ListDirectory(page)) files["/" + name] = JoinPath(page, name);
  const std::string name(LastPart(path));
  const std::string folder = path.substr(0, path.size() - name.size());
  files["/model/" + name] = path;
  std::string question = "?model=" + Escaped("model/" + name);
  for (const std::string& data : DataFilesOf(path)) {
    files["/model/" + data] = folder + data;
    question += "&data=" + Escaped(data);
  }
  FileServer server(std::move(files), static_cast<int>(arguments.Int("port", 0, 0, 65535)));
  const std::string address = Cat("http://127.0.0.1:", server.port(), "/", question);
  if (arguments.json())
    PrintJson(Json().Set("url", address).Set("port", server.port()));
  else
    Print(Cat(address, "\n"));
  std::fflush(stdout);
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_serving.store(true); });
  server.Serve(stop_serving);
  return kGood;
}

}  // namespace

extern const Command command_view;
constinit const Command command_view = {
    .name = "view",
    .group = Group::kUnderstand,
    .summary = "Open a model on the workbench page, in a browser on this machine",
    .details =
        "Serves the page and the model to this machine alone, on the address that is printed, until it is "
        "interrupted. Nothing is sent elsewhere.",
    .positions = kPositions,
    .options = kOptions,
    .examples = kExamples,
    .run = Run,
};

}  // namespace ferry::cli
