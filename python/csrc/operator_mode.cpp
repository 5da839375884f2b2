// Operator modes: Python objects that see the operator calls of their thread as the user made them.
// A mode has two methods: before(schema, args) returns None, or the results, and then the operator
// does not run; after(schema, args, results) sees what it gave. While a mode runs it sees no calls
// itself. Modes below autograd are those of __torch_dispatch__ (torch_dispatch.cpp).
#include <vector>

#include "python/csrc/autograd.h"
#include "python/csrc/boxed_schema.h"

namespace flambeau::python {
namespace {

constexpr DispatchKeySet kKey(DispatchKey::Python);

// Innermost last; owns its objects.
thread_local std::vector<PyObject*> modes;

void refresh_keys() {
  if (modes.empty()) {
    thread_state.included &= ~kKey.bits();
  } else {
    thread_state.included |= kKey.bits();
  }
}

// The innermost mode is out of force: the next one sees what its code calls.
class Suspended {
 public:
  Suspended() : mode_(modes.back()) {
    modes.pop_back();
    refresh_keys();
  }
  ~Suspended() {
    modes.push_back(mode_);
    refresh_keys();
  }
  Suspended(const Suspended&) = delete;
  Suspended& operator=(const Suspended&) = delete;
  PyObject* mode() const { return mode_; }

 private:
  PyObject* mode_;
};

Ref tuple_of(const Stack& stack) {
  Ref tuple = carried(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
  for (size_t i = 0; i < stack.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     carried(wrap_value(stack[i])).release());
  }
  return tuple;
}

void intercept(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  if (modes.empty()) return redispatch_boxed(op, keys - kKey, stack);
  const WithGil gil;
  const Suspended suspended;
  const Ref mode = Ref::share(suspended.mode());
  const Ref schema = carried(PyUnicode_FromString(op.schema));
  const Ref args = tuple_of(stack);
  const Ref given =
      carried(PyObject_CallMethod(mode.get(), "before", "OO", schema.get(), args.get()));
  if (given.get() != Py_None) return replace_by_result(given.get(), op, stack);
  redispatch_boxed(op, modes.empty() ? keys - kKey : keys, stack);
  const Ref results = tuple_of(stack);
  carried(PyObject_CallMethod(mode.get(), "after", "OOO", schema.get(), args.get(), results.get()));
}

PyObject* push(PyObject*, PyObject* mode) {
  return guarded([&] {
    modes.push_back(Py_NewRef(mode));
    refresh_keys();
    return wrap_none();
  });
}
PyObject* pop(PyObject*, PyObject*) {
  return guarded([&] {
    check(!modes.empty(), "_pop_operator_mode: expected a mode in force, got none");
    const Ref last(modes.back());
    modes.pop_back();
    refresh_keys();
    return wrap_none();
  });
}

PyMethodDef functions[] = {{"_push_operator_mode", push, METH_O, nullptr},
                           {"_pop_operator_mode", pop, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void add_operator_modes(PyObject* module) {
  set_boxed_fallback(DispatchKey::Python, intercept);
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
