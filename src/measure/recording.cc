#include "measure/recording.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/npz.h"

namespace ferry {
namespace {

const ValueInfo* FindByName(const std::vector<ValueInfo>& infos, const std::string& name) {
  auto it = std::find_if(infos.begin(), infos.end(), [&](const ValueInfo& info) { return info.name == name; });
  return it == infos.end() ? nullptr : &*it;
}

// "in2" with prefix "in" means the third.
const ValueInfo* FindByPosition(const std::vector<ValueInfo>& infos, const std::string& key, std::string_view prefix) {
  std::string digits = key.compare(0, prefix.size(), prefix) == 0 ? key.substr(prefix.size()) : "";
  bool is_number = !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == digits.npos;
  if (!is_number) return nullptr;
  size_t position = std::stoul(digits);
  return position < infos.size() ? &infos[position] : nullptr;
}

void Take(std::vector<NamedValue>& values, const ValueInfo& info, const std::string& key, Tensor tensor) {
  for (const NamedValue& taken : values)
    if (taken.first == info.name)
      Fail(ErrorCode::kInvalidArgument, "'", Printable(key), "' gives '", Printable(info.name), "' a second time");
  values.emplace_back(info.name, std::move(tensor));
}

[[noreturn]] void RefuseKey(const std::string& key, const Session& session) {
  std::vector<std::string> inputs, outputs;
  for (const ValueInfo& info : session.inputs()) inputs.push_back(info.name);
  for (const ValueInfo& info : session.outputs()) outputs.push_back(info.name);
  Fail(ErrorCode::kInvalidArgument, "'", Printable(key),
       "' is neither an input nor an output of the model; inputs: ", Printable(Join(inputs, ", "), 400),
       "; outputs: ", Printable(Join(outputs, ", "), 400));
}

}  // namespace

void RequireInputNames(const Session& session, std::span<const NamedValue> inputs) {
  std::vector<std::string> missing, all;
  for (const ValueInfo& info : session.inputs()) {
    all.push_back(info.name);
    bool given = std::any_of(inputs.begin(), inputs.end(), [&](const NamedValue& i) { return i.first == info.name; });
    if (!given) missing.push_back(info.name);
  }
  for (const NamedValue& input : inputs) {
    if (FindByName(session.inputs(), input.first) || FindByName(session.overridable_inputs(), input.first)) continue;
    std::string closest = ClosestName(input.first, missing.empty() ? all : missing);
    // The one that is left is meant, however it was called.
    if (closest.empty() && missing.size() == 1) closest = missing[0];
    Fail(ErrorCode::kInvalidArgument, "the model has no input '", Printable(input.first), "'; ",
         closest.empty() ? Cat("its inputs are ", Printable(Join(all, ", "), 400))
                         : Cat("did you mean '", closest, "'?"));
  }
}

Recording ReadRecording(const std::string& path, const Session& session) {
  NamedTensors tensors = ReadNpz(path);
  Recording recording;
  try {
    for (auto& [key, tensor] : tensors) {
      const ValueInfo* input = FindByName(session.inputs(), key);
      if (!input) input = FindByName(session.overridable_inputs(), key);
      const ValueInfo* output = FindByName(session.outputs(), key);
      // A value that is passed through may be both; its recording then serves as both.
      if (!input && !output) {
        input = FindByPosition(session.inputs(), key, "in");
        output = FindByPosition(session.outputs(), key, "out");
      }
      if (!input && !output) RefuseKey(key, session);
      if (input) Take(recording.inputs, *input, key, tensor);
      if (output) Take(recording.outputs, *output, key, tensor);
    }
  } catch (Error& error) {
    throw error.At(path);
  }
  auto place = [&](const NamedValue& value) { return FindByName(session.outputs(), value.first); };
  std::sort(recording.outputs.begin(), recording.outputs.end(),
            [&](const NamedValue& a, const NamedValue& b) { return place(a) < place(b); });
  return recording;
}

}  // namespace ferry
