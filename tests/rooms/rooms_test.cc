// Which room may include which: dependencies point downward only, and the operating system is base's alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace ferry {
namespace {

using Rooms = std::set<std::string>;

Rooms operator+(Rooms some, const Rooms& more) {
  some.insert(more.begin(), more.end());
  return some;
}

// What each room of src/ may include besides itself. Rooms that stand side by side do not know one another.
const std::map<std::string, Rooms>& Below() {
  static const std::map<std::string, Rooms> below = [] {
    const Rooms bottom = {"base"};
    // Inner loops and image formats work on plain memory: they can be taken along without the rest.
    const Rooms graph = bottom + Rooms{"tensor"};
    const Rooms formats = graph + Rooms{"graph"};
    const Rooms operators = formats + Rooms{"kernels", "image"};
    // Front ends and passes make graphs of operators by their names and schemas.
    const Rooms makers = operators + Rooms{"onnx", "ops"};
    const Rooms engine = makers + Rooms{"passes"};
    const Rooms providers = engine + Rooms{"engine"};
    const Rooms users = providers + Rooms{"providers", "torch", "nn"};
    const Rooms doctor = users + Rooms{"convert", "measure", "generate"};
    const Rooms api = doctor + Rooms{"doctor", "ferry"};
    const Rooms top = api + Rooms{"api"};
    return std::map<std::string, Rooms>{
        {"base", {}},       {"tensor", bottom}, {"kernels", bottom}, {"image", bottom},
        {"graph", graph},   {"onnx", formats},  {"ops", operators},  {"torch", makers},
        {"nn", makers},     {"passes", makers}, {"engine", engine},  {"providers", providers},
        {"convert", users}, {"measure", users}, {"generate", users}, {"doctor", doctor},
        {"api", api},       {"cli", top},       {"server", top},     {"ferry", {}},  // include/ferry/
    };
  }();
  return below;
}

// Headers in angle brackets that are neither C++'s nor plain C's, with the room that keeps the library. Whatever is not
// here, the operating system's headers among them, belongs into base.
const std::map<std::string, Rooms>& Libraries() {
  static const std::map<std::string, Rooms> libraries = {
      {"hwy/", {"kernels"}},
      {"immintrin.h", {"kernels"}},
      {"protozero/", {"onnx", "server"}},
      {"re2/", {"ops"}},
      {"utf8proc.h", {"generate", "ops"}},
      {"jpeglib.h", {"image"}},
      {"jerror.h", {"image"}},
      {"png.h", {"image"}},
      {"tiffio.h", {"image"}},
      {"webp/", {"image"}},
      {"openjpeg.h", {"image"}},
      {"boost/", {"server"}},
      {"nghttp2/", {"server"}},
      {"openssl/", {"server"}},
  };
  return libraries;
}

// The server talks to the network itself, and inflates what comes from there.
const Rooms kSockets = {"arpa/inet.h",    "fcntl.h",      "linux/filter.h", "netdb.h",       "netinet/in.h",
                        "netinet/tcp.h",  "signal.h",     "sys/epoll.h",    "sys/eventfd.h", "sys/mman.h",
                        "sys/resource.h", "sys/socket.h", "sys/stat.h",     "sys/time.h",    "sys/uio.h",
                        "sys/syscall.h",  "sys/un.h",     "time.h",         "unistd.h",      "zlib.h"};
const Rooms kPlainC = {"stddef.h", "stdint.h", "stdlib.h", "string.h"};

struct Include {
  std::string name;
  bool angled = false;
};

// Of one line; an empty name: none.
Include IncludeIn(const std::string& line) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::smatch match;
  if (!std::regex_match(line, match, pattern)) return {};
  return {match[2].str(), match[1].str() == "<"};
}

// src/ROOM/… or include/ferry/…
std::string RoomOf(const std::string& file) {
  const size_t begin = file.find('/') + 1;
  return file.substr(begin, file.find('/', begin) - begin);
}

std::string ObjectionToAngled(const std::string& file, const std::string& name) {
  const std::string room = RoomOf(file);
  const bool is_plain_c = kPlainC.count(name) > 0;
  if (file.find("src/kernels/simd/") == 0 && !is_plain_c && name != "hwy/highway.h" && name != "immintrin.h")
    return "kernels/simd/ includes nothing but Highway and plain C: see simd/target.h";
  if (room == "server" && kSockets.count(name)) return {};
  if (room == "base" || is_plain_c || name.find('.') == std::string::npos) return {};
  for (const auto& [prefix, rooms] : Libraries())
    if (name.compare(0, prefix.size(), prefix) == 0 && rooms.count(room)) return {};
  return "headers of the operating system are for src/base/ only, those of a library for the room that keeps it";
}

// Why `file` may not include it; empty: it may.
std::string Objection(const std::string& file, const Include& include) {
  const std::string room = RoomOf(file);
  auto known = Below().find(room);
  if (known == Below().end()) return "tests/rooms does not know the room " + room;
  if (include.angled) return ObjectionToAngled(file, include.name);
  const std::string other = include.name.substr(0, include.name.find('/'));
  if (other == room || known->second.count(other)) return {};
  return room + " may not include " + other;
}

struct Reading {
  int files = 0, includes = 0;
  std::vector<std::string> objections;
};

Reading ReadSources(const std::string& folder) {
  Reading reading;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cc" && extension != ".h" && extension != ".hpp") continue;
    ++reading.files;
    const std::string file = entry.path().generic_string();
    std::ifstream stream(file);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      const Include include = IncludeIn(line);
      if (include.name.empty()) continue;
      ++reading.includes;
      if (std::string why = Objection(file, include); !why.empty())
        reading.objections.push_back(file + ":" + std::to_string(number) + ": " + include.name + ": " + why);
    }
  }
  std::sort(reading.objections.begin(), reading.objections.end());
  return reading;
}

void ExpectNoObjections(const Reading& reading) {
  for (const std::string& objection : reading.objections) ADD_FAILURE() << objection;
}

TEST(Rooms, IncludeOnlyWhatLiesBelow) {
  const Reading reading = ReadSources("src");
  EXPECT_GT(reading.files, 500);
  EXPECT_GT(reading.includes, 2000);
  ExpectNoObjections(reading);
}

TEST(Rooms, PublicHeadersIncludeNothingOfTheHouse) {
  const Reading reading = ReadSources("include");
  EXPECT_GE(reading.files, 3);
  ExpectNoObjections(reading);
}

std::string ObjectionToLine(const std::string& file, const std::string& line) {
  return Objection(file, IncludeIn(line));
}

TEST(Rooms, LinesAreRead) {
  EXPECT_EQ(IncludeIn("#include \"base/error.h\"").name, "base/error.h");
  EXPECT_FALSE(IncludeIn("#include \"base/error.h\"").angled);
  EXPECT_EQ(IncludeIn("  #  include <sys/stat.h>  // why").name, "sys/stat.h");
  EXPECT_TRUE(IncludeIn("#include <sys/stat.h>").angled);
  EXPECT_EQ(IncludeIn("// #include <vector>").name, "");
  EXPECT_EQ(RoomOf("src/kernels/simd/gemm.cc"), "kernels");
  EXPECT_EQ(RoomOf("include/ferry/nn/layers.hpp"), "ferry");
}

TEST(Rooms, WhatIsForbiddenIsCaught) {
  for (const auto& [file, line] : std::initializer_list<std::pair<const char*, const char*>>{
           {"src/base/text.cc", "#include \"tensor/tensor.h\""},
           {"src/kernels/gemm.cc", "#include \"tensor/tensor.h\""},
           {"src/kernels/simd/gemm.cc", "#include <vector>"},
           {"src/image/png.cc", "#include \"tensor/tensor.h\""},
           {"src/graph/model.cc", "#include \"onnx/reader.h\""},
           {"src/onnx/reader.cc", "#include \"ops/operator.h\""},
           {"src/ops/relu.cc", "#include \"onnx/schema.h\""},
           {"src/passes/fold_pad.cc", "#include \"torch/export.h\""},
           {"src/passes/fold_pad.cc", "#include \"engine/session.h\""},
           {"src/engine/session.cc", "#include \"providers/cpu/tuner.h\""},
           {"src/providers/cpu/conv.cc", "#include \"measure/benchmark.h\""},
           {"src/convert/convert.cc", "#include \"measure/summary.h\""},
           {"src/measure/summary.cc", "#include \"doctor/doctor.h\""},
           {"src/doctor/doctor.cc", "#include \"cli/output.h\""},
           {"src/api/session.cc", "#include \"cli/output.h\""},
           {"src/cli/main.cc", "#include \"server/http.h\""},
           {"src/attic/attic.cc", "#include \"base/error.h\""},
           {"include/ferry/ferry.hpp", "#include \"base/error.h\""},
           {"src/engine/profile.cc", "#include <unistd.h>"},
           {"src/engine/session.cc", "#include <sys/stat.h>"},
           {"src/onnx/external_data.cc", "#include <fcntl.h>"},
           {"src/torch/archive.cc", "#include <zlib.h>"},
           {"src/ops/relu.cc", "#include <dlfcn.h>"}})
    EXPECT_NE(ObjectionToLine(file, line), "") << file << ": " << line;
}

TEST(Rooms, WhatLiesBelowIsAllowed) {
  for (const auto& [file, line] : std::initializer_list<std::pair<const char*, const char*>>{
           {"src/base/pages.cc", "#include <sys/mman.h>"},
           {"src/base/zip.cc", "#include <zlib.h>"},
           {"src/kernels/gemm.cc", "#include \"base/thread_pool.h\""},
           {"src/kernels/simd/target.h", "#include <hwy/highway.h>"},
           {"src/onnx/wire.h", "#include <protozero/pbf_reader.hpp>"},
           {"src/nn/tape.cc", "#include \"onnx/schema.h\""},
           {"src/ops/relu.cc", "#include <vector>"},
           {"src/providers/cpu/provider.cc", "#include \"passes/optimize.h\""},
           {"src/api/session.cc", "#include \"ferry/ferry.h\""},
           {"src/cli/main.cc", "#include \"doctor/doctor.h\""}})
    EXPECT_EQ(ObjectionToLine(file, line), "") << file << ": " << line;
}

}  // namespace
}  // namespace ferry
