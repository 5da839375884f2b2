#include "python/csrc/call_site.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "aten/core/tensor_text.h"
#include "aten/dispatch/operator_entry.h"

namespace flambeau::python {
namespace {

constexpr Py_ssize_t kMostItems = 8;  // of a list; what follows is left out
constexpr size_t kLongestText = 40;   // of a string or number, in bytes
constexpr int kDeepestList = 3;

void append_repr(std::string& out, PyObject* o) {
  const Ref repr(PyObject_Repr(o));
  const char* text = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  if (!text) PyErr_Clear();  // an int of too many digits, a string that is not Unicode
  out += text && std::string_view(text).size() <= kLongestText ? text : "...";
}

// Only types whose text runs no Python code are shown by value.
void append_argument(std::string& out, PyObject* o, int depth) {
  ScalarType dtype;
  if (is_tensor(o)) {
    append_text(out, tensor_of(o));
  } else if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
             PyComplex_CheckExact(o) || PyUnicode_CheckExact(o)) {
    append_repr(out, o);
  } else if ((PyList_Check(o) || PyTuple_Check(o)) && depth < kDeepestList) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    out += PyList_Check(o) ? '[' : '(';
    for (Py_ssize_t i = 0; i < n && i < kMostItems; ++i) {
      if (i) out += ", ";
      append_argument(out, PySequence_Fast_ITEMS(o)[i], depth + 1);
    }
    if (n > kMostItems) out += ", ...";
    out += PyList_Check(o) ? ']' : ')';
  } else if (!PyType_Check(o) && scalar_type_from(o, &dtype)) {
    append_text(out, dtype);
  } else {
    const std::string_view name = Py_TYPE(o)->tp_name;
    out += text_of("<", name.substr(name.rfind('.') + 1), ">");
  }
}

void append_arguments(std::string& out, const CallSite& site) {
  const char* gap = "";
  if (site.self) {
    append_argument(out, site.self, 0);
    gap = ", ";
  }
  const Py_ssize_t keywords = site.kwnames ? PyTuple_GET_SIZE(site.kwnames) : 0;
  for (Py_ssize_t i = 0; i < site.nargs + keywords; ++i) {
    out += gap;
    gap = ", ";
    if (i >= site.nargs) {
      const char* keyword = PyUnicode_AsUTF8(PyTuple_GET_ITEM(site.kwnames, i - site.nargs));
      if (!keyword) PyErr_Clear();
      out += text_of(keyword ? keyword : "?", "=");
    }
    append_argument(out, site.args[i], 0);
  }
}

void append_arguments(std::string& out, const InfixSite& site) {
  append_argument(out, site.a, 0);
  if (!site.b) return;
  out += ", ";
  append_argument(out, site.b, 0);
}

// "linalg.solve" for linalg_solve in the module _linalg: as users call it.
std::string name_of(const CallSite& site) {
  const std::string_view module = site.callee.module, name = site.callee.name;
  if (module.empty()) return std::string(name);
  const std::string prefix = text_of(module.substr(1), "_");
  if (!name.starts_with(prefix)) return std::string(name);
  return text_of(module.substr(1), ".", name.substr(prefix.size()));
}
std::string name_of(const InfixSite& site) { return site.name; }

// Whether a module has operators that are written in Python.
bool has_operators(std::string_view module) {
  return module.starts_with("flambeau.nn.functional") || module == "flambeau.functional" ||
         module.starts_with("flambeau._operators.");
}

// The name of the frame's function if it is a public operator; "" if it is another function of
// such a module, null elsewhere.
std::optional<std::string> operator_of(PyFrameObject* frame) {
  const Ref globals(PyFrame_GetGlobals(frame));
  const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  PyObject* const module = PyDict_GetItemString(globals.get(), "__name__");
  const char* const module_name =
      module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!module_name || !has_operators(module_name)) return std::nullopt;
  PyObject* const all = PyDict_GetItemString(globals.get(), "__all__");
  const Ref name(PyObject_GetAttrString(code.get(), "co_name"));
  const char* const text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  const bool is_public = text && all && PySequence_Contains(all, name.get()) == 1;
  return std::string(is_public ? text : "");
}

// The public operator in Python that the user called, through others perhaps; "" if there is none.
std::string outer_operator() {
  std::string found;
  Ref frame = Ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const current = reinterpret_cast<PyFrameObject*>(frame.get());
    const std::optional<std::string> name = operator_of(current);
    if (!name) break;
    if (!name->empty()) found = *name;
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(current)));
  }
  PyErr_Clear();
  return found;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Whether an operator has this base name: "linalg.solve" for "linalg_solve.out".
bool is_operator(std::string_view head) {
  std::string base(head);
  std::ranges::replace(base, '.', '_');
  const auto& all = all_operators();
  const auto at = std::ranges::lower_bound(
      all, base, {}, [](const OperatorEntry* op) { return std::string_view(op->name); });
  if (base.empty() || at == all.end()) return false;
  const std::string_view found = (*at)->name;
  return found.substr(0, found.find('.')) == base;
}

// The message with the name that the user called instead of the name of an inner operator.
std::string with_head(std::string_view message, const std::string& name) {
  const auto end = std::ranges::find_if_not(message, is_name);
  const std::string_view head(message.begin(), end), rest(end, message.end());
  const bool ends = rest.starts_with(": ") || rest.starts_with("()");
  // A kernel of several operators may name what their names begin with: max_pool for max_pool2d.
  if (ends && (name.starts_with(head) || is_operator(head))) return text_of(name, rest);
  // A private operator is no name that users know; its kernels name the public one.
  if (ends && name.starts_with('_')) return std::string(message);
  return text_of(name, ": ", message);
}

template <typename Site>
void set_error_at(const Site& site) noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      const std::string name = name_of(site), outer = outer_operator();
      const bool is_import = error.kind() == ErrorKind::ModuleNotFound;
      std::string message =
          is_import ? error.what() : with_head(error.what(), outer.empty() ? name : outer);
      message += "\n  in " + name + '(';
      append_arguments(message, site);
      throw Error(error.kind(), message + ')');
    }
  } catch (...) {
    set_python_error();
  }
}

}  // namespace

void set_call_error(const CallSite& site) noexcept { set_error_at(site); }
void set_call_error(const InfixSite& site) noexcept { set_error_at(site); }

}  // namespace flambeau::python
