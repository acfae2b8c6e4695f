#include "server/tensor_json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "server/datatype.h"
#include "server/json_cursor.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

// Numbers beyond JSON that Python's and Triton's writers know.
const char* ReadSpecial(std::string_view text, double& value) {
  struct Special {
    std::string_view word;
    double value;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr Special kSpecials[] = {{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                          {"Infinity", kInfinity},
                                          {"-Infinity", -kInfinity},
                                          {"Inf", kInfinity},
                                          {"-Inf", -kInfinity}};
  for (const Special& special : kSpecials)
    if (text.substr(0, special.word.size()) == special.word) {
      value = special.value;
      return text.data() + special.word.size();
    }
  return nullptr;
}

[[noreturn]] void FailLong(const std::string& input) {
  Refuse(Code::kInvalidArgument, "Unable to parse 'data': Shape does not match true shape of 'data' field: input '",
         input, "' has more elements than its shape says");
}
[[noreturn]] void FailShort(const std::string& input, int64_t missing) {
  Refuse(Code::kInvalidArgument, "Failed to parse 'data' field: shape does not match true shape: input '", input,
         "' has ", missing, " elements less than its shape says");
}

template <class T>
class NumberReader {
 public:
  NumberReader(std::string_view text, const std::string& input, T* out, int64_t count)
      : cursor_(text), input_(input), out_(out), end_(out + count) {}

  void Read() {
    ReadArray(0);
    cursor_.ExpectEnd();
    if (out_ != end_) FailShort(input_, end_ - out_);
  }

 private:
  void ReadArray(int depth) {
    if (depth > JsonCursor::kMostDepth) cursor_.Fail("JSON nesting depth exceeds maximum allowed limit of 100");
    if (!cursor_.Begin('[')) return;
    do {
      const char c = cursor_.Peek();
      if (c == '[') {
        ReadArray(depth + 1);
        continue;
      }
      if (out_ == end_) FailLong(input_);
      ReadNumber(c);
    } while (cursor_.Next(']'));
  }

  void ReadNumber(char first) {
    const std::string_view rest = cursor_.rest();
    const char* const end = rest.data() + rest.size();
    const char* after = nullptr;
    if constexpr (std::is_same_v<T, bool>) {
      for (auto [word, value] :
           {std::pair<std::string_view, bool>{"true", true}, {"false", false}, {"1", true}, {"0", false}})
        if (rest.substr(0, word.size()) == word) {
          *out_ = value;
          after = rest.data() + word.size();
          break;
        }
      if (!after) FailElement("a boolean");
    } else {
      T value{};
      auto [stop, error] = std::from_chars(rest.data(), end, value);
      after = stop;
      if constexpr (std::is_floating_point_v<T>) {
        double special = 0;
        if (const char* past = ReadSpecial(rest, special)) {
          value = static_cast<T>(special);
          after = past;
        } else if (error == std::errc::result_out_of_range) {
          value = Beyond(rest, after);
        } else if (error != std::errc() || (first != '-' && (first < '0' || first > '9'))) {
          FailElement("a number");
        }
      } else {
        if (error == std::errc::result_out_of_range) FailElement("in the range of its datatype");
        if (error != std::errc() || (after < end && (*after == '.' || *after == 'e' || *after == 'E')))
          FailElement("an integer of its datatype");
      }
      *out_ = value;
    }
    ++out_;
    cursor_.Advance(static_cast<size_t>(after - rest.data()));
  }

  // Too large or too small for the type: infinity or zero, as a cast gives.
  static T Beyond(std::string_view rest, const char* after) {
    double wide = 0;
    auto [stop, error] = std::from_chars(rest.data(), after, wide);
    if (error == std::errc()) return static_cast<T>(wide);
    const std::string_view number = rest.substr(0, static_cast<size_t>(after - rest.data()));
    const bool small = number.find("e-") != std::string_view::npos || number.find("E-") != std::string_view::npos;
    const T magnitude = small ? T{0} : std::numeric_limits<T>::infinity();
    return number.front() == '-' ? -magnitude : magnitude;
  }

  [[noreturn]] void FailElement(std::string_view wanted) {
    constexpr std::string_view kKind = std::is_same_v<T, bool>       ? "non-boolean as boolean"
                                       : std::is_floating_point_v<T> ? "non-number as double"
                                       : std::is_signed_v<T>         ? "non-signed-integer as signed-integer"
                                                                     : "non-unsigned-integer as unsigned-integer";
    Refuse(Code::kInvalidArgument, "Unable to parse 'data': attempt to access JSON ", kKind, ": an element of input '",
           input_, "' at byte ", cursor_.position(), " is not ", wanted);
  }

  JsonCursor cursor_;
  const std::string& input_;
  T* out_;
  T* const end_;
};

void ReadStrings(JsonCursor& cursor, const std::string& input, std::string*& out, std::string* end, int depth) {
  if (depth > JsonCursor::kMostDepth) cursor.Fail("JSON nesting depth exceeds maximum allowed limit of 100");
  if (!cursor.Begin('[')) return;
  do {
    if (cursor.Peek() == '[') {
      ReadStrings(cursor, input, out, end, depth + 1);
      continue;
    }
    if (out == end) FailLong(input);
    if (cursor.Peek() != '"')
      Refuse(Code::kInvalidArgument,
             "Unable to parse JSON bytes array: attempt to access JSON non-string as string: input '", input, "'");
    *out++ = cursor.ReadString();
  } while (cursor.Next(']'));
}

template <class T>
void ReadAs(std::string_view text, const std::string& input, Tensor& tensor) {
  NumberReader<T>(text, input, tensor.MutableData<T>(), tensor.size()).Read();
}

template <class T>
void AppendNumbers(std::string& out, const Tensor& tensor) {
  char digits[40];
  for (T value : tensor.Span<T>()) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) {
        out += std::isnan(value) ? "NaN," : value < 0 ? "-Infinity," : "Infinity,";
        continue;
      }
    }
    char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    // A float of a whole number stays one for readers that look at its form.
    if constexpr (std::is_floating_point_v<T>)
      if (std::string_view(digits, static_cast<size_t>(end - digits)).find_first_of(".e") == std::string_view::npos) {
        *end++ = '.';
        *end++ = '0';
      }
    *end++ = ',';
    out.append(digits, static_cast<size_t>(end - digits));
  }
}

}  // namespace

void ReadTensorData(std::string_view text, const std::string& input, Tensor& tensor) {
  if (text.empty() || text.front() != '[')
    Refuse(Code::kInvalidArgument, "Unable to parse 'data': attempt to access JSON non-array as array: input '", input,
           "'");
  switch (tensor.dtype()) {
    case DType::kBool: return ReadAs<bool>(text, input, tensor);
    case DType::kUInt8: return ReadAs<uint8_t>(text, input, tensor);
    case DType::kUInt16: return ReadAs<uint16_t>(text, input, tensor);
    case DType::kUInt32: return ReadAs<uint32_t>(text, input, tensor);
    case DType::kUInt64: return ReadAs<uint64_t>(text, input, tensor);
    case DType::kInt8: return ReadAs<int8_t>(text, input, tensor);
    case DType::kInt16: return ReadAs<int16_t>(text, input, tensor);
    case DType::kInt32: return ReadAs<int32_t>(text, input, tensor);
    case DType::kInt64: return ReadAs<int64_t>(text, input, tensor);
    case DType::kFloat: return ReadAs<float>(text, input, tensor);
    case DType::kDouble: return ReadAs<double>(text, input, tensor);
    case DType::kString: {
      JsonCursor cursor(text);
      std::string* out = tensor.MutableData<std::string>();
      std::string* const end = out + tensor.size();
      ReadStrings(cursor, input, out, end, 0);
      cursor.ExpectEnd();
      if (out != end) FailShort(input, end - out);
      return;
    }
    default:
      Refuse(Code::kInvalidArgument, "receiving ", DatatypeName(tensor.dtype()),
             " data via JSON is not supported. Please use the binary data format for input '", input, "'");
  }
}

void AppendTensorData(std::string& out, const Tensor& tensor) {
  out += '[';
  switch (tensor.dtype()) {
    case DType::kBool:
      for (bool value : tensor.Span<bool>()) out += value ? "true," : "false,";
      break;
    case DType::kUInt8: AppendNumbers<uint8_t>(out, tensor); break;
    case DType::kUInt16: AppendNumbers<uint16_t>(out, tensor); break;
    case DType::kUInt32: AppendNumbers<uint32_t>(out, tensor); break;
    case DType::kUInt64: AppendNumbers<uint64_t>(out, tensor); break;
    case DType::kInt8: AppendNumbers<int8_t>(out, tensor); break;
    case DType::kInt16: AppendNumbers<int16_t>(out, tensor); break;
    case DType::kInt32: AppendNumbers<int32_t>(out, tensor); break;
    case DType::kInt64: AppendNumbers<int64_t>(out, tensor); break;
    case DType::kFloat: AppendNumbers<float>(out, tensor); break;
    case DType::kDouble: AppendNumbers<double>(out, tensor); break;
    case DType::kString:
      for (const std::string& text : tensor.Span<std::string>()) {
        AppendJsonString(out, text);
        out += ',';
      }
      break;
    default:
      Refuse(Code::kInvalidArgument, "sending ", DatatypeName(tensor.dtype()),
             " data via JSON is not supported. Please use the binary data format for output");
  }
  if (out.back() == ',')
    out.back() = ']';
  else
    out += ']';
}

Tensor StringsFromBytes(std::string_view bytes, const Shape& shape, const std::string& input,
                        const std::string& model) {
  const int64_t count = shape.ElementCount();
  // A shape that lies is refused before memory is taken for it: each element takes four bytes at least.
  const bool fits = count <= static_cast<int64_t>(bytes.size() / 4);
  Tensor tensor(DType::kString, fits ? shape : Shape{0});
  std::string* out = tensor.MutableData<std::string>();
  int64_t taken = 0;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() < sizeof(length))
      Refuse(Code::kInvalidArgument, "incomplete string length indicator for inference input '", input, "' for model '",
             model, "', expecting ", sizeof(length), " bytes but only ", bytes.size(), " bytes available");
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    if (length > bytes.size())
      Refuse(Code::kInvalidArgument, "incomplete string data for inference input '", input, "' for model '", model,
             "', expecting string of length ", length, " but only ", bytes.size(), " bytes available");
    if (taken == count)
      Refuse(Code::kInvalidArgument, "unexpected number of string elements ", count + 1, " for inference input '",
             input, "' for model '", model, "', expecting ", count);
    if (fits) out[taken].assign(bytes.substr(0, length));
    ++taken;
    bytes.remove_prefix(length);
  }
  if (taken != count)
    Refuse(Code::kInvalidArgument, "expected ", count, " string elements for inference input '", input, "' for model '",
           model, "', got ", taken);
  return tensor;
}

void AppendStringBytes(std::string& out, const Tensor& tensor) {
  for (const std::string& text : tensor.Span<std::string>()) {
    const auto length = static_cast<uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out += text;
  }
}

size_t StringBytes(const Tensor& tensor) {
  size_t bytes = 0;
  for (const std::string& text : tensor.Span<std::string>()) bytes += 4 + text.size();
  return bytes;
}

}  // namespace ferry::server
