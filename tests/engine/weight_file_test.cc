// Packed weights in files: found again, shared, and never believed when they are damaged.
#include "engine/weight_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "base/directory.h"
#include "engine/session.h"
#include "onnx/writer.h"
#include "tests/support/graphs.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using ::ferry::testing::MakeInfo;
using ::ferry::testing::MakeModel;
using ::ferry::testing::MakeNode;
using ::ferry::testing::TemporaryFolder;

// The one with the weights; there may be a note beside it.
std::string OnlyFile(const TemporaryFolder& folder) {
  std::vector<std::string> names = ListDirectory(folder.path().string());
  std::erase_if(names, [](const std::string& name) { return name.ends_with(".checked"); });
  EXPECT_EQ(names.size(), 1u);
  return names.empty() ? std::string() : (folder / names[0]).string();
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

Tensor Numbers(int64_t count, float first) {
  Tensor tensor(DType::kFloat, {count});
  for (int64_t i = 0; i < count; ++i) tensor.MutableData<float>()[i] = first + static_cast<float>(i);
  return tensor;
}

bool Same(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST(WeightFile, GivesBackWhatWasWritten) {
  TemporaryFolder folder;
  std::string path = (folder / "w").string();
  Tensor a = Numbers(20000, 1), b = Numbers(7, -3);
  WeightFile::Write(path, "about", {{"a", a}, {"b", b}});
  auto file = WeightFile::Open(path, "about");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->Keys().size(), 2u);
  EXPECT_TRUE(Same(file->Find("a", DType::kFloat, 20000), a));
  EXPECT_TRUE(Same(file->Find("b", DType::kFloat, 7), b));
  EXPECT_FALSE(file->Find("b", DType::kFloat, 8).defined());
  EXPECT_FALSE(file->Find("b", DType::kInt32, 7).defined());
  EXPECT_FALSE(file->Find("c", DType::kFloat, 7).defined());
  EXPECT_FALSE(WeightFile::Open(path, "something else"));
  EXPECT_FALSE(WeightFile::Open((folder / "missing").string(), "about"));
  EXPECT_FALSE(WeightFile::Open(folder.path().string(), "about"));
}

// The file is written in large pieces, whatever its parts are.
TEST(WeightFile, GivesBackPartsOfAnySize) {
  TemporaryFolder folder;
  std::string path = (folder / "w").string();
  const std::vector<int64_t> counts = {3, 1 << 20, 2500000, 1, 1049600, 17};
  std::vector<WeightFile::Part> parts;
  for (int64_t count : counts) parts.push_back({Cat("of ", count), Numbers(count, static_cast<float>(count % 1000))});
  WeightFile::Write(path, "about", parts);
  auto file = WeightFile::Open(path, "about");
  ASSERT_TRUE(file);
  for (const WeightFile::Part& part : parts)
    EXPECT_TRUE(Same(file->Find(part.key, DType::kFloat, part.tensor.size()), part.tensor)) << part.key;
}

// Every bit counts: a damaged file is refused as a whole or in the part that is damaged, never read beyond its end.
TEST(WeightFile, RefusesDamage) {
  TemporaryFolder folder;
  std::string path = (folder / "w").string();
  Tensor a = Numbers(3000, 1), b = Numbers(100, 5);
  WeightFile::Write(path, "about", {{"a", a}, {"b", b}});
  const std::string whole = ReadText(path);
  auto check = [&](const std::string& text) {
    WriteText(path, text);
    auto file = WeightFile::Open(path, "about");
    if (!file) return;
    Tensor found_a = file->Find("a", DType::kFloat, 3000), found_b = file->Find("b", DType::kFloat, 100);
    EXPECT_TRUE(!found_a.defined() || Same(found_a, a));
    EXPECT_TRUE(!found_b.defined() || Same(found_b, b));
  };
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string text = whole;
    size_t at = i < 200 ? static_cast<size_t>(i) : random() % text.size();
    text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
    check(text);
  }
  for (int i = 0; i < 100; ++i) check(whole.substr(0, random() % whole.size()));
  for (size_t size : {size_t{0}, size_t{7}, size_t{23}, size_t{24}, whole.size() - 1}) check(whole.substr(0, size));
}

// The note beside a file saves a look at its checksums; it is worth nothing for another file at the same place.
TEST(WeightFile, NotesAreAboutOneFileOnly) {
  TemporaryFolder folder;
  std::string path = (folder / "w").string();
  Tensor a = Numbers(40000, 1), b = Numbers(20, 1);
  WeightFile::Write(path, "about", {{"a", a}, {"b", b}});
  std::string text = ReadText(path);
  text[text.size() / 2] ^= 1;
  for (int i = 0; i < 2; ++i) {
    WriteText(path, text);
    auto damaged = WeightFile::Open(path, "about");
    ASSERT_TRUE(damaged);
    EXPECT_FALSE(damaged->Find("a", DType::kFloat, 40000).defined());
    EXPECT_TRUE(Same(damaged->Find("b", DType::kFloat, 20), b));
    damaged->Vouch();
  }
  text[text.size() / 2] ^= 1;
  WriteText(path, text);
  for (int i = 0; i < 2; ++i) {
    auto whole = WeightFile::Open(path, "about");
    ASSERT_TRUE(whole);
    for (const std::string& key : whole->Keys()) EXPECT_TRUE(whole->Take(key).defined());
    whole->Vouch();
  }
}

// A product and a convolution over weights of a file that is large enough to be mapped.
constexpr int64_t kSide = 160;

void WriteNetwork(const std::string& path, float first) {
  Tensor weight = Numbers(kSide * kSide, first).Reshaped({kSide, kSide});
  for (int64_t i = 0; i < weight.size(); ++i) weight.MutableData<float>()[i] = first + static_cast<float>(i % 7);
  Tensor filter(DType::kFloat, {16, 16, 3, 3});
  for (int64_t i = 0; i < filter.size(); ++i) filter.MutableData<float>()[i] = first * static_cast<float>(i % 5 - 2);
  WriteModel(MakeModel({MakeInfo("x", DType::kFloat, {4, kSide}), MakeInfo("image", DType::kFloat, {1, 16, 20, 20})},
                       {MakeNode("MatMul", {"x", "w"}, {"y"}), MakeNode("Conv", {"image", "f"}, {"z"})},
                       {MakeInfo("y"), MakeInfo("z")}, {MakeStored("w", weight), MakeStored("f", filter)}),
             path);
}

std::vector<Value> RunNetwork(const std::string& model, const std::string& cache) {
  auto session = Session::Open(model, {.threads = 1, .cache_folder = cache});
  return session->Run(std::vector<NamedValue>{{"x", Numbers(4 * kSide, 0).Reshaped({4, kSide})},
                                              {"image", Numbers(16 * 400, -9).Reshaped({1, 16, 20, 20})}});
}

void ExpectSame(const std::vector<Value>& a, const std::vector<Value>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(Same(a[i].tensor(), b[i].tensor())) << "output " << i;
}

TEST(SessionCache, AnswersTheSameFromAFile) {
  TemporaryFolder models, folder;
  std::string model = (models / "m.onnx").string(), cache = folder.path().string();
  WriteNetwork(model, 1);
  std::vector<Value> expected = RunNetwork(model, "");
  ExpectSame(RunNetwork(model, cache), expected);
  std::string file = OnlyFile(folder);
  struct stat before, after;
  ASSERT_EQ(stat(file.c_str(), &before), 0);
  ExpectSame(RunNetwork(model, cache), expected);
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "nothing new was made, but the file was written again";
}

TEST(SessionCache, NoticesAnotherModelAtTheSamePlace) {
  TemporaryFolder models, folder;
  std::string model = (models / "m.onnx").string(), cache = folder.path().string();
  WriteNetwork(model, 1);
  RunNetwork(model, cache);
  WriteNetwork(model, 2);
  ExpectSame(RunNetwork(model, cache), RunNetwork(model, ""));
  OnlyFile(folder);
}

TEST(SessionCache, PacksAnewWhatIsDamaged) {
  TemporaryFolder models, folder;
  std::string model = (models / "m.onnx").string(), cache = folder.path().string();
  WriteNetwork(model, 1);
  std::vector<Value> expected = RunNetwork(model, "");
  RunNetwork(model, cache);
  std::string file = OnlyFile(folder);
  const std::string whole = ReadText(file);
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    std::string text = i % 3 == 0 ? whole.substr(0, random() % whole.size()) : whole;
    for (int flips = 0; i % 3 != 0 && flips < 20; ++flips) text[random() % text.size()] ^= 0x10;
    WriteText(file, text);
    ExpectSame(RunNetwork(model, cache), expected);
  }
  ExpectSame(RunNetwork(model, cache), expected);
}

TEST(SessionCache, KeepsWeightsOfRecurrentLayers) {
  constexpr int64_t kInputs = 20, kHidden = 16;
  TemporaryFolder models, folder;
  std::string model = (models / "m.onnx").string(), cache = folder.path().string();
  auto weight = [](int64_t depth) {
    Tensor made(DType::kFloat, {2, 4 * kHidden, depth});
    for (int64_t i = 0; i < made.size(); ++i) made.MutableData<float>()[i] = static_cast<float>(i % 11 - 5) / 16;
    return made;
  };
  WriteModel(MakeModel({MakeInfo("x", DType::kFloat, {3, 2, kInputs})},
                       {MakeNode("LSTM", {"x", "w", "r"}, {"y"},
                                 {Attribute("hidden_size", kHidden), Attribute("direction", "bidirectional")})},
                       {MakeInfo("y")}, {MakeStored("w", weight(kInputs)), MakeStored("r", weight(kHidden))}),
             model);
  auto run = [&](const std::string& kept) {
    auto session = Session::Open(model, {.threads = 2, .cache_folder = kept});
    return session->Run(std::vector<NamedValue>{{"x", Numbers(6 * kInputs, -9).Reshaped({3, 2, kInputs})}});
  };
  const std::vector<Value> expected = run("");
  ExpectSame(run(cache), expected);
  EXPECT_NE(ReadText(OnlyFile(folder)).find("panels of directions"), std::string::npos);
  ExpectSame(run(cache), expected);
}

TEST(SessionCache, KeepsWeightsOfTransposedConvolutions) {
  constexpr int64_t kChannels = 20, kFeatures = 12, kSide = 5;
  TemporaryFolder models, folder;
  std::string model = (models / "m.onnx").string(), cache = folder.path().string();
  WriteModel(
      MakeModel({MakeInfo("x", DType::kFloat, {1, kChannels, kSide, kSide})},
                {MakeNode("ConvTranspose", {"x", "w"}, {"y"}, {Attribute("strides", std::vector<int64_t>{2, 2})})},
                {MakeInfo("y")},
                {MakeStored("w", Numbers(kChannels * kFeatures * 9, -7).Reshaped({kChannels, kFeatures, 3, 3}))}),
      model);
  auto run = [&](const std::string& kept) {
    auto session = Session::Open(model, {.threads = 2, .cache_folder = kept});
    Tensor x = Numbers(kChannels * kSide * kSide, -9).Reshaped({1, kChannels, kSide, kSide});
    return session->Run(std::vector<NamedValue>{{"x", x}});
  };
  const std::vector<Value> expected = run("");
  ExpectSame(run(cache), expected);
  EXPECT_NE(ReadText(OnlyFile(folder)).find("phases of 1"), std::string::npos);
  ExpectSame(run(cache), expected);
}

TEST(SessionCache, RefusesWhatIsNoFolder) {
  TemporaryFolder models;
  std::string model = (models / "m.onnx").string();
  WriteNetwork(model, 1);
  EXPECT_THROW(RunNetwork(model, model), Error);
  EXPECT_THROW(RunNetwork(model, (models / "a/b/c").string()), Error);
}

TEST(SessionCache, KeepsWeightsOfModelsInMemory) {
  TemporaryFolder folder;
  auto run = [&](float first, const std::string& cache) {
    Tensor weight = Numbers(kSide * kSide, first).Reshaped({kSide, kSide});
    Model model = MakeModel({MakeInfo("x", DType::kFloat, {4, kSide})}, {MakeNode("MatMul", {"x", "w"}, {"y"})},
                            {MakeInfo("y")}, {MakeStored("w", weight)});
    return Session::FromModel(std::move(model), {.threads = 1, .cache_folder = cache})
        ->Run(std::vector<NamedValue>{{"x", Numbers(4 * kSide, 0).Reshaped({4, kSide})}});
  };
  for (float first : {1.0f, 2.0f, 1.0f}) ExpectSame(run(first, folder.path().string()), run(first, ""));
  OnlyFile(folder);
}

}  // namespace
}  // namespace ferry
