// Weights at odd addresses, as they lie in a file, and the copies that can be read.
#include "onnx/aligned.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/mapped_file.h"
#include "tensor/alignment.h"
#include "tests/support/temporary_folder.h"

namespace ferry {
namespace {

// Sizes below and above what gets large pages, one longer than the pieces that are copied at once.
const std::vector<int64_t> kElements = {0, 1, 7, 1024, 300'001, 1'500'000, 64, 40'000};

// Every tensor begins one byte after a place for floats.
size_t NextPlace(size_t at) { return at / 4 * 4 + 5; }

std::string BytesOfTensors() {
  std::string bytes;
  for (size_t i = 0; i < kElements.size(); ++i) {
    bytes.resize(NextPlace(bytes.size()), '!');
    for (int64_t k = 0; k < kElements[i]; ++k) {
      float value = static_cast<float>(k) + static_cast<float>(i) / 16;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return bytes;
}

std::vector<Tensor> TensorsIn(const std::shared_ptr<MappedFile>& file) {
  std::vector<Tensor> tensors;
  size_t at = 0;
  for (int64_t elements : kElements) {
    at = NextPlace(at);
    tensors.push_back(Tensor::Borrow(DType::kFloat, Shape{elements}, file->data() + at, file));
    at += static_cast<size_t>(elements) * sizeof(float);
  }
  EXPECT_EQ(at, file->size());
  return tensors;
}

std::vector<Tensor*> Addresses(std::vector<Tensor>& tensors) {
  std::vector<Tensor*> addresses;
  for (Tensor& tensor : tensors) addresses.push_back(&tensor);
  return addresses;
}

TEST(AlignForUse, CopiesTheSameElementsWithAnyNumberOfThreads) {
  testing::TemporaryFolder folder;
  const std::string path = folder / "weights";
  std::ofstream(path) << BytesOfTensors();
  for (int threads : {1, 2, 5}) {
    auto file = MappedFile::Open(path);
    const std::vector<Tensor> unaligned = TensorsIn(file);
    std::vector<Tensor> tensors = unaligned;
    AlignForUse(Addresses(tensors), threads);
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_FALSE(IsReadable(unaligned[i])) << i;
      EXPECT_TRUE(IsReadable(tensors[i])) << i;
      EXPECT_TRUE(Identical(tensors[i], unaligned[i])) << kElements[i] << " elements, " << threads << " threads";
    }
  }
}

TEST(AlignForUse, LeavesTensorsWhereTheyCanBeRead) {
  std::vector<Tensor> tensors = {Tensor::Zeros(DType::kFloat, {2'000'000}), Tensor::FromVector<std::string>({"a"}),
                                 Tensor::FromVector<uint8_t>({1, 2, 3}).Rows(1, 2), Tensor()};
  const std::vector<Tensor> before = tensors;
  AlignForUse(Addresses(tensors), 2);
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(tensors[i].raw(), before[i].raw()) << i;
}

TEST(AlignForUse, CopiesOutliveTheFileAndEachOther) {
  testing::TemporaryFolder folder;
  const std::string path = folder / "weights";
  std::ofstream(path) << BytesOfTensors();
  auto file = MappedFile::Open(path);
  std::vector<Tensor> tensors = TensorsIn(file);
  AlignForUse(Addresses(tensors), 2);
  Tensor last = tensors.back();
  file.reset();
  tensors.clear();
  for (int64_t i = 0; i < last.size(); ++i)
    ASSERT_EQ(last.Data<float>()[i], static_cast<float>(i) + static_cast<float>(kElements.size() - 1) / 16);
}

}  // namespace
}  // namespace ferry
