// A TorchScript archive: the text of its classes and functions, parsed when first needed, and the objects with their
// weights.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "torch/archive.h"
#include "torch/script/syntax.h"

namespace ferry::torch::script {

class Library {
 public:
  explicit Library(Archive& archive);

  // By their full names, "__torch__.torch.nn.modules.linear.Linear"; null when there is none.
  const Class* FindClass(std::string_view name);
  const Function* FindFunction(std::string_view name);

  int version() const { return version_; }
  const PickleValue& root() const { return objects_.root(); }
  const PickleValue& Constant(size_t index) const;  // CONSTANTS.c0 …
  // The elements of a pickled tensor of the objects, or of the constants; of a quantised one its integers.
  Tensor ReadTensor(const TensorRecipe& recipe, bool is_constant);
  // What the program was traced with, as far as the archive says: the arguments of forward; null when it does not.
  const PickleValue* traced_inputs() const { return traced_ ? FindTraced() : nullptr; }

 private:
  const SourceFile* FindFile(std::string_view module);
  const PickleValue* FindTraced() const;

  Archive& archive_;
  int version_ = 0;
  Pickle objects_;
  std::optional<Pickle> constants_, traced_;
  std::map<std::string, std::unique_ptr<SourceFile>, std::less<>> files_;
};

bool HoldsScript(const Archive& archive);

}  // namespace ferry::torch::script
