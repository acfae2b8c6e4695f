#include "base/process.h"

#include <gtest/gtest.h>

#include <vector>

namespace ferry {
namespace {

TEST(Process, ThePeakOfMemoryRisesWithUse) {
  const int64_t before = PeakMemoryKilobytes();
  EXPECT_GT(before, 0);
  // More than was ever in use, whichever tests ran before.
  const std::vector<char> used((static_cast<size_t>(before) + 64 * 1024) * 1024, 1);
  EXPECT_GE(PeakMemoryKilobytes(), before + 32 * 1024) << "pages that were written count: " << int{used.back()};
}

TEST(Process, SaysTheSameEachTime) {
  EXPECT_GT(ProcessNumber(), 0);
  EXPECT_EQ(ProcessNumber(), ProcessNumber());
  EXPECT_FALSE(ProcessorModel().empty());
  EXPECT_EQ(ProcessorModel(), ProcessorModel());
  EXPECT_EQ(BootName(), BootName());
}

}  // namespace
}  // namespace ferry
