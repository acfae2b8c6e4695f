#include "providers/cuda/compile.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/atomic_file.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "engine/weight_file.h"
#include "providers/cuda/libraries.h"

namespace ferry::cuda {
namespace {

constexpr char kMagic[] = "ferry kernel 1\n";
constexpr size_t kLargestFile = size_t{256} << 20;

std::string Describe(const CompileTarget& target) {
  return Cat("sm_", target.compute_major, target.compute_minor, " nvrtc ", target.compiler, " driver ", target.driver);
}

uint64_t SumOf(std::string_view text) { return Checksum(text.data(), text.size()); }

std::string HexOf(uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

// Texts with their lengths in front, and a checksum over all of it at the end.
void AppendText(std::string& out, std::string_view text) {
  const uint64_t bytes = text.size();
  out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  out.append(text);
}

class TextReader {
 public:
  explicit TextReader(std::string_view bytes) : bytes_(bytes) {}
  bool Next(std::string_view& text) {
    uint64_t size = 0;
    if (bytes_.size() < sizeof size) return false;
    std::memcpy(&size, bytes_.data(), sizeof size);
    bytes_.remove_prefix(sizeof size);
    if (size > bytes_.size()) return false;
    text = bytes_.substr(0, static_cast<size_t>(size));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return true;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

std::string LogOf(const NvrtcApi& nvrtc, NvrtcProgram program) {
  size_t bytes = 0;
  if (nvrtc.GetLogSize(program, &bytes) != kSuccess || bytes == 0) return {};
  std::string log(bytes, '\0');
  nvrtc.GetLog(program, log.data());
  log.resize(std::strlen(log.c_str()));
  return log;
}

}  // namespace

std::string Compile(const std::string& source, const CompileTarget& target) {
  const NvrtcApi& nvrtc = Nvrtc().Get();
  NvrtcProgram program = nullptr;
  auto check = [&](int status, const char* function) {
    if (status == kSuccess) return;
    std::string log = program ? LogOf(nvrtc, program) : std::string();
    if (program) nvrtc.DestroyProgram(&program);
    Fail(ErrorCode::kInternal, function, ": ", nvrtc.GetErrorString(status), log.empty() ? "" : ":\n", log);
  };
  check(nvrtc.CreateProgram(&program, source.c_str(), "ferry.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  // 9.0 has instructions of its own, which no later one has.
  const bool has_own = target.compute_major == 9 && target.compute_minor == 0;
  const std::string architecture =
      Cat("--gpu-architecture=sm_", target.compute_major, target.compute_minor, has_own ? "a" : "");
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  check(nvrtc.CompileProgram(program, 2, options), "nvrtcCompileProgram");
  size_t bytes = 0;
  check(nvrtc.GetCubinSize(program, &bytes), "nvrtcGetCUBINSize");
  std::string cubin(bytes, '\0');
  check(nvrtc.GetCubin(program, cubin.data()), "nvrtcGetCUBIN");
  nvrtc.DestroyProgram(&program);
  return cubin;
}

std::string CubinPath(std::string_view folder, const std::string& source, const CompileTarget& target) {
  return JoinPath(folder, Cat(HexOf(SumOf(source)), HexOf(SumOf(Cat(Describe(target), source.size()))), ".cubin"));
}

std::optional<std::string> ReadCubin(const std::string& path, const std::string& source, const CompileTarget& target) {
  if (!IsFile(path)) return std::nullopt;
  std::shared_ptr<MappedFile> file;
  try {
    file = MappedFile::Open(path);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::string_view bytes = file->text();
  uint64_t sum = 0;
  if (bytes.size() > kLargestFile || bytes.size() < sizeof kMagic - 1 + sizeof sum) return std::nullopt;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  bytes.remove_suffix(sizeof sum);
  if (SumOf(bytes) != sum || bytes.substr(0, sizeof kMagic - 1) != kMagic) return std::nullopt;
  TextReader reader(bytes.substr(sizeof kMagic - 1));
  std::string_view about, text, cubin;
  if (!reader.Next(about) || !reader.Next(text) || !reader.Next(cubin) || !reader.at_end()) return std::nullopt;
  if (about != Describe(target) || text != source) return std::nullopt;
  return std::string(cubin);
}

void WriteCubin(const std::string& path, const std::string& source, const CompileTarget& target,
                std::string_view cubin) {
  std::string bytes = kMagic;
  AppendText(bytes, Describe(target));
  AppendText(bytes, source);
  AppendText(bytes, cubin);
  const uint64_t sum = SumOf(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  try {
    AtomicFile file(path, AtomicFile::Link::kReplaced);
    file.Write(bytes);
    file.CommitUnsynced();
  } catch (const Error&) {
    // The next process compiles it again.
  }
}

}  // namespace ferry::cuda
