#include "onnx/unknown_fields.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace ferry::onnx {
namespace {

struct Field {
  Tag tag;
  std::string_view whole;     // with its head
  std::string_view contents;  // of a field that holds bytes
};

// What the reader kept is well-formed. Whatever else somebody put there is taken as one field that belongs to nobody.
std::vector<Field> Split(std::string_view encoded) {
  std::vector<Field> fields;
  protozero::pbf_reader reader(encoded.data(), encoded.size());
  const char* begin = encoded.data();
  try {
    while (reader.next()) {
      Field field{reader.tag(), {}, {}};
      if (reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
        protozero::data_view view = reader.get_view();
        field.contents = {view.data(), view.size()};
      } else {
        reader.skip();
      }
      const char* end = reader.data().data();
      field.whole = {begin, static_cast<size_t>(end - begin)};
      begin = end;
      fields.push_back(field);
    }
  } catch (const protozero::exception&) {
    fields.push_back({0, encoded.substr(static_cast<size_t>(begin - encoded.data())), {}});
  }
  return fields;
}

}  // namespace

void KeepWhole(UnknownFields& kept, Tag tag, std::string_view message) {
  protozero::pbf_writer(kept).add_bytes(tag, message.data(), message.size());
}

void SortFields(UnknownFields& kept) {
  if (kept.empty()) return;
  std::vector<Field> fields = Split(kept);
  std::stable_sort(fields.begin(), fields.end(), [](const Field& a, const Field& b) { return a.tag < b.tag; });
  UnknownFields sorted;
  for (const Field& field : fields) sorted += field.whole;
  kept = std::move(sorted);
}

std::vector<std::string_view> KeptMessages(const UnknownFields& kept, Tag tag) {
  std::vector<std::string_view> messages;
  for (const Field& field : Split(kept))
    if (field.tag == tag) messages.push_back(field.contents);
  return messages;
}

UnknownFields WithoutKept(const UnknownFields& kept, std::initializer_list<Tag> tags) {
  UnknownFields others;
  for (const Field& field : Split(kept))
    if (std::find(tags.begin(), tags.end(), field.tag) == tags.end()) others += field.whole;
  return others;
}

std::pair<std::string, std::string> EntryOf(std::string_view message) {
  std::pair<std::string, std::string> entry;
  for (const Field& field : Split(message)) {
    if (field.tag == entry_field::kKey) entry.first = field.contents;
    if (field.tag == entry_field::kValue) entry.second = field.contents;
  }
  return entry;
}

StoredTensor::Segment SegmentOf(std::string_view message) {
  StoredTensor::Segment segment;
  for (const Field& field : Split(message)) {
    protozero::pbf_reader reader(field.whole.data(), field.whole.size());
    bool is_number = field.tag != 0 && reader.next() && reader.wire_type() == protozero::pbf_wire_type::varint;
    if (is_number && field.tag == segment_field::kBegin) segment.begin = reader.get_int64();
    if (is_number && field.tag == segment_field::kEnd) segment.end = reader.get_int64();
  }
  return segment;
}

}  // namespace ferry::onnx
