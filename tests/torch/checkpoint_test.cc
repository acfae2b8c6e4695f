#include <gtest/gtest.h>

#include "base/error.h"
#include "base/zip.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/zip_bytes.h"
#include "torch/export.h"
#include "torch/state_dict.h"

namespace ferry::torch {
namespace {

using std::string_literals::operator""s;

class CheckpointTest : public ::testing::Test {
 protected:
  void WriteCheckpoint(const std::string& pickle) {
    ZipWriter zip(path_);
    zip.Add("archive/data.pkl", pickle);
    float elements[] = {1, 2, 3};
    zip.Add("archive/data/0", std::string_view(reinterpret_cast<const char*>(elements), sizeof elements));
    zip.Finish();
  }
  // Empty when the file is read.
  std::string Refusal() {
    try {
      ReadStateDict(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string path_ = ferry::testing::TemporaryPath("checkpoint.pt");
};

// A tensor of PyTorch's as its pickles have it: `count` floats of entry 0.
std::string PickledTensor(char count) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
         "0X\3\0\0\0cpuK\3tQK\0K"s +
         count + "\x85K\1\x85\x89"s + "ccollections\nOrderedDict\n)RtR"s;
}

TEST_F(CheckpointTest, FindsTheWeights) {
  WriteCheckpoint("\x80\2}X\1\0\0\0w"s + PickledTensor(3) + "sX\5\0\0\0epochK\5s."s);
  StateDict weights = ReadStateDict(path_);
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0].first, "w");
  EXPECT_EQ(weights[0].second.Data<float>()[2], 3);
  WriteCheckpoint("\x80\2}(X\4\0\0\0loss"s + PickledTensor(1) + "X\7\0\0\0weights}X\1\0\0\0w"s + PickledTensor(2) +
                  "su."s);
  weights = ReadStateDict(path_);
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0].second.shape(), Shape{2});
}

// The pickle says how many elements a storage has: more is not unfolded.
TEST_F(CheckpointTest, RefusesAStorageThatUnfoldsToMoreThanItHas) {
  const std::string pickle = "\x80\2}X\1\0\0\0w"s + PickledTensor(3) + "s."s;
  for (size_t bytes : {12, 1000}) {
    auto file = std::make_shared<std::string>(
        ferry::testing::MakeZip({{"archive/data.pkl", pickle}, {"archive/data/0", std::string(bytes, '\0'), true}}));
    try {
      ReadStateDict(SharedBytes{{reinterpret_cast<const std::byte*>(file->data()), file->size()}, file});
      EXPECT_EQ(bytes, 12u) << "it was unfolded";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("would unfold to 1000 bytes"), std::string::npos) << error.message();
    }
  }
}

TEST_F(CheckpointTest, RefusesOtherPickles) {
  WriteCheckpoint("\x80\2}X\5\0\0\0epochK\5s."s);
  EXPECT_NE(Refusal().find("state_dict()"), std::string::npos);
  WriteCheckpoint("\x80\2K\5."s);
  EXPECT_NE(Refusal().find("state_dict()"), std::string::npos);
  WriteCheckpoint("\x80\2}X\1\0\0\0w"s + PickledTensor(9) + "s."s);
  EXPECT_NE(Refusal().find("'w'"), std::string::npos);
  WriteCheckpoint("\x80\2cos\nsystem\nX\4\0\0\0true\x85R."s);
  EXPECT_NE(Refusal(), "");
  WriteCheckpoint("\x80\2}K\1"s + PickledTensor(3) + "s."s);
  EXPECT_NE(Refusal(), "");
  WriteCheckpoint("\x80\2}(X\1\0\0\0a}X\1\0\0\0w"s + PickledTensor(2) + "sX\1\0\0\0b}X\1\0\0\0w"s + PickledTensor(2) +
                  "su."s);
  EXPECT_NE(Refusal().find("several"), std::string::npos);
}

TEST_F(CheckpointTest, QuantisedWeightsAreNoNumbers) {
  WriteCheckpoint(
      "\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_qtensor\n((X\7\0\0\0storagectorch\nQInt8Storage\nX\1\0\0\0"
      "0X\3\0\0\0cpuK\3tQK\0K\3\x85K\1\x85(ctorch\nper_tensor_affine\nG?\xe0\0\0\0\0\0\0K\0t\x89"
      "ccollections\nOrderedDict\n)RtRs."s);
  EXPECT_NE(Refusal().find("quantised"), std::string::npos) << Refusal();
}

// The most common first try: what torch.save wrote has no program.
TEST_F(CheckpointTest, AnExportSaysWhatTheFileIs) {
  auto refusal = [&](const std::string& pickle) -> std::string {
    WriteCheckpoint(pickle);
    try {
      ExportFile(path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  std::string weights = refusal("\x80\2}X\1\0\0\0w"s + PickledTensor(3) + "s."s);
  EXPECT_NE(weights.find("weights without a program"), std::string::npos) << weights;
  EXPECT_NE(weights.find("\nSave the program in Python: torch.export.save("), std::string::npos);
  std::string module = refusal("\x80\2c__main__\nNet\n)\x81}b."s);
  EXPECT_NE(module.find("a pickled module (torch.save(model))"), std::string::npos) << module;
}

}  // namespace
}  // namespace ferry::torch
