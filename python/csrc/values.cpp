// Single Python values to and from C++.
#include <cstring>
#include <map>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "c10/core/device_backend.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/numpy_types.h"
#include "python/csrc/transforms.h"
#include "python/csrc/value_types.h"
#include "torchgen_out/aten/copy_ops.h"

namespace flambeau::python {
namespace {

constexpr const char* kTooLarge =
    "Overflow when unpacking long long: expected an integer of 64 bits";

// An int of Python: int64, or uint64 where it needs the highest bit.
Scalar scalar_from_integer(PyObject* o) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(o);
    if (!PyErr_Occurred()) return Scalar(static_cast<uint64_t>(large));
    PyErr_Clear();
  }
  if (overflow) {
    PyErr_SetString(PyExc_OverflowError,
                    "int too big to convert: expected an integer of 64 bits, got a larger one");
    throw PythonError();
  }
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return Scalar(static_cast<int64_t>(value));
}

}  // namespace

Scalar read_item(const Tensor& given) {
  const Tensor& t = readable(given);
  const DispatchKeySet asked = DispatchKeySet(DispatchKey::BackendMode) | kSparseKey;
  const bool is_plain = (effective_keys(t.keys()) & asked).empty();
  return is_plain ? item_of(t) : ops::_local_scalar_dense::call(t);
}

bool is_number(PyObject* o) {
  return PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) || is_numpy_number(o);
}

Scalar scalar_from(PyObject* o) {
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyLong_Check(o)) return scalar_from_integer(o);
  if (PyComplex_Check(o)) {
    return Scalar(complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  }
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    check(t.numel() == 1, NotOneElement{t.numel()});
    return read_item(t);
  }
  Ref number;
  if (is_numpy_truth_value(o)) {
    return Scalar(checked(PyObject_IsTrue(o)) == 1);
  }
  if (PyIndex_Check(o)) {
    number = Ref::checked(PyNumber_Index(o));
  } else if (PyObject_HasAttrString(o, "imag") && std::strstr(Py_TYPE(o)->tp_name, "complex")) {
    const Py_complex value = PyComplex_AsCComplex(o);
    if (PyErr_Occurred()) throw PythonError();
    return Scalar(complex<double>(value.real, value.imag));
  } else {
    number = Ref::checked(PyNumber_Float(o));
  }
  return scalar_from(number.get());
}

int64_t integer_from(PyObject* o) {
  if (is_tensor(o)) return read_item(tensor_of(o)).to_int64();
  const long long value = PyLong_AsLongLong(o);
  if (value == -1 && PyErr_Occurred()) {
    const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError);
    if (!too_large && !PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();
    if (too_large) fail(ErrorKind::Value, kTooLarge);
    const Ref index = Ref::checked(PyNumber_Index(o));
    return integer_from(index.get());
  }
  return value;
}

bool exceeds_64_bits(PyObject* o) {
  int overflow = 0;
  if (PyLong_Check(o)) PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow != 0;
}

bool scalar_type_from(PyObject* o, ScalarType* out) {
  if (PyObject_TypeCheck(o, dtype_type)) {
    *out = reinterpret_cast<DtypeObject*>(o)->value;
    if (*out == ScalarType::Undefined) {
      const Ref name = Ref::checked(PyObject_Str(o));
      fail(ErrorKind::NotImplemented, PyUnicode_AsUTF8(name.get()),
           ": expected a dtype with tensors, got one that can only be named and compared");
    }
    return true;
  }
  // Python's own types name the dtype that their values would have.
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type))
    *out = ScalarType::Float64;
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type))
    *out = ScalarType::Bool;
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type))
    *out = ScalarType::Int64;
  else if (o == reinterpret_cast<PyObject*>(&PyComplex_Type))
    *out = ScalarType::Complex128;
  else
    return false;
  return true;
}

bool device_from(PyObject* o, Device* out) {
  if (PyObject_TypeCheck(o, device_type)) {
    *out = reinterpret_cast<DeviceObject*>(o)->value;
    return true;
  }
  if (PyLong_Check(o) && !PyBool_Check(o)) {
    const int64_t index = integer_from(o);
    check(c10::private_backend(), "expected a device, got the index ", index,
          " of an accelerator, and none is available");
    check(index >= 0 && index < 128, "device: expected an index from 0 to 127, got ", index);
    *out = Device(DeviceType::PrivateUse1, static_cast<int8_t>(index));
    return true;
  }
  if (!PyUnicode_Check(o)) return false;
  const char* text = PyUnicode_AsUTF8(o);
  if (!text) throw PythonError();
  *out = Device::parse(text);
  return true;
}

bool memory_format_from(PyObject* o, MemoryFormat* out) {
  if (!PyObject_TypeCheck(o, memory_format_type)) return false;
  *out = reinterpret_cast<MemoryFormatObject*>(o)->value;
  return true;
}

PyObject* wrap(const Scalar& value) {
  switch (value.tag()) {
    case Scalar::Tag::Bool:
      return wrap(value.to_bool());
    case Scalar::Tag::Int:
      return wrap(value.to_int64());
    case Scalar::Tag::UInt:
      return Ref::checked(PyLong_FromUnsignedLongLong(value.to<uint64_t>())).release();
    case Scalar::Tag::Double:
      return wrap(value.to_double());
    case Scalar::Tag::Complex:
      break;
  }
  const complex<double> z = value.to_complex();
  return PyComplex_FromDoubles(z.re, z.im);
}

PyObject* wrap(const std::vector<Tensor>& list) {
  Ref tuple = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
  for (size_t i = 0; i < list.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrap(list[i]));
  }
  return tuple.release();
}

PyObject* wrap_sizes(IntArrayRef sizes) {
  const auto n = static_cast<Py_ssize_t>(sizes.size());
  Ref tuple = Ref::checked(size_type ? size_type->tp_alloc(size_type, n) : PyTuple_New(n));
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  }
  return tuple.release();
}

namespace {

// One field a line, as tensors take several; after the type's name, which is that of the function.
PyObject* show_fields(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  const Ref names =
      Ref(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__match_args__"));
  if (!names) return nullptr;
  Ref text(PyUnicode_FromFormat("%s(", type->tp_name));
  for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(names.get()); ++i) {
    text = Ref(PyUnicode_FromFormat("%U%s\n%U=%R", text.get(), i ? "," : "",
                                    PyTuple_GET_ITEM(names.get(), i), PyTuple_GET_ITEM(self, i)));
  }
  return text ? PyUnicode_FromFormat("%U)", text.get()) : nullptr;
}

}  // namespace

PyTypeObject* make_return_type(const char* name, const char* const* fields, int count) {
  // One type for all overloads whose results are named alike: pickles find it by its name. Types
  // live as long as the process. The caller holds the GIL.
  static std::map<std::vector<std::string>, PyTypeObject*> made;
  std::vector<std::string> key(fields, fields + count);
  key.emplace_back(name);
  if (const auto found = made.find(key); found != made.end()) return found->second;
  std::vector<PyStructSequence_Field> list;
  for (int i = 0; i < count; ++i) list.push_back({fields[i], nullptr});
  list.push_back({nullptr, nullptr});
  const std::string full = text_of("flambeau.return_types.", name);
  PyStructSequence_Desc desc = {strdup(full.c_str()), nullptr, list.data(), count};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (!type) throw PythonError();
  type->tp_repr = show_fields;
  made.emplace(std::move(key), type);
  return type;
}

PyObject* wrap_fields(PyTypeObject* type, PyObject** owned, int count) {
  Ref result(type ? PyStructSequence_New(type) : PyTuple_New(count));
  for (int i = 0; i < count; ++i) {
    if (!owned[i] || !result) {
      Py_XDECREF(owned[i]);
      result = Ref();
    } else if (type) {
      PyStructSequence_SET_ITEM(result.get(), i, owned[i]);
    } else {
      PyTuple_SET_ITEM(result.get(), i, owned[i]);
    }
  }
  if (!result) throw PythonError();
  return result.release();
}

}  // namespace flambeau::python
