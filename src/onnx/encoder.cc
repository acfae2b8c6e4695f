#include "onnx/encoder.h"

#include <cstring>
#include <protozero/buffer_string.hpp>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>

namespace ferry::onnx {
namespace {

// Below this, copying is cheaper than keeping account of a piece.
constexpr size_t kSmallestBorrowed = 512;

void AppendVarint(std::string& out, uint64_t number) { protozero::add_varint_to_buffer(&out, number); }

}  // namespace

void Encoder::Head(Tag tag, uint32_t wire_type) { AppendVarint(buffer_, uint64_t{tag} << 3 | wire_type); }

void Encoder::Varint(Tag tag, uint64_t number) {
  Head(tag, static_cast<uint32_t>(protozero::pbf_wire_type::varint));
  AppendVarint(buffer_, number);
}

void Encoder::PackedVarint(uint64_t number) { AppendVarint(buffer_, number); }

void Encoder::Float(Tag tag, float number) {
  Head(tag, static_cast<uint32_t>(protozero::pbf_wire_type::fixed32));
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  buffer_.append(bytes, sizeof(bytes));
}

void Encoder::Bytes(Tag tag, std::string_view bytes) {
  Head(tag, static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
  AppendVarint(buffer_, bytes.size());
  buffer_.append(bytes);
}

void Encoder::Borrowed(Tag tag, std::string_view bytes) {
  if (bytes.size() < kSmallestBorrowed) return Bytes(tag, bytes);
  Head(tag, static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
  AppendVarint(buffer_, bytes.size());
  splices_.push_back({buffer_.size(), bytes});
  borrowed_bytes_ += bytes.size();
}

Encoder::Open Encoder::Begin(Tag tag) {
  Head(tag, static_cast<uint32_t>(protozero::pbf_wire_type::length_delimited));
  return {buffer_.size(), splices_.size(), borrowed_bytes_};
}

void Encoder::End(const Open& open) {
  std::string length;
  AppendVarint(length, buffer_.size() - open.position + borrowed_bytes_ - open.borrowed_bytes);
  buffer_.insert(open.position, length);
  for (size_t i = open.splices; i < splices_.size(); ++i) splices_[i].position += length.size();
}

void Encoder::WriteTo(FunctionRef<void(std::string_view)> write) const {
  std::string_view own = buffer_;
  size_t done = 0;
  for (const Splice& splice : splices_) {
    write(own.substr(done, splice.position - done));
    write(splice.bytes);
    done = splice.position;
  }
  write(own.substr(done));
}

std::string Encoder::ToString() const {
  std::string out;
  out.reserve(size());
  WriteTo([&](std::string_view piece) { out.append(piece); });
  return out;
}

}  // namespace ferry::onnx
