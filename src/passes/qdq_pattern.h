// Quantized tensors as QDQ graphs write them: bytes behind a DequantizeLinear.
#pragma once

#include <optional>

#include "ops/infer_graph.h"
#include "passes/match.h"

namespace ferry {

// real = scale · (byte - zero)
struct Quantization {
  float scale = 1;
  int32_t zero = 0;
  DType type = DType::kUInt8;

  bool operator==(const Quantization& other) const {
    return scale == other.scale && zero == other.zero && type == other.type;
  }
  // The byte nearest to a number, cut to the type's range.
  int32_t Level(float value) const;
};

struct QuantizedValue {
  std::string bytes;
  Quantization how;
  size_t node;  // the DequantizeLinear
};

// Weights without a zero point: int8, one scale or one per output channel.
struct QuantizedWeight {
  Tensor values;
  std::string name;  // of the initializer that holds them; empty when they had to be shifted
  std::vector<float> scales;
  float scale(int64_t channel) const { return scales[scales.size() == 1 ? 0 : static_cast<size_t>(channel)]; }
};

class QdqPattern {
 public:
  QdqPattern(const GraphEditor& editor, const GraphFacts& facts) : editor_(editor), facts_(facts) {}

  // One scale and zero point, both constants, of 8-bit integers and float32. `zero` may be omitted where `type` is
  // known.
  std::optional<Quantization> Constants(const std::string& scale, const std::string& zero, DType type) const;
  // How a QuantizeLinear or DequantizeLinear of a whole tensor works.
  std::optional<Quantization> Of(const Node& node) const;
  std::optional<QuantizedValue> Find(const std::string& value) const;
  // Constant bytes behind DequantizeLinear, with scales along `axis` (the output channels).
  std::optional<QuantizedWeight> FindWeight(const std::string& value, size_t axis) const;
  std::optional<QuantizedWeight> WeightOf(const std::string& bytes, const std::string& scale, const std::string& zero,
                                          size_t axis) const;
  // A float constant, or one behind DequantizeLinear.
  std::optional<std::vector<float>> FloatConstant(const std::string& value) const;
  // Says the type of a value that a pass has made.
  void NoteType(const std::string& value, DType type) { types_[value] = type; }

 private:
  DType TypeOf(const std::string& value) const;

  const GraphEditor& editor_;
  const GraphFacts& facts_;
  std::unordered_map<std::string, DType> types_;
};

}  // namespace ferry
