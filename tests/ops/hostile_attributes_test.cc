// Attributes and inputs nobody would write: every node is answered or refused with an Error. Sanitizers see the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry {
namespace {

using testing::InferNode;
using testing::OneNode;
using testing::Random;
using testing::RunNode;

class Hostile {
 public:
  explicit Hostile(uint32_t seed) : random_(seed) {}

  int64_t Int() {
    constexpr int64_t kValues[] = {INT64_MIN, INT64_MAX, int64_t{1} << 40, -1, 0, 1, 1, 1, 2, 2, 3, 4};
    return kValues[random_.Int(0, std::size(kValues) - 1)];
  }
  float Float() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float values[] = {NAN, kInfinity, -kInfinity, 1e38f, -1e38f, 0, 0.5f, 1, 1.5f, 2, -1};
    return values[random_.Int(0, std::size(values) - 1)];
  }
  std::vector<int64_t> Ints() { return Ints(random_.Int(0, 4)); }
  std::vector<int64_t> Ints(int64_t count) {
    std::vector<int64_t> values(static_cast<size_t>(count));
    for (int64_t& value : values) value = Bool() ? Int() : random_.Int(1, 2);
    return values;
  }
  std::string Word(std::vector<std::string> words) {
    return words[static_cast<size_t>(random_.Int(0, static_cast<int64_t>(words.size()) - 1))];
  }
  Shape SmallShape(int64_t rank) {
    Shape shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(random_.Int(0, 4) * random_.Int(0, 1) + random_.Int(0, 2));
    return shape;
  }
  Tensor Floats(int64_t rank) {
    Tensor tensor(DType::kFloat, SmallShape(rank));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = Float();
    return tensor;
  }
  Tensor Int64s(int64_t rank) {
    Tensor tensor(DType::kInt64, SmallShape(rank));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<int64_t>()[i] = Int();
    return tensor;
  }
  int64_t Rank() { return random_.Int(0, 5); }
  bool Bool() { return random_.Bool(); }

  // Infers and runs; anything but an answer or an Error ends the test.
  void Try(const Node& node, const std::vector<Value>& inputs) {
    std::vector<ValueFacts> facts;
    for (const Value& input : inputs) {
      ValueFacts fact;
      if (input.present()) {
        fact.type = Type::Tensor(input.tensor().dtype(), ToSymbolic(input.tensor().shape()));
        if (Bool()) fact.constant = input.tensor();
      }
      facts.push_back(std::move(fact));
    }
    std::string inferred;
    try {
      inferred = ToText(InferNode(node, facts)[0].type);
    } catch (const Error&) {
    }
    try {
      Tensor y = RunNode(node, inputs)[0].tensor();
      ++answered_;
      std::string actual = ToText(Type::Tensor(y.dtype(), ToSymbolic(y.shape())));
      if (inferred.find('?') == std::string::npos) {
        EXPECT_EQ(inferred, actual) << node.op_type;
      }
    } catch (const Error&) {
      ++refused_;
    }
  }
  int answered() const { return answered_; }
  int refused() const { return refused_; }

 private:
  Random random_;
  int answered_ = 0, refused_ = 0;
};

void AddWindow(Hostile& hostile, Node& node, int64_t spatial) {
  for (const char* name : {"kernel_shape", "strides", "dilations", "pads", "output_padding", "output_shape"}) {
    if (hostile.Bool() || hostile.Bool()) continue;
    int64_t count = std::string_view(name) == "pads" ? 2 * spatial : spatial;
    node.Set(name, hostile.Bool() ? hostile.Ints(count) : hostile.Ints());
  }
  if (hostile.Bool()) node.Set("auto_pad", hostile.Word({"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "x"}));
  for (const char* name : {"group", "ceil_mode", "storage_order", "count_include_pad", "p", "offset_group"})
    if (hostile.Bool() && hostile.Bool() && hostile.Bool()) node.Set(name, hostile.Int());
}

TEST(HostileAttributes, Windows) {
  Hostile hostile(71);
  for (int round = 0; round < 1500; ++round)
    for (std::string op : {"Conv", "ConvTranspose", "DeformConv", "MaxPool", "AveragePool", "LpPool", "MaxUnpool"}) {
      int64_t rank = hostile.Rank() % 3 + 3;
      Tensor x = hostile.Floats(rank), w = hostile.Floats(rank), b = hostile.Floats(rank);
      if (w.size() > 0 && x.rank() > 1 && hostile.Bool()) {
        // Weights that fit, so that something is left to compute.
        Shape fitting = w.shape();
        fitting[op == "ConvTranspose" ? 0 : 1] = x.dim(1);
        w = Tensor::Zeros(DType::kFloat, fitting);
      }
      Node node = OneNode(op, 1);
      AddWindow(hostile, node, rank - 2);
      std::vector<Value> inputs{x};
      if (op.find("Conv") != std::string::npos) inputs.push_back(w);
      if (op == "DeformConv") inputs.push_back(b);
      if (op.find("Pool") != std::string::npos || op == "MaxUnpool")
        if (hostile.Bool()) node.Set("kernel_shape", std::vector<int64_t>(static_cast<size_t>(rank - 2), 1));
      if (op == "MaxUnpool") {
        Tensor places(DType::kInt64, x.shape());
        for (int64_t i = 0; i < places.size(); ++i) places.MutableData<int64_t>()[i] = hostile.Int();
        inputs.push_back(places);
      }
      node.inputs.assign(inputs.size(), "x");
      hostile.Try(node, inputs);
    }
  EXPECT_GT(hostile.answered(), 200);
  EXPECT_GT(hostile.refused(), 200);
}

TEST(HostileAttributes, ResizingAndSampling) {
  Hostile hostile(72);
  for (int round = 0; round < 1500; ++round) {
    Node resize = OneNode("Resize", 4, {{"mode", hostile.Word({"nearest", "linear", "cubic"})}});
    resize.Set("coordinate_transformation_mode",
               hostile.Word({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                             "tf_crop_and_resize"}));
    resize.Set("nearest_mode", hostile.Word({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
    resize.Set("keep_aspect_ratio_policy", hostile.Word({"stretch", "not_larger", "not_smaller"}));
    resize.Set("antialias", int64_t{hostile.Bool()});
    resize.Set("exclude_outside", int64_t{hostile.Bool()});
    resize.Set("extrapolation_value", hostile.Float());
    resize.Set("cubic_coeff_a", hostile.Float());
    if (hostile.Bool()) resize.Set("axes", hostile.Ints());
    Value roi = hostile.Floats(1), scales = hostile.Floats(1), sizes = hostile.Int64s(1);
    if (hostile.Bool()) roi = Value();
    (hostile.Bool() ? scales : sizes) = Value();
    hostile.Try(resize, {hostile.Floats(hostile.Rank()), roi, scales, sizes});

    Node sample = OneNode("GridSample", 2, {{"mode", hostile.Word({"nearest", "linear", "cubic"})}});
    sample.Set("padding_mode", hostile.Word({"zeros", "border", "reflection"}));
    sample.Set("align_corners", int64_t{hostile.Bool()});
    int64_t rank = hostile.Rank();
    hostile.Try(sample, {hostile.Floats(rank), hostile.Floats(rank)});

    Node align = OneNode("RoiAlign", 3, {{"mode", hostile.Word({"avg", "max"})}, {"spatial_scale", hostile.Float()}});
    if (hostile.Bool()) align.Set("sampling_ratio", hostile.Int());
    hostile.Try(align, {hostile.Floats(4), hostile.Floats(2), hostile.Int64s(1)});
    Node pool =
        OneNode("MaxRoiPool", 2, {{"pooled_shape", std::vector<int64_t>{2, 3}}, {"spatial_scale", hostile.Float()}});
    Tensor rois(DType::kFloat, {2, 5});
    for (int64_t i = 0; i < rois.size(); ++i) rois.MutableData<float>()[i] = hostile.Float();
    hostile.Try(pool, {hostile.Floats(4), rois});
  }
  EXPECT_GT(hostile.answered(), 200);
}

TEST(HostileAttributes, ProductsAndAttention) {
  Hostile hostile(73);
  for (int round = 0; round < 1500; ++round) {
    hostile.Try(OneNode("MatMul", 2), {hostile.Floats(hostile.Rank()), hostile.Floats(hostile.Rank())});
    hostile.Try(OneNode("Gemm", 3, {{"transA", int64_t{hostile.Bool()}}, {"transB", int64_t{hostile.Bool()}}}),
                {hostile.Floats(2), hostile.Floats(2), hostile.Floats(hostile.Rank())});
    hostile.Try(
        OneNode("Einsum", 2,
                {{"equation", hostile.Word({"ij,jk->ik", "...i,i...->...", "ii,i", "ab", "a.b,c", "->", "i,i->j"})}}),
        {hostile.Floats(hostile.Rank()), hostile.Floats(hostile.Rank())});
    Node attention = OneNode("Attention", 7);
    for (const char* name : {"q_num_heads", "kv_num_heads", "left_window_size", "right_window_size", "is_causal",
                             "qk_matmul_output_mode", "softmax_precision"})
      if (hostile.Bool() && hostile.Bool()) attention.Set(name, hostile.Int());
    if (hostile.Bool()) attention.Set("scale", hostile.Float());
    if (hostile.Bool()) attention.Set("softcap", hostile.Float());
    int64_t rank = hostile.Bool() ? 4 : 3;
    Value k = hostile.Floats(rank), mask = hostile.Floats(hostile.Rank()), lengths = hostile.Int64s(1);
    if (hostile.Bool()) mask = Value();
    if (hostile.Bool()) lengths = Value();
    hostile.Try(attention, {hostile.Bool() ? k : Value(hostile.Floats(rank)), k, k, mask, Value(), Value(), lengths});
  }
  EXPECT_GT(hostile.answered(), 200);
}

}  // namespace
}  // namespace ferry
