#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "graph/equal.h"
#include "model_samples.h"
#include "onnx/writer.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::HasSubstr;

// A folder 'model' with a model that wants two floats of external data, beside a file 'secret' it must not get.
class ExternalData : public ::testing::Test {
 protected:
  ExternalData() {
    fs::create_directory(folder_ / "model");
    WriteText(folder_ / "secret", "SECRET!!");
    WriteText(folder_ / "model/data", "12345678");
  }

  static StoredTensor External(Metadata entries) {
    StoredTensor stored;
    stored.name = "w";
    stored.dtype = DType::kFloat;
    stored.dtype_number = 1;
    stored.dims = {2};
    stored.storage = StoredTensor::Storage::kExternal;
    stored.external.entries = std::move(entries);
    return stored;
  }

  Model ReadWith(StoredTensor stored) {
    Model model = WeightModel(2);
    model.graph.initializers[0] = std::move(stored);
    WriteText(folder_ / "model/m.onnx", SerializeModel(model));
    return ReadModel((folder_ / "model/m.onnx").string());
  }

  std::string Problem(Metadata entries) {
    Model model = ReadWith(External(std::move(entries)));
    const StoredTensor& stored = model.graph.initializers[0];
    EXPECT_EQ(stored.tensor.defined(), stored.problem.empty());
    return stored.problem;
  }
  std::string ProblemAt(const std::string& location) { return Problem({{"location", location}}); }

  TemporaryFolder folder_;
};

TEST_F(ExternalData, IsMappedOnceAndShared) {
  Model model = WeightModel(2);
  model.graph.initializers = {External({{"location", "data"}, {"offset", "0"}, {"length", "8"}, {"checksum", "abc"}}),
                              External({{"location", "./data"}})};
  WriteText(folder_ / "model/m.onnx", SerializeModel(model));
  Model read = ReadModel((folder_ / "model/m.onnx").string());
  const Tensor& first = read.graph.initializers[0].Get();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(first.raw()), 8), "12345678");
  EXPECT_EQ(read.graph.initializers[0].external.entries[3].second, "abc");
  EXPECT_TRUE(Identical(first, read.graph.initializers[1].Get()));
}

TEST_F(ExternalData, CanStayUnloaded) {
  Model model = WeightModel(2);
  model.graph.initializers[0] = External({{"location", "missing"}});
  WriteText(folder_ / "model/m.onnx", SerializeModel(model));
  Model read = ReadModel((folder_ / "model/m.onnx").string(), {.load_external = false, .folder = {}});
  EXPECT_EQ(read.graph.initializers[0].problem, "");
  EXPECT_FALSE(read.graph.initializers[0].tensor.defined());
  EXPECT_THAT(ErrorOf([&] { read.graph.initializers[0].Get(); }), HasSubstr("external"));
  std::string difference;
  EXPECT_TRUE(EqualModels(read, FromBytes(SerializeModel(read)), &difference)) << difference;
  EXPECT_THAT(ErrorOf([&] { WriteModel(read, (folder_ / "o.onnx").string()); }), HasSubstr("external"));
}

TEST_F(ExternalData, SubfoldersAndLinksThatStayInsideAreFine) {
  fs::create_directory(folder_ / "model/sub");
  fs::rename(folder_ / "model/data", folder_ / "model/sub/data");
  fs::create_symlink("sub/data", folder_ / "model/link");
  fs::create_symlink("../sub/data", folder_ / "model/sub/up_and_down");
  EXPECT_EQ(ProblemAt("sub/data"), "");
  EXPECT_EQ(ProblemAt("link"), "");
  EXPECT_EQ(ProblemAt("sub/up_and_down"), "");
}

// As caches of downloaded models lie on disk: links by name to files elsewhere, model and data side by side there.
TEST_F(ExternalData, LinksBesideTheRealModelAreFineWhenTheModelIsALink) {
  ReadWith(External({{"location", "data"}}));
  fs::create_directory(folder_ / "blobs");
  fs::rename(folder_ / "model/m.onnx", folder_ / "blobs/aaaa");
  fs::rename(folder_ / "model/data", folder_ / "blobs/bbbb");
  fs::create_symlink("../blobs/aaaa", folder_ / "model/m.onnx");
  fs::create_symlink("../blobs/bbbb", folder_ / "model/data");
  std::string path = (folder_ / "model/m.onnx").string();
  EXPECT_EQ(ReadModel(path).graph.initializers[0].problem, "");
  fs::remove(folder_ / "model/data");
  fs::create_symlink("../secret", folder_ / "model/data");
  EXPECT_THAT(ReadModel(path).graph.initializers[0].problem, HasSubstr("leads out of the model's folder"));
}

TEST_F(ExternalData, EntriesThatCannotBeAreNoted) {
  EXPECT_THAT(Problem({}), HasSubstr("without a location"));
  EXPECT_THAT(ProblemAt(""), HasSubstr("without a location"));
  EXPECT_THAT(ProblemAt("."), HasSubstr("folder"));
  EXPECT_THAT(ProblemAt("data/"), HasSubstr("folder"));
  EXPECT_THAT(ProblemAt("missing"), HasSubstr("cannot be opened"));
  EXPECT_THAT(ProblemAt(std::string("da\0ta", 5)), HasSubstr("zero byte"));
  EXPECT_THAT(Problem({{"location", "data"}, {"location", "data"}}), HasSubstr("twice"));
  for (const char* number : {"-1", "", "1x", " 1", "+1", "0x1", "1e3", "99999999999999999999999"}) {
    EXPECT_THAT(Problem({{"location", "data"}, {"offset", number}}), HasSubstr("not a number of bytes")) << number;
    EXPECT_THAT(Problem({{"location", "data"}, {"length", number}}), HasSubstr("not a number of bytes")) << number;
  }
  EXPECT_THAT(Problem({{"location", "data"}, {"offset", "1"}}), HasSubstr("past the end"));
  EXPECT_THAT(Problem({{"location", "data"}, {"offset", "18446744073709551615"}}), HasSubstr("past the end"));
  EXPECT_THAT(Problem({{"location", "data"}, {"length", "4"}}), HasSubstr("needs 8 bytes"));
}

TEST_F(ExternalData, UnalignedOffsetsAreReadable) {
  WriteText(folder_ / "model/data", "x12345678");
  Model model = ReadWith(External({{"location", "data"}, {"offset", "1"}, {"length", "8"}}));
  EXPECT_TRUE(model.graph.initializers[0].Get().IsAligned(4));
}

TEST_F(ExternalData, OnlyRegularFilesAreRead) {
  fs::create_directory(folder_ / "model/folder");
  EXPECT_THAT(ProblemAt("folder"), HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo((folder_ / "model/pipe").c_str(), 0600), 0);
  EXPECT_THAT(ProblemAt("pipe"), HasSubstr("not a regular file")) << "and it does not wait for a writer";
  EXPECT_THAT(ProblemAt("data/under"), HasSubstr("cannot be opened"));
}

// Reading '../' locations.
TEST_F(ExternalData, Cve_2022_25882_ParentFoldersAreRefused) {
  EXPECT_THAT(ProblemAt("../secret"), HasSubstr("'..' is not allowed"));
  EXPECT_THAT(ProblemAt("../../../../../../etc/passwd"), HasSubstr("'..' is not allowed"));
  EXPECT_THAT(ProblemAt((folder_ / "secret").string()), HasSubstr("absolute"));
  EXPECT_THAT(ProblemAt("/etc/passwd"), HasSubstr("absolute"));
}

// The first fix looked at the beginning of the path only.
TEST_F(ExternalData, Cve_2024_27318_HiddenParentFoldersAreRefused) {
  fs::create_directory(folder_ / "model/sub");
  for (const char* location :
       {"sub/../../secret", "./../secret", "sub//..//../secret", "..\\secret", "sub\\..\\..\\secret", "sub/../data",
        "..", "sub/..", "C:\\secret", "\\\\host\\secret"}) {
    EXPECT_NE(ProblemAt(location), "") << location;
  }
}

// Links: at the end of the path, and on the way.
TEST_F(ExternalData, Cve_2026_27489_LinksThatLeaveTheFolderAreRefused) {
  fs::create_symlink("../secret", folder_ / "model/relative");
  fs::create_symlink(folder_ / "secret", folder_ / "model/absolute");
  fs::create_symlink("..", folder_ / "model/up");
  fs::create_symlink("relative", folder_ / "model/chain");
  fs::create_symlink("loop", folder_ / "model/loop");
  fs::create_directory(folder_ / "outside");
  WriteText(folder_ / "outside/data", "12345678");
  fs::create_symlink("../outside", folder_ / "model/linked_folder");
  fs::create_symlink(folder_ / "outside", folder_ / "model/absolute_folder");
  for (const char* location :
       {"relative", "absolute", "up/secret", "chain", "linked_folder/data", "absolute_folder/data"})
    EXPECT_THAT(ProblemAt(location), HasSubstr("leads out of the model's folder")) << location;
  EXPECT_THAT(ProblemAt("loop"), HasSubstr("too many links"));
}

TEST_F(ExternalData, Cve_2026_34447_TheSameHoldsForTensorsOutsideInitializers) {
  fs::create_symlink("../secret", folder_ / "model/link");
  auto stored = std::make_shared<StoredTensor>(External({{"location", "link"}}));
  auto sparse = std::make_shared<StoredSparseTensor>();
  sparse->values = *stored;
  sparse->indices = MakeStored("", Tensor::FromVector<int64_t>({0, 1}));
  sparse->dims = {2};
  Model model = WeightModel(2);
  model.graph.nodes[0].attributes = {Attribute("value", stored), Attribute("sparse_value", sparse)};
  model.graph.sparse_initializers = {*sparse};
  WriteText(folder_ / "model/m.onnx", SerializeModel(model));
  Model read = ReadModel((folder_ / "model/m.onnx").string());
  const auto& attributes = read.graph.nodes[0].attributes;
  EXPECT_NE(std::get<std::shared_ptr<StoredTensor>>(attributes[0].held)->problem, "");
  EXPECT_NE(std::get<std::shared_ptr<StoredSparseTensor>>(attributes[1].held)->values.problem, "");
  EXPECT_NE(read.graph.sparse_initializers[0].values.problem, "");
}

TEST_F(ExternalData, Cve_2026_34446_HardLinksAreRefused) {
  fs::create_hard_link(folder_ / "secret", folder_ / "model/hard");
  EXPECT_THAT(ProblemAt("hard"), HasSubstr("hard links"));
}

// Keys that are nobody's business, and sizes made to exhaust memory.
TEST_F(ExternalData, Cve_2026_34445_KeysAndSizesAreHeldToWhatTheyMayBe) {
  EXPECT_EQ(Problem({{"location", "data"}, {"__class__", "x"}, {"basepath", "/"}, {"evil", "../.."}}), "");
  EXPECT_THAT(Problem({{"location", "secret"}, {"basepath", folder_.path().string()}}), HasSubstr("cannot be opened"));
  EXPECT_THAT(Problem({{"location", "data"}, {"length", "9000000000000000"}}), HasSubstr("needs 8 bytes"));
  StoredTensor huge = External({{"location", "data"}});
  huge.dims = {int64_t{1} << 50};
  EXPECT_THAT(ReadWith(huge).graph.initializers[0].problem, HasSubstr("past the end"));
  huge.dims = {int64_t{1} << 62, 16};
  EXPECT_NE(ReadWith(huge).graph.initializers[0].problem, "");
}

// A location from a model decided where its data was written.
TEST_F(ExternalData, Cve_2025_51480_TheModelDoesNotSayWhereDataIsWritten) {
  WriteText(folder_ / "model/data", std::string(8, '\1'));
  for (const char* location : {"../secret", "/tmp/secret", "sub/../../secret"}) {
    Model model = WeightModel(1000);
    model.graph.initializers[0].storage = StoredTensor::Storage::kExternal;
    model.graph.initializers[0].external.entries = {{"location", location}};
    WriteModel(model, (folder_ / "model/out.onnx").string(), {.external = WriteOptions::External::kAlways});
    EXPECT_EQ(ReadText(folder_ / "secret"), "SECRET!!");
    EXPECT_EQ(fs::file_size(folder_ / "model/out.onnx.data"), 4000u);
    Model read = ReadModel((folder_ / "model/out.onnx").string());
    EXPECT_EQ(read.graph.initializers[0].external.entries[0].second, "out.onnx.data");
    EXPECT_EQ(read.graph.initializers[0].problem, "");
  }
}

TEST_F(ExternalData, Cve_2025_51480_ALinkAtANameThatNobodyGaveIsReplacedNotFollowed) {
  fs::create_symlink("../secret", folder_ / "model/out.onnx.data");
  fs::create_symlink("elsewhere.onnx", folder_ / "model/out.onnx");
  WriteModel(WeightModel(1000), (folder_ / "model/out.onnx").string(), {.external = WriteOptions::External::kAlways});
  EXPECT_EQ(ReadText(folder_ / "secret"), "SECRET!!");
  EXPECT_FALSE(fs::is_symlink(folder_ / "model/out.onnx.data"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "model/out.onnx")) << "this one the caller named";
  EXPECT_EQ(ReadModel((folder_ / "model/out.onnx").string()).graph.initializers[0].problem, "");
}

// There it was an archive whose members were unpacked outside their folder; here it would be the data file's name.
TEST_F(ExternalData, Cve_2024_5187_NothingIsWrittenOutsideTheModelsFolder) {
  for (std::string name : {std::string("../secret"), std::string("/tmp/x"), std::string("sub/x"), std::string(".."),
                           std::string("."), std::string("a\\b"), std::string("a\0b", 3), std::string("out.onnx")}) {
    WriteOptions options{.external = WriteOptions::External::kAlways, .external_name = name};
    EXPECT_NE(ErrorOf([&] { WriteModel(WeightModel(1000), (folder_ / "model/out.onnx").string(), options); }), "")
        << name;
  }
  EXPECT_EQ(ReadText(folder_ / "secret"), "SECRET!!");
  EXPECT_FALSE(fs::exists(folder_ / "model/out.onnx"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(ExternalData, IsWrittenAsCarefullyAsTheModel) {
  Model model = WeightModel(1000);
  fs::path path = folder_ / "model/m.onnx", data = folder_ / "model/m.onnx.data";
  WriteText(data, "old");
  ASSERT_EQ(chmod(data.c_str(), 0600), 0);
  WriteModel(model, path.string(), {.external = WriteOptions::External::kAlways});
  EXPECT_EQ(fs::file_size(data), 4000u);
  EXPECT_EQ(fs::status(data).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(ReadModel(path.string()).graph.initializers[0].problem.empty());
}

TEST_F(ExternalData, IsNotWrittenBesideADevice) {
  EXPECT_THAT([&] { WriteModel(WeightModel(1000), "/dev/null", {.external = WriteOptions::External::kAlways}); },
              ::testing::Throws<Error>(::testing::Property(&Error::message, HasSubstr("is no regular file"))));
  EXPECT_FALSE(fs::exists("/dev/null.data"));
}

}  // namespace
}  // namespace ferry
