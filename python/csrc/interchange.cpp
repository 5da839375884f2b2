// Sharing memory with others: NumPy's array interface, the buffer protocol. What is exported keeps
// the storage, not the tensor, which may change over to another one at any time.
#include <cstring>

#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "c10/core/thread_state.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/numpy_types.h"
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

ScalarType from_array_type(PyObject* typestr) {
  const char* text = PyUnicode_AsUTF8(typestr);
  if (!text) throw PythonError();
  for (int i = 0; i < kNumScalarTypes && *text; ++i) {
    const char* mine = kForeign[i].array;
    if (!mine || std::strcmp(mine + 1, text + 1) != 0) continue;
    check_value(text[0] != '>', "from_numpy: expected the native byte order, got type '", text,
                "'; convert it with astype(dtype.newbyteorder('='))");
    return static_cast<ScalarType>(i);
  }
  fail(ErrorKind::Type, "from_numpy: expected an array of bools, integers, floating or complex ",
       "numbers, got type '", text, "' (can't convert it)");
}

void check_exportable(const Tensor& t, const char* what) {
  check(!thread_state.grad_enabled || !autograd::requires_grad(t), "Can't call ", what,
        " on Tensor that requires grad: call it on its detach()");
  check_type(!is_sparse(t), "can't convert a tensor of layout sparse_coo for ", what,
             ": it has no memory of its own; to_dense() makes a strided one");
  check(!t.is_conj(), "Can't call ", what,
        ": the tensor is a view with its conjugate bit set; call it on its resolve_conj()");
  check(!t.is_neg(), "Can't call ", what,
        ": the tensor is a view with its negative bit set; call it on its resolve_neg()");
  check_type(t.is_cpu(), "can't convert a ", name_of(t.device().type),
             " tensor to memory of the host. Use Tensor.cpu() to copy it there first.");
}

bool is_finalizing() {
#if PY_VERSION_HEX < 0x030D0000
  return _Py_IsFinalizing();
#else
  return Py_IsFinalizing();
#endif
}

// Lets go of foreign memory under the GIL. At the interpreter's end, when threads that ask for the
// GIL are stopped for good, the memory goes with the process instead.
template <typename F>
void release_under_gil(F release) {
  if (!Py_IsInitialized() || is_finalizing()) return;
  const WithGil gil;
  PyObject *type, *value, *traceback;  // an error on its way passes the storage's end unharmed
  PyErr_Fetch(&type, &value, &traceback);
  release();
  PyErr_Restore(type, value, traceback);
}
void release_reference(void* object) {
  release_under_gil([object] { Py_DECREF(static_cast<PyObject*>(object)); });
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

SharedMemory::SharedMemory(Storage storage) : storage_(std::move(storage)) { storage_->pin(); }
SharedMemory::~SharedMemory() { storage_->unpin(); }

Tensor tensor_over(void* data, IntArrayRef sizes, IntArrayRef strides, ScalarType dtype,
                   void (*release)(void*), void* context) {
  int64_t bytes = 0;
  try {
    bytes =
        product_of("strides", extent_of(sizes, strides), static_cast<int64_t>(element_size(dtype)));
  } catch (...) {
    release(context);
    throw;
  }
  Storage storage = make_intrusive<StorageImpl>(data, static_cast<size_t>(bytes),
                                                Device(DeviceType::CPU), release, context);
  Tensor t(make_intrusive<TensorImpl>(std::move(storage), dtype, Device(DeviceType::CPU)));
  t.impl()->set_geometry(sizes, strides, 0);
  return t;
}

// --- array interface -----------------------------------------------------------------------------

namespace {

PyObject* capsule_of(Storage storage) {
  auto held = std::make_unique<SharedMemory>(std::move(storage));
  const auto release = [](PyObject* capsule) {
    delete static_cast<SharedMemory*>(PyCapsule_GetPointer(capsule, nullptr));
  };
  PyObject* capsule = Ref::checked(PyCapsule_New(held.get(), nullptr, release)).release();
  static_cast<void>(held.release());
  return capsule;
}

}  // namespace

// (the interface, what keeps the memory)
PyObject* array_interface(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    check_exportable(tensor_of(self), "numpy()");
    const Tensor& t = readable(self);
    const char* type = kForeign[index_of(t.dtype())].array;
    check_type(type != nullptr,
               "numpy: expected a dtype that NumPy has, got unsupported ScalarType ", t.dtype());
    const auto width = static_cast<int64_t>(element_size(t.dtype()));
    Ref shape = Ref::checked(PyTuple_New(t.dim()));
    Ref strides = Ref::checked(PyTuple_New(t.dim()));
    for (int64_t d = 0; d < t.dim(); ++d) {
      PyTuple_SET_ITEM(shape.get(), d, PyLong_FromLongLong(t.size(d)));
      PyTuple_SET_ITEM(strides.get(), d, PyLong_FromLongLong(t.stride(d) * width));
    }
    Ref memory(capsule_of(t.storage()));
    return Py_BuildValue("({s:N,s:N,s:s,s:(NO),s:i}N)", "shape", shape.release(), "strides",
                         strides.release(), "typestr", type, "data",
                         PyLong_FromVoidPtr(t.numel() ? t.data() : nullptr), Py_False, "version", 3,
                         memory.release());
  });
}

ScalarType dtype_of_numpy(PyObject* object) {
  const Ref dtype = Ref::checked(PyObject_GetAttrString(object, "dtype"));
  const Ref text = Ref::checked(PyObject_GetAttrString(dtype.get(), "str"));
  return from_array_type(text.get());
}

namespace {

DimVector element_strides(PyObject* bytes, int64_t width) {
  DimVector steps = integers_of(bytes);
  for (int64_t& step : steps) {
    check_value(step >= 0,
                "from_numpy: expected strides of 0 or more, got a negative one; pass a copy() of "
                "the array");
    check_value(step % width == 0, "from_numpy: expected strides in multiples of the element size ",
                width, ", got ", step, "; pass a copy() of the array");
    step /= width;
  }
  return steps;
}

struct ArrayMemory {
  Tensor tensor;
  bool read_only;
};

ArrayMemory memory_of(PyObject* array) {
  const Ref interface = Ref::checked(PyObject_GetAttrString(array, "__array_interface__"));
  const auto entry = [&](const char* name) -> PyObject* {
    return PyDict_Check(interface.get()) ? PyDict_GetItemString(interface.get(), name) : nullptr;
  };
  PyObject *typestr = entry("typestr"), *data = entry("data"), *shape = entry("shape");
  check_type(typestr && PyUnicode_Check(typestr) && shape && data && PyTuple_Check(data) &&
                 PyTuple_GET_SIZE(data) == 2,
             "from_numpy: expected a numpy.ndarray, got ", Py_TYPE(array)->tp_name);
  const ScalarType dtype = from_array_type(typestr);
  const DimVector sizes = integers_of(shape);
  PyObject* strides = entry("strides");
  const auto width = static_cast<int64_t>(element_size(dtype));
  const DimVector steps =
      strides && strides != Py_None ? element_strides(strides, width) : contiguous_strides(sizes);
  check_value(steps.size() == sizes.size(), "from_numpy: expected as many strides as sizes, got ",
              steps.size(), " and ", sizes.size());
  void* address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
  if (!address && PyErr_Occurred()) throw PythonError();
  const bool read_only = checked(PyObject_IsTrue(PyTuple_GET_ITEM(data, 1))) == 1;
  return {tensor_over(address, sizes, steps, dtype, &release_reference, Py_NewRef(array)),
          read_only};
}

// Programs search for "The given NumPy array is not writable".
void warn_of_read_only(const char* function, const char* what) {
  checked(PyErr_WarnFormat(PyExc_UserWarning, 1,
                           "%s: The given %s is not writable, but tensors always are: copy it, or "
                           "do not write to the tensor",
                           function, what));
}

}  // namespace

Tensor tensor_over_array(PyObject* array) { return memory_of(array).tensor; }

PyObject* from_array_interface(PyObject*, PyObject* array) {
  return guarded([&]() -> PyObject* {
    check_type(is_ndarray(array), "from_numpy: expected np.ndarray (got ", Py_TYPE(array)->tp_name,
               ")");
    ArrayMemory memory = memory_of(array);
    if (memory.read_only) warn_of_read_only("from_numpy", "NumPy array");
    return wrap(std::move(memory.tensor));
  });
}

// --- buffer --------------------------------------------------------------------------------------

namespace {

bool is_column_major(const Tensor& t) {
  int64_t step = 1;
  for (int64_t d = 0; d < t.dim() && t.numel(); ++d) {
    if (t.size(d) != 1 && t.stride(d) != step) return false;
    step *= t.size(d);
  }
  return true;
}

// What a Py_buffer points to, besides the data.
struct BufferGeometry {
  SharedMemory memory;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

// Whether elements lie as the flags demand; without strides, that is in row-major order.
bool is_as_asked(const Tensor& t, int flags) {
  const auto asked = [&](int flag) { return (flags & flag) == flag; };
  if (t.is_contiguous()) return !asked(PyBUF_F_CONTIGUOUS) || t.dim() < 2 || is_column_major(t);
  if (!asked(PyBUF_STRIDES) || asked(PyBUF_C_CONTIGUOUS)) return false;
  return !(asked(PyBUF_F_CONTIGUOUS) || asked(PyBUF_ANY_CONTIGUOUS)) || is_column_major(t);
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const int status = guarded_int([&] {
    check_exportable(tensor_of(self), "numpy()");
    const Tensor& t = readable(self);
    const char* format = kForeign[index_of(t.dtype())].buffer;
    if (!format || !is_as_asked(t, flags)) {
      PyErr_SetString(PyExc_BufferError, format ? "memoryview: the tensor is not contiguous"
                                                : "memoryview: the dtype has no buffer format");
      return -1;
    }
    std::unique_ptr<BufferGeometry> geometry(new BufferGeometry{SharedMemory(t.storage()), {}, {}});
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

namespace {

void release_view(void* context) {
  release_under_gil([context] {
    std::unique_ptr<Py_buffer> held(static_cast<Py_buffer*>(context));
    PyBuffer_Release(held.get());
  });
}

struct ViewRelease {
  void operator()(Py_buffer* view) const {
    PyBuffer_Release(view);
    delete view;
  }
};
using View = std::unique_ptr<Py_buffer, ViewRelease>;

View view_of(PyObject* source) {
  check_value(PyObject_CheckBuffer(source),
              "frombuffer: expected bytes or another object with the buffer protocol, got ",
              Py_TYPE(source)->tp_name);
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(source, view.get(), PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(source, view.get(), PyBUF_SIMPLE) < 0) {
      PyErr_Clear();
      fail(ErrorKind::Runtime, "frombuffer: could not retrieve buffer: expected contiguous memory ",
           "that is not in use, got ", Py_TYPE(source)->tp_name);
    }
  }
  return View(view.release());
}

int64_t count_in(const Py_buffer& view, int64_t count, int64_t offset, int64_t width) {
  const int64_t length = view.len, left = length - offset;
  check_value(length > 0 && count != 0,
              "frombuffer: expected at least one element, got a buffer of ", length,
              " bytes and count=", count);
  check_value(offset >= 0 && left > 0, "frombuffer: expected an offset inside of the buffer of ",
              length, " bytes, got ", offset);
  check_value(count > 0 || left % width == 0, "frombuffer: expected a multiple of ", width,
              " bytes, the element size, after the offset, got ", left);
  if (count < 0) return left / width;
  check_value(count <= left / width, "frombuffer: expected at most ", left / width,
              " elements after an offset of ", offset, " bytes, got count=", count);
  return count;
}

}  // namespace

PyObject* from_buffer(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *source, *dtype_object;
    Py_ssize_t count, offset;
    if (!PyArg_ParseTuple(args, "OOnn", &source, &dtype_object, &count, &offset)) {
      if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return nullptr;
      PyErr_Clear();
      fail(ErrorKind::Value,
           "frombuffer: expected a count and an offset of at most 64 bits, got a larger integer");
    }
    ScalarType dtype;
    check_type(scalar_type_from(dtype_object, &dtype), "frombuffer: expected a dtype, got ",
               Py_TYPE(dtype_object)->tp_name);
    View view = view_of(source);
    const auto width = static_cast<int64_t>(element_size(dtype));
    const int64_t n = count_in(*view, count, offset, width);
    if (view->readonly) warn_of_read_only("frombuffer", "buffer");
    char* data = static_cast<char*>(view->buf) + offset;
    return wrap(tensor_over(data, {n}, {1}, dtype, &release_view, view.release()));
  });
}

}  // namespace flambeau::python
