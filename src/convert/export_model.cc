#include "convert/export_model.h"

#include "base/error.h"
#include "convert/convert.h"
#include "passes/fold_batch_norm.h"

namespace ferry {

torch::Exported ExportModel(const std::string& path, const torch::ExportOptions& options) {
  torch::Exported exported = torch::ExportFile(path, options);
  if (options.fold) FoldBatchNorm(exported.model.graph, true);
  try {
    exported.model = ConvertOpset(exported.model, options.opset);
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
  return exported;
}

}  // namespace ferry
