#include "python/csrc/wrapper_questions.h"

#include "aten/core/messages.h"
#include "aten/core/shape.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/torch_dispatch.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

// The class's answer to `ops.<library>.<name>.<overload>(self, extra)`; `extra` may be null.
Ref answer_to(PyObject* self, const char* library, const char* name, const char* overload,
              PyObject* extra = nullptr) {
  const Ref ops = Ref::checked(PyImport_ImportModule("flambeau.ops"));
  const Ref space = Ref::checked(PyObject_GetAttrString(ops.get(), library));
  const Ref packet = Ref::checked(PyObject_GetAttrString(space.get(), name));
  const Ref function = Ref::checked(PyObject_GetAttrString(packet.get(), overload));
  const Ref args = Ref::checked(extra ? PyTuple_Pack(2, self, extra) : PyTuple_Pack(1, self));
  return answer_of_class(function.get(), self, args.get());
}
Ref answer_to(PyObject* self, const char* name) { return answer_to(self, "aten", name, "default"); }

int64_t integer_answer(const char* name, PyObject* answer) {
  check(PyIndex_Check(answer), name, ": expected int from __torch_dispatch__, got invalid type ",
        Py_TYPE(answer)->tp_name);
  return integer_from(answer);
}
std::vector<int64_t> integers_answer(const char* name, PyObject* answer) {
  check(PyList_Check(answer) || PyTuple_Check(answer), name,
        ": expected the answer of __torch_dispatch__ to be a list or a tuple, got ",
        Py_TYPE(answer)->tp_name);
  std::vector<int64_t> out;
  // An item's __index__ may shorten a list.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(answer); ++i) {
    const Ref item = Ref::share(PySequence_Fast_GET_ITEM(answer, i));
    out.push_back(integer_answer(name, item.get()));
  }
  return out;
}
std::vector<int64_t> copied(IntArrayRef values) { return {values.begin(), values.end()}; }

PyObject* ask_class(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* tensor;
    int bits;
    if (!PyArg_ParseTuple(args, "O!i", tensor_type, &tensor, &bits)) return nullptr;
    reinterpret_cast<TensorObject*>(tensor)->questions = static_cast<uint8_t>(bits);
    return wrap_none();
  });
}
PyMethodDef functions[] = {{"_ask_class", ask_class, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::vector<int64_t> asked_sizes(PyObject* self) {
  const Ref answer = answer_to(self, "sym_size");
  if (answer.get() == Py_None) return copied(tensor_of(self).sizes());
  return integers_answer("sym_size", answer.get());
}
int64_t asked_size(PyObject* self, int64_t dim) {
  const int64_t rank = asked_dim(self);
  check_index(rank >= 0, "size: expected a dimension of at least 0 from __torch_dispatch__, got ",
              rank, " (Rank cannot be negative)");
  check_index(rank > 0, NoDimension{"size"});
  const int64_t at = wrap_dim(dim, rank);
  const std::vector<int64_t> sizes = asked_sizes(self);
  check(at < static_cast<int64_t>(sizes.size()), "size: expected ", rank,
        " sizes from __torch_dispatch__, as dim answers, got ", sizes.size());
  return sizes[static_cast<size_t>(at)];
}
std::vector<int64_t> asked_strides(PyObject* self) {
  const Ref answer = answer_to(self, "sym_stride");
  if (answer.get() == Py_None) return copied(tensor_of(self).strides());
  return integers_answer("sym_stride", answer.get());
}
int64_t asked_dim(PyObject* self) { return integer_answer("dim", answer_to(self, "dim").get()); }
int64_t asked_numel(PyObject* self, bool is_symbolic) {
  const char* const name = is_symbolic ? "sym_numel" : "numel";
  const Ref answer = answer_to(self, name);
  return answer.get() == Py_None ? tensor_of(self).numel() : integer_answer(name, answer.get());
}
int64_t asked_storage_offset(PyObject* self) {
  const Ref answer = answer_to(self, "sym_storage_offset");
  if (answer.get() == Py_None) return tensor_of(self).storage_offset();
  return integer_answer("sym_storage_offset", answer.get());
}
bool asked_is_contiguous(PyObject* self, std::optional<MemoryFormat> format) {
  const Ref extra = format ? Ref::checked(wrap_memory_format(*format)) : Ref();
  const char* const overload = format ? "memory_format" : "default";
  const Ref answer = answer_to(self, "aten", "is_contiguous", overload, extra.get());
  if (answer.get() == Py_None)
    return tensor_of(self).is_contiguous(format.value_or(MemoryFormat::Contiguous));
  check(PyBool_Check(answer.get()),
        "is_contiguous: expected bool from __torch_dispatch__, got invalid type ",
        Py_TYPE(answer.get())->tp_name);
  return answer.get() == Py_True;
}
Device asked_device(PyObject* self) {
  const Ref answer = answer_to(self, "prim", "device", "default");
  Device device;
  check(device_from(answer.get(), &device),
        "device: expected a device from __torch_dispatch__, got invalid type ",
        Py_TYPE(answer.get())->tp_name);
  return device;
}
Layout asked_layout(PyObject* self) {
  const Ref answer = answer_to(self, "prim", "layout", "default");
  check(PyObject_TypeCheck(answer.get(), layout_type),
        "layout: expected a layout from __torch_dispatch__, got invalid type ",
        Py_TYPE(answer.get())->tp_name);
  return reinterpret_cast<LayoutObject*>(answer.get())->value;
}

void add_wrapper_questions(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
