#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "server/datatype.h"
#include "server/infer_codec.h"
#include "server/tensor_json.h"

namespace ferry::server {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

std::string_view View(protozero::data_view view) { return {view.data(), view.size()}; }

// A field as it must come on the wire; in another form it is an unknown one, and skipped.
constexpr uint32_t Bytes(uint32_t tag) { return protozero::tag_and_type(tag, pbf_wire_type::length_delimited); }
constexpr uint32_t Number(uint32_t tag) { return protozero::tag_and_type(tag, pbf_wire_type::varint); }

struct Parameter {
  enum class Kind { kNone, kBool, kInteger, kString, kDouble } kind = Kind::kNone;
  bool flag = false;
  int64_t integer = 0;
  std::string text;
};

// One entry of a map<string, InferParameter>.
std::pair<std::string, Parameter> ReadParameter(pbf_reader entry) {
  std::pair<std::string, Parameter> out;
  while (entry.next()) {
    if (entry.tag_and_type() == Bytes(1)) {
      out.first = entry.get_string();
    } else if (entry.tag_and_type() == Bytes(2)) {
      pbf_reader value = entry.get_message();
      Parameter& parameter = out.second;
      while (value.next()) switch (value.tag_and_type()) {
          case Number(1):
            parameter.kind = Parameter::Kind::kBool;
            parameter.flag = value.get_uint64() != 0;
            break;
          case Number(2):
            parameter.kind = Parameter::Kind::kInteger;
            parameter.integer = value.get_int64();
            break;
          case Bytes(3):
            parameter.kind = Parameter::Kind::kString;
            parameter.text = value.get_string();
            break;
          case Number(5):
            parameter.kind = Parameter::Kind::kInteger;
            parameter.integer = static_cast<int64_t>(std::min<uint64_t>(value.get_uint64(), INT64_MAX));
            break;
          default: parameter.kind = Parameter::Kind::kDouble; value.skip();
        }
    } else {
      entry.skip();
    }
  }
  return out;
}

struct TensorParameters {
  std::string region;
  int64_t offset = 0, byte_size = -1, classes = 0;

  void Take(const std::pair<std::string, Parameter>& given) {
    const std::string& key = given.first;
    const Parameter& value = given.second;
    auto integer = [&] {
      if (value.kind != Parameter::Kind::kInteger || value.integer < 0)
        Refuse(Code::kInvalidArgument, "invalid value type for '", Printable(key),
               "' parameter, expected int64_param >= 0.");
      return value.integer;
    };
    if (key == "shared_memory_region") {
      if (value.kind != Parameter::Kind::kString)
        Refuse(Code::kInvalidArgument,
               "invalid value type for 'shared_memory_region' parameter, expected string_param.");
      region = value.text;
    } else if (key == "shared_memory_offset") {
      offset = integer();
    } else if (key == "shared_memory_byte_size") {
      byte_size = integer();
    } else if (key == "classification") {
      classes = integer();
    }
  }
  std::optional<MemoryRange> Find(const SharedMemory& memory) const {
    if (region.empty() && byte_size < 0) return std::nullopt;
    if (region.empty() || byte_size < 0)
      Refuse(Code::kInvalidArgument, "'shared_memory_region' and 'shared_memory_byte_size' must both be given");
    return memory.Find(region, static_cast<uint64_t>(offset), static_cast<uint64_t>(byte_size));
  }
};

struct Input {
  std::string name, datatype;
  Shape shape;
  TensorParameters parameters;
  std::optional<std::string_view> contents;
};

Shape& AddDims(pbf_reader& reader, Shape& shape) {
  auto add = [&](int64_t dim) {
    if (shape.rank() >= 64) Refuse(Code::kInvalidArgument, "a shape has too many dimensions");
    shape.push_back(dim);
  };
  if (reader.wire_type() == pbf_wire_type::length_delimited)
    for (int64_t dim : reader.get_packed_int64()) add(dim);
  else
    add(reader.get_int64());
  return shape;
}

Input ReadInput(pbf_reader reader) {
  Input input;
  while (reader.next()) switch (reader.tag_and_type()) {
      case Bytes(1): input.name = reader.get_string(); break;
      case Bytes(2): input.datatype = reader.get_string(); break;
      case Bytes(3):
      case Number(3): AddDims(reader, input.shape); break;
      case Bytes(4): input.parameters.Take(ReadParameter(reader.get_message())); break;
      case Bytes(5): input.contents = View(reader.get_view()); break;
      default: reader.skip();
    }
  return input;
}

// The field of InferTensorContents that carries this type.
uint32_t ContentsField(DType type) {
  switch (type) {
    case DType::kBool: return 1;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32: return 2;
    case DType::kInt64: return 3;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32: return 4;
    case DType::kUInt64: return 5;
    case DType::kFloat: return 6;
    case DType::kDouble: return 7;
    case DType::kString: return 8;
    default: return 0;
  }
}

class ContentsReader {
 public:
  ContentsReader(const Input& input, DType type, const std::string& model) : input_(input), model_(model) {
    // An element takes a byte of the message at least.
    if (static_cast<uint64_t>(input.shape.ElementCount()) > input.contents->size())
      Refuse(Code::kInvalidArgument, "input '", Printable(input.name), "' has less elements than its shape ",
             DimsText(input.shape.ToVector()), " says");
    tensor_ = Tensor(type, input.shape);
  }

  Tensor Read() {
    const uint32_t wanted = ContentsField(tensor_.dtype());
    if (wanted == 0)
      Refuse(Code::kInvalidArgument, DatatypeName(tensor_.dtype()), " inputs must be sent in raw_input_contents: '",
             Printable(input_.name), "'");
    pbf_reader reader(input_.contents->data(), input_.contents->size());
    while (reader.next()) {
      if (reader.tag() > 8) {
        reader.skip();
        continue;
      }
      if (reader.tag() != wanted)
        Refuse(Code::kInvalidArgument, "unexpected explicit tensor data for input tensor '", Printable(input_.name),
               "' for model '", model_, "': its field is not the one of datatype '", DatatypeName(tensor_.dtype()),
               "'");
      if (reader.wire_type() != pbf_wire_type::length_delimited && reader.wire_type() != AloneOnTheWire())
        Refuse(Code::kInvalidArgument, "the bytes are no inference.InferTensorContents of datatype '",
               DatatypeName(tensor_.dtype()), "'");
      TakeField(reader);
    }
    if (taken_ != tensor_.size())
      Refuse(Code::kInvalidArgument, "input byte size mismatch for input '", Printable(input_.name), "' for model '",
             model_, "'. Expected ", tensor_.size(), " elements, got ", taken_);
    return std::move(tensor_);
  }

 private:
  // The form of one element that is not packed with others.
  pbf_wire_type AloneOnTheWire() const {
    switch (tensor_.dtype()) {
      case DType::kFloat: return pbf_wire_type::fixed32;
      case DType::kDouble: return pbf_wire_type::fixed64;
      case DType::kString: return pbf_wire_type::length_delimited;
      default: return pbf_wire_type::varint;
    }
  }
  void TakeField(pbf_reader& reader) {
    const bool packed = reader.wire_type() == pbf_wire_type::length_delimited;
    switch (tensor_.dtype()) {
      case DType::kBool: return packed ? All<bool>(reader.get_packed_bool()) : Put<bool>(reader.get_uint64() != 0);
      case DType::kInt8: return packed ? All<int8_t>(reader.get_packed_int32()) : Put<int8_t>(reader.get_int32());
      case DType::kInt16: return packed ? All<int16_t>(reader.get_packed_int32()) : Put<int16_t>(reader.get_int32());
      case DType::kInt32: return packed ? All<int32_t>(reader.get_packed_int32()) : Put<int32_t>(reader.get_int32());
      case DType::kInt64: return packed ? All<int64_t>(reader.get_packed_int64()) : Put<int64_t>(reader.get_int64());
      case DType::kUInt8: return packed ? All<uint8_t>(reader.get_packed_uint32()) : Put<uint8_t>(reader.get_uint32());
      case DType::kUInt16:
        return packed ? All<uint16_t>(reader.get_packed_uint32()) : Put<uint16_t>(reader.get_uint32());
      case DType::kUInt32:
        return packed ? All<uint32_t>(reader.get_packed_uint32()) : Put<uint32_t>(reader.get_uint32());
      case DType::kUInt64:
        return packed ? All<uint64_t>(reader.get_packed_uint64()) : Put<uint64_t>(reader.get_uint64());
      case DType::kFloat: return packed ? All<float>(reader.get_packed_float()) : Put<float>(reader.get_float());
      case DType::kDouble: return packed ? All<double>(reader.get_packed_double()) : Put<double>(reader.get_double());
      default: {
        Room();
        tensor_.MutableData<std::string>()[taken_++] = reader.get_string();
      }
    }
  }
  void Room() const {
    if (taken_ >= tensor_.size())
      Refuse(Code::kInvalidArgument, "input byte size mismatch for input '", Printable(input_.name), "' for model '",
             model_, "'. Expected ", tensor_.size(), " elements, got more");
  }
  template <class T, class V>
  void Put(V value) {
    Room();
    tensor_.MutableData<T>()[taken_++] = static_cast<T>(value);
  }
  template <class T, class Range>
  void All(const Range& range) {
    for (auto value : range) Put<T>(value);
  }

  const Input& input_;
  const std::string& model_;
  Tensor tensor_;
  int64_t taken_ = 0;
};

RequestedOutput ReadOutput(pbf_reader reader, const SharedMemory& memory) {
  RequestedOutput output;
  TensorParameters parameters;
  while (reader.next()) switch (reader.tag_and_type()) {
      case Bytes(1): output.name = reader.get_string(); break;
      case Bytes(2): parameters.Take(ReadParameter(reader.get_message())); break;
      default: reader.skip();
    }
  output.classes = parameters.classes;
  output.memory = parameters.Find(memory);
  if (output.memory && output.classes > 0)
    Refuse(Code::kInvalidArgument, "output '", Printable(output.name),
           "' cannot have both classification and shared memory");
  return output;
}

void TakeRequestParameter(const std::pair<std::string, Parameter>& given, InferRequest& out) {
  const auto& [key, value] = given;
  if (key == "priority" || key == "timeout") {
    if (value.kind != Parameter::Kind::kInteger)
      Refuse(Code::kInvalidArgument, "invalid value type for '", key, "' parameter, expected int64_param.");
    if (value.integer < 0) Refuse(Code::kInvalidArgument, "invalid value for '", key, "', expected value >= 0.");
    (key == "priority" ? out.priority : out.timeout_us) = static_cast<uint64_t>(value.integer);
  } else if ((key == "sequence_start" || key == "sequence_end") && value.kind != Parameter::Kind::kBool) {
    Refuse(Code::kInvalidArgument, "invalid value type for '", key, "' parameter, expected bool_param.");
  } else if (key == "sequence_id" && value.kind != Parameter::Kind::kInteger &&
             value.kind != Parameter::Kind::kString) {
    Refuse(Code::kInvalidArgument,
           "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.");
  } else if (key.compare(0, 7, "triton_") == 0 && key != "triton_enable_empty_final_response") {
    Refuse(Code::kInvalidArgument,
           "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: '",
           Printable(key), "'");
  }
}

InferRequest Read(const std::shared_ptr<const std::string>& message, const ServedModel& model,
                  const SharedMemory& memory) {
  InferRequest out;
  std::vector<Input> inputs;
  std::vector<std::string_view> raw;
  pbf_reader reader(message->data(), message->size());
  while (reader.next()) switch (reader.tag_and_type()) {
      case Bytes(3): out.id = reader.get_string(); break;
      case Bytes(4): TakeRequestParameter(ReadParameter(reader.get_message()), out); break;
      case Bytes(5): inputs.push_back(ReadInput(reader.get_message())); break;
      case Bytes(6): out.outputs.push_back(ReadOutput(reader.get_message(), memory)); break;
      case Bytes(7): raw.push_back(View(reader.get_view())); break;
      default: reader.skip();
    }
  size_t next = 0;
  for (const Input& input : inputs) {
    const DType type = DatatypeFromName(input.datatype);
    if (type == DType::kUndefined)
      Refuse(Code::kInvalidArgument, "invalid datatype '", Printable(input.datatype), "' for input ",
             Printable(input.name));
    CheckShape(input.shape, input.name);
    const std::optional<MemoryRange> range = input.parameters.Find(memory);
    if (range && input.contents)
      Refuse(Code::kInvalidArgument, "unexpected 'content' provided when using shared memory for input tensor '",
             Printable(input.name), "' for model '", model.name(), "'");
    if (range) {
      out.inputs.emplace_back(input.name, TensorFromMemory(type, input.shape, *range, input.name, model.name()));
    } else if (!raw.empty()) {
      if (input.contents)
        Refuse(Code::kInvalidArgument, "contents field must not be specified when using raw_input_contents for '",
               Printable(input.name), "' for model '", model.name(), "'");
      if (next >= raw.size())
        Refuse(Code::kInvalidArgument, "unable to find data for input tensor '", Printable(input.name), "' for model '",
               model.name(), "' in request.");
      out.inputs.emplace_back(input.name,
                              TensorFromBytes(type, input.shape, raw[next++], input.name, model.name(), message));
    } else if (input.contents) {
      out.inputs.emplace_back(input.name, ContentsReader(input, type, model.name()).Read());
    } else if (input.shape.ElementCount() == 0) {
      out.inputs.emplace_back(input.name, Tensor(type, input.shape));
    } else {
      Refuse(Code::kInvalidArgument, "unable to find data for input tensor '", Printable(input.name), "' for model '",
             model.name(), "' in request.");
    }
  }
  if (next < raw.size())
    Refuse(Code::kInvalidArgument, "raw_input_contents has ", raw.size(), " entries for ", next, " inputs of model '",
           model.name(), "'");
  out.keep_alive = message;
  return out;
}

}  // namespace

GrpcTarget ReadGrpcTarget(std::string_view message) {
  try {
    GrpcTarget target;
    pbf_reader reader(message.data(), message.size());
    while (reader.next()) switch (reader.tag_and_type()) {
        case Bytes(1): target.model = reader.get_string(); break;
        case Bytes(2): target.version = reader.get_string(); break;
        case Bytes(3): target.id = reader.get_string(); break;
        default: reader.skip();
      }
    return target;
  } catch (const protozero::exception& error) {
    Refuse(Code::kInvalidArgument, "the bytes are no inference.ModelInferRequest: ", error.what());
  }
}

InferRequest ReadGrpcInfer(std::shared_ptr<const std::string> message, const ServedModel& model,
                           const SharedMemory& memory) {
  try {
    return Read(message, model, memory);
  } catch (const protozero::exception& error) {
    Refuse(Code::kInvalidArgument, "the bytes are no inference.ModelInferRequest: ", error.what());
  }
}

std::string WriteGrpcInfer(Job& job, const ServedModel& model) {
  model.ReshapeOutputs(job);
  std::string bytes;
  protozero::pbf_writer out(bytes);
  out.add_string(1, model.name());
  out.add_string(2, model.version_text());
  if (!job.request.id.empty()) out.add_string(3, job.request.id);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    tensors.push_back(FinalOutput(job, i, model));
    const Tensor& tensor = tensors.back();
    protozero::pbf_writer described(out, 5);
    described.add_string(1, job.output_names[i]);
    const std::string_view type = DatatypeName(tensor.dtype());
    described.add_bytes(2, type.data(), type.size());
    described.add_packed_int64(3, tensor.shape().begin(), tensor.shape().end());
    for (const RequestedOutput& wanted : job.request.outputs) {
      if (wanted.name != job.output_names[i] || !wanted.memory) continue;
      PlaceOutput(tensor, wanted);
      const std::string region = wanted.memory->region->Status().At("name").AsString();
      auto parameter = [&](const char* key, uint32_t tag, auto add) {
        protozero::pbf_writer entry(described, 4);
        entry.add_string(1, key);
        protozero::pbf_writer value(entry, 2);
        add(value, tag);
      };
      parameter("shared_memory_region", 3,
                [&](protozero::pbf_writer& value, uint32_t tag) { value.add_string(tag, region); });
      parameter("shared_memory_byte_size", 2, [&](protozero::pbf_writer& value, uint32_t tag) {
        value.add_int64(tag, static_cast<int64_t>(wanted.memory->bytes));
      });
      tensors.back() = Tensor();
    }
  }
  size_t bytes_of_all = 0;
  for (const Tensor& tensor : tensors) bytes_of_all += tensor.defined() ? WireBytes(tensor) : 0;
  if (bytes_of_all > INT32_MAX)
    Refuse(Code::kInvalidArgument, "the outputs of model '", model.name(),
           "' exceed the maximum allowed data size limit INT_MAX");
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      out.add_string(6, "");
    } else if (tensor.dtype() == DType::kString) {
      std::string text;
      AppendStringBytes(text, tensor);
      out.add_string(6, text);
    } else {
      out.add_bytes(6, reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
    }
  }
  return bytes;
}

}  // namespace ferry::server
