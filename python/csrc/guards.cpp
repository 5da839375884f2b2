// _C._Guards: the guards of one recorded segment as a list of steps over numbered values.
//
// A step reads a value (an attribute, an element) or compares one. Calling the object with the
// values that the segment starts from runs the steps in order; the result is a tuple of the values
// that the segment needs, or None if a comparison fails or a read raises an Exception. Reads of
// dicts and attributes remember the state that they saw (`Remembered`): while it lasts, a read
// costs some nanoseconds.
#include "python/csrc/guards.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "aten/autograd/variable.h"
#include "aten/transforms/layers.h"
#include "c10/core/thread_state.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/torch_function.h"

namespace flambeau::python {
namespace {

enum class Kind {
  Constant,
  Attribute,
  Item,
  Nth,
  Call,  // read
  Type,
  Identity,
  Equals,
  Length,
  Keys,
  Tensor,
  Test,
  Same,
  Distinct,
  Absent,  // compare
};
constexpr std::array<const char*, 15> kNames = {
    "constant", "attribute", "item",   "nth",  "call", "type",     "identity", "equals",
    "length",   "keys",      "tensor", "test", "same", "distinct", "absent"};

struct Step {
  Kind kind{};
  size_t value = 0;     // of the values before: what is read from or compared
  Ref object;           // a name, a key, what is expected
  int64_t number = -1;  // `object` as an integer that is not a bool; -1: it is none, or negative
  Remembered remembered;
  const TensorFacts* tensor = nullptr;  // of `object`
  std::vector<size_t> values;           // Same, Distinct: which ones
  std::vector<PyObject*> last_objects;  // Distinct: those of the last call; compared, never read
};

struct GuardsObject {
  PyObject_HEAD vectorcallfunc call;
  std::vector<Step>* steps;
  std::vector<size_t>* outputs;
  size_t root_count;
  size_t value_count;
  PyObject* thread;      // a _ThreadGuard
  PyObject* same_value;  // compares what is compared by neither identity nor number
};

bool is_plain_dict(PyObject* o) { return PyDict_CheckExact(o); }
bool is_dict_or_ordered(PyObject* o) { return PyDict_CheckExact(o) || PyODict_CheckExact(o); }

// --- reads: new references, or null with a Python error ------------------------------------------

PyObject* read_attribute(Step& step, PyObject* owner) {
  if (PyObject* found = step.remembered.of_attribute(owner)) return Py_NewRef(found);
  PyObject* const found = PyObject_GetAttr(owner, step.object.get());
  if (found) step.remembered.keep_attribute(owner, step.object.get(), found);
  return found;
}

PyObject* read_item(Step& step, PyObject* container) {
  PyObject* const key = step.object.get();
  if (is_dict_or_ordered(container)) {
    if (PyObject* found = step.remembered.of_dict(container)) return Py_NewRef(found);
    PyObject* const found = PyObject_GetItem(container, key);
    if (!found || !PyUnicode_CheckExact(key)) return found;
    // Other keys of the dict may have an __eq__ that changed it.
    PyObject* const now = PyDict_GetItemWithError(container, key);
    if (now == found) step.remembered.keep_dict(container, found);
    if (!now) PyErr_Clear();
    return found;
  }
  const bool is_in_tuple = PyTuple_CheckExact(container) && step.number >= 0;
  if (is_in_tuple && step.number < PyTuple_GET_SIZE(container))
    return Py_NewRef(PyTuple_GET_ITEM(container, step.number));
  const bool is_in_list = PyList_CheckExact(container) && step.number >= 0;
  if (is_in_list && step.number < PyList_GET_SIZE(container))
    return Py_NewRef(PyList_GET_ITEM(container, step.number));
  return PyObject_GetItem(container, key);
}

PyObject* read_nth(const Step& step, PyObject* values) {
  const Ref iterator(PyObject_GetIter(values));
  if (!iterator) return nullptr;
  for (int64_t i = 0;; ++i) {
    Ref item(PyIter_Next(iterator.get()));
    if (!item && !PyErr_Occurred()) PyErr_SetNone(PyExc_IndexError);
    if (!item || i == step.number) return item.release();
  }
}

PyObject* read(Step& step, PyObject* from) {
  switch (step.kind) {
    case Kind::Constant:
      return Py_NewRef(step.object.get());
    case Kind::Attribute:
      return read_attribute(step, from);
    case Kind::Item:
      return read_item(step, from);
    case Kind::Nth:
      return read_nth(step, from);
    default:
      return PyObject_CallNoArgs(from);
  }
}

// --- comparisons: 1, 0, or -1 with a Python error ------------------------------------------------

int test(PyObject* function, PyObject* value) {
  const Ref result(PyObject_CallOneArg(function, value));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

int equals(const GuardsObject& guards, PyObject* value, PyObject* expected) {
  if (value == expected) return 1;
  if (Py_TYPE(value) != Py_TYPE(expected)) return 0;
  if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value))
    return PyObject_RichCompareBool(value, expected, Py_EQ);
  if (PyFloat_CheckExact(value)) {
    const double a = PyFloat_AS_DOUBLE(value), b = PyFloat_AS_DOUBLE(expected);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
  }
  PyObject* const both[] = {value, expected};
  const Ref result(PyObject_Vectorcall(guards.same_value, both, 2, nullptr));
  return result ? PyObject_IsTrue(result.get()) : -1;
}

int has_keys(Step& step, PyObject* mapping) {
  const bool expects_none = PyTuple_GET_SIZE(step.object.get()) == 0;
  if (is_dict_or_ordered(mapping) && (expects_none || PyDict_GET_SIZE(mapping) == 0))
    return expects_none && PyDict_GET_SIZE(mapping) == 0;
  // The order of an OrderedDict is not part of its dict's state.
  const bool is_plain = is_plain_dict(mapping);
  if (is_plain && step.remembered.of_dict(mapping)) return 1;
  const Ref keys(PySequence_Tuple(mapping));
  if (!keys) return -1;
  const int is_equal = PyObject_RichCompareBool(keys.get(), step.object.get(), Py_EQ);
  if (is_equal == 1 && is_plain) {
    const bool is_still = PyDict_GET_SIZE(mapping) == PyTuple_GET_SIZE(keys.get());
    const bool is_text =
        std::all_of(PySequence_Fast_ITEMS(keys.get()),
                    PySequence_Fast_ITEMS(keys.get()) + PyTuple_GET_SIZE(keys.get()),
                    [](PyObject* key) { return PyUnicode_CheckExact(key); });
    if (is_still && is_text) step.remembered.keep_dict(mapping, mapping);
  }
  return is_equal;
}

int lacks(Step& step, PyObject* owner) {
  const bool is_class = Py_TYPE(owner) == &PyType_Type;
  if (is_class ? step.remembered.is_class(owner) : step.remembered.of_attribute(owner) != nullptr)
    return 1;
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  const Ref dict(PyObject_GetAttr(owner, name));
  if (!dict) return -1;
  const int is_there = PySequence_Contains(dict.get(), step.object.get());
  if (is_there == 0 && is_class) step.remembered.keep_class(owner);
  if (is_there == 0 && !is_class) step.remembered.keep_absence(owner, dict.get());
  return is_there < 0 ? -1 : 1 - is_there;
}

bool are_distinct(Step& step, const Ref* values) {
  std::vector<PyObject*>& last = step.last_objects;
  const auto is_last = [&](size_t i) { return last[i] == values[step.values[i]].get(); };
  size_t same = 0;
  while (same < last.size() && is_last(same)) ++same;
  if (same == step.values.size()) return true;
  std::vector<PyObject*> objects;
  for (const size_t i : step.values) objects.push_back(values[i].get());
  std::vector<PyObject*> sorted = objects;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
  last = std::move(objects);
  return true;
}

int compare(const GuardsObject& guards, Step& step, const Ref* values) {
  PyObject* const value = values[step.value].get();
  PyObject* const expected = step.object.get();
  switch (step.kind) {
    case Kind::Type:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == expected;
    case Kind::Identity:
      return value == expected;
    case Kind::Equals:
      return equals(guards, value, expected);
    case Kind::Length: {
      const Py_ssize_t length = PyObject_Size(value);
      return length < 0 ? -1 : length == step.number;
    }
    case Kind::Keys:
      return has_keys(step, value);
    case Kind::Tensor:
      return step.tensor->hold_for(value);
    case Kind::Test:
      return test(expected, value);
    case Kind::Same:
      return value == values[step.values[0]].get();
    case Kind::Distinct:
      return are_distinct(step, values);
    default:
      return lacks(step, value);
  }
}

// --- calls ---------------------------------------------------------------------------------------

// A failed read or comparison is a miss; KeyboardInterrupt and the like go on.
PyObject* miss() {
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
  }
  return Py_NewRef(Py_None);
}

PyObject* run(GuardsObject& guards, PyObject* const* roots, Ref* values) {
  if (!reinterpret_cast<ThreadGuardObject*>(guards.thread)->holds()) return miss();
  size_t count = guards.root_count;
  for (size_t i = 0; i < count; ++i) values[i] = Ref::share(roots[i]);
  for (Step& step : *guards.steps) {
    if (step.kind >= Kind::Type) {
      if (compare(guards, step, values) != 1) return miss();
    } else {
      values[count] = Ref(read(step, values[step.value].get()));
      if (!values[count++]) return miss();
    }
  }
  Ref result = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(guards.outputs->size())));
  for (size_t i = 0; i < guards.outputs->size(); ++i)
    PyTuple_SET_ITEM(result.get(), i, Ref(values[(*guards.outputs)[i]]).release());
  return result.release();
}

PyObject* call(PyObject* self, PyObject* const* roots, size_t nargsf, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    auto& guards = *reinterpret_cast<GuardsObject*>(self);
    check_type(!kwnames && PyVectorcall_NARGS(nargsf) == static_cast<Py_ssize_t>(guards.root_count),
               "_Guards: expected ", guards.root_count, " values, got ",
               PyVectorcall_NARGS(nargsf));
    constexpr size_t kFew = 16;
    if (guards.value_count <= kFew) {
      Ref values[kFew];
      return run(guards, roots, values);
    }
    std::vector<Ref> values(guards.value_count);
    return run(guards, roots, values.data());
  });
}

// --- construction --------------------------------------------------------------------------------

Kind kind_named(PyObject* name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(name, kNames[i]) == 0) return static_cast<Kind>(i);
  }
  fail(ErrorKind::Value, "_Guards: expected the name of a step, got another value");
}

size_t place_from(PyObject* o, size_t count) {
  const int64_t place = integer_from(o);
  check_index(place >= 0 && static_cast<size_t>(place) < count, "_Guards: expected a value below ",
              count, ", got ", place);
  return static_cast<size_t>(place);
}

std::vector<size_t> places_from(PyObject* o, size_t count) {
  std::vector<size_t> places;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
    places.push_back(place_from(PyTuple_GET_ITEM(o, i), count));
  return places;
}

// (name, value, object)
Step step_from(PyObject* given, size_t count) {
  check_type(PyTuple_CheckExact(given) && PyTuple_GET_SIZE(given) == 3 &&
                 PyUnicode_Check(PyTuple_GET_ITEM(given, 0)),
             "_Guards: expected steps of a name, a value and an object, got ",
             Py_TYPE(given)->tp_name);
  PyObject* const object = PyTuple_GET_ITEM(given, 2);
  Step step;
  step.kind = kind_named(PyTuple_GET_ITEM(given, 0));
  if (step.kind != Kind::Constant) step.value = place_from(PyTuple_GET_ITEM(given, 1), count);
  if (step.kind == Kind::Same || step.kind == Kind::Distinct || step.kind == Kind::Keys)
    check_type(PyTuple_CheckExact(object), "_Guards: expected a tuple, got ",
               Py_TYPE(object)->tp_name);
  if (step.kind == Kind::Same || step.kind == Kind::Distinct) {
    step.values = places_from(object, count);
    check_value(step.kind != Kind::Same || step.values.size() == 1,
                "_Guards: expected one other value, got ", step.values.size());
    return step;
  }
  check_type(step.kind != Kind::Attribute || PyUnicode_Check(object),
             "_Guards: expected the name of an attribute, got ", Py_TYPE(object)->tp_name);
  step.object = Ref::share(object);
  if (step.kind == Kind::Attribute) {
    PyObject* name = step.object.release();
    PyUnicode_InternInPlace(&name);
    step.object = Ref(name);
  }
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    step.number = overflow != 0 ? -1 : std::max<int64_t>(number, -1);
  }
  if (step.kind == Kind::Tensor) {
    check_type(Py_TYPE(object) == tensor_guard_type, "_Guards: expected a _TensorGuard, got ",
               Py_TYPE(object)->tp_name);
    step.tensor = reinterpret_cast<TensorGuardObject*>(object)->facts;
  }
  return step;
}

PyTypeObject* guards_type;

// _Guards(root_count, steps, outputs, thread, same_value)
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t roots;
    PyObject *steps, *outputs, *thread, *same_value;
    if (!PyArg_ParseTuple(args, "nO!O!O!O", &roots, &PyList_Type, &steps, &PyTuple_Type, &outputs,
                          thread_guard_type, &thread, &same_value))
      return nullptr;
    check_value(roots >= 0, "_Guards: expected a number of values, got ", roots);
    auto count = static_cast<size_t>(roots);
    auto made = std::make_unique<std::vector<Step>>();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); ++i) {
      made->push_back(step_from(PyList_GET_ITEM(steps, i), count));
      count += made->back().kind < Kind::Type;
    }
    auto places = std::make_unique<std::vector<size_t>>(places_from(outputs, count));
    Ref self = Ref::checked(type->tp_alloc(type, 0));
    auto* guards = reinterpret_cast<GuardsObject*>(self.get());
    guards->call = call;
    guards->steps = made.release();
    guards->outputs = places.release();
    guards->root_count = static_cast<size_t>(roots);
    guards->value_count = count;
    guards->thread = Py_NewRef(thread);
    guards->same_value = Py_NewRef(same_value);
    return self.release();
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* guards = reinterpret_cast<GuardsObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(guards->thread);
  Py_VISIT(guards->same_value);
  if (!guards->steps) return 0;
  for (const Step& step : *guards->steps) Py_VISIT(step.object.get());
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* guards = reinterpret_cast<GuardsObject*>(self);
  delete guards->steps;
  delete guards->outputs;
  Py_XDECREF(guards->thread);
  Py_XDECREF(guards->same_value);
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- calls of compiled functions -----------------------------------------------------------------

thread_local int compiled_depth = 0;

// _enter_compiled(function, signature) returns 0 where a call must not be recorded: inside of
// another compiled call, in forward mode, and under modes and transforms that see each operator.
// Otherwise it returns 1, or 2 if the function's code or defaults differ from those of the
// signature (code, defaults, keyword defaults). After 1 and 2, _leave_compiled() ends the call.
PyObject* enter_compiled(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 2 || !PyFunction_Check(args[0]) || !PyTuple_Check(args[1]) ||
      PyTuple_GET_SIZE(args[1]) != 3) {
    PyErr_SetString(PyExc_TypeError, "_enter_compiled: expected a function and a tuple of 3");
    return nullptr;
  }
  const bool is_forward_mode = autograd::forward_levels.load(std::memory_order_relaxed) != 0;
  const bool is_seen = is_forward_mode || mode_count() > 0 || transforms::depth() > 0 ||
                       DispatchKeySet(thread_state.included).has(DispatchKey::BackendMode) ||
                       DispatchKeySet(thread_state.included).has(DispatchKey::Functionalize);
  if (compiled_depth > 0 || is_seen) return PyLong_FromLong(0);
  ++compiled_depth;
  const auto is = [&](Py_ssize_t i, PyObject* now) {
    return PyTuple_GET_ITEM(args[1], i) == (now ? now : Py_None);
  };
  const bool is_known = is(0, PyFunction_GET_CODE(args[0])) &&
                        is(1, PyFunction_GET_DEFAULTS(args[0])) &&
                        is(2, PyFunction_GET_KW_DEFAULTS(args[0]));
  return PyLong_FromLong(is_known ? 1 : 2);
}
PyObject* leave_compiled(PyObject*, PyObject*) {
  compiled_depth = std::max(compiled_depth - 1, 0);
  Py_RETURN_NONE;
}
PyObject* is_in_compiled(PyObject*, PyObject*) { return PyBool_FromLong(compiled_depth > 0); }

PyMethodDef functions[] = {
    {"_enter_compiled", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(enter_compiled)),
     METH_FASTCALL, nullptr},
    {"_leave_compiled", leave_compiled, METH_NOARGS, nullptr},
    {"_is_in_compiled", is_in_compiled, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(GuardsObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

template <typename F>
void* slot(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

void add_guards(PyObject* module) {
  add_simple_guards(module);
  PyType_Slot slots[] = {{Py_tp_new, slot(make)},        {Py_tp_call, slot(PyVectorcall_Call)},
                         {Py_tp_dealloc, slot(dealloc)}, {Py_tp_traverse, slot(traverse)},
                         {Py_tp_members, members},       {0, nullptr}};
  constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Spec spec = {"flambeau._C._Guards", sizeof(GuardsObject), 0, flags, slots};
  guards_type = reinterpret_cast<PyTypeObject*>(Ref::checked(PyType_FromSpec(&spec)).release());
  checked(PyModule_AddObjectRef(module, "_Guards", reinterpret_cast<PyObject*>(guards_type)));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
