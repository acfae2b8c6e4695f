#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model_samples.h"
#include "onnx/encoder.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

using namespace testing;
using onnx::Encoder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOfBytes(const std::string& bytes) {
  return ErrorOf([&] { FromBytes(bytes); });
}

// A model around whatever `body` writes into its graph.
template <class Body>
std::string WithGraph(const Body& body) {
  Encoder out;
  out.Int(onnx::model_field::kIrVersion, 8);
  out.Message(onnx::model_field::kGraph, [&] { body(out); });
  return out.ToString();
}

TEST(Malformed, AModelCutAnywhereIsRefusedOrReadsAsLess) {
  std::string bytes = SerializeModel(FullModel());
  size_t refused = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string error = ErrorOfBytes(bytes.substr(0, length));
    refused += !error.empty();
    if (!error.empty()) {
      EXPECT_THAT(error, StartsWith("model in memory: "));
    }
  }
  EXPECT_GT(refused, bytes.size() * 9 / 10) << "only cuts between two fields of the model can pass";
}

TEST(Malformed, ArchiveModelsCutAnywhereNeverCrash) {
  std::vector<std::filesystem::path> models = ArchiveModels();
  for (size_t i = 0; i < models.size(); i += 37) {
    std::string bytes = ReadText(models[i]);
    size_t step = bytes.size() > 4096 ? bytes.size() / 512 : 1;
    for (size_t length = 0; length < bytes.size(); length += step) ErrorOfBytes(bytes.substr(0, length));
  }
}

TEST(Malformed, FlippedBytesNeverCrash) {
  std::string bytes = SerializeModel(FullModel());
  std::mt19937 random(1);
  for (int round = 0; round < 5'000; ++round) {
    std::string damaged = bytes;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    ErrorOfBytes(damaged);
  }
}

TEST(Malformed, RandomBytesAreNoModel) {
  std::mt19937 random(2);
  size_t accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(1 + random() % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    accepted += ErrorOfBytes(bytes).empty();
  }
  EXPECT_LT(accepted, 20u) << "a few random bytes are a message with one small field";
}

TEST(Malformed, SaysWhatOtherFilesAre) {
  using std::string_literals::operator""s;
  EXPECT_THAT(ErrorOfBytes(""), HasSubstr("empty"));
  EXPECT_THAT(ErrorOfBytes("PK\3\4rest of it"), HasSubstr("PyTorch"));
  EXPECT_THAT(ErrorOfBytes("\x80\2}q\0."s), HasSubstr("pickle"));
  EXPECT_THAT(ErrorOfBytes("\x89HDF\r\n\x1a\n..."), HasSubstr("HDF5"));
  EXPECT_THAT(ErrorOfBytes("\x1c\0\0\0TFL3...."s), HasSubstr("TensorFlow Lite"));
  EXPECT_THAT(ErrorOfBytes("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(ErrorOfBytes("import torch\nprint('this is a program')\n"), HasSubstr("text file"));
  EXPECT_THAT(ErrorOfBytes("{\"format\": \"json\"}\n"), HasSubstr("text file"));
  EXPECT_THAT(ErrorOfBytes("\x11\0\0\0\0\0\0\0{\"a\": 1, \"b\": 22}"s), HasSubstr("safetensors"));
  EXPECT_THAT(ErrorOfBytes(std::string(100, '\0')), HasSubstr("zeros"));
  EXPECT_THAT(ErrorOfBytes("\xf8\x07\x01"), HasSubstr("none of its fields"));
}

TEST(Malformed, AModelIsNotMistakenForWhatItsProducerIsCalled) {
  Model model = WeightModel(2);
  model.producer_name = "ORTModelOptimizer";  // begins where a .ort file has "ORTM"
  EXPECT_EQ(ErrorOfBytes(SerializeModel(model)), "");
}

TEST(Malformed, NamesFileByteAndPlace) {
  std::string bytes = WithGraph([](Encoder& out) {
    out.Message(onnx::graph_field::kNode, [&] { out.Text(onnx::node_field::kOpType, "Relu"); });
    out.Message(onnx::graph_field::kNode,
                [&] { out.Message(onnx::node_field::kAttribute, [&] { out.Int(onnx::attribute_field::kName, 1); }); });
  });
  std::string error = ErrorOfBytes(bytes);
  EXPECT_THAT(error, HasSubstr("graph.node[1].attribute[0]"));
  EXPECT_THAT(error, HasSubstr("at byte " + std::to_string(bytes.size() - 2)));
}

TEST(Malformed, LengthsBeyondTheFileAreRefused) {
  using std::string_literals::operator""s;
  EXPECT_THAT(ErrorOfBytes("\x3a\xff\xff\xff\xff\x0f"s), HasSubstr("past the end"));
  // 2^32 + 2: a reader that keeps 32 bits of a length would take it for 2.
  EXPECT_THAT(ErrorOfBytes("\x3a\x82\x80\x80\x80\x10\x08\x01"s), HasSubstr("past the end"));
  EXPECT_THAT(ErrorOfBytes("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s), HasSubstr("longer than ten bytes"));
  EXPECT_THAT(ErrorOfBytes("\x88\x80\x80\x80\x80\x01\x08"s), HasSubstr("does not allow"));
  EXPECT_THAT(ErrorOfBytes("\x0b"s), HasSubstr("protobuf does not have"));
}

std::string NestedGraphs(int depth) {
  std::string graph = "\x12\x01g";
  for (int i = 0; i < depth; ++i) {
    Encoder node;
    node.Message(onnx::graph_field::kNode, [&] {
      node.Message(onnx::node_field::kAttribute, [&] {
        node.Text(onnx::attribute_field::kName, "body");
        node.Bytes(onnx::attribute_field::kGraph, graph);
        node.Int(onnx::attribute_field::kAttributeType, 5);
      });
    });
    graph = node.ToString();
  }
  Encoder out;
  out.Int(onnx::model_field::kIrVersion, 8);
  out.Bytes(onnx::model_field::kGraph, graph);
  return out.ToString();
}

TEST(Malformed, NestingIsBounded) {
  EXPECT_EQ(ErrorOfBytes(NestedGraphs(60)), "");
  EXPECT_THAT(ErrorOfBytes(NestedGraphs(100)), HasSubstr("nested"));
  EXPECT_THAT(ErrorOfBytes(NestedGraphs(2'000)), HasSubstr("nested"));

  std::string type;
  for (int i = 0; i < 3'000; ++i) {
    Encoder out;
    out.Message(onnx::type_field::kSequence, [&] { out.Bytes(onnx::type_field::kElementType, type); });
    type = out.ToString();
  }
  std::string bytes = WithGraph([&](Encoder& out) {
    out.Message(onnx::graph_field::kInput, [&] { out.Bytes(onnx::value_info_field::kType, type); });
  });
  EXPECT_THAT(ErrorOfBytes(bytes), HasSubstr("nested"));
}

TEST(Malformed, TheSamePartTwiceIsRefused) {
  Encoder out;
  out.Int(onnx::model_field::kIrVersion, 8);
  out.Message(onnx::model_field::kGraph, [] {});
  out.Message(onnx::model_field::kGraph, [] {});
  EXPECT_THAT(ErrorOfBytes(out.ToString()), HasSubstr("second graph"));
}

Attribute OnlyAttribute(const std::function<void(Encoder&)>& body) {
  Model model = FromBytes(WithGraph([&](Encoder& out) {
    out.Message(onnx::graph_field::kNode, [&] { out.Message(onnx::node_field::kAttribute, [&] { body(out); }); });
  }));
  return model.graph.nodes.at(0).attributes.at(0);
}

TEST(Malformed, AttributesThatContradictThemselvesAreNoted) {
  using namespace onnx::attribute_field;
  auto typed = [](int type, auto rest) {
    return OnlyAttribute([&](Encoder& out) {
      out.Text(kName, "a");
      rest(out);
      if (type) out.Int(kAttributeType, type);
    });
  };
  EXPECT_EQ(typed(2, [](Encoder& out) { out.Int(kInt, 3); }).problem, "");
  EXPECT_EQ(typed(2, [](Encoder&) {}).problem, "") << "proto3 leaves out zeros";
  EXPECT_EQ(std::get<int64_t>(typed(2, [](Encoder&) {}).held), 0);
  EXPECT_THAT(typed(2, [](Encoder& out) { out.Float(kFloat, 3); }).problem,
              HasSubstr("said to be int but holds float"));
  EXPECT_THAT(typed(2,
                    [](Encoder& out) {
                      out.Int(kInt, 1);
                      out.Float(kFloat, 3);
                    })
                  .problem,
              HasSubstr("several values"));
  EXPECT_THAT(typed(0, [](Encoder& out) { out.Int(kInt, 3); }).problem, HasSubstr("does not say its type"));
  EXPECT_THAT(typed(99, [](Encoder& out) { out.Int(kInt, 3); }).problem, HasSubstr("type number 99"));
  EXPECT_THAT(typed(4, [](Encoder&) {}).problem, HasSubstr("holds nothing"));
  EXPECT_THAT(typed(2,
                    [](Encoder& out) {
                      out.Int(kInt, 1);
                      out.Text(kRefName, "alpha");
                    })
                  .problem,
              HasSubstr("also refers to"));
}

TEST(Malformed, AttributesOfTheFirstVersionNeedNoType) {
  Encoder out;
  out.Message(onnx::model_field::kGraph, [&] {
    out.Message(onnx::graph_field::kNode,
                [&] { out.Message(onnx::node_field::kAttribute, [&] { out.Int(onnx::attribute_field::kInt, 3); }); });
  });
  out.Int(onnx::model_field::kIrVersion, 1);
  Model model = FromBytes(out.ToString());
  const Attribute& attribute = model.graph.nodes.at(0).attributes.at(0);
  EXPECT_EQ(attribute.problem, "");
  EXPECT_EQ(attribute.type, AttributeType::kInt);
}

// Out-of-bounds read while a long message was put together.
TEST(Malformed, Cve_2024_27319_LongNamesInErrorsAreCut) {
  Model model = WeightModel(4);
  model.graph.initializers[0].name = std::string(1'000'000, 'n');
  model.graph.initializers[0].problem = "is broken";
  std::string error = ErrorOf([&] { model.graph.initializers[0].Get(); });
  EXPECT_THAT(error, HasSubstr("is broken"));
  EXPECT_LT(error.size(), 1000u);
  for (size_t length = 2030; length < 2070; ++length) {
    model.graph.initializers[0].name = std::string(length, 'n');
    EXPECT_LT(ErrorOf([&] { model.graph.initializers[0].Get(); }).size(), 1000u);
  }
}

}  // namespace
}  // namespace ferry
