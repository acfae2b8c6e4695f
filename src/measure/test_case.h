// ONNX-style test cases: a folder with model.onnx and test_data_set_*/{input,output}_K.pb.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/session.h"
#include "measure/difference.h"

namespace ferry {

struct TestCase {
  std::string name;  // of its folder
  std::string folder;
};

// The case in `folder`, or every case below it, in natural order. Throws when there is none.
std::vector<TestCase> FindTestCases(const std::string& folder);

// Tolerances by case name, from JSON: {"test_abs": {"rtol": 0.001, "atol": 1e-07}, …}.
class CaseTolerances {
 public:
  // As ONNX's own backend tests compare a case that names no tolerance.
  static constexpr Tolerance kUsual{.rtol = 1e-3, .atol = 1e-7};

  void Load(const std::string& path);
  Tolerance For(const std::string& name) const;

 private:
  std::map<std::string, Tolerance, std::less<>> by_name_;
};

struct CaseResult {
  bool passed = false;
  std::string reason;  // why not
};

// Runs every data set of a case. Whatever goes wrong is a failed case with its reason, never an exception.
CaseResult RunTestCase(const TestCase& test_case, Tolerance tolerance, const SessionOptions& options = {});

}  // namespace ferry
