#include "python/csrc/row_kernels.h"

#include <memory>

#include "aten/cpu/fused_cells.h"
#include "aten/cpu/row_loop.h"
#include "python/csrc/generated.h"
#include "python/csrc/tensor_type.h"

namespace flambeau::python {
namespace {

// _fold_of("sum.dim_IntList"): (name, whether integers become int64, whether it is the sum of its
// operand, whether partial results are bool, operands, params, the argument of dimensions, the
// argument that keeps them); None for operators that are no such reduction.
PyObject* fold_of(PyObject*, PyObject* entry) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(entry), "_fold_of: expected a str, got ", Py_TYPE(entry)->tp_name);
    const char* const text = PyUnicode_AsUTF8(entry);
    if (!text) return nullptr;
    const FoldCell* const cell = fold_cell_of(text);
    if (!cell) return wrap_none();
    const auto flag = [](bool value) { return value ? Py_True : Py_False; };
    return Py_BuildValue("(sOOOssss)", cell->name, flag(cell->widens), flag(cell->is_sum),
                         flag(cell->is_truth), cell->operands, cell->params, cell->dim,
                         cell->keepdim);
  });
}

// _indexing_of("gather"): (whether it adds to the element, the names of the tensor, the index and
// the dimension); None for operators without such a formula.
PyObject* indexing_of(PyObject*, PyObject* entry) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(entry), "_indexing_of: expected a str, got ",
               Py_TYPE(entry)->tp_name);
    const char* const text = PyUnicode_AsUTF8(entry);
    if (!text) return nullptr;
    const IndexedCell* const cell = indexed_cell_of(text);
    if (!cell) return wrap_none();
    return Py_BuildValue("(Osss)", cell->adds ? Py_True : Py_False, cell->tensor, cell->index,
                         cell->dim);
  });
}

// _is_cast("_to_copy"): whether an operator copies its first argument into another dtype.
PyObject* is_cast(PyObject*, PyObject* entry) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(entry), "_is_cast: expected a str, got ", Py_TYPE(entry)->tp_name);
    const char* const text = PyUnicode_AsUTF8(entry);
    return text ? PyBool_FromLong(is_cast_operator(text)) : nullptr;
  });
}

// _is_heavy_cell("exp"): whether a formula of loop_cells.h costs more than a load and a store.
PyObject* is_heavy(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    check_type(PyUnicode_Check(name), "_is_heavy_cell: expected a str, got ",
               Py_TYPE(name)->tp_name);
    const char* const text = PyUnicode_AsUTF8(name);
    return text ? PyBool_FromLong(is_heavy_cell(text)) : nullptr;
  });
}

template <typename Numbers>
void take_numbers(PyObject* tuple, Numbers& to) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const long long number = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (number == -1 && PyErr_Occurred()) throw PythonError();
    to.push_back(number);
  }
}

// Adds the bytes between the first and the last of `count` steps to what an array reaches.
void extend(int64_t count, int64_t step, int64_t& low, int64_t& high) {
  int64_t reach;
  int64_t& end = step < 0 ? low : high;
  const bool overflows =
      __builtin_mul_overflow(count - 1, step, &reach) || __builtin_add_overflow(end, reach, &end);
  check(count >= 0 && !overflows, "_run_row_kernel: expected sizes within memory, got ", count,
        " steps of ", step, " bytes");
}

// Refuses an array whose elements lie outside of its tensor's memory.
void check_reach(const RowLoop& loop, size_t array, const Tensor& t) {
  const size_t dims = loop.sizes.size();
  const auto* const strides = loop.strides.begin() + array * (dims + 1);
  int64_t low = 0, high = 0;
  extend(loop.columns, strides[0], low, high);
  for (size_t d = 0; d < dims; ++d) extend(loop.sizes[d], strides[d + 1], low, high);
  const auto element = static_cast<int64_t>(element_size(t.dtype()));
  const int64_t before = t.storage_offset() * element;
  const int64_t after = static_cast<int64_t>(t.storage()->nbytes()) - before;
  check(before + low >= 0 && high <= after - element, "_run_row_kernel: expected array ", array,
        " within the memory of its tensor, got bytes ", low, " to ", high + element, " of ", after);
}

SmallVector<char*, 32> addresses_of(PyObject* tensors, const RowLoop& loop) {
  SmallVector<char*, 32> data;
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(tensors));
  check(loop.strides.size() == count * (loop.sizes.size() + 1),
        "_run_row_kernel: expected strides of ", count, " arrays, got ", loop.strides.size());
  bool is_empty = loop.columns == 0;
  for (const int64_t size : loop.sizes) is_empty |= size == 0;
  for (size_t i = 0; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(tensors, static_cast<Py_ssize_t>(i));
    check_type(is_tensor(item), "_run_row_kernel: expected tensors, got ", Py_TYPE(item)->tp_name);
    if (!is_empty) check_reach(loop, i, tensor_of(item));
    data.push_back(static_cast<char*>(tensor_of(item).data()));
  }
  return data;
}

// The elements of a tensor of sums, and their number.
double* sums_of(PyObject* sums, int64_t& count) {
  check_type(is_tensor(sums), "_run_row_kernel: expected a tensor of sums, got ",
             Py_TYPE(sums)->tp_name);
  const Tensor& t = tensor_of(sums);
  check(t.dtype() == ScalarType::Float64 && t.is_contiguous(),
        "_run_row_kernel: expected contiguous float64 sums, got ", t.dtype());
  count = t.numel();
  return static_cast<double*>(t.data());
}

// _run_row_kernel(address, columns, sizes, strides, scratch, cost, slots, tensors, sums): see
// RowLoop; `tensors` are the arrays, `sums` a contiguous float64 tensor or None. Returns error
// bits.
PyObject* run_row_kernel(PyObject*, PyObject* given) {
  return guarded([&]() -> PyObject* {
    unsigned long long address;
    long long columns, scratch, cost;
    PyObject *sizes, *strides, *tensors, *sums;
    Py_buffer slots;
    if (!PyArg_ParseTuple(given, "KLO!O!LLy*O!O:_run_row_kernel", &address, &columns, &PyTuple_Type,
                          &sizes, &PyTuple_Type, &strides, &scratch, &cost, &slots, &PyTuple_Type,
                          &tensors, &sums))
      return nullptr;
    const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> held(&slots, PyBuffer_Release);
    RowLoop loop{reinterpret_cast<RowKernel>(static_cast<uintptr_t>(address)),
                 columns,
                 {},
                 {},
                 scratch,
                 0,
                 cost};
    take_numbers(sizes, loop.sizes);
    take_numbers(strides, loop.strides);
    const auto data = addresses_of(tensors, loop);
    double* const total = sums == Py_None ? nullptr : sums_of(sums, loop.sums);
    check(scratch >= 0 && (columns == 0 || loop.sums % columns == 0),
          "_run_row_kernel: expected sums of rows of ", columns, " columns, got ", loop.sums);
    uint32_t errors = 0;
    {
      const WithoutGil released(true);
      errors = run_row_loop(loop, data.data(), slots.buf, total);
    }
    return PyLong_FromUnsignedLong(errors);
  });
}

PyMethodDef functions[] = {{"_fold_of", fold_of, METH_O, nullptr},
                           {"_indexing_of", indexing_of, METH_O, nullptr},
                           {"_is_cast", is_cast, METH_O, nullptr},
                           {"_is_heavy_cell", is_heavy, METH_O, nullptr},
                           {"_run_row_kernel", run_row_kernel, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_row_kernels(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
