#include <gtest/gtest.h>

#include <cstdlib>

#include "graph/equal.h"
#include "model_samples.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST(RoundTrip, EveryArchiveModelComesBackEqual) {
  for (const fs::path& path : ArchiveModels()) {
    Model first = ReadModel(path.string());
    Model second = FromBytes(SerializeModel(first));
    std::string difference;
    EXPECT_TRUE(EqualModels(first, second, &difference)) << path << ": " << difference;
  }
}

TEST(RoundTrip, EveryPartOfTheFormatComesBack) {
  Model model = FullModel();
  Model again = FromBytes(SerializeModel(model));
  std::string difference;
  EXPECT_TRUE(EqualModels(model, again, &difference)) << difference;
  EXPECT_EQ(SerializeModel(model), SerializeModel(again));
}

TEST(RoundTrip, EqualModelsNamesTheDifference) {
  auto difference_after = [](auto change) {
    Model changed = CopyDeep(FullModel());
    change(changed);
    std::string difference;
    EXPECT_FALSE(EqualModels(FullModel(), changed, &difference));
    return difference;
  };
  EXPECT_EQ(difference_after([](Model& m) { m.graph.nodes[0].inputs[2] = "z"; }),
            "graph.node[0].input: [x, , w] against [x, , z]");
  EXPECT_EQ(difference_after([](Model& m) { m.functions[0].overload.clear(); }),
            "functions[0].overload: 'v2' against ''");
  EXPECT_EQ(difference_after([](Model& m) { m.graph.inputs[0].type.shape->pop_back(); }).substr(0, 21),
            "graph.input[0].type.t");
  EXPECT_EQ(difference_after([](Model& m) {
              m.graph.initializers[0].tensor = Tensor::Zeros(DType::kDouble, {2, 2});
            }),
            "graph.initializer[0].elements: some against others");
  EXPECT_EQ(difference_after([](Model& m) { m.graph.nodes[0].Set("is", std::vector<int64_t>{1}); }).substr(0, 27),
            "graph.node[0].attribute[6].");
}

TEST(RoundTrip, ScalarShapeUnknownRankAndUnknownDimStayApart) {
  Model model = WeightModel(1);
  model.graph.inputs = {{"scalar", Type::Tensor(DType::kFloat, SymbolicShape{}), {}, {}, {}},
                        {"any_rank", Type::Tensor(DType::kFloat), {}, {}, {}},
                        {"any_size", Type::Tensor(DType::kFloat, {Dim()}), {}, {}, {}}};
  Model again = FromBytes(SerializeModel(model));
  ASSERT_TRUE(again.graph.inputs[0].type.has_rank());
  EXPECT_TRUE(again.graph.inputs[0].type.shape->empty());
  EXPECT_FALSE(again.graph.inputs[1].type.has_rank());
  EXPECT_TRUE(again.graph.inputs[2].type.shape->at(0).unknown());
}

TEST(RoundTrip, WeightsAreNotCopied) {
  std::string bytes = SerializeModel(WeightModel(10'000));
  auto kept = std::make_shared<const std::string>(bytes);
  Model model = ReadModelFromMemory(std::as_bytes(std::span(*kept)), kept);
  auto* data = reinterpret_cast<const char*>(model.graph.initializers[0].tensor.raw());
  EXPECT_GE(data, kept->data());
  EXPECT_LT(data, kept->data() + kept->size());
  std::weak_ptr<const std::string> watch = kept;
  kept.reset();
  EXPECT_FALSE(watch.expired()) << "the model keeps the bytes its weights lie in";
}

TEST(RoundTrip, ExternalDataComesBack) {
  TemporaryFolder folder;
  Model model = WeightModel(100'000);
  model.graph.initializers.push_back(MakeStored("small", Tensor::Scalar(1.0f)));
  model.graph.initializers.push_back(MakeStored("again", model.graph.initializers[0].tensor));
  WriteModel(model, (folder / "m.onnx").string(), {.external = WriteOptions::External::kAlways});
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), 400'000u) << "shared elements are written once";
  EXPECT_LT(fs::file_size(folder / "m.onnx"), 1000u);
  Model again = ReadModel((folder / "m.onnx").string());
  std::string difference;
  EXPECT_TRUE(EqualModels(model, again, &difference)) << difference;
  EXPECT_EQ(again.graph.initializers[0].storage, StoredTensor::Storage::kExternal);
  EXPECT_NE(again.graph.initializers[1].storage, StoredTensor::Storage::kExternal);

  WriteModel(again, (folder / "one.onnx").string(), {.external = WriteOptions::External::kNever});
  EXPECT_TRUE(EqualModels(model, ReadModel((folder / "one.onnx").string()), &difference)) << difference;
}

TEST(RoundTrip, AutoGoesExternalAboveTheLimitOnly) {
  TemporaryFolder folder;
  WriteModel(WeightModel(1000), (folder / "a.onnx").string(), {.external_above = 4000});
  EXPECT_FALSE(fs::exists(folder / "a.onnx.data"));
  WriteModel(WeightModel(1000), (folder / "b.onnx").string(), {.external_above = 3999, .external_name = "weights.bin"});
  EXPECT_TRUE(fs::exists(folder / "weights.bin"));
}

TEST(RoundTrip, AModelCanBeWrittenOverTheFileItWasReadFrom) {
  TemporaryFolder folder;
  std::string path = (folder / "m.onnx").string();
  Model model = WeightModel(100'000);
  WriteModel(model, path, {.external = WriteOptions::External::kAlways});
  Model read = ReadModel(path);
  read.producer_name = "changed";
  WriteModel(read, path, {.external = WriteOptions::External::kAlways});
  EXPECT_TRUE(Identical(ReadModel(path).graph.initializers[0].Get(), model.graph.initializers[0].tensor));
  EXPECT_TRUE(Identical(read.graph.initializers[0].Get(), model.graph.initializers[0].tensor));
}

TEST(RoundTrip, WritingLeavesNothingBehindWhenItFails) {
  TemporaryFolder folder;
  fs::create_directory(folder / "m.onnx");
  Model model = WeightModel(1000);
  EXPECT_NE(
      ErrorOf([&] { WriteModel(model, (folder / "m.onnx").string(), {.external = WriteOptions::External::kAlways}); }),
      "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_NE(ErrorOf([&] { WriteModel(model, (folder / "missing/m.onnx").string()); }), "");
}

TEST(RoundTrip, MoreThanTwoGibibytesAreRefusedWithAdvice) {
  Model model = WeightModel(1);
  std::vector<float> one_megabyte(1 << 18);
  Tensor big = Tensor::FromVector(one_megabyte);
  for (int i = 0; i < 2049; ++i) model.graph.initializers.push_back(MakeStored("w" + std::to_string(i), big));
  TemporaryFolder folder;
  std::string path = (folder / "m.onnx").string();
  std::string error = ErrorOf([&] { WriteModel(model, path, {.external = WriteOptions::External::kNever}); });
  EXPECT_NE(error.find("2 GiB"), std::string::npos) << error;
  EXPECT_NE(error.find("external"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(path));
}

// ONNX's own library must read what is written, and find the same in it.
TEST(RoundTrip, OnnxPythonReadsTheSame) {
  if (std::system("/usr/bin/python3 -c 'import onnx' 2>/dev/null") != 0)
    GTEST_SKIP() << "onnx for Python is not installed";
  TemporaryFolder folder;
  std::string list;
  std::vector<fs::path> models = ArchiveModels();
  for (size_t i = 0; i < models.size(); ++i) {
    const fs::path& path = models[i];
    fs::path ours = folder / (std::to_string(i) + ".onnx");
    Model model = ReadModel(path.string());
    if (i % 4 == 0)
      WriteModel(model, ours.string(), {.external = WriteOptions::External::kAlways});
    else
      WriteText(ours, SerializeModel(model));
    list += path.string() + '\t' + ours.string() + '\n';
  }
  WriteText(folder / "pairs.txt", list);
  std::string command = "/usr/bin/python3 tests/onnx/same_for_onnx.py '" + (folder / "pairs.txt").string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace ferry
