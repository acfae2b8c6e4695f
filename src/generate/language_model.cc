#include "generate/language_model.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "generate/append_in_place.h"
#include "onnx/reader.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

struct RoleNames {
  const char* role;
  std::vector<const char*> names;  // as exporters write them
};

const std::vector<RoleNames>& UsualNames() {
  static const std::vector<RoleNames> names = {
      {"input_ids", {"input_ids", "ids", "tokens", "input"}},
      {"attention_mask", {"attention_mask", "mask"}},
      {"position_ids", {"position_ids", "positions"}},
      {"use_cache_branch", {"use_cache_branch"}},
      {"past_length", {"past_seq_len", "past_sequence_length"}},
      {"total_length", {"total_seq_len", "total_sequence_length"}},
      {"num_logits_to_keep", {"num_logits_to_keep", "logits_to_keep"}},
  };
  return names;
}

const ValueInfo* FindIn(const std::vector<ValueInfo>& infos, const std::string& name) {
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const ValueInfo& info) { return info.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

bool IsWholeNumber(const ValueInfo& info) {
  return info.type.is_tensor() && (info.type.dtype == DType::kInt64 || info.type.dtype == DType::kInt32);
}

// What follows the first of the prefixes that the name begins with.
std::optional<std::string> After(const std::string& name, std::initializer_list<std::string_view> prefixes) {
  for (std::string_view prefix : prefixes)
    if (name.compare(0, prefix.size(), prefix) == 0) return name.substr(prefix.size());
  return std::nullopt;
}

// An int64 or int32 tensor, as the model wants it.
Tensor WholeNumbers(const ValueInfo& info, const std::vector<int64_t>& values, Shape shape) {
  if (info.type.dtype == DType::kInt64) return Tensor::FromVector(values, std::move(shape));
  return Tensor::FromVector(std::vector<int32_t>(values.begin(), values.end()), std::move(shape));
}

Shape ScalarShape(const ValueInfo& info) {
  const size_t rank = info.type.shape ? info.type.shape->size() : 0;
  return Shape(std::vector<int64_t>(rank, 1));
}

}  // namespace

LanguageModel::LanguageModel(const std::string& path, SessionOptions options, const LanguageModelNames& names) {
  Model model;
  try {
    model = ReadModel(path);
    Understand(model, names);
  } catch (Error& error) {
    throw error.At(path);
  }
  options.open_axes = OpenAxes();
  session_ = appends_in_place_ ? Session::FromModel(std::move(model), options) : Session::Open(path, options);
}

LanguageModel::LanguageModel(Model model, SessionOptions options, const LanguageModelNames& names) {
  Understand(model, names);
  options.open_axes = OpenAxes();
  session_ = Session::FromModel(std::move(model), options);
}

void LanguageModel::Understand(Model& model, const LanguageModelNames& names) {
  FindRoles(model, names);
  FindCaches(model, names);
  RequireNoOthers(model);
  FindWindow(model);
  FindStep();
  FindSharing(model);
  TurnCaches(model);
}

const std::string& LanguageModel::Role(const std::string& role) const {
  static const std::string none;
  const auto found = roles_.find(role);
  return found == roles_.end() ? none : found->second.name;
}

void LanguageModel::FindRoles(const Model& model, const LanguageModelNames& names) {
  for (const auto& [role, name] : names.roles) {
    const ValueInfo* info = FindIn(role == "logits" ? model.graph.outputs : model.graph.inputs, name);
    if (!info)
      Fail(ErrorCode::kInvalidArgument, "the model has no ", role == "logits" ? "output" : "input", " '",
           Printable(name), "' for ", Printable(role));
    const bool known =
        role == "logits" || std::any_of(UsualNames().begin(), UsualNames().end(),
                                        [&role = role](const RoleNames& each) { return role == each.role; });
    Require(known, "'", Printable(role),
            "' is nothing that a decoder has: it has input_ids, attention_mask, position_ids, use_cache_branch, "
            "past_length, total_length, num_logits_to_keep and logits");
    roles_[role] = *info;
  }
  for (const auto& [role, name] : names.hinted_roles)
    if (const ValueInfo* info = FindIn(role == "logits" ? model.graph.outputs : model.graph.inputs, name);
        info && !roles_.count(role))
      roles_[role] = *info;
  for (const RoleNames& usual : UsualNames())
    for (const char* name : usual.names)
      if (const ValueInfo* info = FindIn(model.graph.inputs, name); info && !roles_.count(usual.role))
        roles_[usual.role] = *info;
  for (const char* name : {"logits", "lm_logits", "output", "scores"})
    if (const ValueInfo* info = FindIn(model.graph.outputs, name); info && !roles_.count("logits"))
      roles_["logits"] = *info;
  for (const char* role : {"input_ids", "logits"})
    if (!roles_.count(role))
      Fail(ErrorCode::kUnsupported, "the model has no ", role[0] == 'l' ? "output" : "input", " that is called ", role,
           ": is it a language model? Another name can be said with --name ", role, "=NAME");
  for (const auto& [role, info] : roles_)
    if (role != "logits" && role != "use_cache_branch" && !IsWholeNumber(info))
      Fail(ErrorCode::kUnsupported, role, " ('", Printable(info.name), "') is ", info.type, ", not whole numbers");
}

// The pairs of a pattern, layer by layer; a model may have layers without a cache among them.
static void AddHinted(const Graph& graph, const std::string& past, const std::string& present,
                      std::vector<std::pair<std::string, std::string>>& pairs) {
  const auto of_layer = [](std::string name, size_t layer) {
    const size_t place = name.find("%d");
    return place == std::string::npos ? name : name.replace(place, 2, std::to_string(layer));
  };
  for (size_t layer = 0; layer < graph.inputs.size(); ++layer) {
    const std::string in = of_layer(past, layer), out = of_layer(present, layer);
    if (FindIn(graph.inputs, in) && FindIn(graph.outputs, out)) pairs.emplace_back(in, out);
    if (in == past) break;
  }
}

void LanguageModel::FindCaches(const Model& model, const LanguageModelNames& names) {
  std::vector<std::pair<std::string, std::string>> pairs = names.caches;
  std::map<std::string, std::string> presents;
  std::set<std::string> known;
  if (names.caches.empty())
    for (const auto& [past, present] : names.hinted_caches) AddHinted(model.graph, past, present, pairs);
  for (const auto& [past, present] : pairs) known.insert(past);
  for (const ValueInfo& output : model.graph.outputs)
    if (const auto tail = After(output.name, {"present_key_values", "present", "updated"}))
      presents[*tail] = output.name;
  for (size_t i = 0; i < model.graph.inputs.size() && names.caches.empty(); ++i) {
    const std::string& name = model.graph.inputs[i].name;
    const auto tail = After(name, {"past_key_values", "past"});
    if (!tail || known.count(name) || name == Role("past_length")) continue;
    const auto present = presents.find(*tail);
    if (present == presents.end())
      Fail(ErrorCode::kUnsupported, "the cache input '", Printable(name),
           "' has no output that goes with it (present…); pairs can be said with --past PAST=PRESENT");
    pairs.emplace_back(name, present->second);
  }
  std::set<std::string> pasts, made;
  for (const auto& [past, present] : pairs) {
    const bool is_alone = pasts.insert(past).second && made.insert(present).second;
    Require(is_alone, "the pair of the cache '", Printable(past), "' and '", Printable(present),
            "' repeats a name of another pair");
    AddCache(model, past, present);
  }
}

void LanguageModel::AddCache(const Model& model, const std::string& past, const std::string& present) {
  const ValueInfo *input = FindIn(model.graph.inputs, past), *output = FindIn(model.graph.outputs, present);
  if (!input || !output)
    Fail(ErrorCode::kInvalidArgument, "the model has no ", input ? "output '" : "input '",
         Printable(input ? present : past), "' for a cache");
  if (!input->type.is_tensor() || !input->type.shape)
    Fail(ErrorCode::kUnsupported, "the model does not say the shape of the cache '", Printable(past), "'");
  Cache cache{past, present, input->type.dtype, *input->type.shape, std::nullopt};
  const size_t batch = cache.shape.size() == 5 ? 1 : 0;  // GPT-2 has keys and values in one, [2, batch, …]
  for (size_t axis = 0; axis < cache.shape.size(); ++axis) {
    if (axis == batch || cache.shape[axis].known()) continue;
    if (cache.growing)
      Fail(ErrorCode::kUnsupported, "the cache '", Printable(past), "' is ", input->type,
           ": only the sizes of its batch and of its tokens may be open");
    cache.growing = axis;
  }
  caches_.push_back(std::move(cache));
}

void LanguageModel::RequireNoOthers(const Model& model) const {
  std::set<std::string> known;
  for (const auto& [role, info] : roles_) known.insert(info.name);
  for (const Cache& cache : caches_) known.insert(cache.past);
  for (const StoredTensor& tensor : model.graph.initializers) known.insert(tensor.name);
  for (const ValueInfo& input : model.graph.inputs)
    if (!known.count(input.name))
      Fail(ErrorCode::kUnsupported, "the model has an input '", Printable(input.name), "' (", input.type,
           "), which no decoder of Ferry's has; see docs/generate.md for the inputs it knows");
}

// Tables of positions are as long as the text may be: learned ones, and the cosines of rotary embeddings. Those of a
// merged model lie in its branches, or are used there.
void LanguageModel::FindWindow(const Model& model) {
  std::map<std::string, int64_t> rows;
  ForEachGraph(model.graph, [&](const Graph& graph) {
    for (const StoredTensor& tensor : graph.initializers)
      if (tensor.dims.size() >= 2) rows.emplace(tensor.name, tensor.dims[0]);
  });
  auto take = [&](const std::string& name) {
    if (const auto found = rows.find(name); found != rows.end())
      window_ = std::min(window_.value_or(found->second), found->second);
  };
  ForEachGraph(model.graph, [&](const Graph& graph) {
    for (const Node& node : graph.nodes) {
      const bool is_table = node.op_type == "Gather" && node.inputs.size() == 2 && !Role("position_ids").empty() &&
                            node.inputs[1] == Role("position_ids");
      if (is_table) take(node.inputs[0]);
      if (node.op_type == "GroupQueryAttention" && node.inputs.size() > 7 && !node.inputs[7].empty())
        take(node.inputs[7]);
      if (node.op_type == "RotaryEmbedding" && node.domain == "com.microsoft" && node.inputs.size() > 2)
        take(node.inputs[2]);
    }
  });
  for (const Cache& cache : caches_)
    if (!cache.growing && cache.shape.size() == 4 && cache.shape[2].known())
      window_ = std::min(window_.value_or(*cache.shape[2].value), *cache.shape[2].value);
}

// A model scores every token it reads: long prompts go in parts, so that their scores take no gigabytes. A merged model
// reads its prompt in one step, for the branch with a cache may take one token only; and so may a whole model.
void LanguageModel::FindStep() {
  constexpr size_t kAtOnce = 512;
  at_once_ = kAtOnce;
  const auto keeps = roles_.find("num_logits_to_keep");
  if (keeps != roles_.end() || roles_.count("use_cache_branch")) at_once_ = size_t{1} << 31;
  const auto& ids = roles_.at("input_ids").type.shape;
  if (ids && ids->size() == 2 && (*ids)[1].known() && *(*ids)[1].value == 1) at_once_ = 1;
}

// A cache that GroupQueryAttention alone reads and writes may be one memory of full length from the first token on.
void LanguageModel::FindSharing(const Model& model) {
  std::map<std::string, std::string> present_of;
  std::map<std::string, int> readers;
  for (const Node& node : model.graph.nodes) {
    for (const std::string& input : node.inputs) ++readers[input];
    if (node.op_type != "GroupQueryAttention" || node.domain != "com.microsoft") continue;
    if (node.inputs.size() < 5 || node.outputs.size() < 3 || node.Int("sliding_window_cache", 0) != 0) continue;
    present_of[node.inputs[3]] = node.outputs[1];
    present_of[node.inputs[4]] = node.outputs[2];
  }
  shares_cache_ = !caches_.empty() && std::all_of(caches_.begin(), caches_.end(), [&](const Cache& cache) {
    const auto found = present_of.find(cache.past);
    return found != present_of.end() && found->second == cache.present && readers[cache.past] == 1;
  });
  counts_mask_ = shares_cache_ && CountsMask(model);
}

// A cache that the graph appends to grows where it is, if tokens come first in it.
void LanguageModel::TurnCaches(Model& model) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Cache& cache : caches_) {
    if (cache.shape.size() != 4 || cache.growing != size_t{2} || cache.dtype != DType::kFloat) return;
    if (cache.shape[0].known() && *cache.shape[0].value != 1) return;
    pairs.emplace_back(cache.past, cache.present);
  }
  if (shares_cache_ || pairs.empty() || !PutTokensFirst(model.graph, pairs)) return;
  appends_in_place_ = true;
  for (Cache& cache : caches_) {
    std::swap(cache.shape[1], cache.shape[2]);
    cache.growing = 1;
  }
}

// Whether zeros behind a mask's ones change nothing but its size: then it is as long as the shared cache, and all sizes
// of a step are the same as those of the step before.
bool LanguageModel::CountsMask(const Model& model) const {
  const std::string& mask = Role("attention_mask");
  std::set<std::string> same = {mask};
  if (mask.empty()) return false;
  for (const Node& node : model.graph.nodes)
    for (const std::string& input : node.inputs) {
      if (!same.count(input)) continue;
      if (node.op_type == "Cast" && !node.outputs.empty())
        same.insert(node.outputs[0]);
      else if (node.op_type != "ReduceSum" && node.op_type != "Shape")
        return false;
    }
  return true;
}

std::map<std::string, std::vector<size_t>> LanguageModel::OpenAxes() const {
  std::map<std::string, std::vector<size_t>> open;
  if (caches_.empty()) return open;
  for (const Cache& cache : caches_)
    if (cache.growing && !shares_cache_) open[cache.past] = {*cache.growing};
  const auto mask = roles_.find("attention_mask");
  if (!counts_mask_ && mask != roles_.end() && mask->second.type.shape && mask->second.type.shape->size() == 2)
    open[mask->second.name] = {1};
  return open;
}

Decoding::Decoding(const LanguageModel& model, int64_t most)
    : model_(model), most_(most), appends_(model.appends_in_place_) {
  if (!model_.shares_cache_ && !appends_) MakeCaches(0);
}

void Decoding::MakeCaches(int64_t rows) {
  for (const LanguageModel::Cache& cache : model_.caches_) {
    std::vector<int64_t> dims;
    for (size_t axis = 0; axis < cache.shape.size(); ++axis)
      dims.push_back(cache.shape[axis].known() ? *cache.shape[axis].value : cache.growing != axis ? 1 : rows);
    caches_.push_back(Tensor::Zeros(cache.dtype, Shape(dims)));
  }
}

void Decoding::Reserve(int64_t rows) {
  if (rows <= room_) return;
  constexpr int64_t kLeast = 256;
  room_ = std::min(most_, std::max({rows, 2 * room_, kLeast}));
  const std::vector<Tensor> before = std::exchange(caches_, {});
  MakeCaches(room_);
  for (size_t i = 0; i < before.size(); ++i) {
    const std::optional<size_t> axis = model_.caches_[i].growing;
    if (!axis) {
      caches_[i] = before[i];
      continue;
    }
    int64_t parts = 1;
    for (size_t d = 0; d < *axis; ++d) parts *= before[i].dim(d);
    const size_t bytes = before[i].bytes() / static_cast<size_t>(parts);
    const size_t stride = caches_[i].bytes() / static_cast<size_t>(parts);
    Require(bytes <= stride && before[i].dtype() == caches_[i].dtype(), "the cache '",
            Printable(model_.caches_[i].present), "' grows by more than what is read: it is ", before[i].dtype(),
            before[i].shape());
    for (int64_t part = 0; part < parts; ++part)
      std::memcpy(caches_[i].mutable_raw() + static_cast<size_t>(part) * stride,
                  before[i].raw() + static_cast<size_t>(part) * bytes, bytes);
  }
}

std::vector<float> Decoding::Read(std::span<const TokenId> ids, const std::atomic<bool>* cancelled) {
  Require(!ids.empty(), "there is no token to read");
  Require(static_cast<int64_t>(ids.size()) <= most_ - length_, "the text has no room for ", ids.size(), " tokens more");
  if (!model_.has_cache()) {
    all_.insert(all_.end(), ids.begin(), ids.end());
    return Step(all_, cancelled);
  }
  while (ids.size() > model_.at_once_) {
    Step(ids.first(model_.at_once_), cancelled);
    ids = ids.subspan(model_.at_once_);
  }
  return Step(ids, cancelled);
}

void Decoding::AddInputs(std::span<const TokenId> ids, std::vector<NamedValue>& inputs) const {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t before = model_.has_cache() ? length_ : 0, total = before + count;
  const auto& roles = model_.roles_;
  auto add = [&](const char* role, const auto& make) {
    const auto found = roles.find(role);
    if (found != roles.end()) inputs.emplace_back(found->second.name, make(found->second));
  };
  add("input_ids", [&](const ValueInfo& info) {
    return WholeNumbers(info, std::vector<int64_t>(ids.begin(), ids.end()), Shape{1, count});
  });
  add("attention_mask", [&](const ValueInfo& info) {
    std::vector<int64_t> mask(static_cast<size_t>(total), 1);
    if (model_.counts_mask_) mask.resize(static_cast<size_t>(room_), 0);
    const auto size = static_cast<int64_t>(mask.size());
    return WholeNumbers(info, mask, Shape{1, size});
  });
  add("position_ids", [&](const ValueInfo& info) {
    std::vector<int64_t> positions;
    for (int64_t i = before; i < total; ++i) positions.push_back(i);
    const size_t rank = info.type.shape ? info.type.shape->size() : 2;
    if (rank == 3) {  // in time, height and width, which are the same for text
      const std::vector<int64_t> once = positions;
      for (int i = 1; i < 3; ++i) positions.insert(positions.end(), once.begin(), once.end());
      return WholeNumbers(info, positions, Shape{3, 1, count});
    }
    return WholeNumbers(info, positions, rank == 1 ? Shape{count} : Shape{1, count});
  });
  add("use_cache_branch", [&](const ValueInfo&) {
    Tensor flag(DType::kBool, Shape{1});
    *flag.MutableData<bool>() = before > 0;
    return flag;
  });
  add("past_length", [&](const ValueInfo& info) { return WholeNumbers(info, {total - 1}, ScalarShape(info)); });
  add("total_length", [&](const ValueInfo& info) { return WholeNumbers(info, {total}, ScalarShape(info)); });
  add("num_logits_to_keep", [&](const ValueInfo& info) { return WholeNumbers(info, {1}, ScalarShape(info)); });
}

Tensor Decoding::Tokens(size_t cache, int64_t count) const {
  const Tensor& all = caches_[cache];
  Shape shape = all.shape();
  Tensor tokens = all.Reshaped(Shape{shape[1], shape[2], shape[3]}).Rows(0, count);
  shape[1] = count;
  return tokens.Reshaped(shape);
}

void Decoding::KeepCaches(const std::vector<Value>& results, int64_t total) {
  auto fits = [&](size_t i) {
    const Tensor &present = results[i + 1].tensor(), home = Tokens(i, total);
    return present.dtype() == home.dtype() && present.shape() == home.shape();
  };
  for (size_t i = 0; i < caches_.size() && appends_; ++i) appends_ = fits(i);
  for (size_t i = 0; i < caches_.size(); ++i) {
    const Tensor& present = results[i + 1].tensor();
    if (!appends_)
      caches_[i] = present;
    else if (present.address() != caches_[i].address())  // whoever ran it has memory of its own
      std::memcpy(caches_[i].mutable_raw(), present.In(HostMemory()).raw(), present.bytes());
  }
}

std::vector<float> Decoding::Step(std::span<const TokenId> ids, const std::atomic<bool>* cancelled) {
  const bool appends = appends_, stays = appends || model_.shares_cache_;
  const int64_t total = length_ + static_cast<int64_t>(ids.size());
  if (stays) Reserve(total);
  std::vector<NamedValue> inputs;
  AddInputs(ids, inputs);
  std::vector<std::string> outputs = {model_.Role("logits")};
  RunOptions options;
  options.cancelled = cancelled;
  if (appends) options.homes.emplace_back();
  for (size_t i = 0; i < caches_.size(); ++i) {
    inputs.emplace_back(model_.caches_[i].past, appends ? Tokens(i, length_) : caches_[i]);
    outputs.push_back(model_.caches_[i].present);
    if (appends) options.homes.push_back(Tokens(i, total));
  }
  if (model_.shares_cache_)
    options.place_result = [this](size_t result, DType dtype, const Shape& shape) {
      if (result == 0 || result > caches_.size()) return Tensor();
      const Tensor& cache = caches_[result - 1];
      return dtype == cache.dtype() && shape == cache.shape() ? cache : Tensor();
    };
  if (!stays) caches_.assign(caches_.size(), Tensor());  // the run's inputs are the last to hold them
  std::vector<Value> results = model_.session().Run(inputs, outputs, options);
  KeepCaches(results, total);
  length_ = model_.has_cache() ? length_ + static_cast<int64_t>(ids.size()) : static_cast<int64_t>(ids.size());

  const Tensor& scores = results[0].tensor();
  Require(scores.rank() >= 2 && scores.size() > 0, "the scores should be [batch, tokens, vocabulary], are ",
          scores.shape());
  const int64_t vocabulary = scores.dim(scores.rank() - 1), rows = scores.size() / vocabulary;
  const Tensor last = WidenToFloat(scores.Reshaped(Shape{rows, vocabulary}).Rows(rows - 1, 1));
  Require(last.dtype() == DType::kFloat, "the scores are ", last.dtype(), ", must be floats");
  const std::span<const float> values = last.Span<float>();
  return {values.begin(), values.end()};
}

}  // namespace ferry
