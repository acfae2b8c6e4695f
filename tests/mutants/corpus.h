// Sound files to damage: models, programs and recordings, with what lies beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry::mutants {

enum class Format : uint8_t { kOnnx, kPt2, kPt, kNpz };
inline constexpr const char* kFormatNames[] = {".onnx", ".pt2", ".pt", ".npz"};
inline constexpr size_t kFormats = 4;

struct Specimen {
  std::string path;
  Format format = Format::kOnnx;
  std::vector<std::string> recordings;  // .npz beside it
  std::vector<std::string> inputs;      // ONNX's input_0.pb, input_1.pb …
  std::string model, program;           // beside a recording: an .onnx, a .pt2
};

struct Corpus {
  std::vector<Specimen> of[kFormats];   // sorted by path
  std::vector<std::string> aten_names;  // operators that the programs use: "torch.ops.aten.relu.default"
};

// Every small file below `folder`.
Corpus ReadCorpus(const std::string& folder);

std::string ReadAll(const std::string& path);

}  // namespace ferry::mutants
