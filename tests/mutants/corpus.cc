#include "mutants/corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace ferry::mutants {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargest[kFormats] = {20'000, 60'000, 60'000, 20'000};

void LookBeside(Specimen& specimen) {
  const fs::path folder = fs::path(specimen.path).parent_path();
  std::vector<fs::path> beside;
  for (const auto& entry : fs::directory_iterator(folder)) beside.push_back(entry.path());
  std::sort(beside.begin(), beside.end());
  for (const fs::path& path : beside) {
    const fs::path kind = path.extension();
    if (kind == ".npz" && path != specimen.path) specimen.recordings.push_back(path);
    if (kind == ".onnx" && specimen.model.empty()) specimen.model = path;
    if (kind == ".pt2" && specimen.program.empty()) specimen.program = path;
  }
  for (int i = 0; specimen.format == Format::kOnnx; ++i) {
    fs::path input = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(input)) return;
    specimen.inputs.push_back(input);
  }
}

void CollectNames(const std::string& bytes, std::set<std::string>& names) {
  static constexpr char kBegin[] = "torch.ops.aten.";
  for (size_t at = bytes.find(kBegin); at != std::string::npos; at = bytes.find(kBegin, at + 1)) {
    const size_t end = bytes.find('"', at);
    if (end != std::string::npos && end - at < 80) names.insert(bytes.substr(at, end - at));
  }
}

}  // namespace

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Corpus ReadCorpus(const std::string& folder) {
  Corpus corpus;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    for (size_t format = 0; format < kFormats; ++format)
      if (entry.is_regular_file() && entry.path().extension() == kFormatNames[format] &&
          entry.file_size() <= kLargest[format]) {
        Specimen specimen;
        specimen.path = entry.path();
        specimen.format = static_cast<Format>(format);
        corpus.of[format].push_back(std::move(specimen));
      }
  std::set<std::string> names;
  for (std::vector<Specimen>& specimens : corpus.of) {
    std::sort(specimens.begin(), specimens.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    for (Specimen& specimen : specimens) {
      LookBeside(specimen);
      if (specimen.format == Format::kPt2) CollectNames(ReadAll(specimen.path), names);
    }
  }
  corpus.aten_names.assign(names.begin(), names.end());
  return corpus;
}

}  // namespace ferry::mutants
