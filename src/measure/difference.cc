#include "measure/difference.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>

#include "measure/elements.h"
#include "ops/support/dispatch.h"

namespace ferry {
namespace {

constexpr int64_t kChunk = 4096;

std::string PlaceOf(int64_t index, const Shape& shape) {
  std::vector<int64_t> place(shape.rank());
  for (size_t axis = shape.rank(); axis-- > 0;) {
    place[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return Cat("[", Join(place, ", "), "]");
}

// Sums up element after element, in whichever form they come.
class Tally {
 public:
  Tally(const Shape& shape, Tolerance tolerance) : shape_(shape), tolerance_(tolerance) {}

  void Floats(double actual, double expected) {
    ++result_.elements;
    if (std::isfinite(actual) && std::isfinite(expected)) {
      Measure(std::abs(actual - expected), std::abs(expected), actual, expected);
    } else if (!(std::isnan(actual) && std::isnan(expected)) && actual != expected) {
      Outside(actual, expected);
    }
  }

  void Complex(std::complex<double> actual, std::complex<double> expected) {
    ++result_.elements;
    auto finite = [](std::complex<double> z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); };
    auto is_nan = [](std::complex<double> z) { return std::isnan(z.real()) || std::isnan(z.imag()); };
    if (finite(actual) && finite(expected)) {
      Measure(std::abs(actual - expected), std::abs(expected), ToText(actual), ToText(expected));
    } else if (!(is_nan(actual) && is_nan(expected)) && actual != expected) {
      Outside(ToText(actual), ToText(expected));
    }
  }

  template <class T>
  void Exact(const T& actual, const T& expected) {
    ++result_.elements;
    if constexpr (std::is_integral_v<T>) {
      double distance = std::abs(static_cast<double>(actual) - static_cast<double>(expected));
      Numbers(distance, std::abs(static_cast<double>(expected)));
    }
    if (actual != expected) Outside(actual, expected);
  }

  // Equal, or as far apart as the tolerance has it for integers.
  template <class T>
  void Integers(T actual, T expected) {
    double distance = std::abs(static_cast<double>(actual) - static_cast<double>(expected));
    if (actual == expected || tolerance_.integers == 0) return Exact(actual, expected);
    ++result_.elements;
    Numbers(distance, std::abs(static_cast<double>(expected)));
    if (!(distance <= tolerance_.integers)) Outside(actual, expected);
  }

  Difference Finish() {
    if (measured_ > 0) result_.mean_abs = sum_abs_ / static_cast<double>(measured_);
    if (measured_rel_ > 0) result_.mean_rel = sum_rel_ / static_cast<double>(measured_rel_);
    return std::move(result_);
  }

 private:
  static std::string ToText(std::complex<double> z) { return Cat(z.real(), "+", z.imag(), "j"); }

  void Numbers(double distance, double size) {
    ++measured_;
    sum_abs_ += distance;
    result_.max_abs = std::max(result_.max_abs, distance);
    if (size == 0) return;
    ++measured_rel_;
    sum_rel_ += distance / size;
    result_.max_rel = std::max(result_.max_rel, distance / size);
  }

  template <class T>
  void Measure(double distance, double size, const T& actual, const T& expected) {
    Numbers(distance, size);
    if (!(distance <= tolerance_.atol + tolerance_.rtol * size)) Outside(actual, expected);
  }

  template <class T>
  void Outside(const T& actual, const T& expected) {
    if (result_.outside++ > 0) return;
    std::string_view quote = std::is_same_v<T, std::string> ? "'" : "";
    result_.first = Cat("at ", PlaceOf(result_.elements - 1, shape_), " ", quote, actual, quote, " instead of ", quote,
                        expected, quote);
  }

  const Shape& shape_;
  Tolerance tolerance_;
  Difference result_;
  int64_t measured_ = 0, measured_rel_ = 0;
  double sum_abs_ = 0, sum_rel_ = 0;
};

template <class From, class To>
void Convert(const Tensor& tensor, int64_t begin, int64_t count, To* out) {
  const From* from = tensor.Data<From>() + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<To>(from[i]);
}

// Walks both tensors in pieces that were brought to one element type.
template <class To, class Load, class Visit>
void ForPieces(const Tensor& a, const Tensor& b, const Load& load, const Visit& visit) {
  std::vector<To> left(static_cast<size_t>(std::min(kChunk, a.size()))), right(left.size());
  for (int64_t begin = 0; begin < a.size(); begin += kChunk) {
    int64_t count = std::min(kChunk, a.size() - begin);
    load(a, begin, count, left.data());
    load(b, begin, count, right.data());
    for (int64_t i = 0; i < count; ++i) visit(left[i], right[i]);
  }
}

void LoadDoubles(const Tensor& tensor, int64_t begin, int64_t count, double* out) {
  Dispatch(FloatTypes{}, tensor.dtype(),
           [&](auto tag) { Convert<typename decltype(tag)::type>(tensor, begin, count, out); });
}

void LoadComplex(const Tensor& tensor, int64_t begin, int64_t count, std::complex<double>* out) {
  Dispatch(TypeList<std::complex<float>, std::complex<double>>{}, tensor.dtype(),
           [&](auto tag) { Convert<typename decltype(tag)::type>(tensor, begin, count, out); });
}

// Two's complement keeps unsigned 64-bit values apart as well; only how they are printed differs.
void LoadIntegers(const Tensor& tensor, int64_t begin, int64_t count, int64_t* out) {
  using Types = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>;
  Dispatch(Types{}, tensor.dtype(),
           [&](auto tag) { Convert<typename decltype(tag)::type>(tensor, begin, count, out); });
}

Difference CompareElements(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  Tally tally(expected.shape(), tolerance);
  Tensor a = PlainElements(actual), b = PlainElements(expected);
  if (IsFloating(a.dtype())) {
    ForPieces<double>(a, b, LoadDoubles, [&](double x, double y) { tally.Floats(x, y); });
  } else if (IsComplex(a.dtype())) {
    using C = std::complex<double>;
    ForPieces<C>(a, b, LoadComplex, [&](C x, C y) { tally.Complex(x, y); });
  } else if (a.dtype() == DType::kString) {
    for (int64_t i = 0; i < a.size(); ++i) tally.Exact(a.Data<std::string>()[i], b.Data<std::string>()[i]);
  } else if (a.dtype() == DType::kUInt64) {
    for (int64_t i = 0; i < a.size(); ++i) tally.Integers(a.Data<uint64_t>()[i], b.Data<uint64_t>()[i]);
  } else if (a.dtype() != DType::kBool) {
    ForPieces<int64_t>(a, b, LoadIntegers, [&](int64_t x, int64_t y) { tally.Integers(x, y); });
  } else {
    ForPieces<int64_t>(a, b, LoadIntegers, [&](int64_t x, int64_t y) { tally.Exact(x, y); });
  }
  return tally.Finish();
}

// A real tensor whose last dimension holds real and imaginary part, seen as complex numbers.
std::optional<Tensor> SeenAsComplex(const Tensor& real, const Tensor& recorded) {
  Tensor plain = PlainElements(real);
  bool is_double = plain.dtype() == DType::kDouble;
  if (plain.rank() == 0 || plain.shape().back() != 2) return std::nullopt;
  Shape shape = plain.shape();
  shape.erase(shape.rank() - 1);
  if (!(shape == recorded.shape())) return std::nullopt;
  Tensor seen(is_double ? DType::kComplex128 : DType::kComplex64, shape);
  if (plain.bytes() > 0) std::copy(plain.raw(), plain.raw() + plain.bytes(), seen.mutable_raw());
  return seen;
}

// The stand-ins that TypeRule::kRecorded allows: the recording brought to the type of the output.
bool StandsFor(DType recorded, DType actual) {
  if (IsSmallFloat(actual) && actual != DType::kFloat16) return recorded == DType::kFloat || recorded == DType::kDouble;
  if (IsPacked(actual)) return recorded == DType::kInt8 || recorded == DType::kUInt8;
  return false;
}

Difference Mismatch(std::string why) {
  Difference difference;
  difference.mismatch = std::move(why);
  return difference;
}

Difference CompareSequences(const Sequence& actual, const Sequence& expected, Tolerance tolerance, TypeRule rule) {
  if (actual.elements.size() != expected.elements.size())
    return Mismatch(Cat("a sequence of ", actual.elements.size(), " instead of ", expected.elements.size()));
  Difference whole;
  for (size_t i = 0; i < actual.elements.size(); ++i)
    Include(whole, Compare(actual.elements[i], expected.elements[i], tolerance, rule), Cat("element ", i));
  return whole;
}

// Maps are equal when their entries are, in whatever order they were inserted.
Map SortedByKey(const Map& map) {
  bool of_strings = map.keys.dtype() == DType::kString;
  std::vector<int64_t> numbers = of_strings ? std::vector<int64_t>() : ToInt64Vector(map.keys);
  std::vector<int64_t> order(static_cast<size_t>(map.keys.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return of_strings ? map.keys.Data<std::string>()[a] < map.keys.Data<std::string>()[b] : numbers[a] < numbers[b];
  });
  auto gather = [&](const Tensor& from) {
    Tensor to(from.dtype(), from.shape());
    for (size_t i = 0; i < order.size(); ++i) {
      if (from.dtype() == DType::kString) {
        to.MutableData<std::string>()[i] = from.Data<std::string>()[order[i]];
      } else {
        size_t width = from.bytes() / order.size();
        std::copy_n(from.raw() + width * static_cast<size_t>(order[i]), width, to.mutable_raw() + width * i);
      }
    }
    return to;
  };
  return {gather(map.keys), gather(map.values)};
}

Difference CompareMaps(const Map& actual, const Map& expected, Tolerance tolerance, TypeRule rule) {
  Map a = SortedByKey(actual), b = SortedByKey(expected);
  Difference whole;
  Include(whole, Compare(a.keys, b.keys, tolerance, rule), "map keys");
  if (whole.within()) Include(whole, Compare(a.values, b.values, tolerance, rule), "map values");
  return whole;
}

Difference CompareSparse(const SparseTensor& actual, const SparseTensor& expected, Tolerance tolerance, TypeRule rule) {
  if (!(actual.shape == expected.shape)) return Mismatch(Cat("shape ", actual.shape, " instead of ", expected.shape));
  Difference whole;
  Include(whole, Compare(actual.indices, expected.indices, tolerance, rule), "indices");
  if (whole.within()) Include(whole, Compare(actual.values, expected.values, tolerance, rule), "values");
  return whole;
}

}  // namespace

void Include(Difference& whole, const Difference& part, std::string_view place) {
  int64_t total = whole.elements + part.elements;
  if (total > 0) {
    double weight = static_cast<double>(part.elements) / static_cast<double>(total);
    whole.mean_abs += (part.mean_abs - whole.mean_abs) * weight;
    whole.mean_rel += (part.mean_rel - whole.mean_rel) * weight;
  }
  whole.elements = total;
  whole.max_abs = std::max(whole.max_abs, part.max_abs);
  whole.max_rel = std::max(whole.max_rel, part.max_rel);
  if (whole.outside == 0 && part.outside > 0) whole.first = Cat(place, " ", part.first);
  whole.outside += part.outside;
  if (whole.mismatch.empty() && !part.mismatch.empty()) whole.mismatch = Cat(place, ": ", part.mismatch);
}

std::string Difference::Explain() const {
  if (!mismatch.empty()) return mismatch;
  if (outside == 0) return {};
  return Cat(outside, " of ", elements, elements == 1 ? " element differs: " : " elements differ, the first ", first);
}

Difference Compare(const Tensor& actual, const Tensor& expected, Tolerance tolerance, TypeRule rule) {
  if (rule == TypeRule::kRecorded && IsComplex(expected.dtype()) && IsFloating(actual.dtype())) {
    if (std::optional<Tensor> seen = SeenAsComplex(actual, expected))
      return CompareElements(*seen, expected, tolerance);
  }
  bool stands_in = rule == TypeRule::kRecorded && StandsFor(expected.dtype(), actual.dtype());
  if (actual.dtype() != expected.dtype() && !stands_in)
    return Mismatch(Cat("element type ", actual.dtype(), " instead of ", expected.dtype()));
  if (!(actual.shape() == expected.shape()))
    return Mismatch(Cat("shape ", actual.shape(), " instead of ", expected.shape()));
  return CompareElements(actual, expected, tolerance);
}

Difference Compare(const Value& actual, const Value& expected, Tolerance tolerance, TypeRule rule) {
  if (actual.is_tensor() && expected.is_tensor()) return Compare(actual.tensor(), expected.tensor(), tolerance, rule);
  if (actual.is_sequence() && expected.is_sequence())
    return CompareSequences(actual.sequence(), expected.sequence(), tolerance, rule);
  if (actual.is_map() && expected.is_map()) return CompareMaps(actual.map(), expected.map(), tolerance, rule);
  if (actual.is_sparse() && expected.is_sparse())
    return CompareSparse(actual.sparse(), expected.sparse(), tolerance, rule);
  if (actual.is_nothing() && expected.is_nothing()) return {};
  return Mismatch(Cat(actual.KindName(), " instead of ", expected.KindName()));
}

}  // namespace ferry
