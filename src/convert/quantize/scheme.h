// What is coded how: the layers of a model, the values between them, and the choices that a writer turns into nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/model.h"

namespace ferry::quantize {

// How a layer keeps its weights and computes, from the costliest to the cheapest.
enum class Way : uint8_t { kFloat, kHalfWeights, kWeights, kDynamic, kStatic };
const char* Name(Way way);

enum class RangeMethod : uint8_t { kBest, kMinMax, kPercentile, kEntropy, kMse };
enum class WeightMethod : uint8_t { kBest, kNearest, kSearch, kGptq };

enum class Reader : uint8_t { kCpu, kOnnxRuntime, kTensorRt, kTfLite };
const char* Name(Reader reader);

// What the reader of the file expects.
struct Conventions {
  static Conventions For(Reader reader);

  Reader reader = Reader::kCpu;
  bool signed_activations = false;     // int8 instead of uint8
  bool symmetric_activations = false;  // zero points are 0
  bool unsigned_weights = false;       // uint8 around 128
  bool per_channel = true;
  bool seven_bits = false;   // of weights: sums of pairs of products fit 16 bits, as old CPUs add them
  bool whole_bias = false;   // int32 behind DequantizeLinear
  bool dynamic = true;       // reads DynamicQuantizeLinear and MatMulInteger
  bool weights_only = true;  // reads int8 weights of layers that compute in float
  bool concats = true;       // codes the inputs of a Concat each with a scale of its own
  bool halves = true;        // reads float16 constants through a Cast
  bool whole_sums = true;    // codes both addends of a sum, not only the one that no layer has just made
};

enum class LayerKind : uint8_t { kConv, kConvTranspose, kProduct, kRecurrent, kLookup };

// A node with a constant weight.
struct Layer {
  LayerKind kind = LayerKind::kProduct;
  size_t node = 0;  // in the graph
  std::string name, op;
  std::string input;                 // what it multiplies; of a lookup, the places
  std::vector<std::string> weights;  // initializers; a recurrent layer has two
  std::string output;
  size_t axis = 0;       // of the output channels in the weight
  int64_t channels = 0;  // of the output
  int64_t depth = 0;     // products for each output
  int64_t groups = 1;
  std::string bias;         // an initializer with one number for each channel
  int64_t bias_adder = -1;  // the Add behind a MatMul that adds it
  double work = 0;          // weights times how often they are used, where known

  double weights_count() const { return static_cast<double>(channels) * static_cast<double>(depth); }
};

std::vector<Layer> FindLayers(const Graph& graph);
// Words for layers of bodies, which stay as they are; empty when there are none.
std::string LayersInBodies(const Graph& graph);

// A range of numbers as eight bits hold it: real = scale · (code - zero).
struct Coding {
  float scale = 1;
  int32_t zero = 0;
  DType type = DType::kUInt8;
  float low() const;
  float high() const;
};

// A matrix of output channels by depth in few bits, with a scale (and zero) for each block of the depth.
struct CodedMatrix {
  int64_t rows = 0, depth = 0, block = 0, blocks = 1;  // block: columns that share a scale
  int bits = 8;
  bool symmetric = true;  // zeros are the middle
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // rows · blocks
  std::vector<uint8_t> zeros;
  int middle() const { return 1 << (bits - 1); }
  float Value(int64_t row, int64_t column) const {
    const size_t at = static_cast<size_t>(row * blocks + column / block);
    const int zero = symmetric ? middle() : zeros[at];
    return scales[at] * static_cast<float>(codes[static_cast<size_t>(row * depth + column)] - zero);
  }
};

struct LayerScheme {
  Way way = Way::kFloat;
  std::string why;
  std::vector<std::shared_ptr<const CodedMatrix>> matrices;  // one for each weight
  std::vector<float> bias;                                   // corrected; empty: as it was
};

struct Scheme {
  Conventions conventions;
  std::vector<Layer> layers;
  std::vector<LayerScheme> how;            // one for each layer
  std::map<std::string, Coding> values;    // activations that are coded
  std::map<std::string, bool> everywhere;  // coded values that all their readers take coded
  bool bit_blocks = false;                 // MatMulNBits for weights in blocks
};

// Values that static layers read, and those that sums, pools and concats between them hand on.
struct CodedValues {
  std::vector<std::string> names;
  std::map<std::string, bool> everywhere;
};
CodedValues FindCodedValues(const Graph& graph, const std::vector<Layer>& layers, const std::vector<Way>& ways,
                            const Conventions& conventions);

// The model with these choices made, of the newest opset that its nodes need and not older than `opset`.
Model WriteScheme(const Model& base, const Scheme& scheme, int64_t opset);

// A weight as output channels by depth. Those of recurrent layers have the channels of both directions.
std::vector<float> ToMatrix(const Layer& layer, const Tensor& weight);
// Codes in the order of the weight, less the middle where they are signed.
Tensor ToCodes(const Layer& layer, const CodedMatrix& matrix, const Shape& shape, DType type);

}  // namespace ferry::quantize
