#include "tests/ops/trait_samples.h"

#include "ops/operator.h"
#include "ops/support/quantized_step.h"
#include "tests/support/nodes.h"
#include "tests/support/random_tensors.h"

namespace ferry::testing {
namespace {

using Numbers = std::vector<int64_t>;

class Samples {
 public:
  std::vector<Sample> Make() {
    AddFunctionsOfOne();
    AddFunctionsOfSeveral();
    AddMoves();
    AddImages();
    AddNormalizations();
    AddScatters();
    AddQuantized();
    return std::move(samples_);
  }

 private:
  void Add(const char* op, std::vector<Value> inputs, std::vector<Attribute> attributes = {},
           std::string_view domain = "", size_t outputs = 1) {
    size_t count = inputs.size();
    samples_.push_back({OneNode(op, count, std::move(attributes), domain, outputs), std::move(inputs)});
  }

  Tensor Floats(Shape shape, float factor = 4) {
    Tensor tensor = random_.Floats(std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] *= factor;
    return tensor;
  }
  Tensor Bools(Shape shape) {
    Tensor tensor(DType::kBool, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<bool>()[i] = random_.Bool();
    return tensor;
  }
  Tensor Strings(Shape shape) {
    Tensor tensor(DType::kString, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.MutableData<std::string>()[i] = random_.Pick<std::string>({"cat", "dog", "owl", "caterpillar"});
    return tensor;
  }
  Tensor Ints(Shape shape, int64_t most) {
    Tensor tensor(DType::kInt64, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<int64_t>()[i] = random_.Int(0, most);
    return tensor;
  }
  static Tensor List(Numbers values) { return Tensor::FromVector(values); }

  void AddFunctionsOfOne() {
    for (const char* op : {"Abs",
                           "Acos",
                           "Acosh",
                           "Asin",
                           "Asinh",
                           "Atan",
                           "Atanh",
                           "Ceil",
                           "Celu",
                           "Cos",
                           "Cosh",
                           "Elu",
                           "Erf",
                           "Exp",
                           "Floor",
                           "Gelu",
                           "Identity",
                           "IsInf",
                           "IsNaN",
                           "LeakyRelu",
                           "Log",
                           "Mish",
                           "Neg",
                           "Reciprocal",
                           "Relu",
                           "Round",
                           "Selu",
                           "HardSwish",
                           "Shrink",
                           "Sigmoid",
                           "Sign",
                           "Sin",
                           "Sinh",
                           "Softplus",
                           "Softsign",
                           "HardSigmoid",
                           "Sqrt",
                           "Swish",
                           "Tan",
                           "Tanh",
                           "ThresholdedRelu"})
      Add(op, {Floats({3, 4, 5})});
    Add("Gelu", {Floats({3, 4, 5})}, {{"approximate", std::string("tanh")}});
    Add("Clip", {Floats({3, 4, 5}), Tensor::Scalar(-1.0f), Tensor::Scalar(2.0f)});
    Add("Cast", {Floats({3, 4, 5})}, {{"to", int64_t{static_cast<int>(DType::kInt8)}}});
    Add("BitCast", {Floats({3, 4, 5})}, {{"to", int64_t{static_cast<int>(DType::kInt32)}}});
    Add("BitwiseNot", {random_.Numbers<int32_t>({3, 4, 5})});
    Add("Not", {Bools({3, 4, 5})});
    Add("RegexFullMatch", {Strings({3, 4, 5})}, {{"pattern", std::string("cat.*")}});
    Add("Binarizer", {Floats({3, 4, 5})}, {{"threshold", 0.5f}}, kMlDomain);
    Add("LabelEncoder", {Ints({3, 4, 5}, 4)},
        {{"keys_int64s", Numbers{1, 2, 3}}, {"values_floats", std::vector<float>{0.5f, 1.5f, -2}}}, kMlDomain);
    Add("CategoryMapper", {Strings({3, 4, 5})},
        {{"cats_strings", std::vector<std::string>{"dog", "owl"}}, {"cats_int64s", Numbers{7, 9}}}, kMlDomain);
  }

  void AddFunctionsOfSeveral() {
    const Shape whole = {3, 4, 5}, part = {4, 1}, row = {5};
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow", "Equal", "Greater",
                           "GreaterOrEqual", "Less", "LessOrEqual"}) {
      Add(op, {Floats(whole), Floats(part)});
      Add(op, {Floats(row), Floats(whole)});
    }
    for (const char* op : {"Max", "Min", "Sum", "Mean"}) Add(op, {Floats(part), Floats(whole), Floats(row)});
    Add("PRelu", {Floats(whole), Floats(part)});
    for (const auto& [a, b] : {std::pair(whole, part), std::pair(part, whole)}) {
      Add("Mod", {Floats(a), Floats(b)}, {{"fmod", int64_t{1}}});
      for (const char* op : {"And", "Or", "Xor"}) Add(op, {Bools(a), Bools(b)});
      for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
        Add(op, {random_.Numbers<int32_t>(a), random_.Numbers<int32_t>(b)});
      for (const char* direction : {"LEFT", "RIGHT"})
        Add("BitShift", {random_.Numbers<uint8_t>(a), random_.Numbers<uint8_t>(b)},
            {{"direction", std::string(direction)}});
      Add("Where", {Bools(row), Floats(a), Floats(b)});
    }
    Add("StringConcat", {Strings(part), Strings(whole)});
  }

  void AddMoves() {
    Add("Reshape", {Floats({3, 4, 5}), List({6, -1})});
    Add("Flatten", {Floats({3, 4, 5})}, {{"axis", int64_t{2}}});
    Add("Squeeze", {Floats({3, 1, 5}), List({1})});
    Add("Unsqueeze", {Floats({3, 5}), List({0, 2})});
    Add("Optional", {Floats({3, 5})});
    Add("OptionalGetElement", {Floats({3, 5})});
    Add("Transpose", {Floats({3, 4, 5})}, {{"perm", Numbers{1, 2, 0}}});
    Add("DepthToSpace", {Floats({1, 8, 2, 3})}, {{"blocksize", int64_t{2}}});
    Add("SpaceToDepth", {Floats({1, 2, 4, 6})}, {{"blocksize", int64_t{2}}});
    Add("Slice", {Floats({3, 7, 5}), List({0, 5}), List({2, 0}), List({0, 1}), List({1, -2})});
    Add("Gather", {Floats({3, 4, 5}), List({3, 0, -1})}, {{"axis", int64_t{1}}});
    Add("GatherElements", {Floats({3, 4}), Ints({3, 6}, 3)}, {{"axis", int64_t{1}}});
    Add("GatherND", {Floats({3, 4, 5}), Ints({6, 2}, 2)});
    Add("Expand", {Floats({3, 1, 5}), List({2, 1, 4, 1})});
    Add("Tile", {Floats({3, 4}), List({2, 3})});
    Add("Compress", {Floats({3, 4}), Bools({4})}, {{"axis", int64_t{1}}});
    Add("ReverseSequence", {Floats({4, 3, 5}), List({1, 4, 2})});
    Add("Split", {Floats({3, 8})}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, "", 2);
    Add("ArrayFeatureExtractor", {Floats({3, 5}), List({4, 0, 4})}, {}, kMlDomain);
  }

  void AddImages() {
    const Shape image = {2, 5, 6, 8};
    const Numbers two = {2, 2};
    Add("NhwcConv", {Floats(image), Floats({4, 8, 3, 3}), Floats({4}), Floats({2, 5, 6, 4})},
        {{"pads", Numbers{1, 1, 1, 1}}}, kInternalDomain);
    Add("NhwcConv", {Floats(image), Floats({4, 4, 2, 2})}, {{"group", int64_t{2}}, {"strides", two}}, kInternalDomain);
    Add("NhwcConvTranspose", {Floats(image), Floats({8, 4, 2, 2}), Floats({4})}, {{"strides", two}}, kInternalDomain);
    for (const char* op : {"NhwcMaxPool", "NhwcAveragePool"})
      Add(op, {Floats(image)}, {{"kernel_shape", two}}, kInternalDomain);
    for (int64_t keeps : {0, 1}) Add("NhwcMean", {Floats(image)}, {{"keepdims", keeps}}, kInternalDomain);
    Add("NhwcAffine", {Floats(image), Floats({8}), Floats({8})}, {}, kInternalDomain);
    Add("NhwcAffine", {Floats(image), Floats({2, 1, 1, 8})}, {}, kInternalDomain);
    Add("NhwcShuffle", {Floats(image)}, {{"groups", int64_t{4}}}, kInternalDomain);
    Add("NhwcShuffle", {Floats(image), Floats(image)}, {{"groups", int64_t{2}}}, kInternalDomain, 2);
  }

  void AddNormalizations() {
    Add("BatchNormalization",
        {Floats({2, 3, 4}), Floats({3}), Floats({3}), Floats({3}), Tensor::FromVector<float>({1, 2, 3})});
    Add("GroupNormalization", {Floats({2, 4, 5}), Floats({4}), Floats({4})}, {{"num_groups", int64_t{2}}});
    Add("InstanceNormalization", {Floats({2, 4, 5}), Floats({4}), Floats({4})});
    for (const char* op : {"LayerNormalization", "RMSNormalization"}) Add(op, {Floats({3, 4, 5}), Floats({5})});
    for (const char* op : {"LpNormalization", "Softmax", "LogSoftmax", "Hardmax"})
      for (int64_t axis : {0, 1, 2}) Add(op, {Floats({3, 4, 5})}, {{"axis", axis}});
    Add("MeanVarianceNormalization", {Floats({2, 3, 4, 5})});
    for (const char* op : {"CumSum", "CumProd"})
      for (int64_t way : {0, 1})
        Add(op, {Floats({3, 4, 5}), Tensor::Scalar(int64_t{1})}, {{"exclusive", way}, {"reverse", 1 - way}});
    Add("Dropout", {Floats({3, 4, 5})});
    Add("Imputer", {Floats({3, 4, 5})},
        {{"imputed_value_floats", std::vector<float>{1, 2, 3, 4, 5}}, {"replaced_value_float", 0.0f}}, kMlDomain);
  }

  void AddScatters() {
    Add("ScatterElements", {Floats({3, 4}), Ints({3, 2}, 3), Floats({3, 2})},
        {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
    Add("ScatterND", {Floats({3, 4, 5}), Ints({6, 2}, 2), Floats({6, 5})}, {{"reduction", std::string("mul")}});
    Add("TensorScatter", {Floats({2, 4, 3}), Floats({2, 2, 3}), List({1, 2})});
    for (int64_t upper : {0, 1}) Add("Trilu", {Floats({3, 4, 4})}, {{"upper", upper}});
  }

  void AddQuantized() {
    Node add =
        OneNode("QuantizedAdd", 2, {{"a_factor", 0.6f}, {"b_factor", 0.7f}, {"b_zero", int64_t{100}}}, kInternalDomain);
    QuantizedStep{.x_zero = 120, .y_zero = 90}.Write(add);
    samples_.push_back({add, {random_.Numbers<uint8_t>({3, 45}), random_.Numbers<uint8_t>({3, 45})}});
    Add("QuantizedLookup", {random_.Numbers<uint8_t>({3, 45}), random_.Numbers<int8_t>({256})}, {}, kInternalDomain);
  }

  Random random_{17};
  std::vector<Sample> samples_;
};

}  // namespace

std::vector<Sample> TraitSamples() { return Samples().Make(); }

}  // namespace ferry::testing
