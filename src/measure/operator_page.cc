#include "measure/operator_page.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "engine/provider.h"
#include "onnx/schema.h"
#include "ops/operator.h"

namespace ferry {
namespace {

struct TypeGroup {
  const char* name;
  std::vector<const char*> members;
};

// Types that schemas nearly always name together.
const std::vector<TypeGroup>& Groups() {
  static const std::vector<TypeGroup> groups{
      {"floats", {"float16", "bfloat16", "float", "double"}},
      {"ints", {"int8", "int16", "int32", "int64"}},
      {"uints", {"uint8", "uint16", "uint32", "uint64"}},
      {"float8s", {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"}},
      {"complexes", {"complex64", "complex128"}},
  };
  return groups;
}

// "float" for "tensor(float)"; other kinds of types as the schema writes them.
std::string ShortName(std::string_view type) {
  constexpr std::string_view kTensor = "tensor(";
  if (type.substr(0, kTensor.size()) != kTensor) return std::string(type);
  return std::string(type.substr(kTensor.size(), type.size() - kTensor.size() - 1));
}

std::string TypesText(const SchemaTypeSet& types) {
  std::vector<std::string> names, parts;
  for (size_t id = 1; id < SchemaTypeCount(); ++id)
    if (types.Contains(static_cast<SchemaTypeId>(id)))
      names.push_back(ShortName(SchemaTypeName(static_cast<SchemaTypeId>(id))));
  for (const TypeGroup& group : Groups()) {
    auto has = [&](const char* member) { return std::find(names.begin(), names.end(), member) != names.end(); };
    if (!std::all_of(group.members.begin(), group.members.end(), has)) continue;
    parts.push_back(group.name);
    for (const char* member : group.members) std::erase(names, member);
  }
  parts.insert(parts.end(), names.begin(), names.end());
  return Join(parts, " ");
}

std::string ConstraintsText(const Schema& schema) {
  std::vector<std::string> parts;
  for (const SchemaTypeConstraint& constraint : schema.constraints())
    parts.push_back(Cat(constraint.name(), ": ", TypesText(constraint.types())));
  return Join(parts, "; ");
}

constexpr std::string_view kNotes = R"(
### About `com.microsoft`

Operators without a provider have no kernel for a CPU in ONNX Runtime 1.30 either. Most of the others are standard operators in
another dress and become these when a model is prepared; as one step they run where too little is known beforehand.
GreedySearch and Sampling take decoders without an encoder (model_type 0); BeamSearch and WhisperBeamSearch also T5 and Whisper,
but for decoders whose past and present share memory, which ONNX Runtime has on GPUs only.

ONNX Runtime also has operators in the standard's domain that the standard does not have. They run here as well:
SimplifiedLayerNormalization (RMSNormalization), Affine, Crop, DynamicSlice, ImageScaler, ParametricSoftplus, Scale, ScaledTanh,
and MeanVarianceNormalization before opset 9. `ferry check` names them, for the standard knows none of them.

Files that ONNX Runtime optimised at level "all" have operators of `com.microsoft.nchwc`, whose filters lie in blocks of channels.
They run as standard convolutions and pools. The size of a block is not in the file; as in ONNX Runtime it is that of the
processor at hand (16 with AVX-512 and on 64-bit ARM, else 8): optimise at level "extended" for other machines.

Where ONNX Runtime does otherwise than its text says, Ferry does as ONNX Runtime:

- Attention, MultiHeadAttention: a mask adds `mask_filter_value` (−10000) to scores instead of removing them.
- BeamSearch: whether an input's beams can still improve is judged by candidates of the inputs before it.
- GatherBlockQuantized: without zero points, 4-bit types have 0, packed bytes the middle of their range.
- GridSample: `bicubic` with `border` repeats border pixels; the standard's operator moves points onto the border first.
- MaxpoolWithMask: the mask's offset for plane p is p · size modulo its number of planes; the first element of a plane of two or
  three axes is never masked; a masked element ends its row of the window.
- MoE: `gelu` is the approximation by tanh; the weights of chosen experts are those of a softmax over all experts, in QMoE of one
  over the chosen ones, whatever `normalize_routing_weights` says.
- RotaryEmbedding: `scale` and `is_packed_batching` change nothing.
- Sampling: all of `presence_mask` counts against the first word.
- Tokenizer: an empty input gives an empty output without a further axis.
- WhisperBeamSearch: `extra_decoding_ids` change nothing, and there is no `cross_qk`: both are for GPUs.
- WordConvEmbedding: only the first two axes of Sequence count.

And where Ferry does otherwise than ONNX Runtime:

- DynamicQuantizeLSTM: the state between steps is not rounded to bytes.
- GreedySearch: what follows the end of a sequence is `pad_token_id`, also when all sequences end early.
- MatMulNBits: with `accuracy_level` 4 rows become bytes where the processor has VNNI, or AVX2 and weights have 4 bits, and not
  with `--exact`; elsewhere products are those of floats.
- Sampling: the same seed gives other draws, the same on every machine.
)";

void AddOperator(std::string& page, std::span<const Schema> versions) {
  const Schema& newest = versions.back();
  std::vector<std::string> numbers;
  for (const Schema& schema : versions)
    numbers.push_back(Cat(int64_t{schema.since_version}, schema.deprecated ? " (deprecated)" : ""));
  // A deprecated version says no types any more; the one before it does.
  const Schema& described =
      newest.constraints().empty() && versions.size() > 1 ? versions[versions.size() - 2] : newest;
  const Operator* op = FindOperator(newest.domain(), newest.name());
  bool becomes_another = !op && newest.deprecated;
  page += Cat("| ", newest.name(), " | ", Join(numbers, ", "), " | ", ConstraintsText(described), " | ",
              op && op->compute ? CpuProvider().name()
              : becomes_another ? "as its successor"
                                : "—",
              " |\n");
}

}  // namespace

std::string OperatorPage() {
  std::string page =
      "# Operators\n\n"
      "Every operator of the ONNX standard, and of those that ONNX Runtime contributes (`com.microsoft`), that Ferry "
      "knows, with the\nopset versions in which its meaning changed, the types it takes in its newest version, and the "
      "provider that runs it. Nodes of\nolder versions are turned into the newest form at load.\n\n"
      "This page is made by `ferry operators`; a test fails when it is not up to date.\n\n";
  for (const TypeGroup& group : Groups()) page += Cat("- *", group.name, "*: ", Join(group.members, ", "), "\n");
  std::span<const Schema> all = AllSchemas();
  std::string_view domain = "none yet";
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && all[end].name() == all[begin].name() && all[end].domain() == all[begin].domain()) ++end;
    if (all[begin].domain() != domain) {
      domain = all[begin].domain();
      page += Cat("\n## ", domain.empty() ? "ai.onnx" : domain,
                  "\n\n| operator | versions | types | provider |\n|---|---|---|---|\n");
    }
    AddOperator(page, all.subspan(begin, end - begin));
    begin = end;
  }
  page += kNotes;
  return page;
}

}  // namespace ferry
