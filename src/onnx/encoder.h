// Protobuf output in which weights are only pointed to: the message's own bytes are small, however large the model is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "onnx/proto.h"

namespace ferry::onnx {

class Encoder {
 public:
  void Varint(Tag tag, uint64_t number);
  void Int(Tag tag, int64_t number) { Varint(tag, static_cast<uint64_t>(number)); }
  void NonZeroInt(Tag tag, int64_t number) {
    if (number != 0) Int(tag, number);
  }
  void Float(Tag tag, float number);
  void Bytes(Tag tag, std::string_view bytes);
  void Text(Tag tag, std::string_view text) {  // an empty text and none are one in ONNX
    if (!text.empty()) Bytes(tag, text);
  }
  // Like Bytes, but the bytes are not copied: they must live until the encoder is written out.
  void Borrowed(Tag tag, std::string_view bytes);
  void Fields(std::string_view encoded) { buffer_.append(encoded); }
  void PackedVarint(uint64_t number);  // inside a Message: one element of a packed field

  template <class Body>
  void Message(Tag tag, const Body& body) {
    Open open = Begin(tag);
    body();
    End(open);
  }

  uint64_t size() const { return buffer_.size() + borrowed_bytes_; }
  // Hands out all bytes in order, in pieces.
  void WriteTo(FunctionRef<void(std::string_view)> write) const;
  std::string ToString() const;

 private:
  struct Splice {
    size_t position;  // in buffer_, where the bytes belong
    std::string_view bytes;
  };
  struct Open {
    size_t position, splices;
    uint64_t borrowed_bytes;
  };
  Open Begin(Tag tag);
  void End(const Open& open);
  void Head(Tag tag, uint32_t wire_type);

  std::string buffer_;
  std::vector<Splice> splices_;
  uint64_t borrowed_bytes_ = 0;
};

}  // namespace ferry::onnx
