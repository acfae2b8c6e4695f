#include "tensor/scratch.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ferry {
namespace {

// The same elements, given in pieces of uneven size, in memory and through a file.
TEST(ScratchTensor, HoldsWhatWasAppended) {
  std::vector<float> values(300000);
  std::iota(values.begin(), values.end(), 0.0f);
  for (size_t smallest_file : {size_t{0}, SIZE_MAX}) {
    ScratchTensor scratch(DType::kFloat, {300, 1000}, smallest_file);
    for (size_t begin = 0, step = 1; begin < values.size(); begin += step, step = step * 3 % 70001 + 1)
      scratch.Append(&values[begin], std::min(step, values.size() - begin) * sizeof(float));
    Tensor made = scratch.Finish();
    EXPECT_EQ(made.shape(), Shape({300, 1000}));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), made.Data<float>()));
  }
}

TEST(ScratchTensor, MustBeFull) {
  for (size_t smallest_file : {size_t{0}, SIZE_MAX}) {
    ScratchTensor scratch(DType::kInt64, {2}, smallest_file);
    int64_t one = 1;
    scratch.Append(&one, sizeof one);
    EXPECT_THROW(scratch.Finish(), Error);
  }
}

}  // namespace
}  // namespace ferry
