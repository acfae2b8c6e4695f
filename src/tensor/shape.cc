#include "tensor/shape.h"

#include <algorithm>

#include "base/error.h"

template class std::vector<int64_t>;

namespace ferry {

void Shape::Assign(const int64_t* dims, size_t rank) {
  if (rank > kInline) {
    auto heap = std::make_unique<int64_t[]>(rank);
    std::copy_n(dims, rank, heap.get());
    heap_ = std::move(heap);
  } else {
    std::copy_n(dims, rank, inline_);
    heap_.reset();
  }
  rank_ = rank;
}

void Shape::Take(Shape& other) noexcept {
  heap_ = std::move(other.heap_);
  rank_ = other.rank_;
  if (!heap_) std::copy_n(other.inline_, kInline, inline_);
  other.rank_ = 0;
}

Shape Shape::Filled(size_t rank, int64_t value) {
  std::vector<int64_t> dims(rank, value);
  return Shape(dims);
}

void Shape::push_back(int64_t dim) { insert(rank_, dim); }

void Shape::insert(size_t position, int64_t dim) {
  std::vector<int64_t> dims = ToVector();
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(position), dim);
  Assign(dims.data(), dims.size());
}

void Shape::erase(size_t position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  --rank_;
  if (heap_ && rank_ <= kInline) {
    std::copy_n(heap_.get(), rank_, inline_);
    heap_.reset();
  }
}

int64_t Shape::ElementCount() const { return CountBetween(0, rank_); }

int64_t Shape::CountBetween(size_t first, size_t last) const {
  // A zero anywhere makes the tensor empty, but the other sizes must still be sane.
  int64_t count = 1;
  bool has_zero = false;
  for (size_t axis = first; axis < last; ++axis) {
    int64_t dim = (*this)[axis];
    if (dim < 0) Fail(ErrorCode::kInvalidArgument, "shape ", *this, " has a negative dimension");
    if (dim == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(count, dim, &count)) {
      Fail(ErrorCode::kInvalidArgument, "shape ", *this, " has more elements than can be addressed");
    }
  }
  return has_zero ? 0 : count;
}

std::vector<int64_t> Shape::Strides() const {
  std::vector<int64_t> strides(rank_);
  int64_t stride = 1;
  for (size_t axis = rank_; axis-- > 0;) {
    strides[axis] = stride;
    stride = CheckedProduct(stride, std::max<int64_t>((*this)[axis], 1));
  }
  return strides;
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::string ToText(const Shape& shape) { return Cat("[", Join(shape, ", "), "]"); }

Shape BroadcastShapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  size_t offset = longer.rank() - shorter.rank();
  for (size_t axis = 0; axis < shorter.rank(); ++axis) {
    int64_t& dim = out[axis + offset];
    int64_t other = shorter[axis];
    if (dim == other || other == 1) continue;
    Require(dim == 1, "shapes ", a, " and ", b, " cannot be broadcast together");
    dim = other;
  }
  return out;
}

size_t NormalizeAxis(int64_t axis, size_t rank) {
  auto signed_rank = static_cast<int64_t>(rank);
  Require(axis >= -signed_rank && axis < signed_rank, "axis ", axis, " is out of range for rank ", rank);
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::vector<size_t> NormalizeAxes(std::span<const int64_t> axes, size_t rank) {
  std::vector<size_t> out;
  std::vector<bool> seen(rank);
  for (int64_t axis : axes) {
    size_t normalized = NormalizeAxis(axis, rank);
    Require(!seen[normalized], "axis ", axis, " is given twice");
    seen[normalized] = true;
    out.push_back(normalized);
  }
  return out;
}

int64_t CheckedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  Require(a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &product), "size ", a, " × ", b, " is out of range");
  return product;
}

}  // namespace ferry
