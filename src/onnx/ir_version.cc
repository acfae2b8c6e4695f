#include "onnx/ir_version.h"

#include <iterator>

#include "graph/model.h"

namespace ferry {
namespace {

// Indexed by opset; from the release table of the ONNX standard.
constexpr int8_t kOnnx[] = {0, 3, 3, 3, 3, 3, 3,  3,  3,  4,  5,  6,  7,  7, 7,
                            8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14};
constexpr int8_t kMl[] = {0, 3, 6, 8, 9, 10};
constexpr int8_t kPreviewTraining[] = {0, 7};

template <size_t N>
int64_t At(const int8_t (&table)[N], int64_t opset) {
  return opset > 0 && opset < static_cast<int64_t>(N) ? table[opset] : 0;
}

}  // namespace

int64_t IrVersionOfOpset(std::string_view domain, int64_t opset) {
  domain = CanonicalDomain(domain);
  if (domain.empty()) return At(kOnnx, opset);
  if (domain == "ai.onnx.ml") return At(kMl, opset);
  if (domain == "ai.onnx.preview.training") return At(kPreviewTraining, opset);
  return 0;
}

}  // namespace ferry
