#include "onnx/schema.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <set>

namespace ferry {
namespace {

TEST(Schema, FindsTheVersionInForce) {
  EXPECT_EQ(FindSchema("", "Softmax", 12)->since_version, 11);
  EXPECT_EQ(FindSchema("", "Softmax", 13)->since_version, 13);
  EXPECT_EQ(FindSchema("ai.onnx", "Softmax", 28)->since_version, 13);
  EXPECT_EQ(FindSchema("ai.onnx.ml", "TreeEnsemble", 5)->since_version, 5);
  EXPECT_EQ(FindSchema("ai.onnx.ml", "TreeEnsemble", 4), nullptr);
  EXPECT_EQ(FindSchema("", "Softmax", 0), nullptr);
  EXPECT_EQ(FindSchema("", "NoSuchOperator", 28), nullptr);
  EXPECT_EQ(FindSchema("com.example", "Softmax", 28), nullptr);
}

TEST(Schema, KnowsEveryOperator) {
  std::set<std::pair<std::string_view, std::string_view>> operators;
  for (const Schema& schema : AllSchemas()) operators.emplace(schema.domain(), schema.name());
  EXPECT_EQ(AllSchemas().size(), 659u + 123u);
  EXPECT_EQ(operators.size(), 227u + 123u);
  EXPECT_EQ(NewestOpset(""), 28);
  EXPECT_EQ(NewestOpset("ai.onnx"), 28);
  EXPECT_EQ(NewestOpset("ai.onnx.ml"), 5);
  EXPECT_EQ(NewestOpset("ai.onnx.preview"), 1);
  EXPECT_EQ(NewestOpset("ai.onnx.preview.training"), 1);
  EXPECT_EQ(NewestOpset("com.microsoft"), 1);
  EXPECT_EQ(NewestOpset("com.example"), 0);
}

TEST(Schema, KnowsTheContributedOperators) {
  const Schema* schema = FindSchema("com.microsoft", "MatMulNBits", 1);
  ASSERT_NE(schema, nullptr);
  EXPECT_EQ(schema->min_inputs, 3);
  EXPECT_EQ(schema->max_inputs, 6);
  EXPECT_TRUE(schema->FindAttribute("block_size")->required);
  EXPECT_EQ(schema->FindAttribute("bits")->DefaultInt(), 4);
  EXPECT_EQ(FindSchema("", "MatMulNBits", 28), nullptr);
  EXPECT_EQ(FindSchema("com.microsoft", "Relu", 1), nullptr);
}

// Every schema's records lie inside the tables and agree with each other.
TEST(Schema, TablesAreConsistent) {
  const Schema* previous = nullptr;
  for (const Schema& schema : AllSchemas()) {
    SCOPED_TRACE(Cat(schema.domain(), "::", schema.name(), "-", schema.since_version));
    if (previous && previous->domain() == schema.domain()) {
      EXPECT_LT(std::pair(previous->name(), previous->since_version), std::pair(schema.name(), schema.since_version));
    }
    EXPECT_EQ(FindSchema(schema.domain(), schema.name(), schema.since_version), &schema);
    EXPECT_LE(schema.min_inputs, schema.max_inputs);
    EXPECT_LE(schema.min_outputs, schema.max_outputs);
    for (auto parameters : {schema.inputs(), schema.outputs()}) {
      for (const SchemaParameter& parameter : parameters) {
        EXPECT_FALSE(parameter.name().empty());
        SchemaTypeSet types = schema.TypesOf(parameter);
        EXPECT_TRUE(types.bits[0] || types.bits[1]) << parameter.type();
      }
    }
    for (const SchemaAttribute& attribute : schema.attributes())
      EXPECT_EQ(attribute.has_default(), Attribute("a", attribute.Default()).type == attribute.type);
    previous = &schema;
  }
}

TEST(Schema, Parameters) {
  const Schema& clip = *FindSchema("", "Clip", 13);
  ASSERT_EQ(clip.inputs().size(), 3u);
  EXPECT_EQ(clip.inputs()[1].name(), "min");
  EXPECT_EQ(clip.inputs()[1].option, SchemaParameter::Option::kOptional);
  EXPECT_EQ(clip.min_inputs, 1);
  EXPECT_EQ(clip.InputAt(3), nullptr);

  const Schema& concat = *FindSchema("", "Concat", 13);
  EXPECT_EQ(concat.max_inputs, Schema::kUnlimited);
  EXPECT_EQ(concat.InputAt(100)->option, SchemaParameter::Option::kVariadic);
  EXPECT_TRUE(concat.FindAttribute("axis")->required);
}

TEST(Schema, AttributeDefaults) {
  const Schema& gemm = *FindSchema("", "Gemm", 13);
  EXPECT_EQ(gemm.FindAttribute("alpha")->DefaultFloat(), 1.0f);
  EXPECT_EQ(gemm.FindAttribute("transB")->DefaultInt(), 0);
  EXPECT_EQ(gemm.FindAttribute("nothing"), nullptr);
  EXPECT_EQ(FindSchema("", "Clip", 6)->FindAttribute("max")->DefaultFloat(), FLT_MAX);
  EXPECT_EQ(FindSchema("", "Conv", 11)->FindAttribute("auto_pad")->DefaultString(), "NOTSET");
  EXPECT_FALSE(FindSchema("", "Conv", 11)->FindAttribute("pads")->has_default());
  auto axes = FindSchema("", "MeanVarianceNormalization", 13)->FindAttribute("axes")->Default();
  EXPECT_EQ(std::get<std::vector<int64_t>>(axes), (std::vector<int64_t>{0, 2, 3}));
  auto activations = FindSchema("", "RNN", 14)->FindAttribute("activations")->Default();
  EXPECT_EQ(std::get<std::vector<std::string>>(activations), (std::vector<std::string>{"Tanh", "Tanh"}));
}

TEST(Schema, Types) {
  const Schema& relu = *FindSchema("", "Relu", 14);
  SchemaTypeSet types = relu.TypesOf(relu.inputs()[0]);
  EXPECT_TRUE(types.Contains(FindSchemaType(Type::Tensor(DType::kInt8))));
  EXPECT_FALSE(types.Contains(FindSchemaType(Type::Tensor(DType::kUInt8))));
  EXPECT_FALSE(types.Contains(FindSchemaType(Type())));
  for (int i = 1; i < kDTypeCount; ++i) EXPECT_EQ(FindSchemaType(OnnxTypeName(Type::Tensor(static_cast<DType>(i)))), i);
  SchemaTypeId sequence = FindSchemaType(Type::SequenceOf(Type::Tensor(DType::kInt64)));
  EXPECT_EQ(SchemaTypeName(sequence), "seq(tensor(int64))");
  EXPECT_NE(FindSchemaType("tensor(float6e2m3)"), 0);
  EXPECT_EQ(FindSchemaType("tensor(quaternion)"), 0);
}

}  // namespace
}  // namespace ferry
