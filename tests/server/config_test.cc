#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/model_config.h"
#include "server/options.h"
#include "server/proto_json.h"
#include "server/proto_text.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

using testing::HasSubstr;

const ProtoMessage& Config() { return ProtoSchema::OfServer().Message("inference.ModelConfig"); }

Json Parse(std::string_view text) { return ParseProtoText(text, Config(), "config.pbtxt"); }

std::string ErrorOf(std::string_view text) {
  try {
    Parse(text);
  } catch (const Refusal& refusal) {
    return refusal.message();
  }
  return "";
}

TEST(ProtoText, TakesTheFormsThatAreMet) {
  const Json json = Parse(
      "# a comment\nname: \"a\" 'b'  \"\\x41\\n\" \"\\u00fc\\U0001f600\\ud83d\\ude00\"\nmax_batch_size: 0x10;\n"
      "input [ { name: \"x\", dims: [ -1, 3 ] }, { name: 'y' dims: 2 dims: 4 } ]\n"
      "output < name: \"z\" data_type: TYPE_FP16 >\n"
      "parameters: { key: \"k\" value: { string_value: \"v\" } }\n"
      "dynamic_batching { priority_queue_policy { key: 2 value { timeout_action: DELAY } } }\n");
  EXPECT_EQ(json.At("name").AsString(), "abA\n\xc3\xbc\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
  EXPECT_EQ(json.At("max_batch_size").AsInt(), 16);
  EXPECT_EQ(json.At("input").AsArray()[1].At("dims").AsArray()[1].AsInt(), 4);
  EXPECT_EQ(json.At("input").AsArray()[0].At("dims").AsArray()[0].AsInt(), -1);
  EXPECT_EQ(json.At("output").AsArray()[0].At("data_type").AsString(), "TYPE_FP16");
  EXPECT_EQ(json.At("parameters").At("k").At("string_value").AsString(), "v");
  EXPECT_EQ(json.At("dynamic_batching").At("priority_queue_policy").At("2").At("timeout_action").AsString(), "DELAY");
}

TEST(ProtoText, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf("name: \"a\"\nmax_batch: 3"), "config.pbtxt:2: ModelConfig has no field 'max_batch'");
  EXPECT_THAT(ErrorOf("max_batch_size: x"), HasSubstr("must be an integer in range"));
  EXPECT_THAT(ErrorOf("max_batch_size: 3000000000"), HasSubstr("must be an integer in range"));
  EXPECT_THAT(ErrorOf("max_batch_size: 1 max_batch_size: 2"), HasSubstr("given twice"));
  EXPECT_THAT(ErrorOf("input {"), HasSubstr("'}' is missing"));
  EXPECT_THAT(ErrorOf("name: \"a"), HasSubstr("does not end"));
  EXPECT_THAT(ErrorOf("name: '\\u12'"), HasSubstr("lacks its digits"));
  EXPECT_THAT(ErrorOf("name: '\\ud83d'"), HasSubstr("no character"));
  EXPECT_THAT(ErrorOf("name 3"), HasSubstr("':' is missing"));
  EXPECT_THAT(ErrorOf("input { data_type: TYPE_FP33 }"), HasSubstr("none of DataType's values"));
  EXPECT_THAT(ErrorOf("dynamic_batching {} sequence_batching {}"), HasSubstr("exclude each other"));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "optimization { cuda { graph_spec { ";
  EXPECT_NE(ErrorOf(deep), "");
}

TEST(ProtoJson, MessagesComeBackAsTheyWere) {
  const Json json = Parse(
      "name: \"m\" max_batch_size: 8 input { name: \"x\" data_type: TYPE_INT64 dims: [ -1, 3 ] optional: true }\n"
      "metric_tags { key: \"a\" value: \"b\" } version_policy { specific { versions: [ 1, 7 ] } }\n"
      "dynamic_batching { priority_queue_policy { key: 2 value { max_queue_size: 5 } } }");
  const std::string bytes = EncodeMessage(json, Config());
  EXPECT_EQ(EncodeMessage(DecodeMessage(bytes, Config()), Config()), bytes);
  const Json back = DecodeMessage(bytes, Config());
  EXPECT_EQ(back.At("input").AsArray()[0].At("dims").AsArray()[0].AsInt(), -1);
  EXPECT_EQ(back.At("metric_tags").At("a").AsString(), "b");
  EXPECT_EQ(back.At("version_policy").At("specific").At("versions").AsArray().size(), 2u);
}

TEST(ProtoJson, TakesTheFormsOfProtobufsOwnJson) {
  const Json json = ReadConfigText(
      "{\"maxBatchSize\": 4.0, \"input\": [{\"name\": \"x\", \"dataType\": \"type_fp32\", \"dims\": [\"-1\", 3]},"
      "{\"name\": \"z\", \"data_type\": 9}], \"platform\": null, \"dynamicBatching\": {"
      "\"preferredBatchSize\": [\"2\", 4.0], \"maxQueueDelayMicroseconds\": \"18446744073709551615\","
      "\"priorityQueuePolicy\": {\"2\": {\"timeoutAction\": \"delay\"}}}}",
      "config");
  EXPECT_EQ(
      json.Dump(-1),
      "{\"max_batch_size\": 4, \"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 3]}, "
      "{\"name\": \"z\", \"data_type\": \"TYPE_INT64\"}], \"dynamic_batching\": {\"preferred_batch_size\": [2, 4], "
      "\"max_queue_delay_microseconds\": 18446744073709551615, "
      "\"priority_queue_policy\": {\"2\": {\"timeout_action\": \"DELAY\"}}}}");
  EXPECT_EQ(ReadConfigText("{\"max_batch_size\": 0}", "config").Dump(-1), "{\"max_batch_size\": 0}");
  for (const char* wrong :
       {"{\"max_batch_size\": 4.5}", "{\"max_batch_size\": \"four\"}", "{\"max_batch_size\": 3000000000}",
        "{\"maxbatchsize\": 4}", "{\"max_batch_size\": 1, \"maxBatchSize\": 1}",
        "{\"input\": [{\"data_type\": \"X\"}]}", "{\"dynamic_batching\": {}, \"sequence_batching\": {}}",
        "{\"dynamic_batching\": {\"priority_queue_policy\": {\"x\": {}}}}"})
    EXPECT_THROW(ReadConfigText(wrong, "config"), Refusal) << wrong;
}

TEST(ProtoJson, DamagedMessagesAreRefused) {
  for (size_t length = 1; length < 20; ++length) try {
      DecodeMessage(std::string(length, '\xff'), Config());
      FAIL() << length;
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.code(), Code::kInvalidArgument);
    }
}

ValueInfo Info(const char* name, DType type, SymbolicShape shape) {
  ValueInfo info;
  info.name = name;
  info.type = Type::Tensor(type, std::move(shape));
  return info;
}

ModelConfig Complete(std::string_view text, std::vector<ValueInfo> inputs, std::vector<ValueInfo> outputs) {
  return CompleteConfig(ReadConfigText(text, "config.pbtxt"), "m", inputs, {}, outputs, {});
}

const Dim kBatch = Dim::Named("batch");

TEST(ModelConfig, BatchIsFoundWhereEveryTensorHasIt) {
  const ModelConfig found =
      Complete("", {Info("x", DType::kFloat, {kBatch, 10})}, {Info("y", DType::kFloat, {kBatch, 3})});
  EXPECT_TRUE(found.is_batch_assumed);
  EXPECT_TRUE(found.dynamic_batching);
  EXPECT_EQ(found.inputs[0].dims, std::vector<int64_t>{10});
  const ModelConfig fixed = Complete("", {Info("x", DType::kFloat, {1, 10})}, {Info("y", DType::kFloat, {kBatch, 3})});
  EXPECT_EQ(fixed.max_batch_size, 0);
  EXPECT_THAT(fixed.no_batching_reason, HasSubstr("fixed to 1"));
  const ModelConfig two =
      Complete("", {Info("x", DType::kFloat, {kBatch}), Info("z", DType::kFloat, {Dim::Named("other")})},
               {Info("y", DType::kFloat, {kBatch})});
  EXPECT_EQ(two.max_batch_size, 0);
  EXPECT_THAT(two.no_batching_reason, HasSubstr("disagree"));
}

TEST(ModelConfig, IsHeldAgainstTheModel) {
  const std::vector<ValueInfo> x = {Info("x", DType::kFloat, {kBatch, 10})},
                               y = {Info("y", DType::kFloat, {kBatch, 3})};
  EXPECT_EQ(Complete("max_batch_size: 4 input { name: \"x\" data_type: TYPE_FP32 dims: 10 }", x, y).max_batch_size, 4);
  EXPECT_THROW(Complete("max_batch_size: 4 input { name: \"x\" data_type: TYPE_FP32 dims: [ 10, 2 ] }", x, y), Refusal);
  EXPECT_THROW(Complete("max_batch_size: 4 input { name: \"q\" data_type: TYPE_FP32 dims: 10 }", x, y), Refusal);
  EXPECT_THROW(Complete("input { name: \"x\" data_type: TYPE_FP16 dims: [ -1, 10 ] }", x, y), Refusal);
  EXPECT_THROW(Complete("name: \"other\"", x, y), Refusal);
  EXPECT_THROW(Complete("max_batch_size: 4 dynamic_batching { preferred_batch_size: 5 }", x, y), Refusal);
  EXPECT_THROW(Complete("backend: \"python\"", x, y), Refusal);
  EXPECT_EQ(Complete("{\"max_batch_size\": 2}", x, y).max_batch_size, 2);
}

std::string RefusalOf(std::string_view text, std::vector<ValueInfo> inputs, std::vector<ValueInfo> outputs) {
  try {
    Complete(text, std::move(inputs), std::move(outputs));
  } catch (const Refusal& refusal) {
    return refusal.message();
  }
  return "";
}

TEST(ModelConfig, ReshapesAreHeldAgainstDims) {
  const std::vector<ValueInfo> x = {Info("x", DType::kFloat, {Dim(), Dim(), 4})},
                               y = {Info("y", DType::kFloat, {Dim()})};
  auto reshape = [&](const std::string& dims, const std::string& shape) {
    return RefusalOf("input { name: 'x' dims: [" + dims + "] reshape { shape: [" + shape + "] } }", x, y);
  };
  EXPECT_EQ(reshape("-1, 1, -1, 4", "-1, -1, 4"), "");
  EXPECT_EQ(reshape("-1, -1, 4, 1", "-1, -1, 4"), "");
  EXPECT_THAT(reshape("-1, 4, -1", "-1, -1, 4"), HasSubstr("model input 'x' has different size for dims and reshape"));
  EXPECT_THAT(reshape("-1, 4", "-1, -1, 4"), HasSubstr("has different number of variable-size dimensions"));
  EXPECT_THAT(reshape("2, 3, 5", "2, 3, 4"), HasSubstr("has different size"));
  EXPECT_THAT(reshape("2, 3, 4", "2, 0, 4"), HasSubstr("reshape dimensions must be integer >= 1"));
  EXPECT_THAT(reshape("2, 0, 4", "2, 3, 4"), HasSubstr("model input 'x' dimension must be integer >= 1"));
  EXPECT_THAT(reshape("1", ""), HasSubstr("cannot have empty reshape for non-batching model"));
  EXPECT_THAT(RefusalOf("input [{ name: 'x' }, { name: 'x' }]", x, y), HasSubstr("'x' is specified twice"));
}

TEST(ModelConfig, ScalarsAreShownAsOneElement) {
  const std::vector<ValueInfo> x = {Info("x", DType::kFloat, {})}, y = {Info("y", DType::kFloat, {})};
  for (const char* text :
       {"", "input { name: 'x' dims: 1 }", "input { name: 'x' data_type: TYPE_FP32 dims: [1, 1] }"}) {
    const ModelConfig config = Complete(text, x, y);
    EXPECT_EQ(config.outputs[0].dims, std::vector<int64_t>{1});
    EXPECT_EQ(config.inputs[0].reshape, std::vector<int64_t>());
    EXPECT_FALSE(config.json.At("output").AsArray()[0].Find("reshape"));
  }
  EXPECT_THAT(RefusalOf("input { name: 'x' dims: 2 }", x, y), HasSubstr("should only provide 1"));
  const ModelConfig rows = Complete("", {Info("x", DType::kFloat, {kBatch})}, {Info("y", DType::kFloat, {kBatch})});
  EXPECT_EQ(rows.inputs[0].dims, std::vector<int64_t>{1});
  EXPECT_TRUE(rows.json.At("input").AsArray()[0].At("reshape").At("shape").AsArray().empty());
}

TEST(ModelConfig, ABatchMustBePossible) {
  const std::vector<ValueInfo> x = {Info("x", DType::kFloat, {1, 10})}, y = {Info("y", DType::kFloat, {kBatch, 3})};
  EXPECT_THAT(RefusalOf("max_batch_size: 4", x, y),
              HasSubstr("autofill failed for model 'm': model does not support batching while non-zero max_batch_size "
                        "is specified"));
  EXPECT_THAT(RefusalOf("max_batch_size: 4", {Info("x", DType::kFloat, {})}, y), HasSubstr("autofill failed"));
  EXPECT_EQ(Complete("max_batch_size: 0", x, y).max_batch_size, 0);
}

TEST(ModelConfig, QueuesAreLookedAt) {
  auto refusal = [](const std::string& batching) {
    return RefusalOf("max_batch_size: 4 dynamic_batching { " + batching + " }", {Info("x", DType::kFloat, {kBatch})},
                     {Info("y", DType::kFloat, {kBatch})});
  };
  EXPECT_EQ(refusal("priority_levels: 2 default_priority_level: 2 preferred_batch_size: 4"), "");
  EXPECT_THAT(refusal("preferred_batch_size: 0"), HasSubstr("preferred size must be positive"));
  EXPECT_THAT(refusal("preferred_batch_size: 5"), HasSubstr("preferred size must be <= max batch size"));
  EXPECT_THAT(refusal("priority_levels: 2"), HasSubstr("default priority level must be in range [1, 2]"));
  EXPECT_THAT(refusal("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value {} }"),
              HasSubstr("must have priority level in range [1, 2]"));
  EXPECT_THAT(refusal("priority_levels: 2 default_priority_level: 1 preserve_ordering: true"),
              HasSubstr("Only one priority level"));
  EXPECT_THAT(refusal("preserve_ordering: true default_queue_policy { timeout_action: DELAY "
                      "default_timeout_microseconds: 1 }"),
              HasSubstr("can not have DELAY"));
}

TEST(ModelConfig, IsShownAsTritonNormalisesIt) {
  const std::vector<ValueInfo> x = {Info("x", DType::kFloat, {kBatch, 10})},
                               y = {Info("y", DType::kFloat, {kBatch, 3})};
  const ModelConfig config = Complete("max_batch_size: 4 instance_group { count: 2 }", x, y);
  EXPECT_TRUE(config.dynamic_batching);
  EXPECT_FALSE(config.is_batch_assumed);
  EXPECT_EQ(config.json.At("dynamic_batching").At("preferred_batch_size").AsArray()[0].AsInt(), 4);
  EXPECT_EQ(config.json.At("instance_group").AsArray()[0].At("name").AsString(), "m_0");
  EXPECT_EQ(config.json.At("instance_group").AsArray()[0].At("kind").AsString(), "KIND_CPU");
  EXPECT_TRUE(config.json.At("optimization").At("input_pinned_memory").At("enable").AsBool());
  // What is shown means the same when it comes back.
  const ModelConfig again = Complete(config.json.Dump(), x, y);
  EXPECT_EQ(again.json.Dump(), config.json.Dump());
  EXPECT_TRUE(again.preferred_sizes.empty());
  EXPECT_FALSE(
      Complete("max_batch_size: 4 input { name: 'x' dims: 10 } output { name: 'y' dims: 3 }", x, y).dynamic_batching);
}

TEST(Options, TakeTritonsNames) {
  const ServerOptions options = ParseOptions(
      {"--model-repository", "/tmp", "--http-port=1", "--strict-readiness", "false", "--model-control-mode=poll",
       "--backend-config", "onnxruntime,x=1", "--http-max-input-size=100", "--log-verbose=1", "--allow-sagemaker=true",
       "--vertex-ai-port", "8080", "--cuda-virtual-address-size=0:0"});
  EXPECT_EQ(options.repository.folders[0], "/tmp");
  EXPECT_EQ(options.http.port, 1);
  EXPECT_FALSE(options.repository.strict_readiness);
  EXPECT_EQ(options.repository.mode, ControlMode::kPoll);
  EXPECT_EQ(options.service.most_body, 100u);
}

TEST(Options, TakeShortNames) {
  const ServerOptions options = ParseOptions({"--repository", "/tmp", "--http=1", "--grpc", "2", "--metrics=3"});
  EXPECT_EQ(options.repository.folders[0], "/tmp");
  EXPECT_EQ(options.http.port, 1);
  EXPECT_EQ(options.grpc.port, 2);
  EXPECT_EQ(options.metrics.port, 3);
}

TEST(Options, RefuseOthersByName) {
  for (const auto& [words, text] : std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"--model-repositry", "x"}, "did you mean --model-repository"},
           {{"--http-port", "70000"}, "--http-port must be an integer"},
           {{"--allow-http=maybe"}, "--allow-http must be true or false"},
           {{"--http-port"}, "--http-port needs a value"},
           {{}, "--model-repository, or a model, must be specified"},
           {{"none.onnx"}, "there is no model"}})
    try {
      ParseOptions(words);
      FAIL() << text;
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
}

}  // namespace
}  // namespace ferry::server
