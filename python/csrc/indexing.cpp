// x[index]: integers, slices, None, ... and Ellipsis become views; tensors, lists and masks are
// gathered into one call of `index` on the view that is left.
#include "python/csrc/indexing.h"

#include "aten/core/factory.h"
#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/transforms/layers.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/call_site.h"
#include "python/csrc/data.h"
#include "python/csrc/torch_dispatch.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/index_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::python {
namespace {

// Strings count as sequences; their items are refused as data.
bool is_sequence_index(PyObject* o) {
  return PyList_Check(o) || PyObject_HasAttrString(o, "__array_interface__") || PyRange_Check(o) ||
         PyUnicode_Check(o) || PyBytes_Check(o);
}

// As in old NumPy: x[[slice(None), [2, 3]]] is x[:, [2, 3]]. A short list of anything but numbers
// stands for a tuple.
bool stands_for_tuple(PyObject* o) {
  constexpr Py_ssize_t kMost = 32;
  if (!PyList_Check(o) || PyList_GET_SIZE(o) >= kMost) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
    PyObject* item = PyList_GET_ITEM(o, i);
    const bool place = item == Py_None || item == Py_Ellipsis || PySlice_Check(item);
    if (place || is_tensor(item) || PySequence_Check(item)) return true;
  }
  return false;
}

// Tensors of uint8 are masks, too.
bool is_mask(const Tensor& t) {
  return t.dtype() == ScalarType::Bool || t.dtype() == ScalarType::UInt8;
}

// How many dimensions of the tensor one entry uses up.
int64_t dims_used(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    if (is_mask(t)) return t.dim();
  }
  return 1;
}

Tensor tensor_from_index(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o);
  Ref list = PyRange_Check(o) ? Ref::checked(PySequence_List(o)) : Ref::share(o);
  Tensor t = adopted_by_mode(tensor_from_data(list.get(), ScalarType::Undefined, DeviceType::CPU),
                             DeviceType::CPU);
  // Numbers in a list are integers to PyTorch, also those with fractions; an empty list is one of
  // them.
  const bool listed = PyList_Check(o) || PyTuple_Check(o);
  check_type(!listed || !t.is_complex(),
             "indexing: expected integers as indices, got complex numbers");
  return (listed || t.numel() == 0) && t.is_floating_point()
             ? ops::to_dtype::call(t, ScalarType::Int64)
             : t;
}

Tensor truth(bool value) {
  Tensor t = empty_tensor({1}, ScalarType::Bool);
  *t.data_as<StoredBool>() = value;
  return t;
}

class Indexer {
 public:
  explicit Indexer(const Tensor& self) : result(self) {}

  Tensor result;                // after all views
  std::vector<Tensor> gathers;  // by dimension of `result`; undefined: all of it

  void apply(PyObject* index) {
    if (PyTuple_Check(index) || stands_for_tuple(index)) {
      apply_all(PySequence_Fast_ITEMS(index), PySequence_Fast_GET_SIZE(index));
    } else {
      PyObject* one[] = {index};
      apply_all(one, 1);
    }
  }
  bool gathers_any() const {
    for (const Tensor& t : gathers) {
      if (t.defined()) return true;
    }
    return false;
  }

 private:
  int64_t dim_ = 0;
  int64_t covered_ = 0;  // dimensions before this one have their entry in `gathers`

  void apply_all(PyObject** items, Py_ssize_t n) {
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < n; ++i) used += dims_used(items[i]);
    check_index(used <= result.dim(), "indexing: too many indices: expected at most ", result.dim(),
                ", the number of dimensions, got ", used);
    const int64_t free = result.dim() - used;
    for (Py_ssize_t i = 0; i < n; ++i) apply_one(items[i], free);
  }

  void apply_one(PyObject* o, int64_t free) {
    if (o == Py_None) {
      result = ops::unsqueeze::call(result, dim_++);
    } else if (o == Py_Ellipsis) {
      dim_ += free;  // a second one passes over as many again: nothing may follow it
    } else if (PySlice_Check(o)) {
      slice(o);
    } else if (PyBool_Check(o)) {
      result = ops::unsqueeze::call(result, dim_);
      gather(truth(o == Py_True));
    } else if (is_tensor(o)) {
      tensor(tensor_of(o));
    } else if (PyLong_Check(o) || (PyIndex_Check(o) && !is_sequence_index(o))) {
      select(integer_from(o));
    } else if (is_sequence_index(o) || PyTuple_Check(o)) {
      tensor(tensor_from_index(o));
    } else {
      fail(ErrorKind::Index,
           "indexing: expected integers, slices, ..., None or tensors of integers or bool, got ",
           Py_TYPE(o)->tp_name);
    }
  }

  // Not after a second ellipsis.
  void check_place() const {
    check_index(dim_ < result.dim(), "indexing: too many indices: expected at most ", result.dim(),
                ", got more");
  }

  void select(int64_t i) {
    check_place();
    const int64_t size = result.size(dim_);
    check_index(i >= -size && i < size, OutOfBounds{i, dim_, size});
    result = ops::select_int::call(result, dim_, i);
  }

  static int64_t bound(PyObject* o, int64_t missing) {
    if (o == Py_None) return missing;
    const Ref index =
        is_tensor(o) ? Ref(PyLong_FromLongLong(integer_from(o))) : Ref::checked(PyNumber_Index(o));
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
    return overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : value;
  }

  void slice(PyObject* o) {
    const auto* s = reinterpret_cast<PySliceObject*>(o);
    const int64_t step = bound(s->step, 1);
    check_value(step > 0, "slice: expected a step above 0, got ", step);
    check_place();
    const int64_t size = result.size(dim_);
    const int64_t start = bound(s->start, 0);
    const int64_t stop = bound(s->stop, INT64_MAX);
    const bool everything = step == 1 && (start == 0 || start <= -size) && stop >= size;
    if (!everything) result = ops::slice_Tensor::call(result, dim_, start, stop, step);
    ++dim_;
  }

  void tensor(const Tensor& t) {
    if (is_mask(t) && t.dim() == 0) {
      result = ops::unsqueeze::call(result, dim_);
      gather(truth(read_item(t).to_bool()));
    } else if (is_integral_type(t.dtype(), false) && t.dim() == 0 && !transforms::is_batched(t)) {
      select(read_item(t).to_int64());
    } else {
      check_index(is_integral_type(t.dtype(), true),
                  "indexing: expected indices of dtype bool or an integer one, got ", t.dtype());
      gather(t);
    }
  }

  void gather(const Tensor& t) {
    check_place();
    // One entry per index: dimensions that an earlier mask covered have none of their own.
    for (int64_t d = covered_; d < dim_; ++d) gathers.emplace_back();
    gathers.push_back(t);
    // A mask covers as many dimensions as it has; `index` turns it into that many integer tensors.
    dim_ += is_mask(t) ? t.dim() : 1;
    covered_ = dim_;
  }
};

// Leading dimensions of size 1 that the target lacks are dropped from an assigned value.
Tensor without_leading_ones(const Tensor& value, int64_t dims) {
  Tensor out = value;
  while (out.dim() > dims && out.size(0) == 1) out = ops::select_int::call(out, 0, 0);
  return out;
}

Tensor value_like(const Tensor& self, PyObject* value) {
  if (is_tensor(value)) return tensor_of(value);
  const Device device = device_of_data(self.device());
  if (is_number(value)) {
    const Scalar number = scalar_from(value);
    check(!number.is_complex() || is_complex_type(self.dtype()) || number.to_complex().imag() == 0,
          "__setitem__: expected a real value for ", self.dtype(),
          ", got a complex one, which cannot be converted without overflow");
    return adopted_by_mode(scalar_tensor(number, self.dtype(), device), self.device());
  }
  return adopted_by_mode(tensor_from_data(value, self.dtype(), device), self.device());
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* index) {
  return guarded_infix("__getitem__", self, index, [&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (PyLong_CheckExact(index)) {
      check_index(t.dim() > 0,
                  "__getitem__: expected a tensor with dimensions, got invalid index of a 0-dim "
                  "tensor; use "
                  "item() to read its number");
      const int64_t i = integer_from(index);
      check_index(i >= -t.size(0) && i < t.size(0), OutOfBounds{i, 0, t.size(0)});
      return wrap(ops::select_int::call(t, 0, i));
    }
    Indexer indexer(t);
    indexer.apply(index);
    if (indexer.gathers_any())
      return wrap(ops::index_Tensor::call(indexer.result, indexer.gathers));
    // x[...] is a new view, never x itself.
    return wrap(indexer.result.is_same(t) ? ops::alias::call(t) : indexer.result);
  });
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  return guarded_int([&] {
    check_type(value != nullptr, "__delitem__: expected a container, got a Tensor, whose items ",
               "cannot be deleted");
    check_type(!is_sparse(tensor_of(self)),
               "__setitem__: expected a strided tensor, got a sparse one; make a new one with "
               "sparse_coo_tensor");
    Indexer indexer(tensor_of(self));
    indexer.apply(index);
    Tensor& target = indexer.result;
    const Tensor source = value_like(target, value);
    if (indexer.gathers_any()) {
      ops::index_put_::call(target, indexer.gathers, without_leading_ones(source, 0), false);
    } else {
      ops::copy_::call(target, without_leading_ones(source, target.dim()), false);
    }
    return 0;
  });
}

}  // namespace flambeau::python
