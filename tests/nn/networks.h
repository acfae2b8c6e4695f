// What the tests of ferry::nn share: inputs, comparisons, and files that vanish.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "ferry/nn.hpp"
#include "recorded.h"
#include "tests/support/temporary_folder.h"

namespace nn = ferry::nn;

// Eighths between -6 and 6, in an order that no layer can take for a constant.
inline nn::Tensor Ramp(const nn::Shape& shape) {
  std::vector<float> elements(static_cast<size_t>(nn::Tensor::zeros(shape).numel()));
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 8;
  return nn::Tensor::of<float>(shape, elements);
}

inline void ExpectClose(std::span<const float> actual, std::span<const float> expected, double tolerance = 2e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
}
inline void ExpectRecorded(const nn::Tensor& actual, const std::string& name) {
  SCOPED_TRACE(name);
  ExpectClose(actual.data<float>(), AllRecorded().at(name));
}

// Files that are written by the hundred are quicker in memory.
inline std::filesystem::path QuickPlace() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

// A name for a file, which goes with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name) {
    static const ferry::testing::TemporaryFolder folder(QuickPlace());
    path_ = (folder / name).string();
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Keeps warnings instead of printing them.
class WarningLog {
 public:
  WarningLog() {
    before_ = nn::set_warning_handler([this](const std::string& text) { texts.push_back(text); });
  }
  ~WarningLog() { nn::set_warning_handler(before_); }
  bool Has(const std::string& part) const {
    for (const std::string& text : texts)
      if (text.find(part) != std::string::npos) return true;
    return false;
  }
  std::vector<std::string> texts;

 private:
  nn::WarningHandler before_;
};

// The message of the error that `action` ends with; "" when it ends well.
template <class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const ferry::Error& error) {
    return error.what();
  }
  return "";
}

inline void ExpectValid(const std::string& path) {
  ferry::Report report = ferry::Check(path);
  EXPECT_TRUE(report.valid) << (report.problems.empty() ? "" : report.problems[0]);
}
