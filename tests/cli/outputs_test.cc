// Every option that writes a file: what is at the path decides how, and nothing that was there is lost.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "tests/cli/run_ferry.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

struct Writing {
  std::string name;
  std::vector<std::string> words;  // the last one is the option; the path follows
};

std::vector<Writing> AllWritings() {
  const std::string model = SimpleNet("torch.onnx"), recorded = SimpleNet("io_1.npz");
  return {
      {"run", {"run", model, "--inputs", recorded, "--outputs"}},
      {"convert", {"convert", model, "--opset", "17", "-o"}},
      {"export", {"export", SimpleNet("model.pt2"), "-o"}},
      {"bench", {"bench", model, "--iters", "1", "--profile"}},
      {"compare", {"compare", model, "--data", recorded, "--html"}},
      {"doctor", {"doctor", model, "--lint", "shape-info", "--fix"}},
      {"tune",
       {"bench", std::string(FERRY_TEST_DATA) + "/torch-models/unet_small/torch.onnx", "--iters", "1", "--tune"}},
  };
}

class OutputsTest : public ::testing::TestWithParam<Writing> {
 protected:
  Said Write(const std::string& path) {
    std::vector<std::string> words = GetParam().words;
    words.push_back(path);
    return Ferry(words);
  }
  std::string folder_ = ScratchFolder();
  std::string path_ = folder_ + "/out";
};

TEST_P(OutputsTest, AReplacedFileKeepsItsMode) {
  WriteText(path_, "");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  Said said = Write(path_);
  EXPECT_EQ(said.status, 0) << said.err;
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_NE(ReadText(path_), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_P(OutputsTest, ALinkStaysALink) {
  WriteText(folder_ + "/target", "");
  fs::create_symlink("target", path_);
  EXPECT_EQ(Write(path_).status, 0);
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_NE(ReadText(folder_ + "/target"), "");
}

TEST_P(OutputsTest, APipeIsWrittenThrough) {
  if (GetParam().name == "tune") GTEST_SKIP() << "a tuning file is read first";
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = ReadText(path_); });
  EXPECT_EQ(Write(path_).status, 0);
  if (!fs::is_fifo(path_)) {  // nobody will ever write to it: let the reader go
    ADD_FAILURE() << "the pipe was replaced";
    reader.detach();
    return;
  }
  reader.join();
  EXPECT_GT(received.size(), 50u);
}

TEST_P(OutputsTest, ADeviceStaysADevice) {
  fs::create_symlink("/dev/null", path_);
  Said said = Write(path_);
  EXPECT_EQ(said.status, GetParam().name == "tune" ? said.status : 0) << said.err;
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(path_));
}

TEST_P(OutputsTest, AFolderIsAnError) {
  if (GetParam().name == "tune") GTEST_SKIP() << "tuning is no reason to fail";
  fs::create_directory(path_);
  Said said = Write(path_);
  EXPECT_EQ(said.status, 3);
  EXPECT_NE(said.err.find("Is a directory"), std::string::npos) << said.err;
}

INSTANTIATE_TEST_SUITE_P(All, OutputsTest, ::testing::ValuesIn(AllWritings()),
                         [](const auto& info) { return info.param.name; });

TEST(OutputLimits, AFileThatGrowsTooLargeIsAnErrorWithAReason) {
  std::string folder = ScratchFolder();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small{200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  Said said =
      Ferry({"run", SimpleNet("torch.onnx"), "--inputs", SimpleNet("io_1.npz"), "--outputs", folder + "/o.npz"});
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(said.status, 3) << said.err;
  EXPECT_NE(said.err.find("File too large"), std::string::npos) << said.err;
  EXPECT_TRUE(fs::is_empty(folder));
}

}  // namespace
}  // namespace ferry
