#include "engine/precision.h"

#include "base/error.h"
#include "base/text.h"

namespace ferry {

Precision PrecisionNamed(std::string_view name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "bf16") return Precision::kBf16;
  Fail(ErrorCode::kInvalidArgument, "no precision is called '", Printable(name), "'; there are float32 and bf16");
}

}  // namespace ferry
