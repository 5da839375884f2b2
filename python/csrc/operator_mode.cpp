// Operator modes: Python objects that see the operator calls of their thread, either as the user
// made them or, below autograd, as the backend is asked for them (in backward as well). A mode has
// two methods: before(schema, args) returns None, or the results, and then the operator does not
// run; after(schema, args, results) sees what it gave. While a mode runs it sees no calls itself.
#include <vector>

#include "aten/dispatch/boxing.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/autograd.h"
#include "python/csrc/value_types.h"

namespace flambeau::python {
namespace {

constexpr DispatchKey kBelow = DispatchKey::BackendMode;
constexpr DispatchKey kAbove = DispatchKey::Python;

// Innermost last; owns its objects.
thread_local std::vector<PyObject*> above, below;

std::vector<PyObject*>& modes_of(DispatchKey key) { return key == kAbove ? above : below; }

void include(DispatchKey key) {
  const uint64_t bit = DispatchKeySet(key).bits();
  if (modes_of(key).empty()) {
    thread_state.included &= ~bit;
  } else {
    thread_state.included |= bit;
  }
}

// The innermost mode is out of force: the next one sees what its code calls.
class Suspended {
 public:
  explicit Suspended(DispatchKey key) : key_(key), mode_(modes_of(key).back()) {
    modes_of(key_).pop_back();
    include(key_);
  }
  ~Suspended() {
    modes_of(key_).push_back(mode_);
    include(key_);
  }
  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  DispatchKey key_;
  PyObject* mode_;
};

template <typename T>
PyObject* list_of(const std::vector<T>& items) {
  Ref list = carried(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    const T item = items[i];
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), carried(wrap(item)).release());
  }
  return list.release();
}

struct ToPython {
  PyObject* operator()(std::monostate) const { return Py_NewRef(Py_None); }
  PyObject* operator()(const std::string& text) const {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
  template <typename T>
  PyObject* operator()(const std::vector<T>& items) const {
    return list_of(items);
  }
  PyObject* operator()(Device device) const { return wrap_device(device); }
  PyObject* operator()(Layout layout) const { return wrap_layout(layout); }
  PyObject* operator()(MemoryFormat format) const { return wrap_memory_format(format); }
  PyObject* operator()(const Generator& generator) const { return wrap_generator(generator); }
  template <typename T>
  PyObject* operator()(const T& value) const {
    return wrap(value);
  }
};

Ref tuple_of(const Stack& stack) {
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; i < stack.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     carried(std::visit(ToPython(), stack[i].payload())).release());
  }
  return tuple;
}

IValue value_of(PyObject* o) {
  if (o == Py_None) return IValue();
  if (is_tensor(o)) return IValue(tensor_of(o));
  if (PyList_Check(o)) return IValue(tensors_from(o, "operator mode"));
  return IValue(scalar_from(o));
}

void replace_by(PyObject* results, Stack& stack) {
  check_type(PyTuple_Check(results), "operator mode: expected a tuple of results, got ",
             Py_TYPE(results)->tp_name);
  stack.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i)
    stack.push(value_of(PyTuple_GET_ITEM(results, i)));
}

template <DispatchKey key>
void intercept(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const DispatchKeySet rest = keys - DispatchKeySet(key);
  // Below autograd, an operator that is not recorded itself consists of others, which are seen.
  const bool is_transparent =
      key == kBelow && op.kernel_at(static_cast<int>(DispatchKey::Autograd)) == nullptr;
  if (is_transparent || modes_of(key).empty()) return redispatch_boxed(op, rest, stack);
  const WithGil gil;
  const Suspended suspended(key);
  const Ref mode = Ref::share(suspended.mode());
  const Ref schema = carried(PyUnicode_FromString(op.schema));
  const Ref args = tuple_of(stack);
  const Ref given =
      carried(PyObject_CallMethod(mode.get(), "before", "OO", schema.get(), args.get()));
  if (given.get() != Py_None) return replace_by(given.get(), stack);
  redispatch_boxed(op, modes_of(key).empty() ? rest : keys, stack);
  const Ref results = tuple_of(stack);
  carried(PyObject_CallMethod(mode.get(), "after", "OOO", schema.get(), args.get(), results.get()));
}

// _push_operator_mode(mode, below_autograd), _pop_operator_mode(below_autograd)
PyObject* push(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* mode;
    int is_below;
    if (!PyArg_ParseTuple(args, "Op", &mode, &is_below)) return nullptr;
    const DispatchKey key = is_below ? kBelow : kAbove;
    modes_of(key).push_back(Py_NewRef(mode));
    include(key);
    Py_RETURN_NONE;
  });
}
PyObject* pop(PyObject*, PyObject* is_below) {
  return guarded([&] {
    const DispatchKey key = checked(PyObject_IsTrue(is_below)) ? kBelow : kAbove;
    check(!modes_of(key).empty(), "_pop_operator_mode: no mode is in force");
    const Ref last(modes_of(key).back());
    modes_of(key).pop_back();
    include(key);
    return wrap_none();
  });
}

PyMethodDef functions[] = {{"_push_operator_mode", push, METH_VARARGS, nullptr},
                           {"_pop_operator_mode", pop, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_operator_modes(PyObject* module) {
  set_boxed_fallback(kAbove, intercept<kAbove>);
  set_boxed_fallback(kBelow, intercept<kBelow>);
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
