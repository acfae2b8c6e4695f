#include "ops/support/cast_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/poll.h"
#include "base/work_poll.h"
#include "ops/support/dispatch.h"
#include "ops/support/number_text.h"
#include "ops/support/numeric_cast.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

constexpr int64_t kPiece = 512;

// Conversions meet in one of four wide types: loops for every type, not for every pair of types.
DType MeetingType(DType type) {
  if (type == DType::kDouble || type == DType::kUInt64) return type;
  return IsFloating(type) ? DType::kFloat : DType::kInt64;
}

using SmallInts = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t>;
using Targets = TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>;

// `count` elements of `type` in its meeting type: `from` itself where nothing has to be done.
const void* Load(DType type, const std::byte* from, void* wide, int64_t count) {
  if (type == MeetingType(type)) return from;
  if (IsSmallFloat(type)) {
    WidenRun(type, from, static_cast<float*>(wide), count);
  } else if (type == DType::kBool) {
    auto* bytes = reinterpret_cast<const uint8_t*>(from);
    for (int64_t i = 0; i < count; ++i) static_cast<int64_t*>(wide)[i] = bytes[i] != 0;
  } else {
    Dispatch(SmallInts{}, type, [&](auto tag) {
      auto* values = reinterpret_cast<const typename decltype(tag)::type*>(from);
      for (int64_t i = 0; i < count; ++i) static_cast<int64_t*>(wide)[i] = values[i];
    });
  }
  return wide;
}

// Cut to float with the last bit set when anything was lost: rounding that to fewer bits gives what rounding the double
// itself would give.
float ToOddFloat(double value) {
  auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits = FloatBits(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return FloatFromBits(bits | 1);
}
float ToOddFloat(float value) { return value; }
float ToOddFloat(int64_t value) { return ToOddFloat(static_cast<double>(value)); }
float ToOddFloat(uint64_t value) { return ToOddFloat(static_cast<double>(value)); }

void StoreSmallFloats(DType type, const float* from, std::byte* to, int64_t count, const CastOptions& options) {
  auto store = [&](auto convert) {
    using T = decltype(convert(0.0f));
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = convert(from[i]);
  };
  Overflow overflow = options.float8_overflow;
  switch (type) {
    case DType::kFloat8E4M3FN: return store([=](float v) { return ToFloat8E4M3FN(v, overflow); });
    case DType::kFloat8E4M3FNUZ: return store([=](float v) { return ToFloat8E4M3FNUZ(v, overflow); });
    case DType::kFloat8E5M2: return store([=](float v) { return ToFloat8E5M2(v, overflow); });
    case DType::kFloat8E5M2FNUZ: return store([=](float v) { return ToFloat8E5M2FNUZ(v, overflow); });
    case DType::kFloat8E8M0: return store([&](float v) { return ToFloat8E8M0(v, options.scale_rounding, overflow); });
    default: return NarrowRun(type, from, to, count);
  }
}

template <class Wide>
void Store(DType type, const Wide* from, std::byte* to, int64_t count, const CastOptions& options) {
  if (IsSmallFloat(type)) {
    float narrow[kPiece];
    for (int64_t i = 0; i < count; ++i) narrow[i] = ToOddFloat(from[i]);
    return StoreSmallFloats(type, narrow, to, count, options);
  }
  Dispatch(Targets{}, type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = NumericCast<T>(from[i]);
  });
}

std::string TextOf(DType type, const void* wide, int64_t i) {
  switch (MeetingType(type)) {
    case DType::kFloat: return FloatText(static_cast<const float*>(wide)[i], type);
    case DType::kDouble: return FloatText(static_cast<const double*>(wide)[i], type);
    case DType::kUInt64: return std::to_string(static_cast<const uint64_t*>(wide)[i]);
    default: break;
  }
  int64_t value = static_cast<const int64_t*>(wide)[i];
  if (type == DType::kBool) return value ? "True" : "False";
  return std::to_string(value);
}

void WriteTexts(const Tensor& from, Tensor& to) {
  std::string* texts = to.MutableData<std::string>();
  auto width = static_cast<int64_t>(BitWidth(from.dtype()) / 8);
  for (int64_t at = 0; at < from.size(); at += kPiece) {
    alignas(8) std::byte buffer[kPiece * 8];
    int64_t count = std::min(kPiece, from.size() - at);
    CheckRun();
    const void* wide = Load(from.dtype(), from.raw() + at * width, buffer, count);
    for (int64_t i = 0; i < count; ++i) texts[at + i] = TextOf(from.dtype(), wide, i);
  }
}

// Integers are read digit by digit, so that all 64 bits count; anything else goes through double.
void ReadText(const std::string& text, DType type, std::byte* to) {
  static constexpr CastOptions kPlain;
  if (IsInteger(type)) {
    if (std::optional<int64_t> value = ParseInt(text)) return Store(type, &*value, to, 1, kPlain);
    if (std::optional<uint64_t> value = ParseUInt(text)) return Store(type, &*value, to, 1, kPlain);
  }
  std::optional<double> value = ParseFloat(text);
  if (type == DType::kBool && EqualIgnoringCase(text, "true")) value = 1;
  if (type == DType::kBool && EqualIgnoringCase(text, "false")) value = 0;
  Require(value.has_value(), "\"", Printable(text, 40), "\" is not a number and cannot be cast to ", type);
  Store(type, &*value, to, 1, kPlain);
}

void ReadTexts(const Tensor& from, Tensor& to, const CastOptions& options) {
  const std::string* texts = from.Data<std::string>();
  DType type = to.dtype();
  if (IsSmallFloat(type)) {
    Tensor values(DType::kDouble, from.shape());
    ReadTexts(from, values, options);
    return CastInto(values, to, options);
  }
  auto width = static_cast<int64_t>(BitWidth(type) / 8);
  Poll poll;
  for (int64_t i = 0; i < from.size(); ++i, poll()) ReadText(texts[i], type, to.mutable_raw() + i * width);
}

// What a packed type is converted through: bytes for integers, float for floats.
DType UnpackedType(DType type) {
  if (IsFloating(type)) return DType::kFloat;
  return IsSignedInteger(type) ? DType::kInt8 : DType::kUInt8;
}

Tensor ToPacked(const Tensor& from, DType type, const CastOptions& options) {
  if (IsFloating(type)) {
    Tensor values(DType::kFloat, from.shape());
    if (from.dtype() == DType::kDouble) {
      std::transform(from.Data<double>(), from.Data<double>() + from.size(), values.MutableData<float>(),
                     [](double v) { return ToOddFloat(v); });
    } else {
      CastInto(from, values, options);
    }
    return NarrowFromFloat(values, type);
  }
  return Tensor::Pack(type, CastTensor(from, UnpackedType(type), options));
}

}  // namespace

void CastRange(const Tensor& from, Tensor& to, int64_t begin, int64_t end, const CastOptions& options) {
  auto from_width = static_cast<int64_t>(BitWidth(from.dtype()) / 8);
  auto to_width = static_cast<int64_t>(BitWidth(to.dtype()) / 8);
  WorkPoll poll;
  for (int64_t at = begin; at < end; at += kPiece) {
    alignas(8) std::byte buffer[kPiece * 8];
    int64_t count = std::min(kPiece, end - at);
    poll(count);
    std::byte* target = to.mutable_raw() + at * to_width;
    if (IsSmallFloat(from.dtype()) && to.dtype() == DType::kFloat) {
      Load(from.dtype(), from.raw() + at * from_width, target, count);
      continue;
    }
    const void* wide = Load(from.dtype(), from.raw() + at * from_width, buffer, count);
    switch (MeetingType(from.dtype())) {
      case DType::kFloat: Store(to.dtype(), static_cast<const float*>(wide), target, count, options); break;
      case DType::kDouble: Store(to.dtype(), static_cast<const double*>(wide), target, count, options); break;
      case DType::kUInt64: Store(to.dtype(), static_cast<const uint64_t*>(wide), target, count, options); break;
      default: Store(to.dtype(), static_cast<const int64_t*>(wide), target, count, options); break;
    }
  }
}

void CastInto(const Tensor& from, Tensor& to, const CastOptions& options) {
  Require(from.shape() == to.shape(), "shape ", from.shape(), " cannot be cast into ", to.shape());
  if (from.dtype() == to.dtype()) {
    if (from.dtype() == DType::kString)
      std::copy_n(from.Data<std::string>(), from.size(), to.MutableData<std::string>());
    else if (from.bytes() > 0 && from.raw() != to.raw())
      std::memcpy(to.mutable_raw(), from.raw(), from.bytes());
    return;
  }
  if (IsComplex(from.dtype()) || IsComplex(to.dtype()))
    Fail(ErrorCode::kUnsupported, from.dtype(), " cannot be cast to ", to.dtype());
  if (IsPacked(from.dtype())) {
    Tensor plain = IsFloating(from.dtype()) ? WidenToFloat(from) : from.Unpacked();
    return CastInto(plain, to, options);
  }
  if (IsPacked(to.dtype())) {
    Tensor packed =
        from.dtype() == DType::kString
            ? ToPacked(CastTensor(from, IsFloating(to.dtype()) ? DType::kDouble : DType::kInt64), to.dtype(), options)
            : ToPacked(from, to.dtype(), options);
    if (packed.bytes() > 0) std::memcpy(to.mutable_raw(), packed.raw(), packed.bytes());
    return;
  }
  if (to.dtype() == DType::kString) return WriteTexts(from, to);
  if (from.dtype() == DType::kString) return ReadTexts(from, to, options);
  CastRange(from, to, 0, from.size(), options);
}

Tensor CastTensor(const Tensor& tensor, DType type, const CastOptions& options) {
  if (tensor.dtype() == type) return tensor;
  Tensor out(type, tensor.shape());
  CastInto(tensor, out, options);
  return out;
}

}  // namespace ferry
