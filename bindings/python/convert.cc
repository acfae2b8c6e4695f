#include "convert.h"

#include <cstring>

namespace ferry::python {
namespace {

// Python objects kept for the life of the process: destroying them after the interpreter is gone would crash.
template <class T>
const T& Forever(T object) {
  return *new T(std::move(object));
}

// numpy's own name for an element type; empty where numpy has none.
const char* NumpyName(DType type) {
  switch (type) {
    case DType::kFloat: return "float32";
    case DType::kDouble: return "float64";
    case DType::kFloat16: return "float16";
    case DType::kUInt8: return "uint8";
    case DType::kInt8: return "int8";
    case DType::kUInt16: return "uint16";
    case DType::kInt16: return "int16";
    case DType::kUInt32: return "uint32";
    case DType::kInt32: return "int32";
    case DType::kUInt64: return "uint64";
    case DType::kInt64: return "int64";
    case DType::kBool: return "bool";
    case DType::kComplex64: return "complex64";
    case DType::kComplex128: return "complex128";
    default: return "";
  }
}

// The name ml_dtypes gives to a type that numpy lacks.
const char* MlDtypesName(DType type) {
  switch (type) {
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat8E4M3FN: return "float8_e4m3fn";
    case DType::kFloat8E4M3FNUZ: return "float8_e4m3fnuz";
    case DType::kFloat8E5M2: return "float8_e5m2";
    case DType::kFloat8E5M2FNUZ: return "float8_e5m2fnuz";
    case DType::kFloat8E8M0: return "float8_e8m0fnu";
    case DType::kFloat4E2M1: return "float4_e2m1fn";
    case DType::kInt4: return "int4";
    case DType::kUInt4: return "uint4";
    case DType::kInt2: return "int2";
    case DType::kUInt2: return "uint2";
    default: return "";
  }
}

py::object MlDtypesType(DType type) {
  static const py::object& module = Forever([] {
    try {
      return py::object(py::module_::import("ml_dtypes"));
    } catch (py::error_already_set&) {
      return py::object(py::none());
    }
  }());
  const char* name = MlDtypesName(type);
  if (module.is_none() || !*name || !py::hasattr(module, name)) return py::none();
  return py::dtype::from_args(module.attr(name));
}

// What elements of a type look like in memory to numpy, one element per item: plain, through ml_dtypes, or as bits.
py::object ItemType(DType type) {
  if (const char* name = NumpyName(type); *name) return py::dtype(name);
  py::object special = MlDtypesType(type);
  if (!special.is_none()) return special;
  if (IsPacked(type)) return py::dtype(IsSignedInteger(type) ? "int8" : "uint8");
  return py::dtype(BitWidth(type) == 16 ? "uint16" : "uint8");
}

DType TypeOfItems(const py::dtype& dtype, DType expected) {
  std::string name = py::str(dtype.attr("name"));
  for (int i = 1; i < kDTypeCount; ++i) {
    auto type = static_cast<DType>(i);
    if (name == NumpyName(type) && *NumpyName(type)) {
      // Bits of a type that numpy lacks, when that is what the model wants.
      bool as_bits = !*NumpyName(expected) && expected != DType::kString && expected != DType::kUndefined &&
                     (IsPacked(expected) ? BitWidth(type) == 8 : BitWidth(type) == BitWidth(expected)) &&
                     type == (IsSignedInteger(expected) ? DType::kInt8 : BitWidth(expected) == 16 ? DType::kUInt16 : DType::kUInt8);
      return as_bits ? expected : type;
    }
    if (name == MlDtypesName(type) && *MlDtypesName(type)) return type;
  }
  return DType::kUndefined;
}

Tensor StringsFrom(const py::array& array, const std::string& what) {
  Shape shape;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
  Tensor tensor(DType::kString, shape);
  std::string* out = tensor.MutableData<std::string>();
  py::object flat = array.attr("ravel")();
  int64_t at = 0;
  for (py::handle item : flat) {
    if (py::isinstance<py::bytes>(item) || py::isinstance<py::str>(item))
      out[at++] = item.cast<std::string>();
    else
      Fail(ErrorCode::kInvalidArgument, what, " must hold strings; element ", at, " is of type ",
           std::string(py::str(py::type::of(item).attr("__name__"))));
  }
  return tensor;
}

// Native byte order and row-major, copied only when it is not so already.
py::array InOrder(py::array array) {
  if (!array.dtype().attr("isnative").cast<bool>())
    array = array.attr("astype")(array.dtype().attr("newbyteorder")("=")).cast<py::array>();
  if (!(array.flags() & py::array::c_style)) {
    static const py::object& contiguous = Forever(py::object(py::module_::import("numpy").attr("ascontiguousarray")));
    py::object shape = array.attr("shape");
    array = contiguous(array).attr("reshape")(shape).cast<py::array>();
  }
  return array;
}

Tensor ToTensor(py::handle object, const Type& expected, const std::string& what) {
  static const py::object& as_array = Forever(py::object(py::module_::import("numpy").attr("asarray")));
  DType wanted = expected.is_tensor() ? expected.dtype : DType::kUndefined;
  bool is_array = py::isinstance<py::array>(object);
  py::array array = is_array ? py::reinterpret_borrow<py::array>(object) : as_array(object).cast<py::array>();
  char kind = array.dtype().kind();
  if (kind == 'O' || kind == 'U' || kind == 'S') {
    if (kind == 'O' && wanted != DType::kString && wanted != DType::kUndefined)
      Fail(ErrorCode::kInvalidArgument, what, " is an array of Python objects; the model wants tensor(", wanted,
           "): give it a numeric dtype, e.g. numpy.asarray(x, dtype=…)");
    return StringsFrom(array, what);
  }
  // Plain Python numbers take the type the model wants; an array's type is the caller's word.
  if (!is_array && *NumpyName(wanted)) array = array.attr("astype")(py::dtype(NumpyName(wanted))).cast<py::array>();
  array = InOrder(array);
  DType type = TypeOfItems(array.dtype(), wanted);
  if (type == DType::kUndefined)
    Fail(ErrorCode::kInvalidArgument, what, " has dtype ", std::string(py::str(array.dtype())), ", which no ONNX type has");
  Shape shape;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) shape.push_back(array.shape(i));
  auto* held = new py::object(array);
  std::shared_ptr<const void> keep(held, [](const void* p) {
    py::gil_scoped_acquire gil;
    delete static_cast<const py::object*>(p);
  });
  if (IsPacked(type)) {
    DType byte = IsSignedInteger(type) ? DType::kInt8 : DType::kUInt8;
    return Tensor::Pack(type, Tensor::Borrow(byte, shape, array.data(), keep));
  }
  Tensor tensor = Tensor::Borrow(type, shape, array.data(), keep);
  size_t width = static_cast<size_t>(BitWidth(type)) / (IsComplex(type) ? 16 : 8);
  return tensor.IsAligned(width) ? tensor : tensor.Clone();
}

Map ToMap(const py::dict& dict, const Type& expected, const std::string& what) {
  Type key = Type::Tensor(expected.kind == Type::Kind::kMap ? expected.dtype : DType::kUndefined);
  Type value = expected.element ? *expected.element : Type{};
  return {ToTensor(py::list(dict.attr("keys")()), key, what), ToTensor(py::list(dict.attr("values")()), value, what)};
}

}  // namespace

Value ToValue(py::handle object, const Type& expected, const std::string& what) {
  if (object.is_none()) {
    if (expected.kind == Type::Kind::kOptional) return Nothing{};
    Fail(ErrorCode::kInvalidArgument, what, " is None");
  }
  const Type& type = expected.kind == Type::Kind::kOptional && expected.element ? *expected.element : expected;
  if (py::isinstance<py::dict>(object)) return ToMap(py::reinterpret_borrow<py::dict>(object), type, what);
  bool is_list = py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object);
  if (is_list && type.kind == Type::Kind::kSequence) {
    Sequence sequence;
    for (py::handle item : object)
      sequence.elements.push_back(ToValue(item, type.element ? *type.element : Type{}, Cat("an element of ", what)));
    return sequence;
  }
  return ToTensor(object, type, what);
}

py::object ToNumpy(const Tensor& tensor) {
  std::vector<py::ssize_t> dims(tensor.shape().begin(), tensor.shape().end());
  if (tensor.dtype() == DType::kString) {
    static const py::object& empty = Forever(py::object(py::module_::import("numpy").attr("empty")));
    py::object array = empty(py::cast(dims), py::dtype("O"));
    py::object flat = array.attr("reshape")(-1);
    const std::string* strings = tensor.Data<std::string>();
    for (int64_t i = 0; i < tensor.size(); ++i) flat[py::int_(i)] = py::str(strings[i]);
    return array;
  }
  Tensor items = IsPacked(tensor.dtype()) ? tensor.Unpacked() : tensor;
  auto* held = new Tensor(items);
  py::capsule owner(held, [](void* p) { delete static_cast<Tensor*>(p); });
  return py::array(py::reinterpret_borrow<py::dtype>(ItemType(tensor.dtype())), dims, held->raw(), owner);
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
  if (value.is_sparse())
    return py::make_tuple(ToNumpy(value.sparse().values), ToNumpy(value.sparse().indices), py::cast(value.sparse().shape.ToVector()));
  return py::none();
}

}  // namespace ferry::python
