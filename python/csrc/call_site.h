#pragma once
// The call that failed: the message begins with the name that the user called, also where an
// operator inside detected the error, and ends with the arguments.
//
//   RuntimeError: matmul: shapes cannot be multiplied: got float32[2, 3] and float32[4, 5]
//     in matmul(float32[2, 3], float32[4, 5])
#include "python/csrc/arg_parser.h"

namespace flambeau::python {

// A call of a generated function; `self` is null unless it is a method.
struct CallSite {
  const Overloads& callee;
  PyObject* self;
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
};
// An infix operator; `b` is null where there is one operand.
struct InfixSite {
  const char* name;
  PyObject* a;
  PyObject* b;
};

// As set_python_error, with the call where the exception is an operator's.
void set_call_error(const CallSite& site) noexcept;
void set_call_error(const InfixSite& site) noexcept;

// As guarded(); the site is put together only when the call has failed.
template <typename F>
PyObject* guarded_call(const Overloads& callee, PyObject* self, PyObject* const* args,
                       Py_ssize_t nargs, PyObject* kwnames, F&& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_call_error(CallSite{callee, self, args, nargs, kwnames});
    return nullptr;
  }
}
template <typename F>
PyObject* guarded_infix(const char* name, PyObject* a, PyObject* b, F&& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_call_error(InfixSite{name, a, b});
    return nullptr;
  }
}

}  // namespace flambeau::python
