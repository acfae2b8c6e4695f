#include "cli/findings.h"
#include "doctor/doctor.h"

namespace ferry::cli {

// A model that can't be examined still has its page.
void AddFindings(const Model& model, const std::string& path, Comparison& comparison) {
  try {
    comparison.findings = Examine(model, {.path = path, .data = {}, .targets = {}, .only = {}});
  } catch (const Error& error) {
    comparison.notes.push_back(Cat("the doctor could not examine the model: ", error.message()));
  }
}

}  // namespace ferry::cli
