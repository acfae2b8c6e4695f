#include "server/config_tensors.h"
#include "server/refusal.h"

namespace ferry::server {

void CheckPreferredSizes(const std::vector<int64_t>& sizes, int64_t max_batch_size, const std::string& name) {
  for (int64_t size : sizes)
    if (size < 1 || size > std::max<int64_t>(max_batch_size, 1))
      Refuse(Code::kInvalidArgument, "dynamic batching preferred size must be ",
             size < 1 ? "positive for " : "<= max batch size for ", name);
}

namespace {

bool Delays(const Json& policy) {
  const Json* action = policy.Find("timeout_action");
  return action && action->AsString() == "DELAY" && policy.Find("default_timeout_microseconds") &&
         policy.At("default_timeout_microseconds").AsUnsigned() > 0;
}

void CheckBatching(const Json& batching, const std::string& name) {
  auto number = [&](const char* key) { return batching.Find(key) ? batching.At(key).AsUnsigned() : 0; };
  const uint64_t levels = number("priority_levels"), usual = number("default_priority_level");
  const bool is_ordered = batching.Find("preserve_ordering") && batching.At("preserve_ordering").AsBool();
  if (levels > 0 && (usual == 0 || usual > levels))
    Refuse(Code::kInvalidArgument, "default priority level must be in range [1, ", levels, "] for ", name);
  if (is_ordered && levels > 1)
    Refuse(Code::kInvalidArgument, "Only one priority level is allowed when 'preserve_ordering' is true for ", name);
  bool delays = batching.Find("default_queue_policy") && Delays(batching.At("default_queue_policy"));
  if (const Json* policies = batching.Find("priority_queue_policy"))
    for (const auto& [key, policy] : policies->AsObject()) {
      const uint64_t level = std::strtoull(key.c_str(), nullptr, 10);
      if (levels > 0 && (level == 0 || level > levels))
        Refuse(Code::kInvalidArgument, "priority queue policy must have priority level in range [1, ", levels, "] for ",
               name);
      delays |= Delays(policy);
    }
  if (is_ordered && delays)
    Refuse(Code::kInvalidArgument,
           "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true ", "for ", name);
}

}  // namespace

void CheckConfig(const Json& given, const std::string& name) {
  if (const Json* own = given.Find("name"); own && !own->AsString().empty() && own->AsString() != name)
    Refuse(Code::kInvalidArgument, "unexpected directory name '", name, "' for model '", Printable(own->AsString()),
           "', directory name must equal model name");
  const Json* size = given.Find("max_batch_size");
  if (size && size->AsInt() < 0)
    Refuse(Code::kInvalidArgument, "'max_batch_size' must be non-negative value for ", name);
  const Json* batching = given.Find("dynamic_batching");
  if (!batching) return;
  // Without a size the model may still say one.
  if (size) CheckPreferredSizes(ListOfIntegers(batching->Find("preferred_batch_size")), size->AsInt(), name);
  CheckBatching(*batching, name);
}

}  // namespace ferry::server
