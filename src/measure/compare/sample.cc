#include "measure/compare/sample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/directory.h"
#include "measure/random_input.h"
#include "measure/recording.h"
#include "ops/support/cast_tensor.h"

namespace ferry {
namespace {

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Less than the smallest normal number of the type, but not 0.
double DenormalOf(DType type) {
  switch (type) {
    case DType::kFloat16: return 0x1p-16;
    case DType::kDouble: return 0x1p-1040;
    default: return 0x1p-130;  // float and bfloat16
  }
}

using Fill = double (*)(int64_t place, DType type);

constexpr double kLarge = 1e4;  // float16 ends at 65504
constexpr double kTiny = 1e-6;

// Neither all of one sign nor in a simple order, so that what depends on the place shows.
double Wave(int64_t place) { return std::sin(static_cast<double>(place % 1000003) * 1.7 + 0.3); }

constexpr std::pair<const char*, Fill> kFills[] = {
    {"zeros", [](int64_t, DType) { return 0.0; }},
    {"ones", [](int64_t, DType) { return 1.0; }},
    {"large", [](int64_t place, DType) { return kLarge * Wave(place); }},
    {"tiny", [](int64_t place, DType) { return kTiny * Wave(place); }},
    {"denormal", [](int64_t place, DType type) { return std::copysign(DenormalOf(type), Wave(place)); }},
    {"constant", [](int64_t, DType) { return 0.37; }},
};

Value Filled(const Value& like, const Fill& fill) {
  if (!like.is_tensor() || !IsFloating(like.tensor().dtype())) return like;
  DType type = like.tensor().dtype();
  Tensor numbers(DType::kDouble, like.tensor().shape());
  double* out = numbers.MutableData<double>();
  for (int64_t i = 0; i < numbers.size(); ++i) out[i] = fill(i, type);
  return CastTensor(numbers, type);
}

// Rows in the order 1, 2 … n-1, 0 for every input whose first dimension is the batch.
Tensor Rotated(const Tensor& tensor) {
  Tensor rotated(tensor.dtype(), tensor.shape());
  size_t row = tensor.bytes() / static_cast<size_t>(tensor.dim(0));
  std::copy_n(tensor.raw() + row, tensor.bytes() - row, rotated.mutable_raw());
  std::copy_n(tensor.raw(), row, rotated.mutable_raw() + (tensor.bytes() - row));
  return rotated;
}

// The size that every tensor input has as its first dimension; nothing when they have no such size.
std::optional<int64_t> BatchOf(const Sample& sample) {
  std::optional<int64_t> batch;
  for (const NamedValue& input : sample.inputs) {
    if (!input.second.is_tensor()) return std::nullopt;
    const Tensor& tensor = input.second.tensor();
    bool has_rows = tensor.rank() > 0 && !IsPacked(tensor.dtype()) && tensor.dtype() != DType::kString;
    if (!has_rows || (batch && *batch != tensor.dim(0))) return std::nullopt;
    batch = tensor.dim(0);
  }
  return batch && *batch > 1 ? batch : std::nullopt;
}

}  // namespace

const char* Name(Sample::Kind kind) {
  switch (kind) {
    case Sample::Kind::kRandom: return "random";
    case Sample::Kind::kEdgeCase: return "edge case";
    default: return "recorded";
  }
}

std::vector<std::string> FindRecordings(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!IsDirectory(path)) {
      files.push_back(path);
      continue;
    }
    size_t before = files.size();
    for (const std::string& name : ListDirectory(path))
      if (EndsWith(name, ".npz")) files.push_back(JoinPath(path, name));
    if (files.size() == before)
      Fail(ErrorCode::kNotFound, path, ": there is no .npz file in this folder to compare with");
  }
  return files;
}

Sample ReadSample(const std::string& path, const Session& session) {
  Recording recording = ReadRecording(path, session);
  return {path, Sample::Kind::kRecorded, std::move(recording.inputs), std::move(recording.outputs)};
}

std::vector<Sample> MakeRandomSamples(const Session& session, const std::map<std::string, int64_t>& dimensions,
                                      int64_t count, uint64_t seed) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    RandomInputOptions options{.seed = seed + static_cast<uint64_t>(i), .dimensions = dimensions};
    samples.push_back({Cat("random ", i + 1), Sample::Kind::kRandom, MakeRandomInputs(session, options), {}});
  }
  return samples;
}

std::vector<Sample> MakeEdgeCases(const Sample& like) {
  std::vector<Sample> cases;
  bool has_floats = std::any_of(like.inputs.begin(), like.inputs.end(), [](const NamedValue& input) {
    return input.second.is_tensor() && IsFloating(input.second.tensor().dtype());
  });
  for (const auto& [name, fill] : kFills) {
    if (!has_floats) break;
    Sample made{name, Sample::Kind::kEdgeCase, {}, {}};
    for (const NamedValue& input : like.inputs) made.inputs.emplace_back(input.first, Filled(input.second, fill));
    cases.push_back(std::move(made));
  }
  if (BatchOf(like)) {
    Sample shuffled{"shuffled batch", Sample::Kind::kEdgeCase, {}, {}};
    for (const NamedValue& input : like.inputs)
      shuffled.inputs.emplace_back(input.first, Rotated(input.second.tensor()));
    cases.push_back(std::move(shuffled));
  }
  return cases;
}

}  // namespace ferry
