// What every tensor answers without an operator: geometry, dtype, single values, protocols.
#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/cpu/device_copy.h"
#include "aten/dispatch/lazy_views.h"
#include "aten/transforms/layers.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/indexing.h"
#include "python/csrc/transforms.h"
#include "python/csrc/value_types.h"
#include "python/csrc/wrapper_questions.h"
#include "torchgen_out/aten/copy_ops.h"

namespace flambeau::python {
namespace {

// --- what a class may answer ---------------------------------------------------------------------

// Sizes, which an answer of the class may own.
class SizesOf {
 public:
  explicit SizesOf(PyObject* self) : sizes_(tensor_of(self).sizes()) {
    if (!is_asked(self, kAskSizes)) return;
    answer_ = asked_sizes(self);
    sizes_ = answer_;
  }
  operator IntArrayRef() const { return sizes_; }

 private:
  std::vector<int64_t> answer_;
  IntArrayRef sizes_;
};
SizesOf sizes_of(PyObject* self) { return SizesOf(self); }
Device device_of(PyObject* self) {
  return is_asked(self, kAskDevice) ? asked_device(self) : tensor_of(self).device();
}
Layout layout_of(PyObject* self) {
  if (is_asked(self, kAskLayout)) return asked_layout(self);
  return is_sparse(tensor_of(self)) ? Layout::SparseCoo : Layout::Strided;
}
PyObject* dim(PyObject* self, PyObject*) {
  return guarded(
      [&] { return wrap(is_asked(self, kAskSizes) ? asked_dim(self) : tensor_of(self).dim()); });
}

// --- attributes ----------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] { return wrap_sizes(sizes_of(self)); });
}
PyObject* get_ndim(PyObject* self, void*) { return dim(self, nullptr); }
PyObject* get_dtype(PyObject* self, void*) { return wrap(tensor_of(self).dtype()); }
PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return wrap_device(device_of(self)); });
}
PyObject* get_layout(PyObject* self, void*) {
  return guarded([&] { return wrap_layout(layout_of(self)); });
}
PyObject* get_is_sparse(PyObject* self, void*) { return wrap(is_sparse(tensor_of(self))); }
PyObject* get_itemsize(PyObject* self, void*) {
  return wrap(static_cast<int64_t>(element_size(tensor_of(self).dtype())));
}
PyObject* get_nbytes(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    check(layout_of(self) == Layout::Strided,
          "nbytes: expected a strided tensor, got a sparse one; add the nbytes of ",
          "its indices and values");
    const int64_t count = is_asked(self, kAskSizes) ? asked_numel(self, false) : t.numel();
    return wrap(count * static_cast<int64_t>(element_size(t.dtype())));
  });
}
template <DeviceType type>
PyObject* get_is_on(PyObject* self, void*) {
  return guarded([&] { return wrap(device_of(self).type == type); });
}
PyObject* get_false(PyObject*, void*) { return wrap(false); }

// --- methods -------------------------------------------------------------------------------------

// Operators take a scalar's dimension 0 and -1; there is no size or stride to read at either.
int64_t existing_dim(const char* op, int64_t rank, int64_t dim) {
  check_index(rank > 0, NoDimension{op});
  return wrap_dim(dim, rank);
}

PyObject* size(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    static constexpr Param params[] = {
        {.name = "dim", .kind = ParamKind::Int, .optional = true, .has_default = true}};
    static constexpr Signature signatures[] = {{"size(int dim=None)", params, 1}};
    static constexpr Overloads overloads = {"size", signatures, 1};
    ParsedArgs p;
    p.parse(overloads, nullptr, args, nargs, kwnames);
    const Tensor& t = tensor_of(self);
    if (!p.has(0)) return wrap_sizes(sizes_of(self));
    if (is_asked(self, kAskSizes)) return wrap(asked_size(self, p.integer(0)));
    return wrap(t.size(existing_dim("size", t.dim(), p.integer(0))));
  });
}
PyObject* stride(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    static constexpr Param params[] = {
        {.name = "dim", .kind = ParamKind::Int, .optional = true, .has_default = true}};
    static constexpr Signature signatures[] = {{"stride(int dim=None)", params, 1}};
    static constexpr Overloads overloads = {"stride", signatures, 1};
    ParsedArgs p;
    p.parse(overloads, nullptr, args, nargs, kwnames);
    std::vector<int64_t> asked;
    if (is_asked(self, kAskStrides)) asked = asked_strides(self);
    const IntArrayRef strides =
        is_asked(self, kAskStrides) ? IntArrayRef(asked) : tensor_of(self).strides();
    const auto rank = static_cast<int64_t>(strides.size());
    if (p.has(0))
      return wrap(strides[static_cast<size_t>(existing_dim("stride", rank, p.integer(0)))]);
    Ref tuple = Ref::checked(PyTuple_New(rank));
    for (int64_t d = 0; d < rank; ++d)
      PyTuple_SET_ITEM(tuple.get(), d, PyLong_FromLongLong(strides[static_cast<size_t>(d)]));
    return tuple.release();
  });
}
PyObject* numel(PyObject* self, PyObject*) {
  return guarded([&] {
    return wrap(is_asked(self, kAskSizes) ? asked_numel(self, true) : tensor_of(self).numel());
  });
}
PyObject* storage_offset(PyObject* self, PyObject*) {
  return guarded([&] {
    return wrap(is_asked(self, kAskSizes) ? asked_storage_offset(self)
                                          : tensor_of(self).storage_offset());
  });
}
PyObject* method_element_size(PyObject* self, PyObject*) { return get_itemsize(self, nullptr); }
PyObject* data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = readable(self);
    check(!is_sparse(t),
          "data_ptr: expected a strided tensor, got a sparse one; its indices and values have data "
          "pointers");
    make_writable(t);
    if (void* const memory = t.storage()->device_data()) {
      const auto item = static_cast<int64_t>(element_size(t.dtype()));
      return PyLong_FromVoidPtr(static_cast<char*>(memory) + t.storage_offset() * item);
    }
    return PyLong_FromVoidPtr(t.storage()->data() ? t.data() : nullptr);
  });
}
PyObject* is_floating_point(PyObject* self, PyObject*) {
  return wrap(tensor_of(self).is_floating_point());
}
PyObject* is_complex(PyObject* self, PyObject*) { return wrap(tensor_of(self).is_complex()); }
PyObject* is_inference(PyObject* self, PyObject*) {
  return wrap(tensor_of(self).impl()->is_inference());
}
PyObject* is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  return guarded([&] {
    static constexpr Param params[] = {
        {.name = "memory_format", .kind = ParamKind::MemoryFormat, .has_default = true}};
    static constexpr Signature signatures[] = {
        {"is_contiguous(memory_format=contiguous_format)", params, 1}};
    static constexpr Overloads overloads = {"is_contiguous", signatures, 1};
    ParsedArgs p;
    p.parse(overloads, nullptr, args, nargs, kwnames);
    const MemoryFormat format = p.memory_format_or(0, MemoryFormat::Contiguous);
    if (!is_asked(self, kAskStrides)) return wrap(tensor_of(self).is_contiguous(format));
    const bool is_default = format == MemoryFormat::Contiguous;
    return wrap(asked_is_contiguous(self, is_default ? std::nullopt : std::optional(format)));
  });
}
PyObject* is_same_storage(PyObject* self, PyObject* other) {
  return guarded([&] {
    check_type(is_tensor(other), "_shares_storage_with: expected a Tensor, got ",
               Py_TYPE(other)->tp_name);
    return wrap(tensor_of(self).storage() == tensor_of(other).storage());
  });
}
PyObject* storage_nbytes(PyObject* self, PyObject*) {
  return wrap(static_cast<int64_t>(tensor_of(self).storage()->nbytes()));
}
PyObject* storage_resizable(PyObject* self, PyObject*) {
  return wrap(tensor_of(self).storage()->resizable());
}
PyObject* storage_id(PyObject* self, PyObject*) {
  return PyLong_FromVoidPtr(tensor_of(self).storage().get());
}
// Of a sparse tensor: sparse dimensions, dense dimensions, entries, whether it is coalesced.
PyObject* sparse_info(PyObject* self, PyObject* name) {
  return guarded([&] {
    const char* const op = PyUnicode_AsUTF8(name);
    if (!op) throw PythonError();
    const Tensor& t = tensor_of(self);
    const SparseParts parts = sparse_parts(op, transforms::bottom_of(t));
    return Py_BuildValue("(LLLO)", static_cast<long long>(parts.sparse_dim()),
                         static_cast<long long>(t.dim() - parts.sparse_dim()),
                         static_cast<long long>(parts.count()),
                         parts.is_coalesced ? Py_True : Py_False);
  });
}
PyObject* is_conj(PyObject* self, PyObject*) { return wrap(tensor_of(self).is_conj()); }
PyObject* is_neg(PyObject* self, PyObject*) { return wrap(tensor_of(self).is_neg()); }
PyObject* item(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& t = readable(self);
    check(t.numel() == 1, NotOneElement{t.numel()});
    return wrap(read_item(t));
  });
}

// Nested lists of the values. `edge` >= 0: of longer dimensions only this many items at each end.
PyObject* list_of(const Tensor& t, int64_t dim, const char* data, int64_t edge) {
  if (dim == t.dim()) return wrap(Scalar::load(t.dtype(), data));
  const int64_t size = t.size(dim);
  const bool shortened = edge >= 0 && size > 2 * edge;
  const int64_t count = shortened ? 2 * edge : size;
  Ref list = Ref::checked(PyList_New(count));
  // Where nothing is stepped over, a stride may be any number.
  const bool steps = size > 1 && t.numel() > 0;
  const int64_t step = steps ? t.stride(dim) * static_cast<int64_t>(element_size(t.dtype())) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = shortened && i >= edge ? size - count + i : i;
    PyObject* entry = list_of(t, dim + 1, data + place * step, edge);
    if (!entry) throw PythonError();
    PyList_SET_ITEM(list.get(), i, entry);
  }
  return list.release();
}
PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor t = resolved(readable(self));
    if (t.is_meta())
      fail(ErrorKind::NotImplemented, "tolist: Cannot copy out of meta tensor: it has no data");
    const Tensor host = is_private(t) ? host_copy(t) : t;
    return list_of(host, 0, static_cast<const char*>(host.data()), -1);
  });
}
PyObject* nested(PyObject* self, PyObject* edge) {
  return guarded([&] {
    const Tensor t = resolved(readable(self));
    const Tensor host = is_private(t) ? host_copy(t) : t;
    return list_of(host, 0, static_cast<const char*>(host.data()), integer_from(edge));
  });
}

// --- protocols -----------------------------------------------------------------------------------

Scalar single_value(PyObject* self, const char* what) {
  const Tensor& t = readable(self);
  check_value(t.numel() == 1, "item: expected one element, got ", t.numel(),
              " (only one element tensors can be converted to Python ", what, ")");
  return read_item(t);
}
int tensor_bool(PyObject* self) {
  return guarded_int([&] {
    const Tensor& t = readable(self);
    check(t.numel() != 0, "bool: Boolean value of Tensor with no values is ambiguous");
    check(t.numel() == 1,
          "bool: Boolean value of Tensor with more than one value is ambiguous; any() and all() "
          "reduce it");
    check(!transforms::is_batched(t),
          "vmap: data-dependent control flow is not possible: the Tensor stands for a whole batch. "
          "flambeau.where chooses per entry.");
    return read_item(t).to_bool() ? 1 : 0;
  });
}
PyObject* tensor_float(PyObject* self) {
  return guarded([&] { return wrap(single_value(self, "scalar").to<double>()); });
}
PyObject* tensor_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = single_value(self, "scalar");
    if (value.is_floating()) return PyLong_FromDouble(value.to_double());
    return wrap(value.to_int64());
  });
}
PyObject* tensor_index(PyObject* self) {
  return guarded([&] {
    const Tensor& t = readable(self);
    check_type(t.numel() == 1 && is_integral_type(t.dtype(), true),
               "__index__: expected an integer tensor of one element, got ", t.dtype(), t.sizes());
    return wrap(read_item(t).to_int64());
  });
}
PyObject* tensor_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    const complex<double> z = single_value(self, "scalar").to_complex();
    return PyComplex_FromDoubles(z.re, z.im);
  });
}
int64_t asked_length(PyObject* self) {
  check_type(asked_dim(self) != 0, "len: len() of a 0-d tensor");
  const std::vector<int64_t> sizes = asked_sizes(self);
  check_value(!sizes.empty() && sizes[0] >= 0 && sizes[0] <= std::numeric_limits<int>::max(),
              "__len__: expected a size of 0 or more from __torch_dispatch__, got ",
              sizes.empty() ? "none" : std::to_string(sizes[0]));
  return sizes[0];
}
Py_ssize_t tensor_length(PyObject* self) {
  return static_cast<Py_ssize_t>(guarded_int([&] {
    const Tensor& t = tensor_of(self);
    if (is_asked(self, kAskSizes)) return static_cast<int>(asked_length(self));
    check_type(t.dim() > 0, "len: len() of a 0-d tensor");
    return static_cast<int>(t.size(0));
  }));
}
Py_hash_t tensor_hash(PyObject* self) {
  const auto bits = reinterpret_cast<uintptr_t>(self);
  return static_cast<Py_hash_t>((bits >> 4) | (bits << (8 * sizeof(bits) - 4)));
}

template <typename F>
PyCFunction fast(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}
template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

PyMethodDef handwritten_tensor_methods[] = {
    {"size", fast(size), METH_FASTCALL | METH_KEYWORDS, "Size of all dimensions, or of `dim`."},
    {"stride", fast(stride), METH_FASTCALL | METH_KEYWORDS,
     "Strides in elements, or that of `dim`."},
    {"dim", dim, METH_NOARGS, "Number of dimensions."},
    {"ndimension", dim, METH_NOARGS, "Number of dimensions."},
    {"numel", numel, METH_NOARGS, "Number of elements."},
    {"nelement", numel, METH_NOARGS, "Number of elements."},
    {"storage_offset", storage_offset, METH_NOARGS,
     "Elements of the storage before the tensor's first."},
    {"element_size", method_element_size, METH_NOARGS, "Bytes of one element."},
    {"data_ptr", data_ptr, METH_NOARGS, "Address of the first element."},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "Whether elements are real floating numbers."},
    {"is_complex", is_complex, METH_NOARGS, "Whether elements are complex numbers."},
    {"is_conj", is_conj, METH_NOARGS, "Whether it is a view of its elements' conjugates."},
    {"is_neg", is_neg, METH_NOARGS, "Whether it is a view of its elements' negatives."},
    {"is_inference", is_inference, METH_NOARGS, "Whether it was made in inference mode."},
    {"is_contiguous", fast(is_contiguous), METH_FASTCALL | METH_KEYWORDS,
     "Whether elements lie in memory in order."},
    {"_shares_storage_with", is_same_storage, METH_O, nullptr},
    {"_storage_nbytes", storage_nbytes, METH_NOARGS, nullptr},
    {"_storage_resizable", storage_resizable, METH_NOARGS, nullptr},
    {"_storage_id", storage_id, METH_NOARGS, nullptr},
    {"_sparse_info", sparse_info, METH_O, nullptr},
    {"item", item, METH_NOARGS, "The value of a one-element tensor as a Python number."},
    {"_nested", nested, METH_O, nullptr},
    {"tolist", tolist, METH_NOARGS, "The values as nested lists of Python numbers."},
    {"__complex__", tensor_complex, METH_NOARGS, nullptr},
    {"_array_interface", array_interface, METH_NOARGS, nullptr},
    {"_to_dlpack", to_dlpack, METH_VARARGS, nullptr},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "Device of the DLPack export: (type, index)."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef handwritten_tensor_getset[] = {
    {"shape", get_shape, nullptr, "Size of every dimension.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"dtype", get_dtype, nullptr, "Type of the elements.", nullptr},
    {"device", get_device, nullptr, "Where the elements are.", nullptr},
    {"layout", get_layout, nullptr, "How the elements are laid out.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"is_cpu", get_is_on<DeviceType::CPU>, nullptr, "Whether it is on the CPU.", nullptr},
    {"is_cuda", get_is_on<DeviceType::CUDA>, nullptr, "Whether it is on a CUDA device.", nullptr},
    {"is_meta", get_is_on<DeviceType::Meta>, nullptr, "Whether it has a shape but no data.",
     nullptr},
    {"is_sparse", get_is_sparse, nullptr, "Whether the layout is sparse_coo.", nullptr},
    {"is_quantized", get_false, nullptr, "Always False.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot handwritten_tensor_slots[] = {{Py_nb_bool, slot(tensor_bool)},
                                          {Py_nb_float, slot(tensor_float)},
                                          {Py_nb_int, slot(tensor_int)},
                                          {Py_nb_index, slot(tensor_index)},
                                          {Py_tp_hash, slot(tensor_hash)},
                                          {Py_mp_length, slot(tensor_length)},
                                          {Py_mp_subscript, slot(get_item)},
                                          {Py_mp_ass_subscript, slot(set_item)},
                                          {Py_bf_getbuffer, slot(get_buffer)},
                                          {Py_bf_releasebuffer, slot(release_buffer)},
                                          {0, nullptr}};

}  // namespace flambeau::python
