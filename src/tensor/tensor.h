// A dense row-major array over shared storage. Copying a Tensor shares its elements; Clone copies them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/memory_space.h"
#include "tensor/shape.h"

namespace ferry {

inline constexpr size_t kTensorAlignment = 64;

class MemoryAccount;  // base/memory_account.h

// Storage that outlives its tensors: memory of our own, a mapped file, a caller's array, a run's arena.
class Buffer {
 public:
  // Uninitialised, 64-byte aligned on the host; throws kLimit.
  static std::shared_ptr<Buffer> Allocate(size_t bytes, MemorySpace& space = HostMemory());
  static std::shared_ptr<Buffer> Strings(size_t count);
  // Memory that someone else owns; keep_alive may be null when the caller vouches for it.
  static std::shared_ptr<Buffer> Borrow(const void* data, size_t bytes, std::shared_ptr<const void> keep_alive,
                                        MemorySpace& space = HostMemory());
  // Memory that is used again for other values later in the same run (see Tensor::Persistent).
  static std::shared_ptr<Buffer> Arena(void* data, size_t bytes, MemorySpace& space = HostMemory());

  std::byte* data() { return data_; }  // an address of its space
  MemorySpace& space() const { return *space_; }
  size_t bytes() const { return bytes_; }
  std::vector<std::string>& strings() { return strings_; }
  bool is_arena() const { return is_arena_; }
  bool is_borrowed() const { return is_borrowed_; }
  // From now on another account (null: none) is charged with these bytes. Throws kLimit when it has not as many left.
  void ChargeTo(std::shared_ptr<MemoryAccount> account);
  // To be called before strings get so many bytes more; throws kLimit.
  void ChargeText(size_t bytes);
  // Charges for what the strings hold now, whatever was charged before.
  void SettleText();
  ~Buffer();

 private:
  Buffer() = default;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  MemorySpace* space_ = &HostMemory();
  bool owned_ = false;
  bool is_arena_ = false;
  bool is_borrowed_ = false;
  std::shared_ptr<const void> keep_alive_;
  std::shared_ptr<MemoryAccount> account_;
  size_t charged_ = 0;
  std::vector<std::string> strings_;
};

// Bytes that `count` elements take; elements narrower than a byte are packed, low bits first. Throws on overflow.
size_t StorageBytes(DType type, int64_t count);

class Tensor {
 public:
  Tensor() = default;
  // Allocates; elements are uninitialised (strings are empty, and on the host).
  Tensor(DType type, Shape shape, MemorySpace& space = HostMemory());
  Tensor(DType type, Shape shape, std::shared_ptr<Buffer> buffer, size_t byte_offset = 0);

  static Tensor Zeros(DType type, Shape shape);
  // A tensor over a caller's memory, not copied.
  static Tensor Borrow(DType type, Shape shape, const void* data, std::shared_ptr<const void> keep_alive = nullptr);
  template <class T>
  static Tensor Scalar(T value);
  template <class T>
  static Tensor FromVector(const std::vector<T>& values);  // rank 1
  template <class T>
  static Tensor FromVector(const std::vector<T>& values, Shape shape);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.rank(); }
  int64_t dim(size_t axis) const { return shape_[axis]; }
  int64_t size() const { return size_; }  // elements
  size_t bytes() const { return bytes_; }
  bool defined() const { return dtype_ != DType::kUndefined; }

  // Typed access on the host; the type must be the one stored. Memory of another space is an error.
  template <class T>
  const T* Data() const {
    CheckType(kDTypeOf<T>);
    if constexpr (std::is_same_v<T, std::string>)
      return StringData();
    else
      return reinterpret_cast<const T*>(data_);
  }
  template <class T>
  T* MutableData() {
    return const_cast<T*>(static_cast<const Tensor*>(this)->Data<T>());
  }
  template <class T>
  std::span<const T> Span() const {
    return {Data<T>(), static_cast<size_t>(size_)};
  }
  const std::byte* raw() const { return HostAddress(); }  // null for strings
  std::byte* mutable_raw() { return HostAddress(); }

  bool on_host() const { return host_dtype_ == dtype_; }
  MemorySpace& space() const { return buffer_ ? buffer_->space() : HostMemory(); }
  std::byte* address() const { return data_; }  // in its space
  // This tensor where it lies there already, else a copy.
  Tensor In(MemorySpace& space) const;

  // Views: the same storage under another shape, another type of the same width, or fewer rows of axis 0.
  Tensor Reshaped(Shape shape) const;
  Tensor ViewedAs(DType type) const;
  Tensor Rows(int64_t begin, int64_t count) const;

  Tensor Clone() const;
  // This tensor if its storage stays valid after the run, else a copy. Containers and results keep only these.
  Tensor Persistent() const { return buffer_ && buffer_->is_arena() ? Clone() : *this; }
  // Points the tensor at other storage of the same size: used by the engine to rebind prepared slots.
  void Rebind(std::shared_ptr<Buffer> buffer, size_t byte_offset);
  // For sizes that change from run to run in storage that is large enough already.
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  bool IsAligned(size_t alignment) const { return reinterpret_cast<uintptr_t>(data_) % alignment == 0; }

  // Packed tensors to one element per int8/uint8 (float4 and float6 codes as uint8) and back.
  Tensor Unpacked() const;
  static Tensor Pack(DType type, const Tensor& unpacked);

 private:
  void CheckType(DType asked) const {
    if (asked != host_dtype_) [[unlikely]]
      TypeMismatch(asked);
  }
  [[noreturn]] void TypeMismatch(DType asked) const;
  std::byte* HostAddress() const {
    if (!on_host()) [[unlikely]]
      FailElsewhere();
    return data_;
  }
  [[noreturn]] void FailElsewhere() const;
  const std::string* StringData() const;

  static constexpr DType kElsewhere = static_cast<DType>(0xff);

  DType dtype_ = DType::kUndefined;
  DType host_dtype_ = DType::kUndefined;  // kElsewhere where the host cannot read: typed access needs one comparison
  Shape shape_;
  int64_t size_ = 0;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t string_offset_ = 0;
  std::shared_ptr<Buffer> buffer_;
};

template <class T>
Tensor Tensor::Scalar(T value) {
  Tensor t(kDTypeOf<T>, {});
  *t.MutableData<T>() = value;
  return t;
}

template <class T>
Tensor Tensor::FromVector(const std::vector<T>& values, Shape shape) {
  Tensor t(kDTypeOf<T>, std::move(shape));
  Require(t.size() == static_cast<int64_t>(values.size()), values.size(), " values do not fill shape ", t.shape());
  T* out = t.MutableData<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return t;
}

template <class T>
Tensor Tensor::FromVector(const std::vector<T>& values) {
  return FromVector(values, Shape{static_cast<int64_t>(values.size())});
}

// The elements of an integer tensor (any width) as int64: for shapes, axes, indices.
std::vector<int64_t> ToInt64Vector(const Tensor& tensor);
// Bitwise equality of type, shape and elements.
bool Identical(const Tensor& a, const Tensor& b);

}  // namespace ferry
