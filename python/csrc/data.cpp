// Tensors from nested Python data. Three passes: sizes, from the first item of each level; dtype,
// from all items unless it is given; values. Tensors inside of sequences count as numbers.
#include "python/csrc/data.h"

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/dispatch/lazy_views.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/native_stack.h"
#include "python/csrc/numpy_types.h"

namespace flambeau::python {
namespace {

constexpr size_t kMostDims = 128;

const char* type_name(PyObject* o) { return Py_TYPE(o)->tp_name; }
bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o); }
bool is_plain_number(PyObject* o) {
  return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
}

// --- sizes ---------------------------------------------------------------------------------------

DimVector sizes_of(PyObject* data) {
  DimVector sizes;
  Ref o = Ref::share(data);
  while (!is_plain_number(o.get()) && !is_tensor(o.get()) && PySequence_Check(o.get())) {
    const Py_ssize_t n = PySequence_Size(o.get());
    if (n < 0) throw PythonError();
    sizes.push_back(n);
    check_value(sizes.size() <= kMostDims, "new(): expected at most ", kMostDims,
                " dimensions, got too many dimensions '", type_name(o.get()), "'");
    if (n == 0) break;
    Ref first(PySequence_GetItem(o.get(), 0));
    if (!first) {
      PyErr_Clear();
      fail(ErrorKind::Value, "new(): expected a sequence, got an object of type '",
           type_name(o.get()), "' with a length but without item 0");
    }
    o = std::move(first);
  }
  return sizes;
}

// --- dtype ---------------------------------------------------------------------------------------

ScalarType dtype_of(PyObject* o);

// Ends the recursion into sequences that hold themselves.
struct Nesting {
  Nesting() {
    check_native_stack();
    checked(Py_EnterRecursiveCall(" in the search for a dtype") ? -1 : 0);
  }
  ~Nesting() { Py_LeaveRecursiveCall(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
};

ScalarType dtype_of_items(PyObject* sequence) {
  const Nesting nesting;
  const Py_ssize_t n = PySequence_Size(sequence);
  if (n < 0) throw PythonError();
  if (n == 0) return default_dtype();
  ScalarType found = ScalarType::Undefined;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Ref item = Ref::checked(PySequence_GetItem(sequence, i));
    check_type(item.get() != sequence,
               "new(): expected a finite sequence, got one that contains itself");
    const ScalarType own = dtype_of(item.get());
    found = found == ScalarType::Undefined || found == own ? own : promote_types(found, own);
  }
  return found;
}

ScalarType dtype_of(PyObject* o) {
  if (PyFloat_CheckExact(o)) return default_dtype();
  if (PyBool_Check(o)) return ScalarType::Bool;
  if (PyLong_CheckExact(o)) return ScalarType::Int64;
  if (is_tensor(o)) return tensor_of(o).dtype();
  check_type(!is_text(o), "new(): expected numbers, got invalid data type '", type_name(o), "'");
  if (is_numpy_scalar(o) || is_ndarray(o)) return dtype_of_numpy(o);
  if (PyFloat_Check(o)) return default_dtype();
  if (PyLong_Check(o)) return ScalarType::Int64;
  if (PyComplex_Check(o)) return default_complex_dtype();
  if (PySequence_Check(o)) return dtype_of_items(o);
  fail(ErrorKind::Runtime, "new(): expected numbers, tensors, arrays or sequences of them, got '",
       type_name(o), "' (Could not infer dtype of ", type_name(o), ")");
}

// --- values --------------------------------------------------------------------------------------

Scalar real_number(PyObject* o) {
  const double value = PyFloat_AsDouble(o);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}
Scalar complex_number(PyObject* o) {
  const Py_complex value = PyComplex_AsCComplex(o);
  if (PyErr_Occurred()) throw PythonError();
  return complex<double>(value.real, value.imag);
}
Scalar whole_number(PyObject* o, ScalarType dtype) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  const Ref index = Ref::checked(PyNumber_Index(o));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (!overflow) return static_cast<int64_t>(value);
  if (overflow > 0 && dtype == ScalarType::UInt64) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(index.get());
    if (!PyErr_Occurred()) return static_cast<uint64_t>(large);
    PyErr_Clear();
  }
  fail(ErrorKind::Value, "new(): expected an integer that fits ", dtype,
       ", got a larger one (Overflow when unpacking long long)");
}

Scalar value_of_tensor(const Tensor& t, ScalarType dtype) {
  if (is_integral_type(dtype, false)) {
    check_type(t.numel() == 1 && is_integral_type(t.dtype(), true),
               "new(): expected an integer tensor of one element (only integer tensors of a single "
               "element can be converted to an index), got ",
               t.dtype());
  }
  check_value(
      t.numel() == 1,
      "new(): expected tensors of one element (only one element tensors can be converted to "
      "Python scalars), got ",
      t.numel(), "; use stack() to join tensors");
  return read_item(t);
}

void store_value(PyObject* o, ScalarType dtype, char* data) {
  Scalar value;
  if (is_tensor(o)) {
    value = value_of_tensor(tensor_of(o), dtype);
  } else if (dtype == ScalarType::Bool) {
    value = checked(PyObject_IsTrue(o)) == 1;
  } else if (is_integral_type(dtype, false)) {
    value = whole_number(o, dtype);
  } else {
    value = is_complex_type(dtype) ? complex_number(o) : real_number(o);
  }
  if (is_integral_type(dtype, false)) {
    dispatch_integral(dtype, "tensor", [&]<typename T>() { static_cast<void>(value.to<T>()); });
  } else if (is_floating_type(dtype)) {
    static_cast<void>(value.to<double>());  // refuses what has an imaginary part
  }
  value.store(dtype, data);
}

void check_length(int64_t found, const Tensor& out, size_t depth) {
  check_value(found == out.sizes()[depth], "new(): expected sequence of length ",
              out.sizes()[depth], " at dim ", int64_t(depth), " (got ", found, ")");
}

// Copies a tensor or an array to the place of one item.
void fill_from(const Tensor& source, const Tensor& out, size_t depth, char* data) {
  check_type(static_cast<size_t>(source.dim()) == out.sizes().size() - depth,
             "new(): not a sequence: expected ", int64_t(out.sizes().size() - depth),
             " more dimensions, got an item with ", source.dim());
  for (size_t i = 0; i < static_cast<size_t>(source.dim()); ++i) {
    check_length(source.sizes()[i], out, depth + i);
  }
  Tensor part(make_intrusive<TensorImpl>(out.storage(), out.dtype(), out.device()));
  part.impl()->set_geometry(source.sizes(), contiguous_strides(source.sizes()),
                            (data - static_cast<char*>(out.storage()->data())) /
                                static_cast<int64_t>(element_size(out.dtype())));
  copy_into(part, source);
}

void fill(PyObject* o, const Tensor& out, size_t depth, char* data) {
  if (depth == out.sizes().size()) return store_value(o, out.dtype(), data);
  if (is_tensor(o)) return fill_from(resolved(tensor_of(o)), out, depth, data);
  if (is_ndarray(o)) return fill_from(tensor_over_array(o), out, depth, data);
  const Ref items = Ref::checked(PySequence_Fast(o, "not a sequence"));
  check_length(PySequence_Fast_GET_SIZE(items.get()), out, depth);
  const int64_t step = static_cast<int64_t>(element_size(out.dtype())) * out.strides()[depth];
  for (int64_t i = 0; i < out.sizes()[depth]; ++i) {
    // What converts an item may shorten the list.
    check_length(PySequence_Fast_GET_SIZE(items.get()), out, depth);
    const Ref item = Ref::share(PySequence_Fast_GET_ITEM(items.get(), i));
    fill(item.get(), out, depth + 1, data + i * step);
  }
}

// NumPy's numbers are converted as arrays are, not refused as items of another kind.
Tensor number_from_numpy(PyObject* number, ScalarType dtype, Device device) {
  const ScalarType wanted = dtype == ScalarType::Undefined ? dtype_of_numpy(number) : dtype;
  return scalar_tensor(scalar_from(number), wanted, device);
}

}  // namespace

Tensor tensor_from_data(PyObject* data, ScalarType dtype, Device device) {
  check_type(!is_text(data), "new(): expected numbers, got invalid data type '", type_name(data),
             "'");
  if (is_numpy_number(data)) return number_from_numpy(data, dtype, device);
  if (is_tensor(data) || is_ndarray(data)) {
    const Tensor source = is_tensor(data) ? resolved(tensor_of(data)) : tensor_over_array(data);
    const ScalarType wanted = dtype == ScalarType::Undefined ? source.dtype() : dtype;
    Tensor out = empty_tensor(source.sizes(), wanted, device);
    if (!device.is_meta()) copy_into(out, source);
    return out;
  }
  if (!is_plain_number(data) && !PySequence_Check(data) &&
      PyObject_HasAttrString(data, "__dlpack__")) {
    const Ref module = Ref::checked(PyImport_ImportModule("flambeau._object.exchange"));
    const Ref shared = Ref::checked(PyObject_CallMethod(module.get(), "from_dlpack", "O", data));
    return tensor_from_data(shared.get(), dtype, device);
  }
  const DimVector sizes = sizes_of(data);
  if (dtype == ScalarType::Undefined) dtype = dtype_of(data);
  const Tensor out = empty_tensor(sizes, dtype, DeviceType::CPU);
  if (out.numel() > 0) fill(data, out, 0, static_cast<char*>(out.data()));
  if (device.is_cpu()) return out;
  const Tensor moved = empty_tensor(sizes, dtype, device);
  if (!device.is_meta()) copy_into(moved, out);
  return moved;
}

}  // namespace flambeau::python
