// Packed 8-bit weights in files: every form of them gives the same bits from there, and none is believed when damaged.
#include <sys/stat.h>

#include <fstream>
#include <random>
#include <sstream>

#include "base/directory.h"
#include "engine/session.h"
#include "kernels/int8_gemm.h"
#include "onnx/writer.h"
#include "tests/passes/qdq_graphs.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

using namespace ::ferry::testing;

constexpr int64_t kChannels = 32, kSide = 32;

// 3×3 convolutions of all channels, of groups and of single ones, a pointwise one, and products of both kinds.
void WriteNetwork(const std::string& path, uint32_t seed) {
  QdqBuilder b(seed);
  auto pair = [&](const std::string& value) { return b.Pair(value, 0.05f, DType::kUInt8, 120); };
  auto conv = [&](const std::string& x, int64_t groups, int64_t kernel) {
    const int64_t pad = kernel / 2;
    std::string weight = b.Weight({kChannels, kChannels / groups, kernel, kernel}, 0, true, DType::kInt8, 0.01f);
    return pair(b.Add("Conv", {x, weight},
                      {Attribute("group", groups), Attribute("pads", std::vector<int64_t>{pad, pad, pad, pad})}));
  };
  std::string y = conv(pair("x"), 1, 3);
  y = conv(conv(conv(y, 4, 3), kChannels, 3), 1, 1);
  y = pair(b.Add("MatMul", {y, b.Weight({kSide, 40}, 1, true, DType::kInt8, 0.01f)}));
  b.nodes.push_back(MakeNode("Identity", {y}, {"y"}));
  std::string q = b.Name("q"), scale = b.Name("s"), zero = b.Name("z");
  b.nodes.push_back(MakeNode("DynamicQuantizeLinear", {"x"}, {q, scale, zero}));
  std::string weight = b.Constant(b.random.Numbers<uint8_t>({kSide, 1000}));
  b.nodes.push_back(MakeNode("MatMulInteger", {q, weight, zero}, {"z"}));
  WriteModel(b.Finish({MakeInfo("x", DType::kFloat, {1, kChannels, kSide, kSide})}, {MakeInfo("y"), MakeInfo("z")}),
             path);
}

std::vector<Value> RunNetwork(const std::string& model, const std::string& cache, int threads) {
  Random random(7);
  auto session = Session::Open(model, {.threads = threads, .cache_folder = cache});
  return session->Run(std::vector<NamedValue>{{"x", random.Floats({1, kChannels, kSide, kSide})}});
}

void ExpectSame(const std::vector<Value>& got, const std::vector<Value>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(Identical(got[i].tensor(), expected[i].tensor())) << "output " << i;
}

class QuantizedCache : public ::testing::Test {
 protected:
  QuantizedCache() { WriteNetwork(model_, 1); }

  std::string File() const {
    for (const std::string& name : ListDirectory(cache_))
      if (!name.ends_with(".checked")) return (folder_ / name).string();
    return {};
  }
  static std::string ReadText(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  TemporaryFolder models_, folder_;
  const std::string model_ = (models_ / "m.onnx").string(), cache_ = folder_.path().string();
};

TEST_F(QuantizedCache, AnswersTheSameFromAFile) {
  const std::vector<Value> expected = RunNetwork(model_, "", 1);
  ExpectSame(RunNetwork(model_, "", 3), expected);
  ExpectSame(RunNetwork(model_, cache_, 3), expected);
  const std::string text = ReadText(File());
  for (const char* form : {"8-bit lines of 1 taps in 1 groups", "8-bit lines of 9 taps in 4 groups", "8-bit taps",
                           "8-bit panels ^ 0", "8-bit panels ^ 128"})
    EXPECT_NE(text.find(form), std::string::npos) << form;
  EXPECT_EQ(text.find("8-bit Winograd") != std::string::npos, BestInt8Kernels().multiply_shorts != nullptr);
  struct stat before, after;
  ASSERT_EQ(stat(File().c_str(), &before), 0);
  ExpectSame(RunNetwork(model_, cache_, 1), expected);
  ASSERT_EQ(stat(File().c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "something was packed again";
}

TEST_F(QuantizedCache, PacksAnewWhatIsDamaged) {
  const std::vector<Value> expected = RunNetwork(model_, "", 1);
  RunNetwork(model_, cache_, 1);
  const std::string whole = ReadText(File());
  std::mt19937 random(5);
  for (int i = 0; i < 12; ++i) {
    std::string text = i % 4 == 0 ? whole.substr(0, random() % whole.size()) : whole;
    for (int flips = 0; i % 4 != 0 && flips < 40; ++flips) text[random() % text.size()] ^= 0x10;
    std::ofstream(File(), std::ios::binary | std::ios::trunc) << text;
    ExpectSame(RunNetwork(model_, cache_, 1), expected);
  }
}

TEST_F(QuantizedCache, NoticesAnotherModelAtTheSamePlace) {
  RunNetwork(model_, cache_, 1);
  WriteNetwork(model_, 2);
  ExpectSame(RunNetwork(model_, cache_, 1), RunNetwork(model_, "", 1));
}

}  // namespace
}  // namespace ferry
