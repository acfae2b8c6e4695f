// Contexts, streams, memory and kept kernels.
#include "tests/cuda/device_test.h"

#include <fstream>
#include <thread>

#include "base/error.h"
#include "gmock/gmock.h"
#include "providers/cuda/compile.h"
#include "tests/support/temporary_folder.h"

namespace ferry::cuda {
namespace {

using ::testing::HasSubstr;

TEST(KeptKernels, AreFoundAgainOnlyForTheSameSourceAndTarget) {
  testing::TemporaryFolder folder;
  const CompileTarget target{9, 0, "13.0", "13.0"};
  const std::string path = CubinPath(folder.path().string(), "source", target);
  EXPECT_FALSE(ReadCubin(path, "source", target));
  WriteCubin(path, "source", target, "machine code");
  EXPECT_EQ(ReadCubin(path, "source", target), "machine code");
  EXPECT_FALSE(ReadCubin(path, "sourcf", target));
  for (const CompileTarget& other : {CompileTarget{8, 0, "13.0", "13.0"}, CompileTarget{9, 0, "12.8", "13.0"},
                                     CompileTarget{9, 0, "13.0", "13.1"}}) {
    EXPECT_NE(CubinPath(folder.path().string(), "source", other), path);
    EXPECT_FALSE(ReadCubin(path, "source", other));
  }
}

TEST(KeptKernels, ThatAreDamagedAreNone) {
  testing::TemporaryFolder folder;
  const CompileTarget target{9, 0, "13.0", "13.0"};
  const std::string path = CubinPath(folder.path().string(), "source", target);
  WriteCubin(path, "source", target, "machine code");
  std::string whole;
  {
    std::ifstream in(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return ReadCubin(path, "source", target);
  };
  ASSERT_TRUE(read(whole));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(read(damaged)) << "byte " << i;
    EXPECT_FALSE(read(whole.substr(0, i))) << "cut at " << i;
  }
  EXPECT_FALSE(read(whole + "x"));
}

TEST(Devices, AskingForOneThatIsNotThereIsAClearError) {
  try {
    Device::Get(63);
    FAIL() << "there are 64 devices";
  } catch (const Error& error) {
    if (!Driver().report.usable())
      EXPECT_THAT(error.message(), HasSubstr("provider cuda cannot be used here: CUDA driver"));
    else
      EXPECT_FALSE(error.message().empty());
  }
}

class DeviceLayer : public DeviceTest {};

TEST_F(DeviceLayer, CopiesThereAndBack) {
  Tensor x = RandomTensor(DType::kFloat, {1000, 7}, 1);
  Tensor there = x.In(device().memory());
  EXPECT_FALSE(there.on_host());
  EXPECT_EQ(device().memory().name(), "cuda:0");
  Tensor other(DType::kFloat, x.shape(), device().memory());
  device().memory().CopyInside(other.address(), there.address(), there.bytes());
  EXPECT_TRUE(Identical(other.In(HostMemory()), x));
}

TEST_F(DeviceLayer, MemoryThatWasFreedIsUsedAgain) {
  DeviceMemory& memory = device().memory();
  const DeviceMemory::Use before = memory.use();
  std::byte* first = memory.Allocate(5 << 20);
  EXPECT_EQ(memory.use().in_use, before.in_use + (6 << 20));
  memory.Free(first, 5 << 20);
  EXPECT_EQ(memory.Allocate(6 << 20), first);
  memory.Free(first, 6 << 20);
  memory.Trim();
  EXPECT_EQ(memory.use().kept, 0u);
  EXPECT_EQ(memory.use().in_use, before.in_use);
}

TEST_F(DeviceLayer, ARefusalNamesSizesAndNothingIsLost) {
  DeviceMemory& memory = device().memory();
  for (size_t bytes : {size_t{1} << 50, SIZE_MAX}) {
    try {
      memory.Allocate(bytes);
      FAIL() << "a petabyte";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kLimit);
      EXPECT_THAT(error.message(), HasSubstr(Cat("no memory for ", bytes, " bytes")));
      EXPECT_THAT(error.message(), HasSubstr("are free"));
    }
  }
  memory.Trim();
  memory.SetLimit(memory.use().in_use + (8 << 20));
  EXPECT_THROW(memory.Allocate(16 << 20), Error);
  std::byte* fits = memory.Allocate(4 << 20);
  memory.Free(fits, 4 << 20);
  memory.SetLimit(0);
  memory.Free(memory.Allocate(16 << 20), 16 << 20);
}

TEST_F(DeviceLayer, EveryThreadHasAStreamOfItsOwn) {
  StreamHandle mine = device().stream(), other = nullptr;
  EXPECT_EQ(device().stream(), mine);
  std::thread([&] { other = device().stream(); }).join();
  EXPECT_NE(other, mine);
  StreamHandle later = nullptr;
  std::thread([&] { later = device().stream(); }).join();
  EXPECT_EQ(later, other);  // of a thread that ended
}

TEST_F(DeviceLayer, StatusesHaveCudasOwnNames) {
  try {
    CheckDriver(device().Use().MemFree(1), "cuMemFree");
    FAIL() << "1 is an address";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("cuMemFree: CUDA_ERROR_INVALID_VALUE"));
  }
}

}  // namespace
}  // namespace ferry::cuda
