#include "server/model_config.h"

#include <algorithm>

#include "server/config_tensors.h"
#include "server/datatype.h"
#include "server/proto_json.h"
#include "server/proto_text.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

const ProtoMessage& Schema() { return ProtoSchema::OfServer().Message("inference.ModelConfig"); }

// Why there is no batch in the tensors' first dimension; empty: there may be one.
std::string WhyNoRows(const std::vector<ValueInfo>& inputs, const std::vector<ValueInfo>& outputs) {
  for (const auto* side : {&inputs, &outputs})
    for (const ValueInfo& info : *side) {
      if (!info.type.is_tensor() || !info.type.has_rank() || info.type.shape->empty())
        return Cat("'", Printable(info.name), "' has no first dimension that is known");
      if (const Dim& dim = info.type.shape->front(); dim.known())
        return Cat("the first dimension of '", Printable(info.name), "' is fixed to ", *dim.value);
    }
  return {};
}

// Why the first dimension should not be taken for a batch where nobody says that it is one.
std::string WhyNoBatch(const std::vector<ValueInfo>& inputs, const std::vector<ValueInfo>& outputs) {
  if (inputs.empty()) return "it has no inputs";
  if (std::string why = WhyNoRows(inputs, outputs); !why.empty()) return why;
  const Dim* first = nullptr;
  for (const ValueInfo& info : inputs) {
    const Dim& dim = info.type.shape->front();
    if (first && first->named() && dim.named() && first->symbol != dim.symbol)
      return Cat("inputs disagree about the first dimension: '", Printable(first->symbol), "' and '",
                 Printable(dim.symbol), "'");
    if (!first || first->unknown()) first = &dim;
  }
  return {};
}

bool HasTensors(const Json& given, const char* key) { return given.Find(key) && !given.At(key).AsArray().empty(); }

class Completion {
 public:
  Completion(const Json& given, const std::string& name, const std::vector<ValueInfo>& inputs,
             const std::vector<ValueInfo>& optional_inputs, const std::vector<ValueInfo>& outputs,
             const ConfigDefaults& defaults)
      : given_(given), inputs_(inputs), optional_(optional_inputs), outputs_(outputs), defaults_(defaults) {
    config_.name = name;
  }

  ModelConfig Make() {
    CheckWhole();
    json_ = given_;
    DecideBatch();
    FillTensors("input", inputs_, config_.inputs);
    FillTensors("output", outputs_, config_.outputs);
    if (given_.Find("ensemble_scheduling")) Refuse(Code::kUnimplemented, "ensembles are not served");
    if (given_.Find("sequence_batching")) Refuse(Code::kUnimplemented, "sequence batching is not served");
    Identity();
    Batching();
    Instances();
    ShowOptimization();
    Warmups();
    config_.json = WithDefaults(json_, Schema());
    return std::move(config_);
  }

 private:
  void CheckWhole() {
    if (const Json* tags = given_.Find("metric_tags"))
      for (const auto& [key, value] : tags->AsObject()) config_.metric_tags[key] = value.AsString();
    if (const Json* policy = given_.Find("model_transaction_policy"))
      config_.decoupled = policy->Find("decoupled") && policy->At("decoupled").AsBool();
    if (config_.decoupled) Refuse(Code::kUnimplemented, "models with decoupled transactions are not served");
  }

  void Replace(std::string_view key, Json value) { ReplaceField(json_, key, std::move(value)); }

  void DecideBatch() {
    const Json* asked = given_.Find("max_batch_size");
    config_.max_batch_size = asked ? asked->AsInt() : 0;
    config_.no_batching_reason = WhyNoBatch(inputs_, outputs_);
    const bool completes = defaults_.auto_complete && !(HasTensors(given_, "input") && HasTensors(given_, "output"));
    if (const std::string why = WhyNoRows(inputs_, outputs_); completes && config_.max_batch_size > 0 && !why.empty())
      Refuse(Code::kInvalidArgument, "autofill failed for model '", config_.name,
             "': model does not support batching while non-zero max_batch_size is specified (", why, ")");
    if (config_.max_batch_size == 0 && !asked && !HasTensors(given_, "input") && defaults_.auto_complete &&
        config_.no_batching_reason.empty()) {
      config_.max_batch_size = defaults_.max_batch_size;
      config_.is_batch_assumed = true;
    }
    joins_unasked_ = config_.is_batch_assumed || (completes && config_.max_batch_size > 1);
    if (config_.max_batch_size == 0 && config_.no_batching_reason.empty())
      config_.no_batching_reason = "max_batch_size is 0";
    Replace("max_batch_size", config_.max_batch_size);
  }

  // Those of the configuration, or the model's; either way the others of the model are added.
  void FillTensors(const char* key, const std::vector<ValueInfo>& infos, std::vector<TensorConfig>& out) {
    const bool is_input = key == std::string_view("input");
    const TensorCompletion completion(config_.name, config_.max_batch_size, is_input);
    Json list = Json::Array{};
    if (const Json* held = given_.Find(key))
      for (const Json& item : held->AsArray()) {
        const ValueInfo& info = InfoOf(item, key, infos, is_input);
        if (Has(out, info.name))
          Refuse(Code::kInvalidArgument, "model ", key, " '", Printable(info.name), "' is specified twice for ",
                 config_.name);
        Json full = completion.Complete(item, info);
        out.push_back(completion.Read(full, info));
        list.Add(std::move(full));
      }
    for (const ValueInfo& info : infos) {
      if (Has(out, info.name)) continue;
      if (!out.empty() && HasTensors(given_, key) && !is_input) continue;
      Json made = completion.FromModel(info);
      out.push_back(completion.Read(made, info));
      out.back().has_dims = info.type.has_rank();
      list.Add(std::move(made));
    }
    Replace(key, std::move(list));
  }

  static bool Has(const std::vector<TensorConfig>& tensors, const std::string& name) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const TensorConfig& t) { return t.name == name; });
  }

  const ValueInfo* FindInfo(const std::string& name, const std::vector<ValueInfo>& infos, bool is_input) const {
    for (const ValueInfo& info : infos)
      if (info.name == name) return &info;
    if (is_input)
      for (const ValueInfo& info : optional_)
        if (info.name == name) return &info;
    return nullptr;
  }

  const ValueInfo& InfoOf(const Json& given, const char* key, const std::vector<ValueInfo>& infos,
                          bool is_input) const {
    const Json* name = given.Find("name");
    if (!name) Refuse(Code::kInvalidArgument, "model ", key, " must specify 'name' for ", config_.name);
    if (const ValueInfo* info = FindInfo(name->AsString(), infos, is_input)) return *info;
    std::vector<std::string> names;
    for (const ValueInfo& known : infos) names.push_back(known.name);
    Refuse(Code::kInvalidArgument, "unexpected inference ", key, " '", Printable(name->AsString()), "', allowed ", key,
           "s are: ", Printable(Join(names, ", ")));
  }

  void Identity() {
    auto text = [&](const char* key) { return given_.Find(key) ? given_.At(key).AsString() : std::string(); };
    if (text("name").empty()) Replace("name", config_.name);
    if (text("platform").empty()) Replace("platform", "onnxruntime_onnx");
    if (text("backend").empty()) Replace("backend", "onnxruntime");
    const std::string backend = text("backend"), platform = text("platform");
    if ((!backend.empty() && backend != "onnxruntime" && backend != "ferry") ||
        (!platform.empty() && platform != "onnxruntime_onnx" && platform != "ferry_onnx"))
      Refuse(Code::kUnimplemented, "model '", config_.name, "' is for ",
             Printable(backend.empty() ? platform : backend), "; ONNX models are served (backend \"onnxruntime\")");
    if (text("default_model_filename").empty()) Replace("default_model_filename", "model.onnx");
    if (!given_.Find("version_policy")) Replace("version_policy", Json().Set("latest", Json().Set("num_versions", 1)));
  }

  static QueuePolicy PolicyFrom(const Json& json) {
    QueuePolicy policy;
    if (const Json* action = json.Find("timeout_action")) policy.delays = action->AsString() == "DELAY";
    if (const Json* timeout = json.Find("default_timeout_microseconds"))
      policy.default_timeout_us = timeout->AsUnsigned();
    if (const Json* allow = json.Find("allow_timeout_override")) policy.allow_override = allow->AsBool();
    if (const Json* size = json.Find("max_queue_size"))
      policy.max_queue_size = static_cast<uint32_t>(size->AsUnsigned());
    return policy;
  }

  void ShowBatching(Json batching) {
    if (!HasTensors(batching, "preferred_batch_size") && config_.max_batch_size > 0)
      ReplaceField(batching, "preferred_batch_size", Json(Json::Array{config_.max_batch_size}));
    Replace("dynamic_batching", std::move(batching));
  }

  // As Triton shows it of every model.
  void ShowOptimization() {
    Json shown = given_.Find("optimization") ? given_.At("optimization") : Json(Json::Object{});
    for (const char* key : {"input_pinned_memory", "output_pinned_memory"})
      if (!shown.Find(key)) shown.Set(key, Json().Set("enable", true));
    Replace("optimization", std::move(shown));
  }

  void Batching() {
    config_.default_policy.allow_override = true;
    const Json* batching = given_.Find("dynamic_batching");
    if (!batching) {
      config_.dynamic_batching = joins_unasked_;
      if (config_.max_batch_size > 0 && !config_.dynamic_batching && config_.no_batching_reason.empty())
        config_.no_batching_reason = "its configuration has no dynamic_batching";
      if (joins_unasked_) ShowBatching(Json(Json::Object{}));
      return;
    }
    config_.dynamic_batching = config_.max_batch_size > 1;
    ShowBatching(*batching);
    if (const Json* sizes = batching->Find("preferred_batch_size")) {
      config_.preferred_sizes = ListOfIntegers(sizes);
      CheckPreferredSizes(config_.preferred_sizes, config_.max_batch_size, config_.name);
      std::sort(config_.preferred_sizes.begin(), config_.preferred_sizes.end());
    }
    auto number = [&](const char* key) { return batching->Find(key) ? batching->At(key).AsUnsigned() : 0; };
    config_.queue_delay_us = std::min<uint64_t>(number("max_queue_delay_microseconds"), 60'000'000);
    // What Triton makes of a dynamic_batching that says nothing, and shows, is no wish.
    if (config_.queue_delay_us == 0 && config_.preferred_sizes == std::vector<int64_t>{config_.max_batch_size})
      config_.preferred_sizes.clear();
    config_.priority_levels = number("priority_levels");
    config_.default_priority = number("default_priority_level");
    config_.preserve_ordering = batching->Find("preserve_ordering") && batching->At("preserve_ordering").AsBool();
    if (const Json* policy = batching->Find("default_queue_policy")) config_.default_policy = PolicyFrom(*policy);
    if (const Json* policies = batching->Find("priority_queue_policy"))
      for (const auto& [level, policy] : policies->AsObject())
        config_.policies[std::strtoull(level.c_str(), nullptr, 10)] = PolicyFrom(policy);
  }

  void Instances() {
    constexpr int64_t kMost = 256;
    int64_t count = 0;
    Json shown = Json::Array{};
    if (const Json* groups = given_.Find("instance_group"))
      for (Json group : groups->AsArray()) {
        const int64_t wanted = group.Find("count") ? std::max<int64_t>(group.At("count").AsInt(), 1) : 1;
        count += wanted;
        ReplaceField(group, "count", wanted);
        if (!group.Find("name") || group.At("name").AsString().empty())
          ReplaceField(group, "name", Cat(config_.name, "_", shown.AsArray().size()));
        if (!group.Find("kind") || group.At("kind").AsString() == "KIND_AUTO") ReplaceField(group, "kind", "KIND_CPU");
        shown.Add(std::move(group));
      }
    if (count > kMost)
      Refuse(Code::kInvalidArgument, "model '", config_.name, "' asks for ", count, " instances; at most ", kMost,
             " are served");
    config_.instances = count > 0 ? static_cast<int>(count) : defaults_.instances;
    if (config_.preserve_ordering) config_.instances = 1;
    if (count == 0) shown.Add(Json().Set("name", config_.name).Set("kind", "KIND_CPU").Set("count", config_.instances));
    Replace("instance_group", std::move(shown));
  }

  void Warmups() {
    const Json* list = given_.Find("model_warmup");
    if (!list) return;
    for (const Json& json : list->AsArray()) {
      Warmup warmup;
      if (const Json* name = json.Find("name")) warmup.name = name->AsString();
      if (const Json* size = json.Find("batch_size")) warmup.batch_size = size->AsInt();
      if (const Json* count = json.Find("count")) warmup.count = std::clamp<int64_t>(count->AsInt(), 1, 10'000);
      if (const Json* inputs = json.Find("inputs"))
        for (const auto& [name, input] : inputs->AsObject()) {
          WarmupInput made;
          made.name = name;
          if (input.Find("data_type")) made.dtype = DTypeFromConfigName(input.At("data_type").AsString());
          if (input.Find("dims")) made.dims = ListOfIntegers(input.Find("dims"));
          if (input.Find("random_data")) made.data = WarmupInput::Data::kRandom;
          if (input.Find("zero_data")) made.data = WarmupInput::Data::kZero;
          if (const Json* file = input.Find("input_data_file")) {
            made.data = WarmupInput::Data::kFile;
            made.file = file->AsString();
          }
          warmup.inputs.push_back(std::move(made));
        }
      config_.warmups.push_back(std::move(warmup));
    }
  }

  const Json& given_;
  const std::vector<ValueInfo>&inputs_, &optional_, &outputs_;
  const ConfigDefaults& defaults_;
  Json json_;
  ModelConfig config_;
  bool joins_unasked_ = false;
};

template <class Tensors>
const TensorConfig* FindTensor(const Tensors& tensors, std::string_view name) {
  for (const TensorConfig& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

}  // namespace

const TensorConfig* ModelConfig::FindInput(std::string_view input) const { return FindTensor(inputs, input); }
const TensorConfig* ModelConfig::FindOutput(std::string_view output) const { return FindTensor(outputs, output); }

const QueuePolicy& ModelConfig::PolicyOf(uint64_t priority) const {
  auto found = policies.find(priority);
  return found == policies.end() ? default_policy : found->second;
}

std::string DimsText(const std::vector<int64_t>& dims) { return Cat("[", Join(dims, ","), "]"); }

Json ReadConfigText(std::string_view text, const std::string& name) {
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return Json::Object{};
  if (text[begin] != '{') return ParseProtoText(text, Schema(), name);
  try {
    return Normalized(Json::Parse(text, {.depth = 64, .bytes = size_t{4} << 20}), Schema());
  } catch (const Refusal&) {
    throw;
  } catch (const std::exception& error) {
    Refuse(Code::kInvalidArgument, "Invalid config override: ", error.what());
  }
}

LoadConfig LoadConfigOf(const Json& given) {
  LoadConfig load;
  if (const Json* file = given.Find("default_model_filename"); file && !file->AsString().empty()) {
    load.file = file->AsString();
    if (load.file.find('/') != std::string::npos || load.file == "..")
      Refuse(Code::kInvalidArgument, "default_model_filename must be the name of a file, not '", Printable(load.file),
             "'");
  }
  const Json* policy = given.Find("version_policy");
  if (!policy) return load;
  if (policy->Find("all")) load.versions = LoadConfig::Versions::kAll;
  if (const Json* latest = policy->Find("latest"); latest && latest->Find("num_versions"))
    load.latest = static_cast<uint32_t>(std::max<uint64_t>(latest->At("num_versions").AsUnsigned(), 1));
  if (const Json* specific = policy->Find("specific")) {
    load.versions = LoadConfig::Versions::kSpecific;
    if (specific->Find("versions")) load.specific = ListOfIntegers(specific->Find("versions"));
  }
  return load;
}

ModelConfig CompleteConfig(const Json& given, const std::string& name, const std::vector<ValueInfo>& inputs,
                           const std::vector<ValueInfo>& optional_inputs, const std::vector<ValueInfo>& outputs,
                           const ConfigDefaults& defaults) {
  CheckConfig(given, name);
  return Completion(given, name, inputs, optional_inputs, outputs, defaults).Make();
}

}  // namespace ferry::server
