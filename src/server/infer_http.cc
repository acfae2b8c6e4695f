#include <charconv>

#include "base/json.h"
#include "server/datatype.h"
#include "server/infer_codec.h"
#include "server/json_cursor.h"
#include "server/tensor_json.h"

namespace ferry::server {
namespace {

// Triton's words, which clients may know.
constexpr std::string_view kNoString = "attempt to access JSON non-string as string",
                           kNoArray = "attempt to access JSON non-array as array",
                           kNoUnsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";

[[noreturn]] void FailToParse(std::string_view key, std::string_view why) {
  Refuse(Code::kInvalidArgument, "Unable to parse '", key, "': ", why);
}
[[noreturn]] void FailMissing(std::string_view key) {
  FailToParse(key, Cat("attempt to access non-existing object member '", key, "'"));
}

uint64_t Unsigned(const Json& value, const std::string& key) {
  if (!value.is_integer() || value.AsDouble() < 0) FailToParse(key, kNoUnsigned);
  return value.AsUnsigned();
}

bool Flag(const Json& value, const std::string& key) {
  if (!value.is_bool()) FailToParse(key, "attempt to access JSON non-boolean as boolean");
  return value.AsBool();
}

std::optional<MemoryRange> MemoryOf(const Json& parameters, const SharedMemory& memory) {
  const Json* region = parameters.Find("shared_memory_region");
  const Json* size = parameters.Find("shared_memory_byte_size");
  if (!region && !size) return std::nullopt;
  if (!region) Refuse(Code::kInvalidArgument, "'shared_memory_byte_size' needs 'shared_memory_region'");
  if (!region->is_string()) FailToParse("shared_memory_region", kNoString);
  if (!size)
    Refuse(Code::kInvalidArgument,
           "'shared_memory_region' needs 'shared_memory_byte_size' to be specified along with it");
  const Json* offset = parameters.Find("shared_memory_offset");
  return memory.Find(region->AsString(), offset ? Unsigned(*offset, "shared_memory_offset") : 0,
                     Unsigned(*size, "shared_memory_byte_size"));
}

class HttpInferReader {
 public:
  HttpInferReader(const std::shared_ptr<HttpRequest>& request, size_t header_length, const ServedModel& model,
                  const SharedMemory& memory, size_t most_bytes)
      : http_(request),
        cursor_(std::string_view(request->body).substr(0, header_length)),
        binary_(std::string_view(request->body).substr(header_length)),
        has_binary_(request->Find("inference-header-content-length") != nullptr),
        model_(model),
        memory_(memory),
        most_bytes_(most_bytes) {}

  InferRequest Read() {
    if (cursor_.Peek() != '{') cursor_.Fail("an object is missing");
    bool has_inputs = false;
    if (cursor_.Begin('{')) do {
        const std::string_view key = cursor_.ReadKey();
        if (key == "inputs") {
          has_inputs = true;
          if (cursor_.Peek() != '[') FailToParse("inputs", kNoArray);
          if (cursor_.Begin('[')) do
              ReadInput();
            while (cursor_.Next(']'));
        } else if (key == "outputs") {
          if (cursor_.Peek() != '[') FailToParse("outputs", kNoArray);
          if (cursor_.Begin('[')) do
              ReadOutput();
            while (cursor_.Next(']'));
        } else if (key == "id") {
          if (cursor_.Peek() != '"') FailToParse("id", kNoString);
          out_.id = cursor_.ReadString();
        } else if (key == "parameters") {
          ReadParameters();
        } else {
          cursor_.SkipValue();
        }
      } while (cursor_.Next('}'));
    cursor_.ExpectEnd();
    if (!has_inputs) FailMissing("inputs");
    if (!binary_.empty())
      Refuse(Code::kInvalidArgument, "unexpected additional input data for model '", model_.name(), "'");
    for (RequestedOutput& output : out_.outputs)
      if (!output_says_[static_cast<size_t>(&output - out_.outputs.data())]) output.binary = out_.binary_output;
    out_.keep_alive = http_;
    return std::move(out_);
  }

 private:
  struct Input {
    std::string name, datatype;
    std::optional<Shape> shape;
    std::optional<uint64_t> binary_bytes;
    Json parameters;  // the others
    std::string_view data;
  };

  Shape ReadShape() {
    Shape shape;
    if (cursor_.Peek() != '[') FailToParse("shape", kNoArray);
    if (cursor_.Begin('[')) do {
        cursor_.Peek();
        const std::string_view rest = cursor_.rest();
        int64_t dim = 0;
        auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
        if (error != std::errc() || dim < 0 || (end < rest.data() + rest.size() && (*end == '.' || *end == 'e')))
          FailToParse("shape", kNoUnsigned);
        cursor_.Advance(static_cast<size_t>(end - rest.data()));
        if (shape.rank() >= 64) Refuse(Code::kInvalidArgument, "Unable to parse 'shape': it has too many dimensions");
        shape.push_back(dim);
      } while (cursor_.Next(']'));
    return shape;
  }

  std::string ReadText(const char* key) {
    if (cursor_.Peek() != '"') FailToParse(key, kNoString);
    return cursor_.ReadString();
  }

  // Of nearly every request: so many bytes of the binary part, and nothing else.
  void ReadInputParameters(Input& input) {
    if (cursor_.Peek() != '{') {
      cursor_.SkipValue();
      return;
    }
    if (cursor_.Begin('{')) do {
        const std::string key(cursor_.ReadKey());
        if (key == "binary_data_size") {
          input.binary_bytes = Unsigned(ReadSmallJson(cursor_, "binary_data_size"), key);
        } else {
          input.parameters.Set(key, ReadSmallJson(cursor_, "parameters"));
        }
      } while (cursor_.Next('}'));
  }

  void ReadInput() {
    Input input;
    if (cursor_.Begin('{')) do {
        const std::string_view key = cursor_.ReadKey();
        if (key == "name")
          input.name = ReadText("name");
        else if (key == "datatype")
          input.datatype = ReadText("datatype");
        else if (key == "shape")
          input.shape = ReadShape();
        else if (key == "parameters")
          ReadInputParameters(input);
        else if (key == "data")
          input.data = cursor_.SkipValue();
        else
          cursor_.SkipValue();
      } while (cursor_.Next('}'));
    if (input.name.empty()) FailMissing("name");
    if (input.datatype.empty()) FailMissing("datatype");
    if (!input.shape) FailMissing("shape");
    const DType type = DatatypeFromName(input.datatype);
    if (type == DType::kUndefined)
      Refuse(Code::kInvalidArgument, "invalid datatype '", Printable(input.datatype), "' for input ",
             Printable(input.name));
    CheckShape(*input.shape, input.name);
    out_.inputs.emplace_back(input.name, MakeTensor(input, type));
  }

  Tensor MakeTensor(const Input& input, DType type) {
    std::optional<MemoryRange> range;
    if (input.parameters.is_object()) range = MemoryOf(input.parameters, memory_);
    if (input.binary_bytes.has_value() + range.has_value() + !input.data.empty() != 1)
      FailContent(input, range.has_value());
    if (range) return TensorFromMemory(type, *input.shape, *range, input.name, model_.name());
    if (!input.binary_bytes) return TensorFromJson(type, *input.shape, input.data, input.name, most_bytes_);
    const uint64_t bytes = *input.binary_bytes;
    if (!has_binary_)
      Refuse(Code::kInvalidArgument,
             "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when passing "
             "inputs "
             "in binary data format");
    if (bytes > binary_.size())
      Refuse(Code::kInvalidArgument, "unexpected size for input '", Printable(input.name), "', expecting ",
             bytes - binary_.size(), " additional bytes for model '", model_.name(), "'");
    const std::string_view part = binary_.substr(0, bytes);
    binary_.remove_prefix(bytes);
    return TensorFromBytes(type, *input.shape, part, input.name, model_.name(), http_);
  }

  [[noreturn]] static void FailContent(const Input& input, bool has_range) {
    std::string set;
    if (!input.data.empty()) set += " 'data'";
    if (input.binary_bytes) set += " 'binary_data_size'";
    if (has_range) set += " 'shared_memory_region'";
    Refuse(Code::kInvalidArgument,
           "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
           "'shared_memory_region' in 'parameters'. But",
           set.empty() ? " no field is set" : " set", set, " (input '", Printable(input.name), "')");
  }

  void ReadOutput() {
    RequestedOutput output;
    bool says = false;
    if (cursor_.Begin('{')) do {
        const std::string_view key = cursor_.ReadKey();
        if (key == "name") {
          output.name = ReadText("name");
        } else if (key == "parameters") {
          const Json parameters = ReadSmallJson(cursor_, "parameters");
          if (!parameters.is_object()) Refuse(Code::kInvalidArgument, "Unable to parse 'parameters': it is no object");
          if (const Json* classes = parameters.Find("classification"))
            output.classes = static_cast<int64_t>(std::min<uint64_t>(Unsigned(*classes, "classification"), INT64_MAX));
          if (const Json* binary = parameters.Find("binary_data")) {
            output.binary = Flag(*binary, "binary_data");
            says = true;
          }
          output.memory = MemoryOf(parameters, memory_);
          if (output.memory && output.classes > 0)
            Refuse(Code::kInvalidArgument, "shared memory can't be set in the output '", Printable(output.name),
                   "' with classification");
        } else {
          cursor_.SkipValue();
        }
      } while (cursor_.Next('}'));
    if (output.name.empty()) FailMissing("name");
    out_.outputs.push_back(std::move(output));
    output_says_.push_back(says);
  }

  void ReadParameters() {
    if (cursor_.Peek() != '{') Refuse(Code::kInvalidArgument, "Unable to parse 'parameters': it is no object");
    if (cursor_.Begin('{')) do {
        const std::string key(cursor_.ReadKey());
        TakeHttpParameter(key, ReadSmallJson(cursor_, "parameters"), out_);
      } while (cursor_.Next('}'));
  }

  const std::shared_ptr<HttpRequest>& http_;
  JsonCursor cursor_;
  std::string_view binary_;
  const bool has_binary_;
  const ServedModel& model_;
  const SharedMemory& memory_;
  const size_t most_bytes_;
  InferRequest out_;
  std::vector<bool> output_says_;
};

// The whole body is the one input, and all outputs are wanted as bytes.
InferRequest ReadRaw(const std::shared_ptr<HttpRequest>& http, const ServedModel& model) {
  const ModelConfig& config = model.config();
  if (config.inputs.size() != 1)
    Refuse(Code::kInvalidArgument, "Raw request must only have 1 input (found 1) to be deduced but got ",
           config.inputs.size(), " inputs in '", model.name(), "' model configuration");
  const TensorConfig& input = config.inputs[0];
  Shape shape;
  if (config.max_batch_size > 0) shape.push_back(1);
  int64_t known = 1;
  int free_dims = 0;
  for (int64_t dim : input.dims) {
    if (dim < 0)
      ++free_dims;
    else
      known *= dim;
    shape.push_back(dim);
  }
  if (free_dims > 1)
    Refuse(Code::kInvalidArgument, "The shape of the raw input '", input.name,
           "' can not be deduced because there are more than one variable-sized dimension");
  InferRequest request;
  request.binary_output = true;
  request.keep_alive = http;
  if (input.dtype == DType::kString) {
    if (free_dims + known != 1 && !(free_dims == 0 && known == 1))
      Refuse(Code::kInvalidArgument, "For BYTE datatype raw input '", input.name,
             "', the model must have input shape [1]");
    for (int64_t& dim : shape) dim = 1;
    Tensor tensor(DType::kString, shape);
    *tensor.MutableData<std::string>() = http->body;
    request.inputs.emplace_back(input.name, std::move(tensor));
    return request;
  }
  const auto elements = static_cast<int64_t>(http->body.size() / ElementBytes(input.dtype));
  for (int64_t& dim : shape)
    if (dim < 0) dim = known > 0 ? elements / known : 0;
  request.inputs.emplace_back(input.name,
                              TensorFromBytes(input.dtype, shape, http->body, input.name, model.name(), http));
  return request;
}

const RequestedOutput* WantedOf(const Job& job, const std::string& name) {
  for (const RequestedOutput& wanted : job.request.outputs)
    if (wanted.name == name) return &wanted;
  return nullptr;
}

void AppendShape(std::string& out, const Shape& shape) {
  out += '[';
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) out += ',';
    AppendInteger(out, shape[i]);
  }
  out += ']';
}

}  // namespace

Json ReadSmallJson(JsonCursor& cursor, const char* what) {
  const std::string_view text = cursor.SkipValue();
  try {
    return Json::Parse(text, {.depth = JsonCursor::kMostDepth, .bytes = size_t{1} << 20});
  } catch (const std::exception& error) {
    Refuse(Code::kInvalidArgument, "Unable to parse '", Printable(what), "': ", error.what());
  }
}

Tensor TensorFromJson(DType type, const Shape& shape, std::string_view data, const std::string& input,
                      size_t most_bytes) {
  const auto count = static_cast<uint64_t>(shape.ElementCount());
  const size_t width = std::max<size_t>(ElementBytes(type), 1);
  if (count > most_bytes / width)
    Refuse(Code::kInvalidArgument, "JSON input '", Printable(input), "' has a byte_size (",
           count > UINT64_MAX / width ? UINT64_MAX : count * width,
           " bytes) that exceeds the maximum allowed value of ", most_bytes,
           " bytes. Use --http-max-input-size to increase the limit.");
  // An element takes two bytes of text at least.
  if (count > data.size() && data.starts_with('['))
    Refuse(Code::kInvalidArgument, "Failed to parse 'data' field: shape does not match true shape: input '",
           Printable(input), "' has less elements than ", DimsText(shape.ToVector()), " says");
  if (type == DType::kFloat16 || type == DType::kBFloat16)
    Refuse(Code::kInvalidArgument, "receiving ", DatatypeName(type),
           " data via JSON is not supported. Please use the binary data format for input ", Printable(input));
  Tensor tensor(type, data.starts_with('[') ? shape : Shape{0});
  ReadTensorData(data, input, tensor);
  return tensor;
}

void TakeHttpParameter(const std::string& key, const Json& value, InferRequest& out) {
  if (key == "priority")
    out.priority = Unsigned(value, key);
  else if (key == "timeout")
    out.timeout_us = Unsigned(value, key);
  else if (key == "binary_data_output")
    out.binary_output = Flag(value, key);
  else if (key == "sequence_start" || key == "sequence_end")
    Flag(value, key);
  else if (key == "sequence_id" && !value.is_string())
    Unsigned(value, key);
  else if (key.compare(0, 7, "triton_") == 0 && key != "triton_enable_empty_final_response")
    Refuse(Code::kInvalidArgument,
           "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: '",
           Printable(key), "'");
  else if (value.is_array() || value.is_object() || value.is_null())
    Refuse(Code::kInvalidArgument, "parameter '", Printable(key),
           "' has invalid type. It should be either 'int', 'bool', or 'string'.");
}

InferRequest ReadHttpInfer(std::shared_ptr<HttpRequest> request, size_t header_length, const ServedModel& model,
                           const SharedMemory& memory, size_t most_bytes) {
  if (header_length == 0 && request->Find("inference-header-content-length")) return ReadRaw(request, model);
  return HttpInferReader(request, header_length, model, memory, most_bytes).Read();
}

void AppendAnswerBegin(std::string& out, const Job& job, const ServedModel& model) {
  out += '{';
  if (!job.request.id.empty()) {
    out += "\"id\":";
    AppendJsonString(out, job.request.id);
    out += ',';
  }
  out += "\"model_name\":";
  AppendJsonString(out, model.name());
  ((out += ",\"model_version\":\"") += model.version_text()) += '"';
}

HttpResponse WriteHttpInfer(Job& job, const ServedModel& model) {
  if (job.error) return ErrorResponse(*job.error);
  model.ReshapeOutputs(job);
  HttpResponse response;
  std::string& out = response.body;
  constexpr size_t kUsual = 512;
  out.reserve(kUsual);
  AppendAnswerBegin(out, job, model);
  out += ",\"outputs\":[";
  std::vector<Tensor> binary;
  size_t binary_bytes = 0;
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const RequestedOutput* wanted = WantedOf(job, job.output_names[i]);
    const Tensor tensor = FinalOutput(job, i, model);
    if (i > 0) out += ',';
    out += "{\"name\":";
    AppendJsonString(out, job.output_names[i]);
    ((out += ",\"datatype\":\"") += DatatypeName(tensor.dtype())) += "\",\"shape\":";
    AppendShape(out, tensor.shape());
    if (wanted && wanted->memory) {
      PlaceOutput(tensor, *wanted);
      const MemoryRange& range = *wanted->memory;
      const Json status = range.region->Status();
      out += ",\"parameters\":{\"shared_memory_region\":";
      AppendJsonString(out, status.At("name").AsString());
      out += Cat(",\"shared_memory_byte_size\":", range.bytes);
      if (const auto offset = range.data - range.region->data(); offset != 0)
        out += Cat(",\"shared_memory_offset\":", offset);
      out += '}';
    } else if (wanted ? wanted->binary : job.request.binary_output) {
      const size_t bytes = WireBytes(tensor);
      out += ",\"parameters\":{\"binary_data_size\":";
      AppendUnsigned(out, bytes);
      out += '}';
      binary_bytes += bytes;
      binary.push_back(tensor);
    } else {
      out += ",\"data\":";
      AppendTensorData(out, tensor);
    }
    out += '}';
  }
  out += "]}";
  if (!binary.empty()) {
    response.content_type = "application/octet-stream";
    response.json_length = out.size();
    out.reserve(out.size() + binary_bytes);
    for (const Tensor& tensor : binary) AppendWire(out, tensor);
  }
  return response;
}

}  // namespace ferry::server
