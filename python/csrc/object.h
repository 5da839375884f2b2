#pragma once
// Owning references to Python objects, and the exception that says "a Python error is set".
#include <Python.h>

#include <memory>
#include <utility>

namespace flambeau::python {

// Thrown through C++ when a Python C API call failed; the error indicator holds the reason.
struct PythonError {};

// The same with the Python error inside, for a way on which the GIL or the thread changes.
class CarriedError {
 public:
  CarriedError();                 // takes the error that is set
  void restore() const noexcept;  // sets it again

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

// Gives the module the exception types that Python lacks.
void add_errors(PyObject* module);

class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : p_(owned) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  Ref(const Ref& o) : p_(Py_XNewRef(o.p_)) {}
  Ref& operator=(const Ref& o) {
    Ref copy(o);
    std::swap(p_, copy.p_);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
  static Ref share(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  // Takes a new reference; throws PythonError for null.
  static Ref checked(PyObject* owned) {
    if (!owned) throw PythonError();
    return Ref(owned);
  }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

inline int checked(int status) {
  if (status < 0) throw PythonError();
  return status;
}

// Lets go of the GIL and takes it back. A daemon thread that comes back when the interpreter is
// gone stays in there until the process ends: Python would unwind its stack, through frames that
// forbid it.
PyThreadState* leave_python() noexcept;
void enter_python(PyThreadState* state) noexcept;
struct BorrowedGil {
  PyGILState_STATE state;
  bool was_at_work;  // the thread had left Python for an operator
};
BorrowedGil borrow_python() noexcept;
void return_python(BorrowedGil borrowed) noexcept;
// Whether any thread has left Python for an operator. It cannot become true while the caller keeps
// the GIL.
bool any_thread_at_work() noexcept;
// Lets Python's signal handlers run during long operators of the main thread; when the process
// ends, waits for the operators of daemon threads.
void watch_long_work();

// Lets other Python threads run; only around code that touches no Python object.
class WithoutGil {
 public:
  explicit WithoutGil(bool active = true) : state_(active ? leave_python() : nullptr) {}
  ~WithoutGil() {
    if (state_) enter_python(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};
class WithGil {
 public:
  WithGil() : borrowed_(borrow_python()) {}
  ~WithGil() { return_python(borrowed_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  BorrowedGil borrowed_;
};

// Turns the exception in flight into a Python error: flambeau::Error by its kind, bad_alloc into
// MemoryError, PythonError stays what it is. Call inside a catch block.
void set_python_error() noexcept;

// Runs fn; on an exception sets the Python error and returns null.
template <typename F>
PyObject* guarded(F&& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}
template <typename F>
int guarded_int(F&& fn) noexcept {
  try {
    return fn();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace flambeau::python
