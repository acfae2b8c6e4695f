#include "tensor/npy.h"

#include <algorithm>
#include <cstring>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "tensor/npy_header.h"
#include "tensor/npz_view.h"

namespace ferry {
namespace {

constexpr size_t kLongestHeader = 1 << 20;
constexpr int64_t kMostStringBytes = int64_t{1} << 31;

struct ElementCode {
  DType dtype;
  const char* code;  // kind and width, without the byte order
};

constexpr ElementCode kElementCodes[] = {
    {DType::kFloat, "f4"},     {DType::kDouble, "f8"},      {DType::kFloat16, "f2"},  {DType::kInt8, "i1"},
    {DType::kInt16, "i2"},     {DType::kInt32, "i4"},       {DType::kInt64, "i8"},    {DType::kUInt8, "u1"},
    {DType::kUInt16, "u2"},    {DType::kUInt32, "u4"},      {DType::kUInt64, "u8"},   {DType::kBool, "b1"},
    {DType::kComplex64, "c8"}, {DType::kComplex128, "c16"}, {DType::kBFloat16, "V2"},
};

// How the elements lie in the file.
struct Layout {
  DType stored = DType::kUndefined;  // the type of the elements in the file; kString for text
  DType wanted = DType::kUndefined;  // what they stand for
  size_t element_bytes = 0;          // of one element in the file
  bool big_endian = false;
  char text_kind = '\0';  // 'U' or 'S'
};

int64_t ParseWidth(std::string_view digits, std::string_view descr) {
  int64_t width = 0;
  for (char c : digits) {
    if (c < '0' || c > '9' || width > kMostStringBytes)
      Fail(ErrorCode::kInvalidModel, "the element type '", Printable(descr), "' is not one numpy writes");
    width = width * 10 + (c - '0');
  }
  return width;
}

Layout UnderstandDescr(const NpyHeader& header) {
  std::string_view descr = header.descr;
  Layout layout;
  bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  std::string_view code = descr.substr(has_order ? 1 : 0);
  layout.big_endian = has_order && descr[0] == '>';
  if (code.starts_with('O'))
    Fail(ErrorCode::kUnsupported,
         "the .npy file holds Python objects, which only running code could load; save numbers or strings");
  if (code.starts_with('U') || code.starts_with('S')) {
    layout.stored = layout.wanted = DType::kString;
    layout.text_kind = code[0];
    int64_t width = ParseWidth(code.substr(1), descr) * (code[0] == 'U' ? 4 : 1);
    layout.element_bytes = static_cast<size_t>(width);
    return layout;
  }
  for (const ElementCode& known : kElementCodes)
    if (code == known.code) layout.stored = layout.wanted = known.dtype;
  if (layout.stored == DType::kUndefined) {
    std::string_view hint = code == "V1" ? "; it does not say which 8-bit type: save array.view(numpy.uint8)" : "";
    Fail(ErrorCode::kUnsupported, "the element type '", Printable(descr), "' has no counterpart in ONNX", hint);
  }
  layout.element_bytes = static_cast<size_t>(BitWidth(layout.stored)) / 8;
  if (!header.field.empty()) {
    layout.wanted = DTypeFromName(header.field);
    bool fits =
        IsPacked(layout.wanted) ? layout.element_bytes == 1 : BitWidth(layout.wanted) == BitWidth(layout.stored);
    if (layout.wanted == DType::kUndefined || layout.wanted == DType::kString || !fits)
      Fail(ErrorCode::kUnsupported, "the record type [('", Printable(header.field), "', '", Printable(descr),
           "')] is not one of the types of ONNX");
  }
  return layout;
}

// Copies elements of `width` bytes from Fortran to C order.
void CopyTransposed(const Shape& shape, size_t width, const std::byte* from, std::byte* to) {
  size_t rank = shape.rank();
  std::vector<int64_t> strides(rank), index(rank);
  int64_t stride = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  int64_t offset = 0;
  for (int64_t i = 0, count = shape.ElementCount(); i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * width, from + static_cast<size_t>(offset) * width, width);
    for (size_t axis = rank; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

void SwapBytes(std::byte* data, size_t count, size_t width) {
  if (width < 2) return;
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

std::string DecodeUtf32(const std::byte* bytes, size_t units, bool big_endian) {
  std::string text;
  std::string zeros;  // numpy pads with zeros: those at the end are no part of the string
  for (size_t i = 0; i < units; ++i) {
    uint32_t unit = 0;
    for (size_t b = 0; b < 4; ++b)
      unit |= std::to_integer<uint32_t>(bytes[4 * i + b]) << (8 * (big_endian ? 3 - b : b));
    if (unit == 0) {
      zeros.push_back('\0');
      continue;
    }
    if (unit > 0x10FFFF || (unit >= 0xD800 && unit < 0xE000))
      Fail(ErrorCode::kInvalidModel, "a string of the .npy file holds ", unit, ", which is no Unicode character");
    text += zeros;
    zeros.clear();
    AppendCodePoint(text, unit);
  }
  return text;
}

Tensor DecodeStrings(const Layout& layout, const Shape& shape, const std::byte* from) {
  Tensor out(DType::kString, shape);
  std::string* to = out.MutableData<std::string>();
  for (int64_t i = 0; i < out.size(); ++i, from += layout.element_bytes) {
    if (layout.text_kind == 'U') {
      to[i] = DecodeUtf32(from, layout.element_bytes / 4, layout.big_endian);
    } else {
      std::string_view padded(reinterpret_cast<const char*>(from), layout.element_bytes);
      size_t last = padded.find_last_not_of('\0');
      to[i] = padded.substr(0, last == std::string_view::npos ? 0 : last + 1);
    }
  }
  return out;
}

// In memory a bool is 0 or 1; a file may hold anything.
Tensor NormalizeBools(Tensor tensor) {
  auto* bytes = reinterpret_cast<const uint8_t*>(tensor.raw());
  auto count = static_cast<size_t>(tensor.size());
  if (std::all_of(bytes, bytes + count, [](uint8_t b) { return b <= 1; })) return tensor;
  Tensor out(DType::kBool, tensor.shape());
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  std::transform(bytes, bytes + count, to, [](uint8_t b) { return uint8_t{b != 0}; });
  return out;
}

Tensor DecodeElements(const NpyHeader& header, const Layout& layout, const SharedBytes& file, const std::byte* data,
                      bool at_any_byte) {
  Shape shape(header.shape);
  bool transposed = header.fortran_order && shape.rank() > 1;
  size_t bytes = static_cast<size_t>(shape.ElementCount()) * layout.element_bytes;
  std::shared_ptr<std::vector<std::byte>> untransposed;
  if (transposed && layout.stored == DType::kString) {
    untransposed = std::make_shared<std::vector<std::byte>>(bytes);
    CopyTransposed(shape, layout.element_bytes, data, untransposed->data());
    data = untransposed->data();
  }
  if (layout.stored == DType::kString) return DecodeStrings(layout, shape, data);

  // Complex numbers are swapped and aligned as two halves.
  size_t scalar = IsComplex(layout.stored) ? layout.element_bytes / 2 : layout.element_bytes;
  bool in_place = !transposed && (!layout.big_endian || scalar == 1) &&
                  (at_any_byte || reinterpret_cast<uintptr_t>(data) % scalar == 0);
  Tensor tensor;
  if (in_place) {
    tensor = Tensor::Borrow(layout.stored, shape, data, file.keep_alive);
  } else {
    tensor = Tensor(layout.stored, shape);
    if (transposed)
      CopyTransposed(shape, layout.element_bytes, data, tensor.mutable_raw());
    else if (bytes > 0)
      std::memcpy(tensor.mutable_raw(), data, bytes);
    if (layout.big_endian) SwapBytes(tensor.mutable_raw(), bytes / scalar, scalar);
  }
  if (layout.stored == DType::kBool) tensor = NormalizeBools(std::move(tensor));
  if (IsPacked(layout.wanted)) return Tensor::Pack(layout.wanted, tensor);
  return layout.wanted == layout.stored ? tensor : tensor.ViewedAs(layout.wanted);
}

// Text as numpy's '<U': UTF-32, every element as wide as the longest. What is not UTF-8 goes as bytes, '|S'.
NpyPieces EncodeStrings(const Tensor& tensor) {
  std::span<const std::string> texts = tensor.Span<std::string>();
  bool unicode = std::all_of(texts.begin(), texts.end(), [](const std::string& s) { return IsValidUtf8(s); });
  size_t longest = 1;
  for (const std::string& text : texts) {
    if (text.ends_with('\0'))
      Fail(ErrorCode::kUnsupported, "a string that ends in a zero byte cannot be saved as .npy, which would drop it");
    auto is_lead = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    longest = std::max(longest,
                       unicode ? static_cast<size_t>(std::count_if(text.begin(), text.end(), is_lead)) : text.size());
  }
  size_t width = longest * (unicode ? 4 : 1);
  NpyPieces out;
  out.header = FormatNpyHeader({.descr = Cat(unicode ? "<U" : "|S", longest), .shape = tensor.shape().ToVector()});
  int64_t total = CheckedProduct(static_cast<int64_t>(texts.size()), static_cast<int64_t>(width));
  out.elements = Tensor::Zeros(DType::kUInt8, Shape{total});
  std::byte* to = out.elements.mutable_raw();
  for (const std::string& text : texts) {
    std::byte* at = to;
    if (!unicode && !text.empty()) std::memcpy(at, text.data(), text.size());
    for (size_t position = 0; unicode && position < text.size(); at += 4) {
      uint32_t unit = NextCodePoint(text, position);
      for (size_t b = 0; b < 4; ++b) at[b] = static_cast<std::byte>(unit >> (8 * b));
    }
    to += width;
  }
  return out;
}

DType UnsignedOfWidth(int bits) { return bits == 16 ? DType::kUInt16 : DType::kUInt8; }

Tensor ReadArray(const SharedBytes& file, bool at_any_byte) {
  std::string_view text = file.text();
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!text.starts_with(kMagic) || text.size() < 10) Fail(ErrorCode::kInvalidModel, "is not a .npy file");
  auto byte = [&](size_t at) { return size_t{static_cast<uint8_t>(text[at])}; };
  size_t version = byte(6);
  size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || text.size() < 8 + length_bytes)
    Fail(ErrorCode::kInvalidModel, "is cut, or a .npy file of unknown version ", version);
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) header_bytes |= byte(8 + i) << (8 * i);
  size_t begin = 8 + length_bytes;
  if (header_bytes > kLongestHeader || header_bytes > text.size() - begin)
    Fail(ErrorCode::kInvalidModel, "is cut, or lies about its .npy header of ", header_bytes, " bytes");
  NpyHeader header = ParseNpyHeader(text.substr(begin, header_bytes));
  Layout layout = UnderstandDescr(header);
  begin += header_bytes;
  int64_t count = Shape(header.shape).ElementCount();
  constexpr int64_t kMostEmptyStrings = 1 << 20;  // they take no bytes in the file, but do in memory
  if (layout.element_bytes == 0 && count > kMostEmptyStrings)
    Fail(ErrorCode::kLimit, "shape ", Shape(header.shape), " of empty strings is too large");
  auto expected = static_cast<uint64_t>(CheckedProduct(count, static_cast<int64_t>(layout.element_bytes)));
  if (expected != text.size() - begin)
    Fail(ErrorCode::kInvalidModel, "shape ", Shape(header.shape), " of '", Printable(header.descr), "' takes ",
         expected, " bytes, the file has ", text.size() - begin);
  return DecodeElements(header, layout, file, file.bytes.data() + begin, at_any_byte);
}

}  // namespace

Tensor ReadNpy(const SharedBytes& file) { return ReadArray(file, false); }

Tensor ViewNpy(const SharedBytes& file) { return ReadArray(file, true); }

Tensor ReadNpy(const std::string& path) {
  std::shared_ptr<MappedFile> file = MappedFile::Open(path);
  try {
    return ReadNpy(SharedBytes{{file->data(), file->size()}, file});
  } catch (Error& error) {
    throw error.At(Printable(path));
  }
}

NpyPieces EncodeNpy(const Tensor& tensor) {
  Require(tensor.defined(), "an undefined tensor cannot be saved");
  if (tensor.dtype() == DType::kString) return EncodeStrings(tensor);
  NpyHeader header{.shape = tensor.shape().ToVector()};
  NpyPieces out{.elements = tensor};
  bool known_to_numpy = false;
  for (const ElementCode& known : kElementCodes)
    known_to_numpy = known_to_numpy || (known.dtype == tensor.dtype() && known.code[0] != 'V');
  if (!known_to_numpy) {
    header.field = Name(tensor.dtype());
    out.elements =
        IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor.ViewedAs(UnsignedOfWidth(BitWidth(tensor.dtype())));
  }
  for (const ElementCode& known : kElementCodes)
    if (known.dtype == out.elements.dtype()) header.descr = Cat(BitWidth(known.dtype) == 8 ? "|" : "<", known.code);
  out.header = FormatNpyHeader(header);
  return out;
}

void WriteNpy(const std::string& path, const Tensor& tensor) {
  NpyPieces npy = EncodeNpy(tensor);
  AtomicFile file(path);
  file.Write(npy.header);
  file.Write({reinterpret_cast<const char*>(npy.bytes().data()), npy.bytes().size()});
  file.CommitUnsynced();
}

}  // namespace ferry
