#include "python/csrc/profiling.h"

#include <frameobject.h>

#include <map>
#include <unordered_map>

#include "aten/dispatch/operator_entry.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/boxed_schema.h"
#include "python/csrc/lists.h"

// Callgrind collects while a function of this name runs (Timer.collect_callgrind).
extern "C" [[gnu::noinline, gnu::visibility("default")]] PyObject* flambeau_counted_call(
    PyObject* function);
PyObject* flambeau_counted_call(PyObject* function) { return PyObject_CallNoArgs(function); }

namespace flambeau::python {
namespace {

using recording::Kind;
using recording::Log;

// Python's functions as events, while a thread is recorded with its stack. Lives for one log.
struct Tracer {
  uint32_t serial;  // of the log
  Py_tracefunc previous;
  Ref previous_argument;
  std::vector<int32_t> open = {};                                     // events of the frames
  std::unordered_map<PyCodeObject*, int32_t> codes = {};              // names; the keys are owned
  std::map<std::pair<const void*, PyObject*>, int32_t> natives = {};  // names
  std::unordered_map<PyObject*, int32_t> modules = {};                // names; the keys are owned
  std::unordered_map<std::string, int> count_of_class = {};

  ~Tracer() {
    for (const auto& [code, name] : codes) Py_DECREF(code);
    for (const auto& [module, name] : modules) Py_DECREF(module);
  }
};
// A pointer, because a thread's end must not touch Python.
thread_local constinit Tracer* tracer = nullptr;

Log* traced_log() {
  Log* const log = recording::current;
  return log && tracer && log->serial == tracer->serial ? log : nullptr;
}

std::string utf8(PyObject* text) {
  const Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (!bytes) throw PythonError();
  return std::string(PyBytes_AS_STRING(bytes.get()), PyBytes_GET_SIZE(bytes.get()));
}

int32_t name_of_code(Log& log, PyCodeObject* code) {
  const auto [at, is_new] = tracer->codes.try_emplace(code, -1);
  if (!is_new) return at->second;
  Py_INCREF(code);
  const std::string place = utf8(code->co_filename), name = utf8(code->co_name);
  at->second = log.intern(text_of(place, "(", code->co_firstlineno, "): ", name));
  return at->second;
}

int32_t name_of_native(Log& log, PyObject* function) {
  const bool is_builtin = PyCFunction_Check(function);
  const auto* object = reinterpret_cast<PyCFunctionObject*>(function);
  const std::pair<const void*, PyObject*> key =
      is_builtin ? std::pair<const void*, PyObject*>(object->m_ml, object->m_self)
                 : std::pair<const void*, PyObject*>(function, nullptr);
  const auto [at, is_new] = tracer->natives.try_emplace(key, -1);
  if (!is_new) return at->second;
  const Ref text = Ref::checked(PyObject_Repr(function));
  at->second = log.intern(utf8(text.get()));
  return at->second;
}

void enter_function(Log& log, PyFrameObject* frame) {
  const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  const int32_t name = name_of_code(log, reinterpret_cast<PyCodeObject*>(code.get()));
  tracer->open.push_back(log.begin(Kind::Python, name));
}

// A Py_tracefunc.
int trace(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
  return guarded_int([&] {
    Log* const log = traced_log();
    if (!log) return 0;
    switch (what) {
      case PyTrace_CALL:
        enter_function(*log, frame);
        break;
      case PyTrace_C_CALL:
        tracer->open.push_back(log->begin(Kind::Native, name_of_native(*log, argument)));
        break;
      case PyTrace_RETURN:
      case PyTrace_C_RETURN:
      case PyTrace_C_EXCEPTION:
        if (tracer->open.empty()) break;
        log->end(tracer->open.back());
        tracer->open.pop_back();
        break;
      default:
        break;
    }
    return 0;
  });
}

// The frames that are running become events at once, outermost first.
void start_tracing(Log& log) {
  const PyThreadState* const state = PyThreadState_Get();
  tracer = new Tracer{log.serial, state->c_profilefunc, Ref::share(state->c_profileobj)};
  std::vector<Ref> frames;
  Ref frame = Ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    frames.push_back(frame);
    frame = Ref(reinterpret_cast<PyObject*>(
        PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.get()))));
  }
  for (size_t i = frames.size(); i-- > 0;)
    enter_function(log, reinterpret_cast<PyFrameObject*>(frames[i].get()));
  PyEval_SetProfile(trace, nullptr);
}

void stop_tracing() {
  const std::unique_ptr<Tracer> ended(std::exchange(tracer, nullptr));
  if (!ended || PyThreadState_Get()->c_profilefunc != trace) return;
  PyEval_SetProfile(ended->previous, ended->previous_argument.get());
}

// --- the log as Python's objects -----------------------------------------------------------------

Ref sizes_of(IntArrayRef sizes) {
  Ref out = Ref::checked(PyList_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t i = 0; i < sizes.size(); ++i)
    PyList_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i),
                    Ref::checked(PyLong_FromLongLong(sizes[i])).release());
  return out;
}

// Reads what Log::words describes.
class WordReader {
 public:
  WordReader(const Log& log, int64_t at) : log_(log), next_(log.words.data() + at) {}

  Ref arguments() {
    const auto count = static_cast<Py_ssize_t>(*next_++);
    Ref out = Ref::checked(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(out.get(), i, argument().release());
    return out;
  }

 private:
  // ("tensor", [one]), ("tensors", [several]) or ("value", another value).
  Ref argument() {
    const int64_t word = *next_++, number = word >> 8;
    switch (static_cast<recording::Word>(word & 0xFF)) {
      case recording::Word::Tensor:
        return Ref::checked(Py_BuildValue("(sN)", "tensor", tensors(number).release()));
      case recording::Word::Tensors:
        return Ref::checked(Py_BuildValue("(sN)", "tensors", tensors(number).release()));
      case recording::Word::Value:
        return Ref::checked(Py_BuildValue("(sN)", "value",
                                          Ref::checked(wrap_value(log_.values[number])).release()));
      default:
        return Ref::checked(Py_BuildValue("(sO)", "value", Py_None));
    }
  }
  Ref tensors(Py_ssize_t count) {
    Ref out = Ref::checked(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(out.get(), i, tensor().release());
    return out;
  }
  // (sizes, strides, dtype), and (tensor, storage, offset, device) where results are recorded.
  Ref tensor() {
    const int64_t word = *next_++;
    const auto dim = static_cast<size_t>(word & 0xFFFFFFFF);
    const Ref sizes = sizes_of({next_, dim}), strides = sizes_of({next_ + dim, dim});
    const Ref dtype = Ref::checked(wrap(static_cast<ScalarType>(word >> 32)));
    next_ += 2 * dim;
    if (!log_.options.results)
      return Ref::checked(PyTuple_Pack(3, sizes.get(), strides.get(), dtype.get()));
    const int64_t* const identity = std::exchange(next_, next_ + 4);
    const Device device{static_cast<DeviceType>(identity[3] & 0xFF),
                        static_cast<int8_t>(identity[3] >> 32)};
    return Ref::checked(Py_BuildValue(
        "(OOO(LLLN))", sizes.get(), strides.get(), dtype.get(), static_cast<long long>(identity[0]),
        static_cast<long long>(identity[1]), static_cast<long long>(identity[2]),
        Ref::checked(wrap_value(IValue(device))).release()));
  }

  const Log& log_;
  const int64_t* next_;
};

class Conversion {
 public:
  explicit Conversion(const Log& log) : log_(log) {
    for (const std::string& name : log.names) names_.push_back(string_of(name));
  }

  // (kind, name, overload, start, end, sequence, parent, thread, arguments), and where results
  // are recorded (results, schema) behind them.
  Ref event(int32_t index) {
    const recording::Event& e = log_.events[index];
    // A name without a namespace is that of a range with inputs.
    const bool is_operator =
        !e.op && e.kind == Kind::Operator && log_.names[e.name].find("::") != std::string::npos;
    const auto [name, overload] = e.op          ? names_of(*e.op)
                                  : is_operator ? split(log_.names[e.name])
                                                : std::pair(names_[e.name], Ref());
    const auto found = log_.results.find(index);
    const Ref arguments = arguments_at(e.arguments);
    const Ref results = arguments_at(found == log_.results.end() ? -1 : found->second);
    return Ref::checked(Py_BuildValue(
        log_.options.results ? "(iOOLLLiIOOs)" : "(iOOLLLiIO)", static_cast<int>(e.kind),
        name.get(), overload ? overload.get() : Py_None, static_cast<long long>(e.start),
        static_cast<long long>(e.end), static_cast<long long>(e.sequence), e.parent, e.thread,
        arguments.get(), results.get(), e.op ? e.op->schema : ""));
  }
  // (time, bytes, total, address, event, thread)
  static Ref memory(const recording::MemoryEvent& m) {
    return Ref::checked(
        Py_BuildValue("(LLLKiI)", static_cast<long long>(m.time), static_cast<long long>(m.bytes),
                      static_cast<long long>(m.total), static_cast<unsigned long long>(m.address),
                      m.event, m.thread));
  }
  static Ref thread(const std::pair<uint32_t, int64_t>& t) {
    return Ref::checked(Py_BuildValue("(IL)", t.first, static_cast<long long>(t.second)));
  }

 private:
  Ref arguments_at(int64_t at) {
    return at < 0 ? Ref::share(Py_None) : WordReader(log_, at).arguments();
  }
  const std::pair<Ref, Ref>& names_of(const OperatorEntry& op) {
    const auto [at, is_new] = ops_.try_emplace(&op);
    if (is_new) at->second = split(op.name);
    return at->second;
  }
  // The qualified name, and the overload. Operators of the specification are named without "aten".
  static std::pair<Ref, Ref> split(std::string_view full) {
    const size_t dot = full.find('.');
    const bool has_overload = dot != std::string_view::npos;
    const bool is_qualified = full.find("::") != std::string_view::npos;
    return {string_of(text_of(is_qualified ? "" : "aten::", full.substr(0, dot))),
            string_of(has_overload ? full.substr(dot + 1) : std::string_view())};
  }

  const Log& log_;
  std::vector<Ref> names_;
  std::unordered_map<const OperatorEntry*, std::pair<Ref, Ref>> ops_;
};

// --- functions of _C -----------------------------------------------------------------------------

// _profiler_start(shapes, memory, stack, results): in place of what this thread records.
PyObject* start(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int shapes, memory, stack, results = 0;
    if (!PyArg_ParseTuple(args, "ppp|p", &shapes, &memory, &stack, &results)) return nullptr;
    stop_tracing();
    recording::start({.shapes = shapes != 0, .memory = memory != 0, .results = results != 0});
    if (stack) start_tracing(*recording::current);
    return wrap_none();
  });
}

// _profiler_stop(): (events, memory, threads, start, end, allocated bytes at the start); None if
// this thread is not recorded.
PyObject* stop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    stop_tracing();
    const std::unique_ptr<Log> log = recording::stop();
    if (!log) return wrap_none();
    const WithoutCollection all_alive;
    Conversion conversion(*log);
    const Ref events =
        list_of(log->events, [&, i = 0](const auto&) mutable { return conversion.event(i++); });
    const Ref memory = list_of(log->memory, Conversion::memory);
    const Ref threads = list_of(log->threads, Conversion::thread);
    return Py_BuildValue("(OOOLLL)", events.get(), memory.get(), threads.get(),
                         static_cast<long long>(log->start_time),
                         static_cast<long long>(log->end_time),
                         static_cast<long long>(log->first_bytes));
  });
}

// The values of a call of an operator in Python. Others than tensors, lists of them, numbers and
// texts are noted as None.
IValue value_of(PyObject* o) {
  if (is_tensor(o)) return IValue(tensor_of(o));
  if (PyBool_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o))
    return IValue(scalar_from(o));
  if (PyUnicode_Check(o)) return IValue(utf8(o));
  if (!PyList_Check(o) && !PyTuple_Check(o)) return IValue();
  std::vector<Tensor> tensors;
  std::vector<Scalar> numbers;
  const Ref items = Ref::checked(PySequence_Tuple(o));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    const IValue item = value_of(PyTuple_GET_ITEM(items.get(), i));
    if (item.is_tensor()) tensors.push_back(item.tensor());
    if (const auto* number = std::get_if<Scalar>(&item.payload())) numbers.push_back(*number);
  }
  return tensors.empty() ? IValue(std::move(numbers)) : IValue(std::move(tensors));
}
int64_t handle_of(const Log& log, int32_t event) { return (int64_t{log.serial} << 32) | event; }

// _profiler_enter_operator(name, values): the same for an operator whose kernels are in Python.
PyObject* enter_operator(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *name, *values;
    if (!PyArg_ParseTuple(args, "UO!", &name, &PyTuple_Type, &values)) return nullptr;
    Log* const log = recording::current;
    if (!log) return PyLong_FromLong(-1);
    std::vector<IValue> noted;
    bool takes_tensors = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      noted.push_back(value_of(PyTuple_GET_ITEM(values, i)));
      takes_tensors |= noted.back().is_tensor() ||
                       std::holds_alternative<std::vector<Tensor>>(noted.back().payload());
    }
    const int32_t event = log->begin(utf8(name), takes_tensors);
    if (log->options.shapes) {
      for (const IValue& value : noted) log->note(value);
    }
    log->launch();
    return PyLong_FromLongLong(handle_of(*log, event));
  });
}
// _profiler_exit_operator(handle, result)
PyObject* leave_operator(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    long long handle;
    PyObject* result;
    if (!PyArg_ParseTuple(args, "LO", &handle, &result)) return nullptr;
    Log* const log = recording::log_of_thread();
    if (!log || handle < 0 || handle >> 32 != log->serial) return wrap_none();
    const auto event = static_cast<int32_t>(handle & 0x7FFFFFFF);
    log->end(event);
    if (!log->options.results) return wrap_none();
    Stack results;
    const Ref all =
        PyTuple_Check(result) ? Ref::share(result) : Ref::checked(PyTuple_Pack(1, result));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i)
      results.push(value_of(PyTuple_GET_ITEM(all.get(), i)));
    log->note_results(event, results);
    return wrap_none();
  });
}

// The text beside the name of a range is its only argument.
int32_t begin_range(Log& log, PyObject* name, PyObject* text) {
  if (text == Py_None || !log.options.shapes) return log.begin(Kind::Range, log.intern(utf8(name)));
  const int32_t event = log.begin(utf8(name), false);
  log.note(IValue(std::string(utf8(text))));
  log.events.back().kind = Kind::Range;
  log.launch();
  return event;
}

// _profiler_enter(name, text or None): a handle for `_profiler_exit`; -1 if this thread is not
// recorded.
PyObject* enter(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count == 2 && PyUnicode_Check(args[0]),
               "record_function: expected a str as name, got ",
               count ? Py_TYPE(args[0])->tp_name : "none");
    Log* const log = recording::current;
    if (!log) return PyLong_FromLong(-1);
    return PyLong_FromLongLong(handle_of(*log, begin_range(*log, args[0], args[1])));
  });
}
// _profiler_exit(handle): no effect for a range of another log, or of another thread's.
PyObject* leave(PyObject*, PyObject* handle) {
  return guarded([&]() -> PyObject* {
    const int64_t value = integer_from(handle);
    Log* const log = recording::log_of_thread();
    if (log && value >= 0 && value >> 32 == log->serial)
      log->end(static_cast<int32_t>(value & 0x7FFFFFFF));
    return wrap_none();
  });
}
// _profiler_enabled(): the number of the log that this thread has, from 1 on; 0 if it has none.
PyObject* is_recording(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLong(recording::current ? recording::current->serial : 0);
}
// _profiler_collect(flag): goes on or pauses, in the same log.
PyObject* collect(PyObject*, PyObject* flag) {
  return guarded([&]() -> PyObject* {
    const int is_collecting = PyObject_IsTrue(flag);
    if (is_collecting < 0) return nullptr;
    recording::set_collecting(is_collecting != 0);
    return wrap_none();
  });
}
// _profiler_counted_call(function): what the function returns.
PyObject* counted_call(PyObject*, PyObject* function) { return flambeau_counted_call(function); }

PyMethodDef functions[] = {
    {"_profiler_start", start, METH_VARARGS, nullptr},
    {"_profiler_stop", stop, METH_NOARGS, nullptr},
    {"_profiler_enter", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(enter)),
     METH_FASTCALL, nullptr},
    {"_profiler_exit", leave, METH_O, nullptr},
    {"_profiler_enabled", is_recording, METH_NOARGS, nullptr},
    {"_profiler_enter_operator", enter_operator, METH_VARARGS, nullptr},
    {"_profiler_exit_operator", leave_operator, METH_VARARGS, nullptr},
    {"_profiler_collect", collect, METH_O, nullptr},
    {"_profiler_counted_call", counted_call, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void ModuleScope::enter(PyObject* module) {
  Log* const log = traced_log();
  if (!log) return;
  const auto [at, is_new] = tracer->modules.try_emplace(module, -1);
  if (is_new) {
    Py_INCREF(module);
    const std::string name = _PyType_Name(Py_TYPE(module));
    at->second = log->intern(text_of("nn.Module: ", name, "_", tracer->count_of_class[name]++));
  }
  log_ = log;
  event_ = log->begin(Kind::Module, at->second);
}

void add_profiling(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau::python
