#include "nn/tape.h"

#include "api/handles.h"
#include "base/function_ref.h"
#include "convert/convert.h"
#include "engine/check_inference.h"
#include "nn/call.h"
#include "onnx/writer.h"

using namespace ferry;
using namespace ferry::api;

struct ferry_call {
  Node node;
};

struct ferry_tape {
  Tape tape;
  std::vector<std::string> warnings;
};

namespace {

constexpr int64_t kOldestOpset = 11;

ferry_status* SetAttribute(ferry_call* call, const char* name, const FunctionRef<Attribute::Held()>& held) {
  return Guard([&] {
    RequirePointer(call, "call");
    RequirePointer(name, "name");
    call->node.Set(name, held());
  });
}

const Tensor& TensorOf(const ferry_value* value) {
  RequirePointer(value, "value");
  return value->value.tensor();
}

template <class T>
std::vector<T> ListOf(const T* values, size_t count) {
  if (count > 0) RequirePointer(values, "values");
  return std::vector<T>(values, values + count);
}

}  // namespace

ferry_status* ferry_call_create(const char* domain, const char* op_type, const char* place, ferry_call** out) {
  return Guard([&] {
    RequirePointer(op_type, "op_type");
    RequirePointer(out, "out");
    auto call = std::make_unique<ferry_call>();
    call->node.domain = domain ? std::string(CanonicalDomain(domain)) : std::string();
    call->node.op_type = op_type;
    call->node.name = place ? place : op_type;
    *out = call.release();
  });
}

void ferry_call_free(ferry_call* call) { delete call; }

ferry_status* ferry_call_set_int(ferry_call* call, const char* name, int64_t value) {
  return SetAttribute(call, name, [&] { return Attribute::Held(value); });
}

ferry_status* ferry_call_set_float(ferry_call* call, const char* name, float value) {
  return SetAttribute(call, name, [&] { return Attribute::Held(value); });
}

ferry_status* ferry_call_set_string(ferry_call* call, const char* name, const char* value) {
  return SetAttribute(call, name, [&] {
    RequirePointer(value, "value");
    return Attribute::Held(std::string(value));
  });
}

ferry_status* ferry_call_set_ints(ferry_call* call, const char* name, const int64_t* values, size_t count) {
  return SetAttribute(call, name, [&] { return Attribute::Held(ListOf(values, count)); });
}

ferry_status* ferry_call_set_floats(ferry_call* call, const char* name, const float* values, size_t count) {
  return SetAttribute(call, name, [&] { return Attribute::Held(ListOf(values, count)); });
}

ferry_status* ferry_call_set_tensor(ferry_call* call, const char* name, const ferry_value* value) {
  return SetAttribute(call, name, [&] {
    return Attribute::Held(std::make_shared<StoredTensor>(MakeStored("", TensorOf(value).Clone())));
  });
}

ferry_status* ferry_call_run(const ferry_call* call, const ferry_value* const* inputs, size_t input_count,
                             size_t output_count, ferry_value** outputs) {
  if (outputs) std::fill_n(outputs, output_count, nullptr);
  return Guard([&] {
    RequirePointer(call, "call");
    RequirePointer(outputs, "outputs");
    std::vector<const Value*> given;
    for (const ferry_value* input : ListOf(inputs, input_count)) given.push_back(input ? &input->value : nullptr);
    std::vector<Value> results = RunCall(call->node, given, output_count);
    std::vector<std::unique_ptr<ferry_value>> handles;
    for (Value& result : results) handles.emplace_back(new ferry_value{std::move(result)});
    for (size_t i = 0; i < output_count; ++i) outputs[i] = handles[i].release();
  });
}

ferry_status* ferry_tape_create(ferry_tape** out) {
  return Guard([&] {
    RequirePointer(out, "out");
    *out = new ferry_tape;
  });
}

void ferry_tape_free(ferry_tape* tape) { delete tape; }

ferry_status* ferry_tape_input(ferry_tape* tape, const char* name, const ferry_value* sample, int64_t* id) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(name, "name");
    RequirePointer(id, "id");
    *id = tape->tape.AddInput(name, TensorOf(sample));
  });
}

ferry_status* ferry_tape_parameter(ferry_tape* tape, const char* name, const ferry_value* value, int64_t* id) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(name, "name");
    RequirePointer(id, "id");
    *id = tape->tape.AddParameter(name, TensorOf(value));
  });
}

ferry_status* ferry_tape_constant(ferry_tape* tape, const ferry_value* value, int64_t* id) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(id, "id");
    *id = tape->tape.AddConstant(TensorOf(value));
  });
}

ferry_status* ferry_tape_record(ferry_tape* tape, const ferry_call* call, const int64_t* inputs, size_t input_count,
                                const ferry_value* const* outputs, size_t output_count, int64_t* ids) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(call, "call");
    RequirePointer(ids, "ids");
    std::vector<Value> results;
    for (const ferry_value* output : ListOf(outputs, output_count)) {
      RequirePointer(output, "an output");
      results.push_back(output->value);
    }
    std::vector<Tape::Id> made = tape->tape.Record(call->node, ListOf(inputs, input_count), results);
    std::copy(made.begin(), made.end(), ids);
  });
}

ferry_status* ferry_tape_output(ferry_tape* tape, const char* name, int64_t id) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(name, "name");
    tape->tape.AddOutput(name, id);
  });
}

ferry_status* ferry_tape_dynamic(ferry_tape* tape, const char* name, int64_t axis, const char* dimension) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(name, "name");
    RequirePointer(dimension, "dimension");
    tape->tape.SetDynamic(name, axis, dimension);
  });
}

ferry_status* ferry_tape_compare(const ferry_tape* tape, const ferry_tape* other) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(other, "other");
    tape->tape.RequireSameAs(other->tape);
  });
}

ferry_status* ferry_tape_write(ferry_tape* tape, const char* path, int64_t opset, int fold) {
  return Guard([&] {
    RequirePointer(tape, "tape");
    RequirePointer(path, "path");
    Require(opset >= kOldestOpset, "models are written for opset ", kOldestOpset, " and newer, not ", opset);
    Tape::Traced traced = tape->tape.ToModel(fold != 0);
    Model model = ConvertOpset(traced.model, opset);
    for (const Problem& problem : CheckFully(model))
      if (problem.severity == Severity::kError)
        Fail(ErrorCode::kInvalidArgument, "the recorded network is no valid model: ", ToText(problem));
    WriteModel(model, path);
    tape->warnings = std::move(traced.warnings);
  });
}

size_t ferry_tape_warning_count(const ferry_tape* tape) { return tape ? tape->warnings.size() : 0; }

const char* ferry_tape_warning(const ferry_tape* tape, size_t index) {
  return index < ferry_tape_warning_count(tape) ? tape->warnings[index].c_str() : nullptr;
}
