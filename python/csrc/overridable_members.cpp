// Guards around the members of Tensor that are written by hand: each offers its call to modes and
// to overriding classes before the member itself runs. Generated methods do that in the argument
// parser.
#include <array>
#include <cstring>

#include "python/csrc/generated.h"
#include "python/csrc/torch_function.h"

namespace flambeau::python {
namespace {

bool is_taken(PyObject* self) {
  return (mode_in_force() || (!is_exact_tensor(self) && overrides(self))) && is_handed_over();
}
bool is_taken(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return (mode_in_force() || (!is_exact_tensor(self) && overrides(self)) ||
          any_overrides(args, count)) &&
         is_handed_over();
}

// --- properties ----------------------------------------------------------------------------------

// The closure of a guarded property is its original row.
PyObject* guarded_get(PyObject* self, void* closure) {
  const auto* row = static_cast<PyGetSetDef*>(closure);
  if (!is_taken(self)) return row->get(self, row->closure);
  return guarded(
      [&] { return call_override({row->name, true, "", "__get__"}, &self, 1, nullptr); });
}
int guarded_set(PyObject* self, PyObject* value, void* closure) {
  const auto* row = static_cast<PyGetSetDef*>(closure);
  if (!is_taken(self, &value, value ? 1 : 0)) return row->set(self, value, row->closure);
  return guarded_int([&] {
    PyObject* const args[] = {self, value};
    const char* accessor = value ? "__set__" : "__delete__";
    Ref(call_override({row->name, true, "", accessor}, args, value ? 2 : 1, nullptr));
    return 0;
  });
}

// --- methods -------------------------------------------------------------------------------------

PyObject* call_method_override(const char* name, PyObject* self, PyObject* const* args,
                               Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&] {
    std::vector<PyObject*> all = {self};
    all.insert(all.end(), args, args + nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return call_override({name, true}, all.data(), nargs + 1, kwnames);
  });
}

// A row that repeats an earlier one's function is seen under the earlier name.
const char* first_name(const PyMethodDef* table, size_t i) {
  for (size_t k = 0; k < i; ++k) {
    if (table[k].ml_meth == table[i].ml_meth) return table[k].ml_name;
  }
  return table[i].ml_name;
}

template <PyMethodDef* table, size_t i>
PyObject* guarded_simple(PyObject* self, PyObject* arg) {
  const bool has_arg = table[i].ml_flags == METH_O;
  if (!is_taken(self, &arg, has_arg)) return table[i].ml_meth(self, arg);
  return call_method_override(first_name(table, i), self, &arg, has_arg, nullptr);
}
template <PyMethodDef* table, size_t i>
PyObject* guarded_fast(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (is_taken(self, args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0)))
    return call_method_override(first_name(table, i), self, args, nargs, kwnames);
  auto* method = reinterpret_cast<FastFunction*>(reinterpret_cast<void*>(table[i].ml_meth));
  return method(self, args, nargs, kwnames);
}

struct Guards {
  PyCFunction simple;
  PyCFunction fast;
};
constexpr size_t kMaxMethods = 64;
template <PyMethodDef* table, size_t... i>
const Guards* guards_of(std::index_sequence<i...>) {
  static const Guards guards[] = {
      {guarded_simple<table, i>,
       reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(guarded_fast<table, i>))}...};
  return guards;
}
const Guards* guards_of(const PyMethodDef* table) {
  constexpr auto all = std::make_index_sequence<kMaxMethods>();
  return table == autograd_methods ? guards_of<autograd_methods>(all)
                                   : guards_of<handwritten_tensor_methods>(all);
}

// Members that overrides do not see; `_is_view` is one that they see in PyTorch.
bool is_private(const char* name) {
  return name[0] == '_' && name[1] != '_' && std::strcmp(name, "_is_view") != 0;
}

// --- slots ---------------------------------------------------------------------------------------

// The function that a guarded slot had, by its number.
std::array<void*, 128> originals;

template <int id>
struct SlotName;
template <>
struct SlotName<Py_nb_bool> {
  static constexpr const char* text = "__bool__";
};
template <>
struct SlotName<Py_nb_float> {
  static constexpr const char* text = "__float__";
};
template <>
struct SlotName<Py_nb_int> {
  static constexpr const char* text = "__int__";
};
template <>
struct SlotName<Py_nb_index> {
  static constexpr const char* text = "__index__";
};
template <>
struct SlotName<Py_mp_length> {
  static constexpr const char* text = "__len__";
};

Ref override_result(const char* name, std::initializer_list<PyObject*> args) {
  return Ref(
      call_override({name, true}, args.begin(), static_cast<Py_ssize_t>(args.size()), nullptr));
}

template <int id>
PyObject* guarded_unary(PyObject* self) {
  if (!is_taken(self)) return reinterpret_cast<unaryfunc>(originals[id])(self);
  return guarded([&] { return override_result(SlotName<id>::text, {self}).release(); });
}
int guarded_bool(PyObject* self) {
  if (!is_taken(self)) return reinterpret_cast<inquiry>(originals[Py_nb_bool])(self);
  return guarded_int([&] {
    return checked(PyObject_IsTrue(override_result(SlotName<Py_nb_bool>::text, {self}).get()));
  });
}
Py_ssize_t guarded_length(PyObject* self) {
  if (!is_taken(self)) return reinterpret_cast<lenfunc>(originals[Py_mp_length])(self);
  Py_ssize_t length = -1;
  const int failed = guarded_int([&] {
    const Ref given = override_result(SlotName<Py_mp_length>::text, {self});
    length = PyNumber_AsSsize_t(given.get(), PyExc_OverflowError);
    if (length < 0 && !PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError,
                      "__len__: expected a length of 0 or more, got a negative one");
    return checked(length < 0 ? -1 : 0);
  });
  return failed < 0 ? -1 : length;
}
bool index_is_taken(PyObject* self, PyObject* index) {
  if (PyLong_CheckExact(index)) return is_taken(self);
  return is_taken(self, &index, 1);
}
PyObject* guarded_get_item(PyObject* self, PyObject* index) {
  if (!index_is_taken(self, index))
    return reinterpret_cast<binaryfunc>(originals[Py_mp_subscript])(self, index);
  return guarded([&] { return override_result("__getitem__", {self, index}).release(); });
}
int guarded_set_item(PyObject* self, PyObject* index, PyObject* value) {
  PyObject* const args[] = {index, value};
  if (!is_taken(self, args, value ? 2 : 1)) {
    return reinterpret_cast<objobjargproc>(originals[Py_mp_ass_subscript])(self, index, value);
  }
  return guarded_int([&] {
    if (value) {
      override_result("__setitem__", {self, index, value});
    } else {
      override_result("__delitem__", {self, index});
    }
    return 0;
  });
}

void* guard_of(int slot) {
  switch (slot) {
    case Py_nb_bool:
      return reinterpret_cast<void*>(guarded_bool);
    case Py_nb_float:
      return reinterpret_cast<void*>(guarded_unary<Py_nb_float>);
    case Py_nb_int:
      return reinterpret_cast<void*>(guarded_unary<Py_nb_int>);
    case Py_nb_index:
      return reinterpret_cast<void*>(guarded_unary<Py_nb_index>);
    case Py_mp_length:
      return reinterpret_cast<void*>(guarded_length);
    case Py_mp_subscript:
      return reinterpret_cast<void*>(guarded_get_item);
    case Py_mp_ass_subscript:
      return reinterpret_cast<void*>(guarded_set_item);
    default:
      return nullptr;
  }
}

}  // namespace

PyGetSetDef guarded_property(PyGetSetDef* original) {
  if (is_private(original->name) && std::strcmp(original->name, "_version") != 0 &&
      std::strcmp(original->name, "_base") != 0) {
    return *original;
  }
  return {original->name, guarded_get, original->set ? guarded_set : nullptr, original->doc,
          original};
}

void guard_methods(PyMethodDef* table, std::vector<PyMethodDef>* out) {
  const Guards* guards = guards_of(table);
  for (size_t i = 0; table[i].ml_name; ++i) {
    PyMethodDef row = table[i];
    const bool is_fast = row.ml_flags == (METH_FASTCALL | METH_KEYWORDS);
    if (!is_private(row.ml_name)) {
      check(i < kMaxMethods, "the table of methods is longer than its guards");
      check(is_fast || row.ml_flags == METH_O || row.ml_flags == METH_NOARGS, row.ml_name,
            ": a guarded method takes no argument, one, or a fast call with keywords");
      row.ml_meth = is_fast ? guards[i].fast : guards[i].simple;
    }
    out->push_back(row);
  }
}

PyType_Slot guarded_slot(PyType_Slot slot) {
  void* guard = guard_of(slot.slot);
  if (!guard) return slot;
  originals[static_cast<size_t>(slot.slot)] = slot.pfunc;
  return {slot.slot, guard};
}

}  // namespace flambeau::python
