#include "engine/precision.h"

#include "base/error.h"
#include "base/text.h"

namespace ferry {

Precision PrecisionNamed(std::string_view name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "tf32") return Precision::kTf32;
  if (name == "fp16") return Precision::kFp16;
  Fail(ErrorCode::kInvalidArgument, "no precision is called '", Printable(name),
       "'; there are float32, bf16, tf32 and fp16");
}

}  // namespace ferry
