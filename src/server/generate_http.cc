// Triton's generate extension: an object whose members are the inputs of a model by their names, answered by one whose
// members are its outputs.
#include <algorithm>

#include "server/datatype.h"
#include "server/infer_codec.h"
#include "server/json_cursor.h"
#include "server/tensor_json.h"

namespace ferry::server {
namespace {

// The elements of an array that holds no other; 1 for anything but an array.
int64_t CountElements(std::string_view text, const std::string& input) {
  JsonCursor cursor(text);
  if (cursor.Peek() != '[') return 1;
  int64_t count = 0;
  if (cursor.Begin('[')) do {
      const char c = cursor.Peek();
      if (c == '[' || c == '{')
        Refuse(Code::kInvalidArgument, "Unable to parse '", Printable(input),
               "': it is no value and no array of values");
      cursor.SkipValue();
      ++count;
    } while (cursor.Next(']'));
  return count;
}

// So many elements in the shape that the model shows: the innermost free dimension takes what the fixed ones leave.
Shape ShapeFor(int64_t count, const TensorConfig& input, bool has_batch) {
  std::vector<int64_t> dims = input.has_dims ? input.dims : std::vector<int64_t>{-1};
  if (has_batch) dims.insert(dims.begin(), -1);
  int64_t left = count;
  bool fits = true;
  for (int64_t dim : dims) {
    if (dim < 0 || !fits) continue;
    fits = dim == 0 ? left == 0 : left % dim == 0;
    if (fits && dim > 0) left /= dim;
  }
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim)
    if (*dim < 0) *dim = std::exchange(left, 1);
  if (!fits || (left != 1 && count != 0))
    Refuse(Code::kInvalidArgument, "The schema can not convert input '", input.name, "' to tensor with proper shape");
  Shape shape;
  for (int64_t dim : dims) shape.push_back(dim);
  return shape;
}

class GenerateReader {
 public:
  GenerateReader(const HttpRequest& request, const ServedModel& model, size_t most_bytes)
      : body_(request.body), model_(model), most_bytes_(most_bytes) {}

  InferRequest Read() {
    JsonCursor cursor(body_);
    if (cursor.Peek() != 0) {
      ReadMembers(cursor, true);
      cursor.ExpectEnd();
    }
    return std::move(out_);
  }

 private:
  void ReadMembers(JsonCursor& cursor, bool is_outer) {
    if (cursor.Peek() != '{') cursor.Fail("an object is missing");
    if (cursor.Begin('{')) do {
        const std::string key(cursor.ReadKey());
        const TensorConfig* input = model_.config().FindInput(key);
        if (is_outer && key == "id") {
          if (cursor.Peek() != '"') Refuse(Code::kInvalidArgument, "Unable to parse 'id': it is no string");
          out_.id = cursor.ReadString();
        } else if (is_outer && key == "parameters" && !input) {
          if (cursor.Peek() != '{') Refuse(Code::kInvalidArgument, "Expected JSON object for keyword: 'parameters'");
          ReadMembers(cursor, false);
        } else if (input) {
          ReadInput(*input, cursor.SkipValue());
        } else {
          TakeHttpParameter(key, ReadSmallJson(cursor, key.c_str()), out_);
        }
      } while (cursor.Next('}'));
  }

  void ReadInput(const TensorConfig& input, std::string_view text) {
    const Shape shape = ShapeFor(CountElements(text, input.name), input, model_.config().max_batch_size > 0);
    const std::string data = text.front() == '[' ? std::string(text) : Cat("[", text, "]");
    out_.inputs.emplace_back(input.name, TensorFromJson(input.dtype, shape, data, input.name, most_bytes_));
  }

  const std::string_view body_;
  const ServedModel& model_;
  const size_t most_bytes_;
  InferRequest out_;
};

}  // namespace

InferRequest ReadGenerate(const HttpRequest& request, const ServedModel& model, size_t most_bytes) {
  return GenerateReader(request, model, most_bytes).Read();
}

HttpResponse WriteGenerate(Job& job, const ServedModel& model, bool is_stream) {
  HttpResponse response;
  if (job.error) {
    response = ErrorResponse(*job.error);
  } else {
    model.ReshapeOutputs(job);
    std::string& out = response.body;
    AppendAnswerBegin(out, job, model);
    for (size_t i = 0; i < job.outputs.size(); ++i) {
      const Tensor tensor = FinalOutput(job, i, model);
      out += ',';
      AppendJsonString(out, job.output_names[i]);
      out += ':';
      const size_t begun = out.size();
      AppendTensorData(out, tensor);
      if (tensor.size() != 1) continue;
      out.erase(begun, 1);
      out.pop_back();
    }
    out += '}';
  }
  if (!is_stream) return response;
  // The one event of a stream that ends with it.
  response.content_type = "text/event-stream; charset=utf-8";
  response.body = Cat("data: ", response.body, "\n\n");
  return response;
}

}  // namespace ferry::server
