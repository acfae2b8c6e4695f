#include "convert.h"

#include <pybind11/stl.h>

#include <array>
#include <cstring>

#include "value.h"

namespace ferry::python {
namespace {

struct ElementType {
  DType type;
  const char* numpy;      // numpy's name; null where it has none
  const char* ml_dtypes;  // the name ml_dtypes gives to a type that numpy lacks
  const char* bits;       // what numpy shows such a type as without ml_dtypes
};

constexpr ElementType kElementTypes[] = {
    {DType::kFloat, "float32", nullptr, nullptr},
    {DType::kDouble, "float64", nullptr, nullptr},
    {DType::kFloat16, "float16", nullptr, nullptr},
    {DType::kUInt8, "uint8", nullptr, nullptr},
    {DType::kInt8, "int8", nullptr, nullptr},
    {DType::kUInt16, "uint16", nullptr, nullptr},
    {DType::kInt16, "int16", nullptr, nullptr},
    {DType::kUInt32, "uint32", nullptr, nullptr},
    {DType::kInt32, "int32", nullptr, nullptr},
    {DType::kUInt64, "uint64", nullptr, nullptr},
    {DType::kInt64, "int64", nullptr, nullptr},
    {DType::kBool, "bool", nullptr, nullptr},
    {DType::kComplex64, "complex64", nullptr, nullptr},
    {DType::kComplex128, "complex128", nullptr, nullptr},
    {DType::kString, "object", nullptr, nullptr},
    {DType::kBFloat16, nullptr, "bfloat16", "uint16"},
    {DType::kFloat8E4M3FN, nullptr, "float8_e4m3fn", "uint8"},
    {DType::kFloat8E4M3FNUZ, nullptr, "float8_e4m3fnuz", "uint8"},
    {DType::kFloat8E5M2, nullptr, "float8_e5m2", "uint8"},
    {DType::kFloat8E5M2FNUZ, nullptr, "float8_e5m2fnuz", "uint8"},
    {DType::kFloat8E8M0, nullptr, "float8_e8m0fnu", "uint8"},
    {DType::kFloat4E2M1, nullptr, "float4_e2m1fn", "uint8"},
    {DType::kFloat6E2M3, nullptr, "float6_e2m3fn", "uint8"},
    {DType::kFloat6E3M2, nullptr, "float6_e3m2fn", "uint8"},
    {DType::kUInt4, nullptr, "uint4", "uint8"},
    {DType::kInt4, nullptr, "int4", "int8"},
    {DType::kUInt2, nullptr, "uint2", "uint8"},
    {DType::kInt2, nullptr, "int2", "int8"},
};

const ElementType* Find(DType type) {
  for (const ElementType& entry : kElementTypes)
    if (entry.type == type) return &entry;
  return nullptr;
}

// What is asked of numpy again and again. Looked up when the module is loaded: two threads that wait for each other,
// one for the interpreter's lock and one for a static object to be made, would wait forever.
struct Numpy {
  py::object asarray, ascontiguousarray, empty;
  std::array<py::object, kDTypeCount> types;  // by element type
  std::array<DType, 24> by_number{};          // numpy's own types (NPY_BOOL …); those of one size are one

  Numpy() {
    py::module_ numpy = py::module_::import("numpy");
    asarray = numpy.attr("asarray");
    ascontiguousarray = numpy.attr("ascontiguousarray");
    empty = numpy.attr("empty");
    py::object ml_dtypes = ImportOrNone("ml_dtypes");
    for (const ElementType& entry : kElementTypes) types[static_cast<size_t>(entry.type)] = TypeFor(entry, ml_dtypes);
    for (const char* code : {"?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "F", "D"}) {
      py::dtype dtype(code);
      std::string name = py::str(dtype.attr("name"));
      for (const ElementType& entry : kElementTypes)
        if (entry.numpy && name == entry.numpy) by_number[static_cast<size_t>(dtype.num())] = entry.type;
    }
  }

  static py::object ImportOrNone(const char* name) {
    try {
      return py::module_::import(name);
    } catch (py::error_already_set&) {
      return py::none();
    }
  }

  static py::object TypeFor(const ElementType& entry, const py::object& ml_dtypes) {
    if (entry.numpy) return py::dtype(entry.numpy);
    if (!ml_dtypes.is_none() && py::hasattr(ml_dtypes, entry.ml_dtypes))
      return py::dtype::from_args(ml_dtypes.attr(entry.ml_dtypes));
    return py::dtype(entry.bits);
  }
};

const Numpy& TheNumpy() {
  static const Numpy& numpy = *new Numpy;
  return numpy;
}

DType TypeOfItems(const py::dtype& dtype) {
  const auto& by_number = TheNumpy().by_number;
  if (dtype.num() >= 0 && static_cast<size_t>(dtype.num()) < by_number.size())
    return by_number[static_cast<size_t>(dtype.num())];
  std::string name = py::str(dtype.attr("name"));
  for (const ElementType& entry : kElementTypes)
    if (entry.ml_dtypes && name == entry.ml_dtypes) return entry.type;
  return DType::kUndefined;
}

// Bits stand for a type that numpy lacks, when that is what the model wants.
DType Reinterpreted(DType items, DType wanted) {
  const ElementType* entry = items == wanted ? nullptr : Find(wanted);
  if (!entry || !entry->bits) return items;
  return Find(items) && std::strcmp(Find(items)->numpy ? Find(items)->numpy : "", entry->bits) == 0 ? wanted : items;
}

template <class... Parts>
[[noreturn]] void FailAt(const std::string& name, const Parts&... parts) {
  Fail(ErrorCode::kInvalidArgument, name.empty() ? std::string("the value") : Cat("input '", Printable(name), "'"),
       parts...);
}

Shape ShapeOf(const py::array& array) {
  Shape shape;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
  return shape;
}

Tensor StringsFrom(const py::array& array, const std::string& name) {
  Tensor tensor(DType::kString, ShapeOf(array));
  std::string* out = tensor.MutableData<std::string>();
  py::object flat = array.attr("ravel")();
  int64_t at = 0;
  for (py::handle item : flat) {
    if (!py::isinstance<py::bytes>(item) && !py::isinstance<py::str>(item))
      FailAt(name, " must hold strings; element ", at, " is of type ",
             std::string(py::str(py::type::of(item).attr("__name__"))));
    out[at++] = item.cast<std::string>();
  }
  return tensor;
}

bool IsInOrder(const py::array& array) {
  char order = array.dtype().byteorder();
  bool native = order == '=' || order == '|' || array.dtype().attr("isnative").cast<bool>();
  return native && (array.flags() & py::array::c_style);
}

// Native byte order and row-major.
py::array InOrder(const py::array& array) {
  py::object shape = array.attr("shape");  // ascontiguousarray makes a scalar an array of one element
  return TheNumpy()
      .ascontiguousarray(array, array.dtype().attr("newbyteorder")("="))
      .attr("reshape")(shape)
      .cast<py::array>();
}

Tensor OverMemory(const py::array& array, DType type) {
  Tensor items = Tensor::Borrow(IsPacked(type) ? (IsSignedInteger(type) ? DType::kInt8 : DType::kUInt8) : type,
                                ShapeOf(array), array.data(), KeepAlive(array));
  if (IsPacked(type)) return Tensor::Pack(type, items);
  size_t width = static_cast<size_t>(BitWidth(type)) / (IsComplex(type) ? 16 : 8);
  return items.IsAligned(width) ? items : items.Clone();
}

bool IsText(char kind) { return kind == 'O' || kind == 'U' || kind == 'S'; }

}  // namespace

std::shared_ptr<const void> KeepAlive(py::object object) {
  auto* held = new py::object(std::move(object));
  return std::shared_ptr<const void>(held, [](const void* p) {
    py::gil_scoped_acquire gil;
    delete static_cast<const py::object*>(p);
  });
}

void PrepareConversions() { TheNumpy(); }

py::object NumpyType(DType type) {
  const py::object& found = TheNumpy().types[static_cast<size_t>(type)];
  if (!found) Fail(ErrorCode::kUnsupported, "numpy has no array of ", type);
  return found;
}

DType ToDType(py::handle type) {
  if (py::isinstance<py::int_>(type)) {
    auto number = type.cast<int64_t>();
    if (!IsValidDType(number)) Fail(ErrorCode::kInvalidArgument, "ONNX has no element type ", number);
    return static_cast<DType>(number);
  }
  py::dtype dtype = py::dtype::from_args(py::reinterpret_borrow<py::object>(type));
  if (IsText(dtype.kind())) return DType::kString;
  DType found = TypeOfItems(dtype);
  if (found == DType::kUndefined)
    Fail(ErrorCode::kInvalidArgument, "dtype ", std::string(py::str(dtype)), " is no ONNX element type");
  return found;
}

Tensor ToTensor(py::handle object, DType wanted, const std::string& name) {
  bool is_array = py::isinstance<py::array>(object);
  if (!is_array) {
    // Plain Python numbers take the type the model wants; an array's type is the caller's word.
    const ElementType* entry = py::hasattr(object, "dtype") ? nullptr : Find(wanted);
    py::object array = entry && entry->numpy && wanted != DType::kString ? TheNumpy().asarray(object, NumpyType(wanted))
                                                                         : TheNumpy().asarray(object);
    return ToTensor(array, wanted, name);
  }
  auto array = py::reinterpret_borrow<py::array>(object);
  py::dtype dtype = array.dtype();
  if (IsText(dtype.kind())) {
    if (dtype.kind() == 'O' && wanted != DType::kString && wanted != DType::kUndefined)
      FailAt(name, " is an array of Python objects; the model wants tensor(", wanted,
             "): give it a numeric dtype, e.g. numpy.asarray(x, dtype=…)");
    return StringsFrom(array, name);
  }
  DType type = Reinterpreted(TypeOfItems(dtype), wanted);
  if (type == DType::kUndefined) FailAt(name, " has dtype ", std::string(py::str(dtype)), ", which no ONNX type has");
  return OverMemory(IsInOrder(array) ? array : InOrder(array), type);
}

Tensor ToWritableTensor(py::handle object, DType wanted, const std::string& name) {
  if (!py::isinstance<py::array>(object)) FailAt(name, " must be a numpy array, to be written in place");
  auto array = py::reinterpret_borrow<py::array>(object);
  if (!array.writeable()) FailAt(name, " is read-only");
  if (!IsInOrder(array)) FailAt(name, " must be contiguous and of native byte order, to be written in place");
  Tensor tensor = ToTensor(object, wanted, name);
  if (tensor.raw() != array.data()) FailAt(name, " can't be written in place: its elements are not laid out as ONNX's");
  return tensor;
}

Value ToValue(py::handle object, const Type& expected, const std::string& name) {
  if (py::isinstance<py::array>(object)) {
    const Type& plain = expected.kind == Type::Kind::kOptional && expected.element ? *expected.element : expected;
    return ToTensor(object, plain.is_tensor() ? plain.dtype : DType::kUndefined, name);
  }
  if (py::isinstance<PyValue>(object)) return object.cast<const PyValue&>().value;
  if (py::hasattr(object, "_native")) return ToValue(object.attr("_native"), expected, name);
  if (object.is_none()) {
    if (expected.kind == Type::Kind::kOptional) return Nothing{};
    FailAt(name, " is None");
  }
  const Type& type = expected.kind == Type::Kind::kOptional && expected.element ? *expected.element : expected;
  if (py::isinstance<py::dict>(object)) {
    DType key = type.kind == Type::Kind::kMap ? type.dtype : DType::kUndefined;
    DType value = type.kind == Type::Kind::kMap && type.element ? type.element->dtype : DType::kUndefined;
    return Map{ToTensor(py::list(object.attr("keys")()), key, name),
               ToTensor(py::list(object.attr("values")()), value, name)};
  }
  bool is_list = py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object);
  if (is_list && type.kind == Type::Kind::kSequence) {
    Sequence sequence;
    for (py::handle item : object)
      sequence.elements.push_back(ToValue(item, type.element ? *type.element : Type{}, name));
    return sequence;
  }
  return ToTensor(object, type.is_tensor() ? type.dtype : DType::kUndefined, name);
}

py::object ToNumpy(const Tensor& tensor) {
  std::vector<py::ssize_t> dims(tensor.shape().begin(), tensor.shape().end());
  if (tensor.dtype() == DType::kString) {
    py::object array = TheNumpy().empty(py::cast(dims), py::dtype("O"));
    py::object flat = array.attr("reshape")(-1);
    const std::string* strings = tensor.Data<std::string>();
    for (int64_t i = 0; i < tensor.size(); ++i) {
      PyObject* text = PyUnicode_DecodeUTF8(strings[i].data(), static_cast<py::ssize_t>(strings[i].size()), "replace");
      flat[py::int_(i)] = py::reinterpret_steal<py::object>(text);
    }
    return array;
  }
  auto* held = new Tensor(IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor);
  py::capsule owner(held, [](void* p) { delete static_cast<Tensor*>(p); });
  return py::array(py::reinterpret_steal<py::dtype>(NumpyType(tensor.dtype()).release()), std::move(dims), held->raw(),
                   owner);
}

py::object ToPython(const Value& value) {
  if (value.is_tensor()) return ToNumpy(value.tensor());
  if (value.is_sequence()) {
    py::list list;
    for (const Value& element : value.sequence().elements) list.append(ToPython(element));
    return list;
  }
  if (value.is_map()) {
    py::object keys = ToNumpy(value.map().keys).attr("tolist")(), values = ToNumpy(value.map().values).attr("tolist")();
    return py::dict(py::module_::import("builtins").attr("zip")(keys, values));
  }
  if (value.is_sparse()) return py::cast(PyValue{value});
  return py::none();
}

}  // namespace ferry::python
