#include "server/batch_cost.h"

#include <gtest/gtest.h>

namespace ferry::server {
namespace {

void Measure(BatchCost& cost, int64_t rows, double us) {
  for (int i = 0; i < 4; ++i) cost.Note(rows, us);
}

TEST(BatchCost, NothingIsJoinedBeforeARowIsKnown) {
  BatchCost cost;
  EXPECT_EQ(cost.Choose(64, 32, 2, false), 1);
  EXPECT_EQ(cost.Choose(64, 32, 2, true), 32);  // unless it was asked for
  EXPECT_EQ(cost.Choose(1, 32, 2, true), 1);
}

TEST(BatchCost, SizesAreTriedByDoublingWhileThatGains) {
  BatchCost cost;
  Measure(cost, 1, 100);
  EXPECT_EQ(cost.Choose(64, 32, 1, false), 2);
  Measure(cost, 2, 120);
  EXPECT_EQ(cost.Choose(64, 32, 1, false), 4);
  Measure(cost, 4, 160);
  EXPECT_EQ(cost.Choose(6, 32, 1, false), 4);
  EXPECT_EQ(cost.Choose(64, 32, 1, false), 8);
}

TEST(BatchCost, WhatGainsNothingIsNotTriedFurther) {
  BatchCost cost;
  Measure(cost, 1, 100);
  Measure(cost, 2, 198);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(cost.Choose(64, 32, 2, false), 1);
}

TEST(BatchCost, ASmallGainDoesNotMakeOthersWait) {
  BatchCost cost;
  Measure(cost, 1, 8000);
  Measure(cost, 2, 15'000);
  Measure(cost, 4, 29'000);
  Measure(cost, 8, 57'000);
  Measure(cost, 16, 113'000);
  Measure(cost, 32, 225'000);  // 12 % less a row, but a run of a quarter of a second
  EXPECT_LE(cost.Choose(8, 32, 2, false), 2);
  EXPECT_LE(cost.Choose(64, 32, 2, false), 4);
}

TEST(BatchCost, LongRunsOfANewSizeAreForManyWhoWait) {
  BatchCost cost;
  Measure(cost, 1, 4000);
  EXPECT_EQ(cost.Choose(3, 32, 2, false), 1);
  EXPECT_EQ(cost.Choose(4, 32, 2, false), 2);
  Measure(cost, 2, 5000);
  EXPECT_EQ(cost.Choose(4, 32, 1, false), 2);
  EXPECT_EQ(cost.Choose(8, 32, 1, false), 4);
}

TEST(BatchCost, ALargeGainFillsBatches) {
  BatchCost cost;
  for (int64_t rows = 1; rows <= 32; rows *= 2) Measure(cost, rows, 500 + 10 * static_cast<double>(rows));
  EXPECT_EQ(cost.Choose(64, 32, 2, false), 32);
  EXPECT_EQ(cost.Choose(64, 24, 2, false), 24);
  EXPECT_EQ(cost.Choose(9, 32, 2, false), 8);
}

TEST(BatchCost, RequestsOfSeveralRowsAreDoubled) {
  BatchCost cost;
  EXPECT_EQ(cost.Choose(12, 32, 1, false, 3), 3);
  Measure(cost, 3, 100);
  EXPECT_EQ(cost.Choose(12, 32, 1, false, 3), 6);
  EXPECT_EQ(cost.Choose(5, 32, 1, false, 3), 6);  // 3 and 2
  EXPECT_EQ(cost.Choose(3, 32, 1, false, 3), 3);
  EXPECT_EQ(cost.Choose(40, 4, 1, false, 3), 4);
  EXPECT_EQ(cost.Choose(64, 32, 1, false, 33), 33);
  Measure(cost, 6, 120);
  EXPECT_EQ(cost.Choose(12, 32, 1, false, 3), 12);
}

TEST(BatchCost, RunsWithMoreThreadsCountOnlyUntilOthersAreKnown) {
  BatchCost cost;
  cost.NoteShared(1, 50);
  EXPECT_EQ(cost.OfOne(), 50);
  cost.Note(1, 90);
  EXPECT_EQ(cost.OfOne(), 90);
  cost.NoteShared(1, 50);
  EXPECT_EQ(cost.OfOne(), 90);
}

}  // namespace
}  // namespace ferry::server
