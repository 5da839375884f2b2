// The functions and the class whose calls are rare, bound by pybind11: settings, memory,
// generators, autocast and function transforms. Operators and Tensor are bound by hand and by the
// generator, where the cost of a call matters. All of pybind11 is compiled here, once.
#include "python/csrc/pybind_module.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "aten/autograd/variable.h"
#include "aten/core/determinism.h"
#include "aten/core/factory.h"
#include "aten/cpu/generator.h"
#include "aten/cpu/parallel.h"
#include "aten/dispatch/operator_entry.h"
#include "aten/transforms/autocast.h"
#include "aten/transforms/batching.h"
#include "aten/transforms/functional.h"
#include "c10/core/allocator.h"
#include "c10/core/device_backend.h"
#include "c10/core/isa.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/numpy_types.h"
#include "python/csrc/type_docs.h"
#include "python/csrc/value_types.h"
#include "python/csrc/warnings.h"

namespace py = pybind11;
using namespace pybind11::literals;

namespace pybind11::detail {

template <>
struct type_caster<flambeau::Tensor> {
  PYBIND11_TYPE_CASTER(flambeau::Tensor, const_name("Tensor"));
  bool load(handle source, bool) {
    flambeau::check_type(flambeau::python::is_tensor(source.ptr()), "expected a Tensor, got ",
                         Py_TYPE(source.ptr())->tp_name);
    value = flambeau::python::tensor_of(source.ptr());
    return true;
  }
  static handle cast(flambeau::Tensor tensor, return_value_policy, handle) {
    return flambeau::python::wrap(std::move(tensor));
  }
};
template <>
struct type_caster<flambeau::ScalarType> {
  PYBIND11_TYPE_CASTER(flambeau::ScalarType, const_name("dtype"));
  bool load(handle source, bool) {
    flambeau::check_type(flambeau::python::scalar_type_from(source.ptr(), &value),
                         "expected a dtype, got ", Py_TYPE(source.ptr())->tp_name);
    return true;
  }
  static handle cast(flambeau::ScalarType type, return_value_policy, handle) {
    return flambeau::python::wrap(type);
  }
};
template <>
struct type_caster<flambeau::Device> {
  PYBIND11_TYPE_CASTER(flambeau::Device, const_name("device"));
  bool load(handle source, bool) {
    flambeau::check_type(flambeau::python::device_from(source.ptr(), &value),
                         "expected a device, got ", Py_TYPE(source.ptr())->tp_name);
    return true;
  }
  static handle cast(flambeau::Device device, return_value_policy, handle) {
    return flambeau::python::wrap_device(device);
  }
};

}  // namespace pybind11::detail

namespace flambeau::python {

PyTypeObject* generator_type;

namespace {

// pybind11 owns the errors of arguments; all others are those of the rest of the binding.
void translate(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const py::builtin_exception&) {
    throw;
  } catch (...) {
    set_python_error();
  }
}

int64_t integer(py::handle value) { return integer_from(value.ptr()); }
bool truth(py::handle value) { return checked(PyObject_IsTrue(value.ptr())) == 1; }
bool exact_bool(py::handle value, const char* function) {
  check_type(PyBool_Check(value.ptr()), function, "(): expected a bool, got ",
             Py_TYPE(value.ptr())->tp_name);
  return value.ptr() == Py_True;
}

// --- settings ------------------------------------------------------------------------------------

// Whether tiny results become 0: two bits of each thread's control register.
bool set_flush_denormal(bool flush) {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
#pragma omp parallel
  {
    const unsigned rest = __builtin_ia32_stmxcsr() & ~(kFlushToZero | kDenormalsAreZero);
    __builtin_ia32_ldmxcsr(flush ? rest | kFlushToZero | kDenormalsAreZero : rest);
  }
  return true;
#else
  return flush && false;
#endif
}

void add_determinism(py::module_& m) {
  m.def("_set_fills_uninitialized", [](py::handle on) { set_fills_uninitialized(truth(on)); });
  m.def("_set_deterministic_mode", &set_deterministic_mode);
  m.def("_deterministic_mode", &deterministic_mode);
}

void add_settings(py::module_& m) {
  add_determinism(m);
  m.def("get_default_dtype", &default_dtype,
        "The dtype of floating results of integers; float32 at first.");
  m.def("set_default_dtype", &set_default_dtype,
        "Set the dtype of floating results of integers and of float data.");
  m.def("promote_types", &promote_types, "type1"_a, "type2"_a,
        "The smallest dtype to which both can be cast without loss of category.");
  m.def("can_cast", &can_cast, "from_"_a, "to"_a,
        "Whether a result of the first dtype may be written to the second.");
  m.def("_get_default_device", &default_device);
  m.def("_set_default_device", &set_default_device);
  m.def("get_num_threads", &get_num_threads, "How many threads an operator may use.");
  m.def(
      "set_num_threads",
      [](py::handle count) {
        const int64_t n = integer(count);
        check(n > 0, "set_num_threads: expected a positive integer, got ", n);
        set_num_threads(static_cast<int>(n));
      },
      "Set how many threads an operator may use.");
  m.def(
      "set_flush_denormal", [](py::handle flush) { return set_flush_denormal(truth(flush)); },
      "Turn numbers below the smallest normal one into 0, or keep them; whether the CPU can do "
      "that.");
  m.def("_cpu_capability", [] { return name_of(static_cast<Isa>(cpu_isa())); });
  m.def("_cpu_capabilities", [] {
    py::list names;
    for (int i = 0; i < kNumIsas; ++i) {
      if (has_loops_for(static_cast<Isa>(i))) names.append(name_of(static_cast<Isa>(i)));
    }
    return names;
  });
  m.def("_operator_schemas", [] {
    py::list schemas;
    for (const auto* op : all_operators()) schemas.append(op->schema);
    return schemas;
  });
}

// --- memory --------------------------------------------------------------------------------------

void add_memory(py::module_& m) {
  m.def("_memory_stats", [] {
    const AllocatorStats s = cpu_allocator()->stats();
    return py::dict("allocated_bytes"_a = s.allocated_bytes,
                    "peak_allocated_bytes"_a = s.peak_allocated_bytes,
                    "cached_bytes"_a = s.cached_bytes, "allocations"_a = s.allocations,
                    "cache_hits"_a = s.cache_hits);
  });
  m.def("_empty_cache", [] { cpu_allocator()->empty_cache(); });
  m.def("_reset_peak", [] { cpu_allocator()->reset_peak(); });
  m.def("_empty_bytes",
        [](py::handle count) { return empty_tensor({integer(count)}, ScalarType::UInt8); });
  m.def("_map_file", &map_file);
  m.def("_end_with_process", [](py::handle process) { end_with_process(integer(process)); });
  m.def("_is_ndarray", [](py::handle o) { return is_ndarray(o.ptr()); });
  m.def("_is_numpy_scalar", [](py::handle o) { return is_numpy_scalar(o.ptr()); });
  m.def("_has_buffer", [](py::handle o) { return PyObject_CheckBuffer(o.ptr()) != 0; });
}

// --- generators ----------------------------------------------------------------------------------

struct BoundGenerator {
  Generator impl;
};

// A seed has 64 bits, signed or not; negative ones count from 2**64.
uint64_t seed_from(PyObject* o) {
  check(PyIndex_Check(o) && !PyBool_Check(o) && !is_tensor(o), "manual_seed: expected an int, got ",
        Py_TYPE(o)->tp_name);
  const Ref index = Ref::checked(PyNumber_Index(o));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow == 0) return static_cast<uint64_t>(value);
  const unsigned long long wide = overflow > 0 ? PyLong_AsUnsignedLongLong(index.get()) : 0;
  const bool fits = overflow > 0 && PyErr_Occurred() == nullptr;
  if (!fits) PyErr_Clear();
  check_value(fits, "manual_seed: expected an integer of 64 bits, got a larger one (overflow)");
  return wide;
}
BoundGenerator new_generator(std::optional<Device> device) {
  const Device wanted = device.value_or(Device());
  const bool is_private = wanted.type == DeviceType::PrivateUse1 && c10::private_backend();
  check(wanted.is_cpu() || is_private, "Generator(): expected device cpu, got ", wanted);
  const Device placed = c10::with_index(wanted);
  return {Generator(make_intrusive<CpuGenerator>(CpuGenerator::kDefaultSeed, placed))};
}
// Methods take any object as self: one that was made by __new__ alone has no generator yet.
GeneratorImpl& impl_of(py::handle self) {
  GeneratorImpl* impl = generator_from(self.ptr());
  check_type(impl != nullptr, "expected a Generator, got ", Py_TYPE(self.ptr())->tp_name);
  return *impl;
}
Tensor state_of(py::handle self) {
  GeneratorImpl& impl = impl_of(self);
  const std::lock_guard lock(impl.mutex());
  const std::vector<uint8_t> bytes = impl.state();
  Tensor state = empty_tensor({static_cast<int64_t>(bytes.size())}, ScalarType::UInt8);
  std::memcpy(state.data(), bytes.data(), bytes.size());
  return state;
}
py::handle set_state(py::handle self, py::handle given) {
  check_type(is_tensor(given.ptr()) && tensor_of(given.ptr()).dtype() == ScalarType::UInt8 &&
                 tensor_of(given.ptr()).is_contiguous(),
             "set_state: expected a contiguous tensor of uint8, got ",
             Py_TYPE(given.ptr())->tp_name);
  const Tensor& state = tensor_of(given.ptr());
  const auto* bytes = state.data_as<uint8_t>();
  GeneratorImpl& impl = impl_of(self);
  const std::lock_guard lock(impl.mutex());
  impl.set_state(std::vector<uint8_t>(bytes, bytes + state.numel()));
  return self;
}
py::handle set_seed(py::handle self, py::handle seed) {
  const uint64_t value = seed_from(seed.ptr());
  GeneratorImpl& impl = impl_of(self);
  const std::lock_guard lock(impl.mutex());
  impl.set_seed(value);
  return self;
}

void add_generator(py::module_& m) {
  py::class_<BoundGenerator> type(m, "Generator", py::module_local(), py::is_final(),
                                  kGeneratorDoc);
  type.def(py::init(&new_generator), "device"_a = py::none())
      .def("manual_seed", &set_seed, "Restart the stream at a seed; returns the generator.")
      .def(
          "initial_seed", [](py::handle self) { return impl_of(self).seed(); },
          "The seed that the stream started from.")
      .def("get_state", &state_of, "Its position in the stream, as a tensor of bytes.")
      .def("set_state", &set_state, "Continue from a position that get_state returned.")
      .def_property_readonly(
          "device", [](py::handle self) { return impl_of(self).device(); },
          "Where it makes numbers.");
  generator_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  m.attr("default_generator") =
      py::reinterpret_steal<py::object>(wrap_generator(Generator::share(&default_cpu_generator())));
}

// --- autocast ------------------------------------------------------------------------------------

DeviceType device_type_from(py::handle o, const char* function) {
  Device device;
  check_type(PyUnicode_Check(o.ptr()) && device_from(o.ptr(), &device), function,
             "(): argument 'device_type' must be str, not ", Py_TYPE(o.ptr())->tp_name);
  return device.type;
}

// PyTorch's autocast knows these devices; without kernels for them it is never on.
bool is_device_without_kernels(py::handle o) {
  if (!PyUnicode_Check(o.ptr())) return false;
  Device d;
  if (device_from(o.ptr(), &d) && d.type == DeviceType::PrivateUse1) return !c10::private_backend();
  for (const char* name : {"mps", "xpu", "hpu", "xla", "mtia", "ipu", "maia"}) {
    if (PyUnicode_CompareWithASCIIString(o.ptr(), name) == 0) return true;
  }
  return false;
}
bool autocast_is_available(py::handle device) {
  return !is_device_without_kernels(device) &&
         autocast::is_supported(device_type_from(device, "is_autocast_available"));
}
bool autocast_is_enabled(py::handle device) {
  return !is_device_without_kernels(device) &&
         autocast::is_enabled(device_type_from(device, "is_autocast_enabled"));
}
void enable_autocast(py::handle device, py::handle enabled) {
  check_type(PyBool_Check(enabled.ptr()),
             "set_autocast_enabled(): argument 'enabled' must be bool, not ",
             Py_TYPE(enabled.ptr())->tp_name);
  autocast::set_enabled(device_type_from(device, "set_autocast_enabled"), enabled.ptr() == Py_True);
}

void add_autocast(py::module_& m) {
  autocast::install();
  m.def("_is_autocast_available", &autocast_is_available);
  m.def("is_autocast_enabled", [] { return autocast::is_enabled(DeviceType::CUDA); });
  m.def("is_autocast_enabled", &autocast_is_enabled,
        "is_autocast_enabled(device_type)\n\nWhether autocast is enabled for a device; CUDA by "
        "default.");
  m.def("set_autocast_enabled", [](py::handle on) { enable_autocast(py::str("cuda"), on); });
  m.def("set_autocast_enabled", &enable_autocast,
        "set_autocast_enabled(device_type, enabled)\n\nEnable autocast for a device in this "
        "thread.");
  m.def(
      "get_autocast_dtype",
      [](py::handle device) {
        return autocast::dtype_of(device_type_from(device, "get_autocast_dtype"));
      },
      "The lower precision of autocast for a device.");
  m.def(
      "set_autocast_dtype",
      [](py::handle device, ScalarType dtype) {
        autocast::set_dtype(device_type_from(device, "set_autocast_dtype"), dtype);
      },
      "set_autocast_dtype(device_type, dtype)\n\nSet the lower precision of autocast for a "
      "device.");
  m.def("is_autocast_cache_enabled", &autocast::is_cache_enabled,
        "Whether casts of parameters are kept within a region.");
  m.def(
      "set_autocast_cache_enabled",
      [](py::handle on) {
        autocast::set_cache_enabled(exact_bool(on, "set_autocast_cache_enabled"));
      },
      "Set whether casts of parameters are kept within a region.");
  m.def("clear_autocast_cache", &autocast::clear_cache, "Forget the casts of parameters.");
  m.def("_autocast_meta_as_cpu", &autocast::set_meta_as_cpu,
        "Set whether operators on the device \"meta\" cast as on the CPU; returns what it was.");
  m.def("autocast_increment_nesting", &autocast::increment_nesting,
        "Enter a region; returns the depth.");
  m.def("autocast_decrement_nesting", &autocast::decrement_nesting,
        "Leave a region; returns the depth.");
}

// --- function transforms -------------------------------------------------------------------------

using namespace transforms;

constexpr const char* kKinds[] = {"vmap", "grad", "jvp", "functionalize"};
constexpr const char* kRandomness[] = {"error", "same", "different"};

// The index of a text among others; ValueError for another one.
template <int Count>
int index_among(const char* const (&names)[Count], const std::string& name, const char* what) {
  std::string expected;
  for (int i = 0; i < Count; ++i) {
    if (name == names[i]) return i;
    expected += text_of(i == 0 ? "'" : i + 1 < Count ? ", '" : " or '", names[i], "'");
  }
  fail(ErrorKind::Value, what, " ", expected, ", got '", name, "'");
}

int64_t push(const std::string& kind, int64_t batch_size, const std::string& randomness,
             py::handle copies_views) {
  return push_layer(
      static_cast<LayerKind>(index_among(kKinds, kind, "expected a transform")), batch_size,
      static_cast<Randomness>(index_among(kRandomness, randomness, "randomness: expected")),
      truth(copies_views));
}
// nullptr for a tensor that is not functional, at whatever level.
Functional* functional_of(py::handle o) {
  if (!is_tensor(o.ptr())) return nullptr;
  const Tensor& t = tensor_of(o.ptr());
  const Wrapper* wrapper = wrapper_of(t);
  return wrapper ? functional_at(t, wrapper->level) : nullptr;
}
// The value and its batch dimension or None; the tensor itself if it is of another level.
py::object unwrapped(py::object given, int64_t level) {
  const Wrapper* wrapper = wrapper_at(given.cast<Tensor>(), level);
  if (!wrapper) return given;
  const auto dim = wrapper->batch_dim < 0 ? std::nullopt : std::optional(wrapper->batch_dim);
  Functional* const functional = functional_of(given);
  return py::make_tuple(functional ? updated(*functional) : wrapper->value, dim);
}
// (kind, level, batch size, randomness), or None outside of all transforms
py::object innermost() {
  const Layer* layer = innermost_layer();
  if (!layer) return py::none();
  return py::make_tuple(kKinds[static_cast<int>(layer->kind)], layer->level, layer->batch_size,
                        kRandomness[static_cast<int>(layer->randomness)]);
}
const Wrapper* live_wrapper(py::handle o) {
  if (!is_tensor(o.ptr())) return nullptr;
  const Wrapper* wrapper = wrapper_of(tensor_of(o.ptr()));
  return wrapper && !is_dead(*wrapper) ? wrapper : nullptr;
}

void add_functionalization(py::module_& m) {
  m.def("_make_functional", &make_functional);
  m.def("_is_functional", [](py::handle o) { return functional_of(o) != nullptr; });
  // Whether the tensor was written, or what it views.
  m.def("_was_written", [](py::handle o) {
    const Functional* const functional = functional_of(o);
    return functional && was_written(*functional);
  });
  m.def("_have_one_root", [](py::handle a, py::handle b) {
    const Functional *const one = functional_of(a), *const other = functional_of(b);
    return one && other && have_one_root(*one, *other);
  });
  m.def("_updated_value", [](py::handle o) {
    Functional* const functional = functional_of(o);
    check(functional, "_from_functional_tensor: expected a functional tensor, got an ordinary one");
    return updated(*functional);
  });
  // Returns the previous setting.
  m.def("_set_functionalization", [](py::handle on, py::handle copies_views) {
    return set_functionalization(truth(on), truth(copies_views));
  });
}

void add_transforms(py::module_& m) {
  warn_of_loop = warn;
  m.def("_push_layer", &push, "kind"_a, "batch_size"_a = -1, "randomness"_a = "error",
        "copies_views"_a = false);
  m.def("_pop_layer", &pop_layer);
  m.def("_transform_depth", &depth);
  m.def("_make_batched", &make_batched);
  m.def(
      "_make_tracked",
      [](const Tensor& tensor, int64_t level, py::handle requires_grad) {
        Tensor made = make_tracked(tensor, level);
        if (truth(requires_grad)) autograd::set_requires_grad(made, true);
        return made;
      },
      "tensor"_a, "level"_a, "requires_grad"_a = false);
  m.def("_innermost_layer", &innermost);
  // The call with the innermost layer left.
  m.def("_call_below", [](py::object function, py::args args) {
    const BelowLayer below;
    return function(*args);
  });
  m.def("_unwrap", &unwrapped);
  m.def("_unwrap_dead", [](const Tensor& tensor) { return without_dead(tensor); });
  m.def("_is_batched", [](py::handle o) {
    const Wrapper* wrapper = live_wrapper(o);
    return wrapper && wrapper->batch_dim >= 0;
  });
  m.def("_is_tracked", [](py::handle o) {
    const Wrapper* wrapper = live_wrapper(o);
    return wrapper && wrapper->batch_dim < 0 && !wrapper->is_functional;
  });
  // 0 for tensors that belong to no active layer.
  m.def("_wrapper_level", [](py::handle o) {
    const Wrapper* wrapper = live_wrapper(o);
    return wrapper ? wrapper->level : int64_t{0};
  });
  // Returns the previous setting.
  m.def("_set_loop_warnings",
        [](py::handle on) { return set_loop_warnings(on.is(py::handle(Py_True))); });
}

}  // namespace

PyObject* wrap_generator(Generator generator) {
  return py::cast(BoundGenerator{std::move(generator)}).release().ptr();
}
GeneratorImpl* generator_from(PyObject* o) {
  if (!PyObject_TypeCheck(o, generator_type)) return nullptr;
  const auto place = reinterpret_cast<py::detail::instance*>(o)->get_value_and_holder();
  check_type(place.holder_constructed(), "Generator.__init__() was not called");
  return static_cast<BoundGenerator*>(place.value_ptr())->impl.get();
}

void add_pybind_module(PyObject* module) {
  py::detail::ensure_internals();
  py::register_local_exception_translator(&translate);
  py::options options;
  options.disable_function_signatures();
  auto m = py::reinterpret_borrow<py::module_>(module);
  add_settings(m);
  add_memory(m);
  add_generator(m);
  add_autocast(m);
  add_transforms(m);
  add_functionalization(m);
}

}  // namespace flambeau::python
