// Small models under the doctor's eyes, in a line or two.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "doctor/doctor.h"
#include "doctor/lint.h"
#include "tests/support/graphs.h"

namespace ferry::testing {

inline StoredTensor Floats(std::string name, std::vector<float> values, Shape shape) {
  return MakeStored(std::move(name), Tensor::FromVector(values, std::move(shape)));
}
inline StoredTensor Floats(std::string name, std::vector<float> values) {
  Shape shape{static_cast<int64_t>(values.size())};
  return Floats(std::move(name), std::move(values), std::move(shape));
}
inline StoredTensor Filled(std::string name, Shape shape, float value = 0.5f) {
  return Floats(std::move(name), std::vector<float>(static_cast<size_t>(shape.ElementCount()), value), shape);
}
inline StoredTensor Ints(std::string name, std::vector<int64_t> values) {
  return MakeStored(std::move(name), Tensor::FromVector(values));
}

inline std::vector<Finding> Apply(std::string lint, const Model& model, DoctorOptions options = {}) {
  options.only = {std::move(lint)};
  return Examine(model, options);
}

inline std::string Listing(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += ToText(finding) + "\n";
  return text;
}

// Mends with one lint and expects that it was done and proved.
inline Model MendedBy(std::string lint, const Model& model, DoctorOptions options = {}) {
  options.only = {lint};
  MendedModel mended = Mend(model, options);
  EXPECT_EQ(mended.mendings.size(), 1u);
  for (const Mending& mending : mended.mendings) {
    EXPECT_TRUE(mending.applied) << ::testing::PrintToString(mending.refusals);
    EXPECT_FALSE(mending.changes.empty());
    EXPECT_FALSE(mending.proof.empty());
  }
  EXPECT_TRUE(Apply(lint, mended.model, options).empty()) << Listing(Apply(lint, mended.model, options));
  return mended.model;
}

}  // namespace ferry::testing
