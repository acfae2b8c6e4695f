// Fields of a later version of ONNX, in the messages that the model keeps as plain pairs, survive reading and writing.
#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "graph/equal.h"
#include "model_samples.h"
#include "onnx/proto.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

using namespace onnx;
using namespace testing;
using protozero::pbf_writer;

constexpr Tag kLater = 999;

// A submessage that `write` fills.
template <class Write>
void Add(pbf_writer& out, Tag tag, const Write& write) {
  std::string bytes;
  pbf_writer inner(bytes);
  write(inner);
  out.add_message(tag, bytes);
}

void AddEntry(pbf_writer& out, Tag tag, const std::string& key, const std::string& value, const std::string& later) {
  Add(out, tag, [&](pbf_writer& entry) {
    if (!later.empty()) entry.add_string(kLater, later);
    entry.add_string(entry_field::kKey, key);
    entry.add_string(entry_field::kValue, value);
  });
}

void AddTensor(pbf_writer& out, Tag tag) {
  Add(out, tag, [](pbf_writer& tensor) {
    tensor.add_string(kLater, "later-in-tensor");
    AddEntry(tensor, tensor_field::kMetadata, "m", "1", "later-in-tensor-metadata");
    AddEntry(tensor, tensor_field::kExternalData, "location", "somewhere", "later-in-external");
    tensor.add_int64(tensor_field::kDims, 1);
    tensor.add_int32(tensor_field::kDataType, 1);
    tensor.add_string(tensor_field::kName, "w");
    tensor.add_string(tensor_field::kRawData, "1234");
    Add(tensor, tensor_field::kSegment, [](pbf_writer& segment) {
      segment.add_int64(segment_field::kBegin, 3);
      segment.add_string(kLater, "later-in-segment");
      segment.add_int64(segment_field::kEnd, 4);
    });
  });
}

std::string LaterModel() {
  std::string bytes;
  pbf_writer model(bytes);
  model.add_string(kLater, "later-in-model");
  model.add_int64(model_field::kIrVersion, 10);
  AddEntry(model, model_field::kMetadata, "a", "1", "");
  AddEntry(model, model_field::kMetadata, "a", "1", "later-in-metadata-1");
  AddEntry(model, model_field::kMetadata, "b", "2", "later-in-metadata-2");
  AddEntry(model, model_field::kMetadata, "a", "1", "later-in-metadata-3");
  Add(model, model_field::kGraph, [](pbf_writer& graph) {
    AddEntry(graph, graph_field::kMetadata, "g", "", "later-in-graph-metadata");
    AddTensor(graph, graph_field::kInitializer);
    Add(graph, graph_field::kNode, [](pbf_writer& node) {
      AddEntry(node, node_field::kMetadata, "n", "1", "later-in-node-metadata");
      node.add_string(node_field::kOpType, "Relu");
    });
    Add(graph, graph_field::kInput, [](pbf_writer& info) {
      AddEntry(info, value_info_field::kMetadata, "v", "1", "later-in-value-metadata");
      info.add_string(value_info_field::kName, "x");
    });
    Add(graph, graph_field::kQuantization, [](pbf_writer& annotation) {
      AddEntry(annotation, annotation_field::kParameters, "SCALE_TENSOR", "s", "later-in-annotation");
    });
  });
  Add(model, model_field::kTrainingInfo, [](pbf_writer& training) {
    AddEntry(training, training_field::kUpdateBinding, "u", "1", "later-in-update");
    AddEntry(training, training_field::kInitializationBinding, "i", "1", "later-in-initialization");
  });
  Add(model, model_field::kFunctions, [](pbf_writer& function) {
    AddEntry(function, function_field::kMetadata, "f", "1", "later-in-function-metadata");
    function.add_string(function_field::kName, "f");
  });
  return bytes;
}

std::vector<std::string> Marks(const std::string& bytes) {
  std::vector<std::string> marks;
  for (size_t at = bytes.find("later-in-"); at != bytes.npos; at = bytes.find("later-in-", at + 1))
    marks.push_back(bytes.substr(at, bytes.find_first_not_of("abcdefghijklmnopqrstuvwxyz-123", at) - at));
  std::sort(marks.begin(), marks.end());
  return marks;
}

TEST(UnknownFields, OfEntriesAndSegmentsAreWrittenAgain) {
  std::string bytes = LaterModel();
  ASSERT_EQ(Marks(bytes).size(), 15u);
  Model model = FromBytes(bytes);
  EXPECT_EQ(model.metadata, (Metadata{{"a", "1"}, {"a", "1"}, {"b", "2"}, {"a", "1"}}));
  EXPECT_EQ(model.graph.initializers[0].external.entries, (Metadata{{"location", "somewhere"}}));
  std::string written = SerializeModel(model);
  EXPECT_EQ(Marks(written), Marks(bytes));
  std::string difference;
  EXPECT_TRUE(EqualModels(model, FromBytes(written), &difference)) << difference;
  EXPECT_EQ(SerializeModel(FromBytes(written)), written);
}

TEST(UnknownFields, GoWithTheEntryTheyAreIn) {
  Model model = FromBytes(LaterModel());
  model.metadata.erase(model.metadata.begin() + 2);
  model.graph.metadata[0].second = "changed";
  model.graph.initializers[0].segment->end = 5;
  Model again = FromBytes(SerializeModel(model));
  EXPECT_EQ(again.metadata, (Metadata{{"a", "1"}, {"a", "1"}, {"a", "1"}}));
  EXPECT_EQ(again.graph.metadata, (Metadata{{"g", "changed"}}));
  EXPECT_EQ(again.graph.initializers[0].segment->end, 5);
  std::vector<std::string> marks = Marks(SerializeModel(model));
  EXPECT_EQ(marks.size(), 12u);
  for (const char* gone : {"later-in-metadata-2", "later-in-graph-metadata", "later-in-segment"})
    EXPECT_EQ(std::count(marks.begin(), marks.end(), gone), 0) << gone;
}

}  // namespace
}  // namespace ferry
