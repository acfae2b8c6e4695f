#include "measure/random_input.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/poll.h"
#include "base/run_scope.h"
#include "graph/standard.h"
#include "ops/support/dispatch.h"
#include "ops/support/widen.h"
#include "ops/traits.h"

namespace ferry {
namespace {

// splitmix64: the same numbers on every machine.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float Uniform() { return static_cast<float>(static_cast<double>(Next() >> 11) * 0x1p-52 - 1.0); }
  int64_t Below(int64_t limit) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(limit)); }

 private:
  uint64_t state_;
};

bool PassesIndicesOn(const Node& node) { return TraitsOf(node).moves_elements || IsStandard(node, {"Cast", "Clip"}); }

// For each input that ends up as the indices of a Gather from a weight: how many rows the smallest such weight has.
std::unordered_map<std::string, int64_t> FindIndexLimits(const Graph& graph) {
  std::unordered_map<std::string, std::string> origin;  // value → the input whose elements it holds
  for (const ValueInfo& input : graph.inputs) origin[input.name] = input.name;
  std::unordered_map<std::string, int64_t> limits;
  for (const Node& node : graph.nodes) {
    if (node.HasInput(0) && node.HasOutput(0) && PassesIndicesOn(node)) {
      auto it = origin.find(node.inputs[0]);
      if (it != origin.end()) origin[node.outputs[0]] = it->second;
    }
    bool gathers = node.op_type == "Gather" && node.inputs.size() == 2;
    auto indices = gathers ? origin.find(node.inputs[1]) : origin.end();
    const StoredTensor* table = gathers ? graph.FindInitializer(node.inputs[0]) : nullptr;
    if (indices == origin.end() || !table || table->dims.empty()) continue;
    int64_t axis = node.Int("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(table->dims.size());
    if (axis < 0 || axis >= static_cast<int64_t>(table->dims.size())) continue;
    int64_t rows = std::max<int64_t>(1, table->dims[static_cast<size_t>(axis)]);
    auto [limit, is_new] = limits.emplace(indices->second, rows);
    if (!is_new) limit->second = std::min(limit->second, rows);
  }
  return limits;
}

Tensor MakeTensor(DType dtype, const Shape& shape, int64_t index_limit, Generator& generator) {
  Poll poll;
  if (IsFloating(dtype)) {
    Tensor floats(DType::kFloat, shape);
    float* out = floats.MutableData<float>();
    for (int64_t i = 0; i < floats.size(); ++i, poll()) out[i] = generator.Uniform();
    if (dtype == DType::kDouble) {
      Tensor doubles(dtype, shape);
      std::copy(out, out + floats.size(), doubles.MutableData<double>());
      return doubles;
    }
    return NarrowFromFloat(floats, dtype);
  }
  if (IsPacked(dtype)) return Tensor::Pack(dtype, MakeTensor(DType::kUInt8, shape, 1, generator));
  Tensor tensor = Tensor::Zeros(dtype, shape);
  if (dtype == DType::kString || IsComplex(dtype)) return tensor;
  Dispatch(TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>{}, dtype,
           [&](auto tag) {
             using T = typename decltype(tag)::type;
             T* out = tensor.template MutableData<T>();
             for (int64_t i = 0; i < tensor.size(); ++i, poll())
               out[i] = static_cast<T>(index_limit > 0 ? generator.Below(index_limit) : 1);
           });
  return tensor;
}

Value MakeValue(const ValueInfo& info, const RandomInputOptions& options, int64_t index_limit, Generator& generator,
                std::set<std::string>& used) {
  const Type& type = info.type.kind == Type::Kind::kOptional && info.type.element ? *info.type.element : info.type;
  if (!type.is_tensor() || type.dtype == DType::kUndefined)
    Fail(ErrorCode::kUnsupported, "input '", Printable(info.name), "' is of type ", info.type,
         ", for which no random value can be made");
  Shape shape;
  for (const Dim& dim : type.shape.value_or(SymbolicShape{})) {
    auto given = options.dimensions.find(dim.symbol);
    if (given != options.dimensions.end() && dim.named()) used.insert(dim.symbol);
    bool is_given = given != options.dimensions.end() && dim.named();
    shape.push_back(dim.known() && *dim.value >= 0 ? *dim.value : is_given ? given->second : 1);
  }
  return MakeTensor(type.dtype, shape, index_limit, generator);
}

}  // namespace

std::vector<NamedValue> MakeRandomInputs(const Session& session, const RandomInputOptions& options) {
  const RunScope scope("making inputs", session.options().limits);
  auto limits = FindIndexLimits(session.model().graph);
  Generator generator(options.seed);
  std::set<std::string> used;
  std::vector<NamedValue> inputs;
  for (const ValueInfo& info : session.inputs()) {
    auto limit = limits.find(info.name);
    inputs.emplace_back(info.name,
                        MakeValue(info, options, limit == limits.end() ? 0 : limit->second, generator, used));
  }
  for (const auto& dimension : options.dimensions) {
    if (used.count(dimension.first)) continue;
    std::vector<std::string> names;
    for (const ValueInfo& info : session.inputs())
      for (const Dim& dim : info.type.shape.value_or(SymbolicShape{}))
        if (dim.named() && std::find(names.begin(), names.end(), dim.symbol) == names.end())
          names.push_back(dim.symbol);
    Fail(ErrorCode::kInvalidArgument, "no input has a dimension named '", Printable(dimension.first),
         "'; named are: ", names.empty() ? "none" : Printable(Join(names, ", "), 400));
  }
  return inputs;
}

}  // namespace ferry
