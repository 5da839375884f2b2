#pragma once
// pybind11 for extensions: casters of Tensors and of the values around them, and errors of the
// type that a check names.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "api/namespaces.h"
#include "api/python_access.h"

namespace flambeau::api::python {

inline const PythonAccess& access() {
  static const PythonAccess* const table = [] {
    pybind11::module_::import("flambeau");
    void* const found = PyCapsule_Import(PythonAccess::kName, 0);
    if (!found) throw pybind11::error_already_set();
    const auto* const made = static_cast<const PythonAccess*>(found);
    c10::check(made->version == PythonAccess::kVersion, "extension: expected version ",
               PythonAccess::kVersion, " of the interface of flambeau, got ", made->version,
               "; compile it again");
    return made;
  }();
  return *table;
}

inline void translate(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error&) {
    access().set_error();
  } catch (const std::exception&) {
    throw;  // pybind11 knows it
  } catch (...) {
    access().set_error();  // an error of Python that passed through the library
  }
}

// What every module of an extension begins with.
inline void start_module() {
  access();
  const std::string errors = take_library_errors();
  if (!errors.empty()) throw std::runtime_error(errors);
  pybind11::register_local_exception_translator(&translate);
}

}  // namespace flambeau::api::python

namespace pybind11::detail {

// A caster over two functions of the table: `Get` reads into a `Stored`, `Wrap` makes an object.
template <typename T, typename Stored, auto Get, auto Wrap>
struct flambeau_caster {
  PYBIND11_TYPE_CASTER(T, const_name("object"));
  bool load(handle source, bool) {
    Stored found{};
    if (!(flambeau::api::python::access().*Get)(source.ptr(), &found)) return false;
    value = found;
    return true;
  }
  static handle cast(const Stored& stored, return_value_policy, handle) {
    return (flambeau::api::python::access().*Wrap)(stored);
  }
};

template <typename T>
struct flambeau_tensor_caster {
  PYBIND11_TYPE_CASTER(T, const_name("torch.Tensor"));
  bool load(handle source, bool) {
    const auto& access = flambeau::api::python::access();
    if (!access.is_tensor(source.ptr())) return false;
    value = access.tensor(source.ptr());
    return true;
  }
  static handle cast(const flambeau::Tensor& tensor, return_value_policy, handle) {
    return flambeau::api::python::access().wrap_tensor(tensor);
  }
};
template <>
struct type_caster<flambeau::api::Tensor> : flambeau_tensor_caster<flambeau::api::Tensor> {};
template <>
struct type_caster<flambeau::Tensor> : flambeau_tensor_caster<flambeau::Tensor> {};

using FlambeauAccess = flambeau::api::PythonAccess;
template <typename T>
struct flambeau_dtype_caster : flambeau_caster<T, flambeau::c10::ScalarType, &FlambeauAccess::dtype,
                                               &FlambeauAccess::wrap_dtype> {};
template <>
struct type_caster<flambeau::c10::ScalarType> : flambeau_dtype_caster<flambeau::c10::ScalarType> {};
template <>
struct type_caster<flambeau::api::ScalarType> : flambeau_dtype_caster<flambeau::api::ScalarType> {};
template <typename T>
struct flambeau_device_caster : flambeau_caster<T, flambeau::c10::Device, &FlambeauAccess::device,
                                                &FlambeauAccess::wrap_device> {};
template <>
struct type_caster<flambeau::c10::Device> : flambeau_device_caster<flambeau::c10::Device> {};
template <>
struct type_caster<flambeau::api::Device> : flambeau_device_caster<flambeau::api::Device> {};
template <typename T>
struct flambeau_scalar_caster : flambeau_caster<T, flambeau::c10::Scalar, &FlambeauAccess::number,
                                                &FlambeauAccess::wrap_number> {};
template <>
struct type_caster<flambeau::c10::Scalar> : flambeau_scalar_caster<flambeau::c10::Scalar> {};
template <>
struct type_caster<flambeau::api::Scalar> : flambeau_scalar_caster<flambeau::api::Scalar> {};
template <>
struct type_caster<flambeau::c10::Layout>
    : flambeau_caster<flambeau::c10::Layout, flambeau::c10::Layout, &FlambeauAccess::layout,
                      &FlambeauAccess::wrap_layout> {};
template <>
struct type_caster<flambeau::c10::MemoryFormat>
    : flambeau_caster<flambeau::c10::MemoryFormat, flambeau::c10::MemoryFormat,
                      &FlambeauAccess::memory_format, &FlambeauAccess::wrap_memory_format> {};
template <>
struct type_caster<flambeau::c10::Generator>
    : flambeau_caster<flambeau::c10::Generator, flambeau::c10::Generator,
                      &FlambeauAccess::generator, &FlambeauAccess::wrap_generator> {};

// A view of a list that lives as long as the call.
template <typename T>
struct type_caster<flambeau::c10::ArrayRef<T>> {
  using List = list_caster<std::vector<T>, T>;
  static constexpr auto name = List::name;
  template <typename>
  using cast_op_type = flambeau::c10::ArrayRef<T>;
  bool load(handle source, bool convert) {
    if constexpr (std::is_integral_v<T>) {
      if (isinstance<int_>(source)) {
        one_.assign(1, source.cast<T>());
        return true;
      }
    }
    is_list_ = list_.load(source, convert);
    return is_list_;
  }
  operator flambeau::c10::ArrayRef<T>() {  // NOLINT(google-explicit-constructor)
    return is_list_ ? static_cast<std::vector<T>&>(list_) : one_;
  }
  static handle cast(flambeau::c10::ArrayRef<T> list, return_value_policy policy, handle parent) {
    return List::cast(list.vec(), policy, parent);
  }

 private:
  List list_;
  std::vector<T> one_;
  bool is_list_ = false;
};

}  // namespace pybind11::detail

namespace torch {
namespace py = ::pybind11;

// A function as PYBIND11_MODULE binds it; errors of C++ become Python's in every case.
template <typename F>
F&& wrap_pybind_function(F&& f) {
  return static_cast<F&&>(f);
}
// The same, run without the GIL.
template <typename R, typename... Args>
auto wrap_pybind_function_no_gil(R (&f)(Args...)) {
  return [&f](Args... args) -> R {
    const pybind11::gil_scoped_release released;
    return f(static_cast<Args&&>(args)...);
  };
}
}  // namespace torch
namespace py = ::pybind11;

#undef PYBIND11_MODULE
#define PYBIND11_MODULE(name, variable, ...)                                 \
  static void PYBIND11_CONCAT(flambeau_module_, name)(::pybind11::module_&); \
  PYBIND11_MODULE_PYINIT(name __VA_OPT__(, ) __VA_ARGS__)                    \
  PYBIND11_MODULE_EXEC(name, flambeau_module) {                              \
    ::flambeau::api::python::start_module();                                 \
    PYBIND11_CONCAT(flambeau_module_, name)(flambeau_module);                \
  }                                                                          \
  void PYBIND11_CONCAT(flambeau_module_, name)(::pybind11::module_ & variable)
