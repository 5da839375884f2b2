// Sharing memory with others: NumPy's array interface, the buffer protocol, DLPack.
#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/transforms.h"

namespace flambeau::python {
namespace {

// NumPy's type strings and struct's format characters; null: no counterpart there.
struct ForeignType {
  const char* array;
  const char* buffer;
};
constexpr ForeignType kForeign[kNumScalarTypes] = {
    {"|b1", "?"}, {"|u1", "B"}, {"|i1", "b"},  {"<i2", "h"},
    {"<i4", "i"}, {"<i8", "q"}, {"<f2", "e"},  {nullptr, nullptr},
    {"<f4", "f"}, {"<f8", "d"}, {"<c8", "Zf"}, {"<c16", "Zd"},
    {"<u8", "Q"}, {"<u2", "H"}, {"<u4", "I"},  {nullptr, nullptr}};

ScalarType from_array_type(const char* text) {
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const char* mine = kForeign[i].array;
    if (mine && std::strcmp(mine + 1, text + 1) == 0 && text[0] != '>')
      return static_cast<ScalarType>(i);
  }
  fail(ErrorKind::Type, "can't convert an array of type '", text,
       "': expected bool, an integer, floating or complex type");
}

void check_exportable(const Tensor& t, const char* what) {
  check(!t.requires_grad(), "Can't call ", what,
        ": the tensor requires grad; call it on its detach()");
  check(!t.is_conj(), "Can't call ", what,
        ": the tensor is a view with its conjugate bit set; call it on its resolve_conj()");
  check(!t.is_neg(), "Can't call ", what,
        ": the tensor is a view with its negative bit set; call it on its resolve_neg()");
  check_type(t.is_cpu(), "can't convert a ", name_of(t.device().type),
             " tensor to memory of the host. Use Tensor.cpu() to copy it there first.");
}

// The reference that keeps foreign memory alive; let go under the GIL.
void release_reference(void* object) {
  if (!Py_IsInitialized()) return;
  const WithGil gil;
  Py_DECREF(static_cast<PyObject*>(object));
}

Tensor tensor_over(void* data, IntArrayRef sizes, IntArrayRef strides, ScalarType dtype,
                   void (*release)(void*), void* context) {
  const size_t bytes = static_cast<size_t>(extent_of(sizes, strides)) * element_size(dtype);
  Storage storage =
      make_intrusive<StorageImpl>(data, bytes, Device(DeviceType::CPU), release, context);
  Tensor t(make_intrusive<TensorImpl>(std::move(storage), dtype, Device(DeviceType::CPU)));
  t.impl()->set_geometry(sizes, strides, 0);
  return t;
}

DimVector integers_of(PyObject* sequence) {
  const Ref items = Ref::checked(PySequence_Fast(sequence, "expected a sequence of integers"));
  DimVector out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    out.push_back(integer_from(PySequence_Fast_GET_ITEM(items.get(), i)));
  }
  return out;
}

}  // namespace

// --- array interface -----------------------------------------------------------------------------

PyObject* array_interface(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    check_exportable(tensor_of(self), "numpy()");
    const Tensor& t = readable(self);
    const char* type = kForeign[index_of(t.dtype())].array;
    check_type(type != nullptr, "Got unsupported ScalarType ", t.dtype());
    const auto width = static_cast<int64_t>(element_size(t.dtype()));
    Ref shape = Ref::checked(PyTuple_New(t.dim()));
    Ref strides = Ref::checked(PyTuple_New(t.dim()));
    for (int64_t d = 0; d < t.dim(); ++d) {
      PyTuple_SET_ITEM(shape.get(), d, PyLong_FromLongLong(t.size(d)));
      PyTuple_SET_ITEM(strides.get(), d, PyLong_FromLongLong(t.stride(d) * width));
    }
    return Py_BuildValue("{s:N,s:N,s:s,s:(NO),s:i}", "shape", shape.release(), "strides",
                         strides.release(), "typestr", type, "data",
                         PyLong_FromVoidPtr(t.numel() ? t.data() : nullptr), Py_False, "version",
                         3);
  });
}

PyObject* from_array_interface(PyObject*, PyObject* array) {
  return guarded([&]() -> PyObject* {
    const Ref interface = Ref::checked(PyObject_GetAttrString(array, "__array_interface__"));
    PyObject* typestr = PyDict_GetItemString(interface.get(), "typestr");
    PyObject* data = PyDict_GetItemString(interface.get(), "data");
    PyObject* shape = PyDict_GetItemString(interface.get(), "shape");
    PyObject* strides = PyDict_GetItemString(interface.get(), "strides");
    check_type(typestr && data && shape && PyTuple_Check(data),
               "from_numpy: expected a numpy.ndarray, got ", Py_TYPE(array)->tp_name);
    const ScalarType dtype = from_array_type(PyUnicode_AsUTF8(typestr));
    const DimVector sizes = integers_of(shape);
    DimVector steps = contiguous_strides(sizes);
    const auto width = static_cast<int64_t>(element_size(dtype));
    if (strides && strides != Py_None) {
      steps = integers_of(strides);
      for (int64_t& step : steps) {
        check_value(step >= 0,
                    "from_numpy: expected strides of 0 or more, got a negative one; pass a copy() "
                    "of the array");
        check_value(step % width == 0,
                    "from_numpy: expected strides in multiples of the element size; pass a copy() "
                    "of the array");
        step /= width;
      }
    }
    void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    if (!address && PyErr_Occurred()) return nullptr;
    return wrap(tensor_over(address, sizes, steps, dtype, &release_reference, Py_NewRef(array)));
  });
}

// --- buffer --------------------------------------------------------------------------------------

namespace {

// What a Py_buffer points to, besides the data.
struct BufferGeometry {
  Tensor tensor;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const int status = guarded_int([&] {
    check_exportable(tensor_of(self), "numpy()");
    const Tensor& t = readable(self);
    const char* format = kForeign[index_of(t.dtype())].buffer;
    if (!format || ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !t.is_contiguous())) {
      PyErr_SetString(PyExc_BufferError,
                      format ? "the tensor is not contiguous" : "the dtype has no buffer format");
      return -1;
    }
    auto geometry = std::make_unique<BufferGeometry>();
    geometry->tensor = t;
    const auto width = static_cast<Py_ssize_t>(element_size(t.dtype()));
    for (int64_t d = 0; d < t.dim(); ++d) {
      geometry->shape.push_back(t.size(d));
      geometry->strides.push_back(t.stride(d) * width);
    }
    view->buf = t.data();
    view->len = t.numel() * width;
    view->itemsize = width;
    view->readonly = 0;
    view->ndim = static_cast<int>(t.dim());
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    view->shape = (flags & PyBUF_ND) ? geometry->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? geometry->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = geometry.release();
    view->obj = Py_NewRef(self);
    return 0;
  });
  return status;
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<BufferGeometry*>(view->internal);
}

PyObject* from_buffer(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source, *dtype_object;
    Py_ssize_t count, offset;
    if (!PyArg_ParseTuple(args, "OOnn", &source, &dtype_object, &count, &offset)) return nullptr;
    ScalarType dtype;
    check_type(scalar_type_from(dtype_object, &dtype), "frombuffer: expected a dtype");
    auto view = std::make_unique<Py_buffer>();
    checked(PyObject_GetBuffer(source, view.get(), PyBUF_SIMPLE));
    const auto width = static_cast<Py_ssize_t>(element_size(dtype));
    const Py_ssize_t left = view->len - offset;
    const Py_ssize_t n = count < 0 ? left / width : count;
    const bool fits = offset >= 0 && offset <= view->len && n * width <= left &&
                      (count >= 0 || left % width == 0);
    char* data = static_cast<char*>(view->buf) + offset;
    if (!fits) {
      const Py_ssize_t length = view->len;
      PyBuffer_Release(view.get());
      fail(ErrorKind::Value, "requested buffer length (", int64_t{n * width},
           " bytes) after offset (", int64_t{offset}, " bytes) must fit the buffer's ",
           int64_t{length}, " bytes and be a multiple of the element size");
    }
    const auto release = [](void* context) {
      if (!Py_IsInitialized()) return;
      const WithGil gil;
      std::unique_ptr<Py_buffer> held(static_cast<Py_buffer*>(context));
      PyBuffer_Release(held.get());
    };
    return wrap(tensor_over(data, {int64_t{n}}, {1}, dtype, release, view.release()));
  });
}

}  // namespace flambeau::python
