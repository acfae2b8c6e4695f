// Inference requests and answers as the two protocols write them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"
#include "server/infer.h"
#include "server/json_cursor.h"
#include "server/served_model.h"

namespace ferry::server {

// A body of JSON, its first header_length bytes, and the bytes of tensors. Throws Refusal.
InferRequest ReadHttpInfer(std::shared_ptr<HttpRequest> request, size_t header_length, const ServedModel& model,
                           const SharedMemory& memory, size_t most_bytes);
HttpResponse WriteHttpInfer(Job& job, const ServedModel& model);
// '{', the request's id, the model's name and version: what every answer of a model begins with.
void AppendAnswerBegin(std::string& out, const Job& job, const ServedModel& model);
// The generate extension: `is_stream` answers as an event stream of one event.
InferRequest ReadGenerate(const HttpRequest& request, const ServedModel& model, size_t most_bytes);
HttpResponse WriteGenerate(Job& job, const ServedModel& model, bool is_stream);

// For both of these.
Json ReadSmallJson(JsonCursor& cursor, const char* what);  // a value of the request, as a tree
Tensor TensorFromJson(DType type, const Shape& shape, std::string_view data, const std::string& input,
                      size_t most_bytes);
void TakeHttpParameter(const std::string& key, const Json& value, InferRequest& out);  // of the whole request

// A serialized inference.ModelInferRequest: model and version alone, then the rest.
struct GrpcTarget {
  std::string model, version, id;
};
GrpcTarget ReadGrpcTarget(std::string_view message);
InferRequest ReadGrpcInfer(std::shared_ptr<const std::string> message, const ServedModel& model,
                           const SharedMemory& memory);
std::string WriteGrpcInfer(Job& job, const ServedModel& model);  // an inference.ModelInferResponse

// For both protocols.
// The tensor over `bytes` where it can lie there, else a copy; `keep_alive` owns them.
Tensor TensorFromBytes(DType type, const Shape& shape, std::string_view bytes, const std::string& input,
                       const std::string& model, const std::shared_ptr<const void>& keep_alive);
Tensor TensorFromMemory(DType type, const Shape& shape, const MemoryRange& range, const std::string& input,
                        const std::string& model);
void CheckShape(const Shape& shape, const std::string& input);
// "value:index[:label]" of the largest elements, as BYTES of shape [batch, k].
Tensor Classify(const Tensor& tensor, int64_t classes, bool has_batch, const std::vector<std::string>& labels);
// What an output leaves as: itself or its classes; written into the client's memory where that was asked for.
Tensor FinalOutput(const Job& job, size_t index, const ServedModel& model);
void PlaceOutput(const Tensor& tensor, const RequestedOutput& wanted);
size_t WireBytes(const Tensor& tensor);
void AppendWire(std::string& out, const Tensor& tensor);

}  // namespace ferry::server
