#include "torch/script/library.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "torch/script/parser.h"

namespace ferry::torch::script {
namespace {

constexpr int kNewestVersion = 10;

int ReadVersion(Archive& archive) {
  std::string_view text = archive.Read(archive.Has("version") ? "version" : ".data/version").text();
  int version = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc()) Fail(ErrorCode::kInvalidModel, "the archive's version is '", Printable(text, 20), "'");
  if (version < 1 || version > kNewestVersion)
    Fail(ErrorCode::kUnsupported, "the archive is of version ", version, "; versions 1 to ", kNewestVersion,
         " (PyTorch 1.4 to 2.11) can be read");
  return version;
}

// "a.b.C" → {"a.b", "C"}
std::pair<std::string_view, std::string_view> SplitName(std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {{}, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

bool HoldsScript(const Archive& archive) { return archive.Has("data.pkl") && archive.Has("constants.pkl"); }

Library::Library(Archive& archive)
    : archive_(archive), version_(ReadVersion(archive)), objects_(archive.ReadPickle("data.pkl")) {
  if (archive.Has("constants.pkl")) constants_ = archive.ReadPickle("constants.pkl");
  if (!archive.Has("traced_inputs.pkl")) return;
  // They are a convenience: what cannot be read must not stand in the way.
  try {
    traced_ = archive.ReadPickle("traced_inputs.pkl");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
}

const PickleValue* Library::FindTraced() const {
  const PickleValue& root = traced_->root();
  if (!root.is(PickleValue::Kind::kDict)) return nullptr;
  const PickleValue* forward = root.Find("forward");
  return forward && forward->is_sequence() ? forward : nullptr;
}

const SourceFile* Library::FindFile(std::string_view module) {
  auto it = files_.find(module);
  if (it != files_.end()) return it->second.get();
  std::string path = Cat("code/", module);
  std::replace(path.begin(), path.end(), '.', '/');
  path += ".py";
  std::unique_ptr<SourceFile> file;
  if (archive_.Has(path)) file = std::make_unique<SourceFile>(ParseSource(archive_.Read(path).text(), path));
  return files_.emplace(std::string(module), std::move(file)).first->second.get();
}

const Class* Library::FindClass(std::string_view name) {
  auto [module, own] = SplitName(name);
  const SourceFile* file = FindFile(module);
  if (!file) return nullptr;
  for (const auto& found : file->classes)
    if (found->name == own) return found.get();
  return nullptr;
}

const Function* Library::FindFunction(std::string_view name) {
  auto [module, own] = SplitName(name);
  const SourceFile* file = FindFile(module);
  if (!file) return nullptr;
  for (const auto& found : file->functions)
    if (found->name == own) return found.get();
  return nullptr;
}

const PickleValue& Library::Constant(size_t index) const {
  if (!constants_) Fail(ErrorCode::kInvalidModel, "the archive has no constants");
  const std::vector<PickleValue*>& constants = constants_->root().AsSequence();
  if (index >= constants.size())
    Fail(ErrorCode::kInvalidModel, "the code asks for constant ", index, " of ", constants.size());
  return *constants[index];
}

Tensor Library::ReadTensor(const TensorRecipe& recipe, bool is_constant) {
  TensorRecipe integers = recipe;
  integers.quantizer.reset();
  return archive_.MakeTensor(integers, is_constant ? "constants" : "data");
}

}  // namespace ferry::torch::script
