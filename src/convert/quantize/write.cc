#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "convert/convert.h"
#include "convert/quantize/scheme.h"
#include "graph/editor.h"
#include "graph/names.h"
#include "graph/standard.h"
#include "onnx/schema.h"
#include "ops/support/cast_tensor.h"
#include "tensor/alignment.h"

namespace ferry::quantize {
namespace {

constexpr char kMicrosoft[] = "com.microsoft";
constexpr int64_t kAxisOpset = 13, kBlockOpset = 21;

Node MakeNode(std::string op, std::vector<std::string> inputs, std::string output) {
  Node node;
  node.op_type = std::move(op);
  node.inputs = std::move(inputs);
  node.outputs = {std::move(output)};
  return node;
}

class Writer {
 public:
  Writer(const Model& base, const Scheme& scheme) : base_(base), scheme_(scheme), names_(base), model_(CopyDeep(base)) {
    for (size_t i = 0; i < scheme.layers.size(); ++i) {
      by_node_[scheme.layers[i].node] = i;
      const Layer& layer = scheme.layers[i];
      if (layer.bias_adder >= 0 && !scheme.how[i].bias.empty()) adders_[static_cast<size_t>(layer.bias_adder)] = i;
    }
  }

  Model Write(int64_t opset) {
    Graph& graph = model_.graph;
    const std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    for (const ValueInfo& input : graph.inputs) Code(input.name);
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto layer = by_node_.find(i);
      if (layer == by_node_.end() || scheme_.how[layer->second].way == Way::kFloat)
        Put(Renamed(nodes[i], i));
      else
        PutLayer(nodes[i], scheme_.layers[layer->second], scheme_.how[layer->second]);
      for (const std::string& output : nodes[i].outputs) Code(output);
    }
    if (scheme_.conventions.halves) HalveConstants();
    graph.value_infos.clear();
    DropUnused(graph);
    for (Node& node : graph.nodes) node.doc.clear(), node.metadata.clear();
    model_.producer_name = "ferry";
    if (model_.OpsetOf("") > std::max(opset, needed_)) return ConvertOpset(model_, std::max(opset, needed_));
    return std::move(model_);
  }

 private:
  void Put(Node node) { model_.graph.nodes.push_back(std::move(node)); }

  // Whether half precision holds these numbers to better than eight bits hold any.
  static bool FitsHalf(std::span<const float> values) {
    double signal = 0, noise = 0;
    for (float value : values) {
      const double off = double(value) - ToFloat(ToFloat16(value));
      signal += double(value) * value, noise += off * off;
    }
    return std::isfinite(noise) && noise <= 1e-6 * signal;
  }

  // Large constants that belong to no layer, such as tables of positions.
  void HalveConstants() {
    constexpr int64_t kLarge = 2048;
    std::set<std::string> taken;
    for (const Layer& layer : scheme_.layers) {
      taken.insert(layer.weights.begin(), layer.weights.end());
      taken.insert(layer.bias);
    }
    std::vector<Node> casts;
    for (const StoredTensor& stored : base_.graph.initializers) {
      if (stored.dtype != DType::kFloat || stored.tensor.size() < kLarge || taken.count(stored.name) ||
          base_.graph.FindInput(stored.name) || !IsReadByAdd(stored.name))
        continue;
      const Tensor values = Readable(stored.Get());
      if (!FitsHalf(values.Span<float>())) continue;
      const std::string wide = Name("f");
      casts.push_back(Widening(Constant("h", CastTensor(values, DType::kFloat16)), wide));
      for (Node& node : model_.graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), stored.name, wide);
    }
    model_.graph.nodes.insert(model_.graph.nodes.begin(), casts.begin(), casts.end());
  }

  // Sums are what eight bits around them hide such roundings in.
  bool IsReadByAdd(const std::string& name) const {
    bool any = false;
    for (const Node& node : model_.graph.nodes) {
      bool has_body = false;
      ForEachSubgraph(node, [&](const Graph&) { has_body = true; });
      const bool reads = std::find(node.inputs.begin(), node.inputs.end(), name) != node.inputs.end();
      if (has_body || (reads && !IsStandard(node, "Add"))) return false;
      any |= reads;
    }
    return any;
  }

  // Names of what is added say what it is and no more: there is much of it, and small files would be made of names.
  std::string Name(const char* kind) { return names_.Make(Cat(kind, ++named_[kind])); }
  std::string Constant(const char* kind, Tensor tensor) {
    std::string name = Name(kind);
    model_.graph.initializers.push_back(MakeStored(name, std::move(tensor)));
    return name;
  }
  // Most zero points are the same.
  std::string ZeroPoint(const Coding& how) {
    std::string& name = zero_points_[{how.type, how.zero}];
    if (!name.empty()) return name;
    Tensor point = Tensor(how.type, {});
    *reinterpret_cast<uint8_t*>(point.mutable_raw()) = static_cast<uint8_t>(how.zero);
    return name = Constant("zero", point);
  }
  void Needs(int64_t opset) { needed_ = std::max(needed_, opset); }

  // Codes of an activation, and the numbers that they stand for.
  void Code(const std::string& value) {
    auto found = scheme_.values.find(value);
    if (found == scheme_.values.end()) return;
    const Coding& how = found->second;
    const std::string scale = Constant("s", Tensor::Scalar(how.scale));
    const std::string zero = ZeroPoint(how);
    const std::string codes = Name("q"), numbers = Name("f");
    Put(MakeNode("QuantizeLinear", {value, scale, zero}, codes));
    Put(MakeNode("DequantizeLinear", {codes, scale, zero}, numbers));
    coded_[value] = numbers;
  }

  std::string Coded(const std::string& value, bool always) const {
    auto found = coded_.find(value);
    if (found == coded_.end()) return value;
    auto everywhere = scheme_.everywhere.find(value);
    return always || (everywhere != scheme_.everywhere.end() && everywhere->second) ? found->second : value;
  }

  Node Renamed(const Node& node, size_t index) {
    Node copy = node;
    for (std::string& input : copy.inputs) input = Coded(input, false);
    auto adder = adders_.find(index);
    if (adder != adders_.end()) {
      const Layer& layer = scheme_.layers[adder->second];
      const StoredTensor* old = base_.graph.FindInitializer(layer.bias);
      for (std::string& input : copy.inputs)
        if (input == layer.bias)
          input = AddedBias(Tensor::FromVector(scheme_.how[adder->second].bias, old->tensor.shape()));
    }
    return copy;
  }

  const Tensor& Weight(const std::string& name) const { return base_.graph.FindInitializer(name)->Get(); }

  void PutLayer(const Node& node, const Layer& layer, const LayerScheme& how) {
    Node copy = node;
    for (std::string& input : copy.inputs) input = Coded(input, how.way == Way::kStatic && input == layer.input);
    if (how.way == Way::kHalfWeights) return PutHalf(std::move(copy), layer);
    if (how.way == Way::kDynamic) return PutDynamic(copy, layer, how);
    if (layer.kind == LayerKind::kLookup) return PutLookup(copy, layer, how);
    if (layer.kind == LayerKind::kRecurrent) return PutRecurrent(std::move(copy), layer, how);
    const bool blocked = how.matrices[0]->blocks > 1;
    if (how.way == Way::kWeights && layer.kind == LayerKind::kProduct && scheme_.bit_blocks && blocked &&
        FitsBitBlocks(*how.matrices[0]))
      return PutBitBlocks(copy, layer, how);
    copy.inputs[1] = Dequantized(layer, layer.weights[0], *how.matrices[0]);
    if (!layer.bias.empty() && layer.bias_adder < 0) copy.inputs[2] = Bias(layer, how);
    if (layer.bias.empty() && !how.bias.empty() && layer.bias_adder < 0) {
      copy.inputs.resize(3);
      copy.inputs[2] = Bias(layer, how);
    }
    Put(std::move(copy));
  }

  void PutHalf(Node copy, const Layer& layer) {
    for (std::string& input : copy.inputs) {
      if (std::find(layer.weights.begin(), layer.weights.end(), input) == layer.weights.end()) continue;
      std::string& wide = dequantized_[{input, 16, 0}];
      if (wide.empty()) {
        wide = Name("f");
        Put(Widening(Constant("h", CastTensor(Weight(input), DType::kFloat16)), wide));
      }
      input = wide;
    }
    Put(std::move(copy));
  }

  // Scales as the standard wants them: none, one for each channel, or one for each block.
  Shape ScaleShape(const Layer& layer, const CodedMatrix& matrix, const Shape& weight) const {
    if (matrix.blocks == 1) return {matrix.rows};
    if (layer.axis == 0) return {matrix.rows, matrix.blocks};
    Shape shape = weight;
    shape[0] = matrix.blocks;
    return shape;
  }

  template <class T>
  static std::vector<T> Turned(const std::vector<T>& of, int64_t rows, int64_t columns) {
    std::vector<T> turned(of.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        turned[static_cast<size_t>(c * rows + r)] = of[static_cast<size_t>(r * columns + c)];
    return turned;
  }

  std::string Dequantized(const Layer& layer, const std::string& weight, const CodedMatrix& matrix) {
    std::string& made = dequantized_[{weight, matrix.bits, matrix.block}];
    if (!made.empty()) return made;
    const Tensor& tensor = Weight(weight);
    // Blocks lie along the depth, which must be one axis.
    Shape shape = tensor.shape();
    const bool by_rows = layer.kind == LayerKind::kRecurrent || layer.axis == 0;
    // Blocks that divide the rows are rows themselves, which every opset with scales along an axis can say.
    const bool as_rows = by_rows && matrix.blocks > 1 && matrix.bits == 8 && matrix.depth % matrix.block == 0;
    if ((matrix.blocks > 1 && tensor.rank() > 2) || layer.kind == LayerKind::kRecurrent)
      shape = {matrix.rows, matrix.depth};
    if (as_rows) shape = {matrix.rows * matrix.blocks, matrix.block};
    const bool is_unsigned = !matrix.symmetric || scheme_.conventions.unsigned_weights;
    const DType type =
        matrix.bits == 4 ? (is_unsigned ? DType::kUInt4 : DType::kInt4) : (is_unsigned ? DType::kUInt8 : DType::kInt8);
    const bool turned = layer.axis == 1 && matrix.blocks > 1;
    std::vector<std::string> inputs = {Constant("q", ToCodes(layer, matrix, shape, type))};
    const bool one =
        scheme_.conventions.per_channel == false && matrix.blocks == 1 &&
        std::all_of(matrix.scales.begin(), matrix.scales.end(), [&](float scale) { return scale == matrix.scales[0]; });
    const Shape scale_shape = one ? Shape{} : as_rows ? Shape{shape[0]} : ScaleShape(layer, matrix, shape);
    std::vector<float> scales = turned ? Turned(matrix.scales, matrix.rows, matrix.blocks) : matrix.scales;
    if (one) scales.resize(1);
    inputs.push_back(Constant("s", Tensor::FromVector(scales, scale_shape)));
    if (is_unsigned) {
      std::vector<uint8_t> zeros(matrix.scales.size(), static_cast<uint8_t>(matrix.middle()));
      if (!matrix.symmetric) zeros = turned ? Turned(matrix.zeros, matrix.rows, matrix.blocks) : matrix.zeros;
      if (one) zeros.resize(1);
      Tensor points = Tensor::FromVector(zeros, scale_shape);
      inputs.push_back(Constant("z", matrix.bits == 4 ? Tensor::Pack(DType::kUInt4, points) : points));
    }
    made = Name("f");
    Node node = MakeNode("DequantizeLinear", std::move(inputs), made);
    if (matrix.blocks > 1 && !as_rows) {
      node.Set("axis", int64_t{turned ? 0 : 1});
      node.Set("block_size", matrix.block);
      Needs(kBlockOpset);
    } else if (!one) {
      node.Set("axis", static_cast<int64_t>(by_rows ? 0 : layer.axis));
      Needs(kAxisOpset);
    }
    if (matrix.bits == 4) Needs(kBlockOpset);
    Put(std::move(node));
    if (shape == tensor.shape()) return made;
    const std::string shaped = Name("r");
    const std::string sizes = Constant("d", Tensor::FromVector(tensor.shape().ToVector()));
    Put(MakeNode("Reshape", {made, sizes}, shaped));
    return made = shaped;
  }

  std::string Bias(const Layer& layer, const LayerScheme& how) {
    std::vector<float> bias = how.bias;
    if (bias.empty()) {
      if (how.way != Way::kStatic || !scheme_.conventions.whole_bias) return layer.bias;
      const Tensor& old = Weight(layer.bias);
      bias.assign(old.Data<float>(), old.Data<float>() + old.size());
    }
    auto coding = scheme_.values.find(layer.input);
    if (how.way != Way::kStatic || !scheme_.conventions.whole_bias || coding == scheme_.values.end())
      return Constant("b", Tensor::FromVector(bias));
    std::vector<float> scales(bias.size());
    std::vector<int32_t> whole(bias.size());
    for (size_t i = 0; i < bias.size(); ++i) {
      scales[i] = coding->second.scale * how.matrices[0]->scales[i];
      const double level = std::nearbyint(double(bias[i]) / scales[i]);
      if (!(std::abs(level) < 2147483520.0)) return Constant("b", Tensor::FromVector(bias));
      whole[i] = static_cast<int32_t>(level);
    }
    const std::string numbers = Name("f");
    Node node =
        MakeNode("DequantizeLinear",
                 {Constant("b", Tensor::FromVector(whole)), Constant("s", Tensor::FromVector(scales))}, numbers);
    node.Set("axis", int64_t{0});
    Put(std::move(node));
    return numbers;
  }

  void PutDynamic(const Node& node, const Layer& layer, const LayerScheme& how) {
    const CodedMatrix& matrix = *how.matrices[0];
    std::vector<std::string>& parts = dynamic_[node.inputs[0]];
    if (parts.empty()) {
      const std::string& x = node.inputs[0];
      parts = {Name("dq"), Name("ds"), Name("dz")};
      Node quantize = MakeNode("DynamicQuantizeLinear", {x}, parts[0]);
      quantize.outputs = parts;
      Put(std::move(quantize));
    }
    std::vector<std::string>& coded = dynamic_weights_[layer.weights[0]];
    if (coded.empty()) {
      Layer by_columns = layer;
      by_columns.axis = 1;
      const bool is_unsigned = scheme_.conventions.unsigned_weights;
      coded = {Constant("q", ToCodes(by_columns, matrix, {matrix.depth, matrix.rows},
                                     is_unsigned ? DType::kUInt8 : DType::kInt8)),
               Constant("s", Tensor::FromVector(matrix.scales))};
      if (is_unsigned) coded.push_back(Constant("z", Tensor::Scalar(static_cast<uint8_t>(matrix.middle()))));
    }
    const std::string& y = node.outputs[0];
    const std::string sums = Name("i"), wide = Name("c"), factor = Name("m");
    Node product = MakeNode("MatMulInteger", {parts[0], coded[0], parts[2]}, sums);
    product.name = node.name;
    if (coded.size() > 2) product.inputs.push_back(coded[2]);
    Put(std::move(product));
    Put(Widening(sums, wide));
    Put(MakeNode("Mul", {parts[1], coded[1]}, factor));
    const bool has_bias = layer.bias_adder < 0 && (!layer.bias.empty() || !how.bias.empty());
    const std::string scaled = has_bias ? Name("p") : y;
    Put(MakeNode("Mul", {wide, factor}, scaled));
    if (has_bias) Put(MakeNode("Add", {scaled, FlatBias(layer, how)}, y));
  }

  std::string FlatBias(const Layer& layer, const LayerScheme& how) {
    if (how.bias.empty() && Weight(layer.bias).rank() == 1) return layer.bias;
    std::vector<float> bias = how.bias;
    if (bias.empty()) {
      const Tensor& old = Weight(layer.bias);
      bias.assign(old.Data<float>(), old.Data<float>() + old.size());
    }
    return AddedBias(Tensor::FromVector(bias));
  }

  // A corrected bias that is added in a node of its own, behind weights that lose more than half precision does.
  std::string AddedBias(Tensor bias) {
    constexpr int64_t kWorthANode = 64;
    if (!scheme_.conventions.halves || bias.size() < kWorthANode || !FitsHalf(bias.Span<float>()))
      return Constant("b", std::move(bias));
    const std::string wide = Name("f");
    Put(Widening(Constant("h", CastTensor(bias, DType::kFloat16)), wide));
    return wide;
  }

  static Node Widening(const std::string& from, std::string to) {
    Node cast = MakeNode("Cast", {from}, std::move(to));
    cast.Set("to", int64_t{1});
    return cast;
  }

  // Rows are looked up as codes, and only they become numbers.
  void PutLookup(const Node& node, const Layer& layer, const LayerScheme& how) {
    const CodedMatrix& matrix = *how.matrices[0];
    const std::string& y = node.outputs[0];
    std::vector<std::string>& table = tables_[layer.weights[0]];
    const Tensor scale_column = Tensor::FromVector(matrix.scales, {matrix.rows, matrix.blocks});
    const bool halves = scheme_.conventions.halves && FitsHalf(matrix.scales);
    if (table.empty())
      table = {Constant("q", ToCodes(layer, matrix, Weight(layer.weights[0]).shape(), DType::kInt8)),
               Constant("s", halves ? CastTensor(scale_column, DType::kFloat16) : scale_column)};
    const std::string codes = Name("q"), scales = Name("s"), wide = Name("c");
    Node rows = node;
    rows.inputs[0] = table[0], rows.outputs = {codes};
    Node factors = rows;
    factors.name.clear(), factors.inputs[0] = table[1], factors.outputs = {scales};
    Put(std::move(rows));
    Put(std::move(factors));
    Put(Widening(codes, wide));
    const std::string factor = halves ? Name("m") : scales;
    if (halves) Put(Widening(scales, factor));
    Put(MakeNode("Mul", {wide, factor}, y));
  }

  void PutRecurrent(Node copy, const Layer& layer, const LayerScheme& how) {
    for (size_t i = 0; i < layer.weights.size(); ++i)
      copy.inputs[1 + i] = Dequantized(layer, layer.weights[i], *how.matrices[i]);
    Put(std::move(copy));
  }

  static bool FitsBitBlocks(const CodedMatrix& matrix) {
    return matrix.block >= 16 && (matrix.block & (matrix.block - 1)) == 0;
  }

  void PutBitBlocks(const Node& node, const Layer& layer, const LayerScheme& how) {
    const CodedMatrix& matrix = *how.matrices[0];
    std::vector<std::string>& parts = bit_weights_[{layer.weights[0], matrix.bits, matrix.block}];
    if (parts.empty()) {
      const int64_t blob = matrix.block * matrix.bits / 8, per = 8 / matrix.bits;
      Tensor packed = Tensor::Zeros(DType::kUInt8, {matrix.rows, matrix.blocks, blob});
      uint8_t* out = packed.MutableData<uint8_t>();
      for (int64_t row = 0; row < matrix.rows; ++row) {
        const uint8_t* from = matrix.codes.data() + row * matrix.depth;
        uint8_t* to = out + row * matrix.blocks * blob;
        if (per == 1) std::copy_n(from, matrix.depth, to);
        for (int64_t i = 0; per == 2 && i + 1 < matrix.depth; i += 2)
          to[i / 2] = static_cast<uint8_t>(from[i] | from[i + 1] << 4);
        if (per == 2 && matrix.depth % 2 != 0) to[matrix.depth / 2] = from[matrix.depth - 1];
      }
      parts = {Constant("q", packed), Constant("s", Tensor::FromVector(matrix.scales))};
      if (!matrix.symmetric) {
        const int64_t row_bytes = (matrix.blocks * matrix.bits + 7) / 8;
        Tensor zeros = Tensor::Zeros(DType::kUInt8, {matrix.rows * row_bytes});
        uint8_t* points = zeros.MutableData<uint8_t>();
        for (int64_t row = 0; row < matrix.rows; ++row)
          for (int64_t b = 0; b < matrix.blocks; ++b)
            points[row * row_bytes + b / per] |= static_cast<uint8_t>(
                matrix.zeros[static_cast<size_t>(row * matrix.blocks + b)] << (b % per * matrix.bits));
        parts.push_back(Constant("z", zeros));
      }
    }
    const bool has_bias = layer.bias_adder < 0 && (!layer.bias.empty() || !how.bias.empty());
    const std::string product = has_bias ? Name("p") : node.outputs[0];
    Node made = MakeNode("MatMulNBits", {node.inputs[0]}, product);
    made.name = node.name;
    made.domain = kMicrosoft;
    made.inputs.insert(made.inputs.end(), parts.begin(), parts.end());
    made.Set("K", matrix.depth);
    made.Set("N", matrix.rows);
    made.Set("bits", int64_t{matrix.bits});
    made.Set("block_size", matrix.block);
    Put(std::move(made));
    if (has_bias) Put(MakeNode("Add", {product, FlatBias(layer, how)}, node.outputs[0]));
    if (model_.OpsetOf(kMicrosoft) == 0) model_.opsets.push_back({kMicrosoft, 1, {}});
  }

  const Model& base_;
  const Scheme& scheme_;
  NameMaker names_;
  Model model_;
  int64_t needed_ = 11;
  std::map<std::string, int> named_;  // how many of each kind
  std::map<std::pair<DType, int32_t>, std::string> zero_points_;
  std::map<size_t, size_t> by_node_, adders_;
  std::map<std::string, std::string> coded_;
  std::map<std::string, std::vector<std::string>> dynamic_, dynamic_weights_, tables_;
  // Layers that share a weight share its codes, where they want it in as many bits and blocks.
  using Form = std::tuple<std::string, int, int64_t>;
  std::map<Form, std::string> dequantized_;
  std::map<Form, std::vector<std::string>> bit_weights_;
};

}  // namespace

Model WriteScheme(const Model& base, const Scheme& scheme, int64_t opset) { return Writer(base, scheme).Write(opset); }

}  // namespace ferry::quantize
