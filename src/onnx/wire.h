// Protobuf messages as a sequence of fields, read where they lie. Every fault says file, byte and place in the model.
#pragma once

#include <cstdint>
#include <memory>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "onnx/proto.h"

namespace ferry::onnx {

// What all parts of one reading share: the bytes, their name, and where in the model the reader is.
class Source {
 public:
  Source(std::string name, std::string_view bytes, std::shared_ptr<const void> keep_alive);

  const std::shared_ptr<const void>& keep_alive() const { return keep_alive_; }
  [[noreturn]] void Malformed(const char* at, std::string_view what) const;
  [[noreturn]] void TooLarge(ErrorCode code, std::string_view what) const;
  std::string Place() const;  // "graph.node[12].attribute[3]"

  int64_t ir_version = 0;

 private:
  friend class Inside;
  struct Step {
    const char* field;
    int64_t index;
  };
  std::string name_;
  std::string_view bytes_;
  std::shared_ptr<const void> keep_alive_;
  std::vector<Step> place_;
  size_t messages_ = 0;
};

// Stands for being inside a part of the model; bounds how deep parts nest and how many there are in all.
class Inside {
 public:
  Inside(Source& source, const char* field, int64_t index = -1);
  ~Inside() { source_.place_.pop_back(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Source& source_;
};

// The fields of one message. After Next() exactly one of the readers, Keep or Skip is called.
class Fields {
 public:
  Fields(Source& source, std::string_view message) : source_(source), reader_(message.data(), message.size()) {}

  bool Next();
  Tag tag() const { return reader_.tag(); }

  std::string_view Bytes();
  std::string Text() { return std::string(Bytes()); }
  int64_t Int();
  int32_t Int32() { return static_cast<int32_t>(Int()); }
  float Float();
  // Repeated numbers, packed or one by one, are added to `out`.
  void Ints(std::vector<int64_t>& out);
  void Floats(std::vector<float>& out);
  // The field's payload as it would be packed: one element's bytes, or all of them.
  std::string_view PackedVarints();
  std::string_view PackedFixed(size_t width);

  // Adds the whole field, tag included, to `out`.
  void Keep(std::string& out);
  void Skip();
  [[noreturn]] void Fault(std::string_view what) const { source_.Malformed(field_begin_, what); }
  Source& source() { return source_; }

 private:
  template <class Read>
  auto Guard(const Read& read);
  void Expect(protozero::pbf_wire_type wanted);

  Source& source_;
  protozero::pbf_reader reader_;
  const char* field_begin_ = nullptr;
};

// Decodes packed varints one by one: calls use(uint64_t) for each.
template <class Use>
void ForEachVarint(Source& source, std::string_view packed, const Use& use) {
  const char* at = packed.data();
  const char* end = at + packed.size();
  try {
    while (at != end) use(protozero::decode_varint(&at, end));
  } catch (const protozero::exception&) {
    source.Malformed(at, "a number is cut off or too long");
  }
}

}  // namespace ferry::onnx
