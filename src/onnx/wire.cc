#include "onnx/wire.h"

#include <cstring>

namespace ferry::onnx {
namespace {

// A subgraph takes three steps (node, attribute, g): room for more than 60 graphs inside each other.
constexpr size_t kDeepestPlace = 200;
// Parts are larger in memory than in the file: an empty one takes two bytes there and some hundred here.
constexpr size_t kMostMessages = 20'000'000;

using protozero::pbf_wire_type;

const char* WireName(pbf_wire_type type) {
  switch (type) {
    case pbf_wire_type::varint: return "a variable-length number";
    case pbf_wire_type::fixed64: return "a 64-bit number";
    case pbf_wire_type::length_delimited: return "bytes";
    case pbf_wire_type::fixed32: return "a 32-bit number";
    default: return "nothing known";
  }
}

}  // namespace

Source::Source(std::string name, std::string_view bytes, std::shared_ptr<const void> keep_alive)
    : name_(std::move(name)), bytes_(bytes), keep_alive_(std::move(keep_alive)) {}

std::string Source::Place() const {
  std::string text;
  for (const Step& step : place_) {
    if (!text.empty()) text += '.';
    text += step.field;
    if (step.index >= 0) text += Cat('[', step.index, ']');
  }
  return text;
}

void Source::Malformed(const char* at, std::string_view what) const {
  // Numbers that came in pieces were joined elsewhere and have no place in the file.
  auto begin = reinterpret_cast<uintptr_t>(bytes_.data()), here = reinterpret_cast<uintptr_t>(at);
  bool in_file = here >= begin && here - begin <= bytes_.size();
  std::string place = Place();
  if (!place.empty()) place = Cat(" (", place, ")");
  if (in_file) place = Cat(" at byte ", here - begin, place);
  ferry::Fail(ErrorCode::kInvalidModel, name_, ": not a readable file:", place, ": ", what);
}

void Source::TooLarge(ErrorCode code, std::string_view what) const {
  ferry::Fail(code, name_, ": ", Place(), ": ", what);
}

Inside::Inside(Source& source, const char* field, int64_t index) : source_(source) {
  if (source.place_.size() >= kDeepestPlace)
    ferry::Fail(ErrorCode::kInvalidModel, source.name_, ": parts are nested more than ", kDeepestPlace, " deep");
  if (++source.messages_ > kMostMessages)
    source.TooLarge(ErrorCode::kLimit, Cat("the file has more than ", kMostMessages, " parts"));
  source.place_.push_back({field, index});
}

template <class Read>
auto Fields::Guard(const Read& read) {
  try {
    return read();
  } catch (const protozero::end_of_buffer_exception&) {
    source_.Malformed(field_begin_, "the field goes on past the end of its message: the file is cut off or damaged");
  } catch (const protozero::varint_too_long_exception&) {
    source_.Malformed(field_begin_, "a number is longer than ten bytes");
  } catch (const protozero::unknown_pbf_wire_type_exception&) {
    source_.Malformed(field_begin_, "a field has a kind that protobuf does not have");
  } catch (const protozero::invalid_tag_exception&) {
    source_.Malformed(field_begin_, "a field has a number that protobuf does not allow");
  } catch (const protozero::exception& error) {
    source_.Malformed(field_begin_, error.what());
  }
}

bool Fields::Next() {
  field_begin_ = reader_.data().data();
  return Guard([&] {
    // The library cuts a field's head to 32 bits; a longer one would be taken for another field.
    const char* at = field_begin_;
    if (reader_ && protozero::decode_varint(&at, at + reader_.length()) > UINT32_MAX)
      throw protozero::invalid_tag_exception();
    return reader_.next();
  });
}

void Fields::Expect(pbf_wire_type wanted) {
  if (reader_.wire_type() != wanted)
    source_.Malformed(field_begin_, Cat("field ", tag(), " holds ", WireName(reader_.wire_type()), " where ONNX has ",
                                        WireName(wanted)));
}

std::string_view Fields::Bytes() {
  Expect(pbf_wire_type::length_delimited);
  return Guard([&] {
    const char* at = reader_.data().data();
    const char* end = at + reader_.length();
    uint64_t length = protozero::decode_varint(&at, end);
    if (length > static_cast<uint64_t>(end - at)) throw protozero::end_of_buffer_exception();
    protozero::data_view view = reader_.get_view();
    return std::string_view(view.data(), view.size());
  });
}

int64_t Fields::Int() {
  Expect(pbf_wire_type::varint);
  return Guard([&] { return reader_.get_int64(); });
}

float Fields::Float() {
  Expect(pbf_wire_type::fixed32);
  return Guard([&] { return reader_.get_float(); });
}

std::string_view Fields::PackedVarints() {
  if (reader_.wire_type() != pbf_wire_type::varint) return Bytes();
  const char* begin = reader_.data().data();
  Guard([&] { reader_.skip(); });
  return {begin, static_cast<size_t>(reader_.data().data() - begin)};
}

std::string_view Fields::PackedFixed(size_t width) {
  if (reader_.wire_type() == pbf_wire_type::length_delimited) {
    std::string_view packed = Bytes();
    if (packed.size() % width != 0)
      source_.Malformed(field_begin_, Cat(packed.size(), " bytes of ", width, "-byte numbers"));
    return packed;
  }
  Expect(width == 4 ? pbf_wire_type::fixed32 : pbf_wire_type::fixed64);
  const char* begin = reader_.data().data();
  Guard([&] { reader_.skip(); });
  return {begin, width};
}

void Fields::Ints(std::vector<int64_t>& out) {
  ForEachVarint(source_, PackedVarints(), [&](uint64_t number) { out.push_back(static_cast<int64_t>(number)); });
}

void Fields::Floats(std::vector<float>& out) {
  std::string_view packed = PackedFixed(sizeof(float));
  size_t old = out.size();
  out.resize(old + packed.size() / sizeof(float));
  if (!packed.empty()) std::memcpy(out.data() + old, packed.data(), packed.size());
}

void Fields::Skip() {
  if (reader_.wire_type() == pbf_wire_type::length_delimited)
    Bytes();
  else
    Guard([&] { reader_.skip(); });
}

void Fields::Keep(std::string& out) {
  const char* begin = field_begin_;
  Skip();
  out.append(begin, static_cast<size_t>(reader_.data().data() - begin));
}

}  // namespace ferry::onnx
