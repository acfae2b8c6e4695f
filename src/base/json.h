// JSON in and out: a value that keeps the order of the file, a strict parser with limits, a writer that escapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ferry {

struct JsonLimits {
  int depth = 200;                           // nested arrays and objects
  size_t bytes = size_t{1} << 30;            // of text
  size_t values = size_t{64} * 1024 * 1024;  // of the whole tree
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  // Defined in json.cc: every file that holds a Json would compile its own.
  Json();  // null
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();
  Json(std::nullptr_t) : Json() {}
  Json(std::string_view text);
  Json(std::string text);
  Json(const char* text);
  Json(Array elements);
  Json(Object members);
  template <class T>
  requires(std::is_arithmetic_v<T>) Json(T value) : Json() {
    if constexpr (std::is_same_v<T, bool> || std::is_floating_point_v<T>)
      Hold(static_cast<std::conditional_t<std::is_same_v<T, bool>, bool, double>>(value));
    else
      Hold(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  }
  // A list of anything that Json can be made of.
  template <class Container>
  requires(!std::is_convertible_v<Container, std::string_view> &&
           requires(const Container& c) { Json(*c.begin()); }) static Json List(const Container& values) {
    Array elements;
    for (const auto& value : values) elements.emplace_back(value);
    return Json(std::move(elements));
  }

  // Parses one JSON text (UTF-8). Beyond the standard it takes the NaN, Infinity and -Infinity that Python's json
  // module writes. Errors (kInvalidModel, kLimit) say the line and the byte.
  static Json Parse(std::string_view text, const JsonLimits& limits = {});

  bool is_null() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_bool() const { return std::holds_alternative<bool>(held_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(held_) || std::holds_alternative<uint64_t>(held_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(held_); }
  bool is_string() const { return std::holds_alternative<std::string>(held_); }
  bool is_array() const { return std::holds_alternative<Array>(held_); }
  bool is_object() const { return std::holds_alternative<Object>(held_); }
  const char* KindName() const;  // "an array", as errors say it

  // Each throws kInvalidModel, saying what is there instead.
  bool AsBool() const;
  int64_t AsInt() const;
  uint64_t AsUnsigned() const;
  double AsDouble() const;  // any number; also the strings "NaN", "Infinity", "-Infinity" that Dump writes
  const std::string& AsString() const;
  const Array& AsArray() const;
  const Object& AsObject() const;

  // A member of an object; of a key that stands twice the last one counts. Find gives null, At throws.
  const Json* Find(std::string_view key) const;
  const Json& At(std::string_view key) const;

  // Building: null becomes an object or array at the first Set or Add. Set appends; it does not look for the key.
  Json& Set(std::string_view key, Json value);
  Json& Add(Json value);

  // indent < 0: one line. Numbers that JSON lacks become the strings "NaN", "Infinity", "-Infinity"; bytes that are
  // not UTF-8 become U+FFFD.
  std::string Dump(int indent = 2) const;

 private:
  void Hold(bool value);
  void Hold(int64_t value);
  void Hold(uint64_t value);
  void Hold(double value);
  void DumpTo(std::string& out, int indent, int depth) const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> held_;
};

}  // namespace ferry

extern template class std::vector<ferry::Json>;
