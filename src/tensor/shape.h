// The sizes of a tensor's dimensions. Up to six live inside the object, so shapes cost no allocation in practice.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ferry {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { Assign(dims.begin(), dims.size()); }
  explicit Shape(std::span<const int64_t> dims) { Assign(dims.data(), dims.size()); }
  explicit Shape(const std::vector<int64_t>& dims) { Assign(dims.data(), dims.size()); }
  Shape(const Shape& other) { Assign(other.data(), other.rank()); }
  Shape(Shape&& other) noexcept { Take(other); }
  Shape& operator=(const Shape& other) {
    if (this != &other) Assign(other.data(), other.rank());
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this != &other) Take(other);
    return *this;
  }
  static Shape Filled(size_t rank, int64_t value);

  size_t rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  const int64_t* data() const { return heap_ ? heap_.get() : inline_; }
  int64_t* data() { return heap_ ? heap_.get() : inline_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + rank_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + rank_; }
  int64_t operator[](size_t axis) const { return data()[axis]; }
  int64_t& operator[](size_t axis) { return data()[axis]; }
  int64_t back() const { return data()[rank_ - 1]; }
  int64_t& back() { return data()[rank_ - 1]; }

  void push_back(int64_t dim);
  void insert(size_t position, int64_t dim);
  void erase(size_t position);

  std::span<const int64_t> dims() const { return {data(), rank_}; }
  std::vector<int64_t> ToVector() const { return {begin(), end()}; }

  // The number of elements; throws when a dimension is negative or the product does not fit in 63 bits.
  int64_t ElementCount() const;
  // The product of dims [first, last), same checks.
  int64_t CountBetween(size_t first, size_t last) const;

  // Row-major strides in elements.
  std::vector<int64_t> Strides() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  static constexpr size_t kInline = 6;
  void Assign(const int64_t* dims, size_t rank);
  void Take(Shape& other) noexcept;

  size_t rank_ = 0;
  int64_t inline_[kInline] = {};
  std::unique_ptr<int64_t[]> heap_;
};

std::string ToText(const Shape& shape);  // "[2, 3, 224]"

// numpy's broadcasting; throws naming both shapes when they do not go together.
Shape BroadcastShapes(const Shape& a, const Shape& b);
// Turns an axis in [-rank, rank) into [0, rank); throws otherwise.
size_t NormalizeAxis(int64_t axis, size_t rank);
// Several axes at once: normalized, in the order given; a repeated one is an error.
std::vector<size_t> NormalizeAxes(std::span<const int64_t> axes, size_t rank);
// a*b with overflow and sign checked.
int64_t CheckedProduct(int64_t a, int64_t b);

}  // namespace ferry

extern template class std::vector<int64_t>;
