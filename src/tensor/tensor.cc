#include "tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/memory_account.h"
#include "base/run_scope.h"
#include "base/work_poll.h"

namespace ferry {

namespace {

// Large memory is written in parts, so that a run can be ended meanwhile.
template <class Body>
void ForParts(size_t bytes, const Body& body) {
  constexpr size_t kPart = size_t{16} << 20;
  for (size_t at = 0; at < bytes; at += kPart) {
    if (at > 0) CheckRun();
    body(at, std::min(kPart, bytes - at));
  }
}

}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t bytes, MemorySpace& space) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->bytes_ = bytes;
  buffer->ChargeTo(RunScope::CurrentAccount());
  buffer->data_ = space.Allocate(bytes);
  buffer->space_ = &space;
  buffer->owned_ = true;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::Strings(size_t count) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->bytes_ = count * sizeof(std::string);
  buffer->ChargeTo(RunScope::CurrentAccount());
  buffer->strings_.resize(count);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::Borrow(const void* data, size_t bytes, std::shared_ptr<const void> keep_alive,
                                       MemorySpace& space) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = static_cast<std::byte*>(const_cast<void*>(data));
  buffer->bytes_ = bytes;
  buffer->space_ = &space;
  buffer->is_borrowed_ = true;
  buffer->keep_alive_ = std::move(keep_alive);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::Arena(void* data, size_t bytes, MemorySpace& space) {
  std::shared_ptr<Buffer> buffer = Borrow(data, bytes, nullptr, space);
  buffer->is_arena_ = true;
  return buffer;
}

void Buffer::ChargeTo(std::shared_ptr<MemoryAccount> account) {
  if (account == account_) return;
  const size_t bytes = account_ ? charged_ : bytes_;
  if (account) account->Charge(bytes);
  if (account_) account_->Credit(charged_);
  account_ = std::move(account);
  charged_ = account_ ? bytes : 0;
}

void Buffer::ChargeText(size_t bytes) {
  if (!account_) return;
  account_->Charge(bytes);
  __atomic_fetch_add(&charged_, bytes, __ATOMIC_RELAXED);  // threads of one loop may write strings of one buffer
}

void Buffer::SettleText() {
  if (!account_) return;
  size_t held = bytes_;
  for (const std::string& text : strings_) held += text.size();
  if (held > charged_) return ChargeText(held - charged_);
  account_->Credit(charged_ - held);
  charged_ = held;
}

Buffer::~Buffer() {
  if (account_) account_->Credit(charged_);
  if (owned_) space_->Free(data_, bytes_);
}

size_t StorageBytes(DType type, int64_t count) {
  Require(count >= 0, "a tensor cannot have ", count, " elements");
  auto n = static_cast<uint64_t>(count);
  int bits = BitWidth(type);
  if (bits == 0) return 0;
  uint64_t bytes = n / 8 * static_cast<uint64_t>(bits) + (n % 8 * static_cast<uint64_t>(bits) + 7) / 8;
  if ((bits >= 8 && __builtin_mul_overflow(n, static_cast<uint64_t>(bits / 8), &bytes)) || bytes > PTRDIFF_MAX)
    Fail(ErrorCode::kLimit, count, " elements of ", type, " are more than can be addressed");
  return static_cast<size_t>(bytes);
}

Tensor::Tensor(DType type, Shape shape, MemorySpace& space)
    : dtype_(type),
      host_dtype_(&space == &HostMemory() || type == DType::kString ? type : kElsewhere),
      shape_(std::move(shape)),
      size_(shape_.ElementCount()),
      bytes_(StorageBytes(type, size_)) {
  if (type == DType::kString) {
    constexpr int64_t kMostStrings = std::min<int64_t>(int64_t{1} << 32, PTRDIFF_MAX / sizeof(std::string));
    Require(size_ <= kMostStrings, "a tensor of ", size_, " strings is too large");
    buffer_ = Buffer::Strings(static_cast<size_t>(size_));
  } else {
    buffer_ = Buffer::Allocate(bytes_, space);
    data_ = buffer_->data();
  }
}

Tensor::Tensor(DType type, Shape shape, std::shared_ptr<Buffer> buffer, size_t byte_offset)
    : dtype_(type), shape_(std::move(shape)), size_(shape_.ElementCount()), bytes_(StorageBytes(type, size_)) {
  Rebind(std::move(buffer), byte_offset);
}

void Tensor::Rebind(std::shared_ptr<Buffer> buffer, size_t byte_offset) {
  Require(dtype_ != DType::kString, "strings cannot be placed in plain storage");
  Require(byte_offset <= buffer->bytes() && bytes_ <= buffer->bytes() - byte_offset, "storage is too small for shape ",
          shape_);
  buffer_ = std::move(buffer);
  data_ = buffer_->data() + byte_offset;
  host_dtype_ = &buffer_->space() == &HostMemory() ? dtype_ : kElsewhere;
}

Tensor Tensor::Zeros(DType type, Shape shape) {
  Tensor t(type, std::move(shape));
  ForParts(t.bytes_, [&](size_t at, size_t bytes) { std::memset(t.data_ + at, 0, bytes); });
  return t;
}

Tensor Tensor::Borrow(DType type, Shape shape, const void* data, std::shared_ptr<const void> keep_alive) {
  size_t bytes = StorageBytes(type, shape.ElementCount());
  return Tensor(type, std::move(shape), Buffer::Borrow(data, bytes, std::move(keep_alive)));
}

Tensor Tensor::Reshaped(Shape shape) const {
  Require(shape.ElementCount() == size_, "shape ", shape_, " cannot be seen as ", shape);
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::ViewedAs(DType type) const {
  Require(BitWidth(type) == BitWidth(dtype_) && BitWidth(type) > 0, dtype_, " cannot be seen as ", type);
  Tensor t = *this;
  t.dtype_ = type;
  t.host_dtype_ = on_host() ? type : kElsewhere;
  return t;
}

Tensor Tensor::Rows(int64_t begin, int64_t count) const {
  Require(rank() > 0 && begin >= 0 && count >= 0 && begin <= dim(0) && count <= dim(0) - begin, "rows ", begin, " to ",
          begin + count, " are outside shape ", shape_);
  int64_t row = shape_.CountBetween(1, rank());
  Require(!IsPacked(dtype_) || row % 8 * BitWidth(dtype_) % 8 == 0, "rows of shape ", shape_, " share bytes");
  Tensor t = *this;
  t.shape_[0] = count;
  t.size_ = row * count;
  t.bytes_ = StorageBytes(dtype_, t.size_);
  if (dtype_ == DType::kString)
    t.string_offset_ += static_cast<size_t>(row * begin);
  else
    t.data_ += StorageBytes(dtype_, row * begin);
  return t;
}

Tensor Tensor::Clone() const {
  if (!defined()) return {};
  Tensor t(dtype_, shape_, space());
  if (dtype_ == DType::kString) {
    const std::string* from = StringData();
    size_t text = 0;
    for (int64_t i = 0; i < size_; ++i) text += from[i].size();
    t.buffer_->ChargeText(text);
    std::copy(from, from + size_, t.MutableData<std::string>());
  } else if (bytes_ > 0) {
    ForParts(bytes_, [&](size_t at, size_t bytes) { space().CopyInside(t.data_ + at, data_ + at, bytes); });
  }
  return t;
}

Tensor Tensor::In(MemorySpace& to) const {
  MemorySpace& from = space();
  if (&from == &to || !defined() || dtype_ == DType::kString) return *this;
  Tensor t(dtype_, shape_, to);
  if (bytes_ == 0) return t;
  if (&from == &HostMemory()) {
    to.CopyFromHost(t.data_, data_, bytes_);
  } else if (&to == &HostMemory()) {
    from.CopyToHost(t.data_, data_, bytes_);
  } else {
    to.CopyFromHost(t.data_, In(HostMemory()).data_, bytes_);
  }
  return t;
}

const std::string* Tensor::StringData() const { return buffer_->strings().data() + string_offset_; }

void Tensor::TypeMismatch(DType asked) const {
  if (!on_host()) FailElsewhere();
  Fail(ErrorCode::kInvalidArgument, "expected a tensor of ", asked, ", got ", dtype_);
}

void Tensor::FailElsewhere() const {
  Fail(ErrorCode::kInternal, "a tensor of ", dtype_, " ", shape_, " lies in the memory of '", space().name(),
       "', which the host cannot read: it has to be copied first");
}

namespace {
// Packed elements lie one after the other, low bits first; 6-bit ones straddle bytes.
struct BitPlace {
  int64_t byte;
  int shift;
};
BitPlace PlaceOf(int64_t element, int bits) {
  int within = static_cast<int>(element % 8) * bits;
  return {element / 8 * bits + within / 8, within % 8};
}
}  // namespace

Tensor Tensor::Unpacked() const {
  int bits = BitWidth(dtype_);
  Require(IsPacked(dtype_), dtype_, " is not a packed type");
  bool is_signed = IsSignedInteger(dtype_);
  Tensor out(is_signed ? DType::kInt8 : DType::kUInt8, shape_);
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  auto* from = reinterpret_cast<const uint8_t*>(raw());
  unsigned mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  for (int64_t i = 0; i < size_; ++i) {
    BitPlace place = PlaceOf(i, bits);
    unsigned code = from[place.byte] >> place.shift;
    if (place.shift + bits > 8) code |= unsigned{from[place.byte + 1]} << (8 - place.shift);
    code &= mask;
    if (is_signed && (code & sign)) code |= ~mask;
    to[i] = static_cast<uint8_t>(code);
  }
  return out;
}

Tensor Tensor::Pack(DType type, const Tensor& unpacked) {
  int bits = BitWidth(type);
  Require(IsPacked(type) && BitWidth(unpacked.dtype()) == 8, unpacked.dtype(), " cannot be packed as ", type);
  Tensor out = Zeros(type, unpacked.shape());
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  auto* from = reinterpret_cast<const uint8_t*>(unpacked.raw());
  unsigned mask = (1u << bits) - 1;
  for (int64_t i = 0; i < out.size_; ++i) {
    BitPlace place = PlaceOf(i, bits);
    unsigned code = (from[i] & mask) << place.shift;
    to[place.byte] = static_cast<uint8_t>(to[place.byte] | code);
    if (place.shift + bits > 8) to[place.byte + 1] = static_cast<uint8_t>(code >> 8);
  }
  return out;
}

namespace {
template <class T>
std::vector<int64_t> Widen(const Tensor& tensor) {
  const T* data = tensor.Data<T>();
  std::vector<int64_t> wide;
  wide.reserve(static_cast<size_t>(tensor.size()));
  ForLookedParts(tensor.size(), 1,
                 [&](int64_t begin, int64_t end) { wide.insert(wide.end(), data + begin, data + end); });
  return wide;
}
}  // namespace

std::vector<int64_t> ToInt64Vector(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kInt64: return Widen<int64_t>(tensor);
    case DType::kInt32: return Widen<int32_t>(tensor);
    case DType::kInt16: return Widen<int16_t>(tensor);
    case DType::kInt8: return Widen<int8_t>(tensor);
    case DType::kUInt64: return Widen<uint64_t>(tensor);
    case DType::kUInt32: return Widen<uint32_t>(tensor);
    case DType::kUInt16: return Widen<uint16_t>(tensor);
    case DType::kUInt8: return Widen<uint8_t>(tensor);
    case DType::kBool: return Widen<bool>(tensor);
    default: Fail(ErrorCode::kInvalidArgument, "expected integers, got ", tensor.dtype());
  }
}

bool Identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.dtype() == DType::kString)
    return std::equal(a.Data<std::string>(), a.Data<std::string>() + a.size(), b.Data<std::string>());
  return a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace ferry
