// Tensors from nested Python data.
#include "python/csrc/data.h"

#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "python/csrc/arg_parser.h"

namespace flambeau::python {
namespace {

bool is_sequence(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o) ||
         (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o) &&
          !is_number(o));
}
bool is_array(PyObject* o) {
  return !is_tensor(o) && !is_number(o) && PyObject_HasAttrString(o, "__array_interface__");
}
Tensor tensor_of_array(PyObject* array) {
  const Ref wrapped = Ref::checked(from_array_interface(nullptr, array));
  return tensor_of(wrapped.get());
}

// What one pass over the data finds out: its shape, and the category of its numbers.
struct Survey {
  DimVector sizes;
  ScalarType dtype = ScalarType::Undefined;

  void join(ScalarType t) { dtype = dtype == ScalarType::Undefined ? t : promote_types(dtype, t); }
  void visit(PyObject* o, size_t depth) {
    check_value(depth < 64, "too many dimensions: nested sequences deeper than 64");
    if (is_tensor(o)) {
      leaf(tensor_of(o).sizes(), depth);
      join(tensor_of(o).dtype());
    } else if (is_array(o)) {
      const Tensor t = tensor_of_array(o);
      leaf(t.sizes(), depth);
      join(t.dtype());
    } else if (is_sequence(o)) {
      const Ref items = Ref::checked(PySequence_Fast(o, "expected a sequence"));
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
      length(n, depth);
      for (Py_ssize_t i = 0; i < n; ++i) visit(PySequence_Fast_GET_ITEM(items.get(), i), depth + 1);
    } else {
      check_type(is_number(o), "new(): invalid data type '", Py_TYPE(o)->tp_name, "'");
      leaf({}, depth);
      join(scalar_from_unbounded(o).dtype());
    }
  }

 private:
  bool closed_ = false;

  static Scalar scalar_from_unbounded(PyObject* o) {
    return PyLong_Check(o) && !PyBool_Check(o) ? Scalar(int64_t{0}) : scalar_from(o);
  }
  void length(Py_ssize_t n, size_t depth) {
    if (depth == sizes.size() && !closed_) {
      sizes.push_back(n);
      return;
    }
    check_value(depth < sizes.size() && sizes[depth] == n, "expected sequence of length ",
                depth < sizes.size() ? sizes[depth] : 0, " at dim ", int64_t(depth), " (got ",
                int64_t{n}, ")");
  }
  void leaf(IntArrayRef inner, size_t depth) {
    if (!closed_) {
      check_value(depth == sizes.size(), "expected nested sequences of equal depth");
      for (const int64_t n : inner) sizes.push_back(n);
      closed_ = true;
      return;
    }
    check_value(depth + inner.size() == sizes.size(), "expected nested sequences of equal depth");
    for (size_t i = 0; i < inner.size(); ++i) {
      check_value(sizes[depth + i] == inner[i], "expected sequence of length ", sizes[depth + i],
                  " at dim ", int64_t(depth + i), " (got ", inner[i], ")");
    }
  }
};

void fill(PyObject* o, const Tensor& out, size_t depth, char* data) {
  const size_t width = element_size(out.dtype());
  if (is_tensor(o) || is_array(o)) {
    const Tensor source = is_tensor(o) ? tensor_of(o) : tensor_of_array(o);
    Tensor part(make_intrusive<TensorImpl>(out.storage(), out.dtype(), out.device()));
    part.impl()->set_geometry(
        source.sizes(), contiguous_strides(source.sizes()),
        (data - static_cast<char*>(out.storage()->data())) / static_cast<int64_t>(width));
    copy_into(part, source);
    return;
  }
  if (depth == out.sizes().size()) {
    const Scalar value = scalar_from(o);
    check_type(!value.is_complex() || is_complex_type(out.dtype()), "can't convert complex to ",
               out.dtype());
    check_value(value.tag() != Scalar::Tag::UInt || out.dtype() != ScalarType::Int64,
                "Overflow when unpacking long long: ", value, " needs dtype uint64");
    if (is_integral_type(out.dtype(), false) && value.is_integral(true)) {
      dispatch_integral(out.dtype(), "tensor",
                        [&]<typename T>() { static_cast<void>(value.to<T>()); });
    }
    value.store(out.dtype(), data);
    return;
  }
  const Ref items = Ref::checked(PySequence_Fast(o, "expected a sequence"));
  const auto step = static_cast<int64_t>(width) * out.strides()[depth];
  check_value(PySequence_Fast_GET_SIZE(items.get()) == out.sizes()[depth],
              "the data changed while it was read");
  for (int64_t i = 0; i < out.sizes()[depth]; ++i) {
    fill(PySequence_Fast_GET_ITEM(items.get(), i), out, depth + 1, data + i * step);
  }
}

}  // namespace

Tensor tensor_from_data(PyObject* data, ScalarType dtype, Device device) {
  if (is_tensor(data) || is_array(data)) {
    const Tensor source = is_tensor(data) ? tensor_of(data) : tensor_of_array(data);
    const ScalarType wanted = dtype == ScalarType::Undefined ? source.dtype() : dtype;
    Tensor out = empty_tensor(source.sizes(), wanted, device);
    if (!device.is_meta()) copy_into(out, source);
    return out;
  }
  Survey survey;
  survey.visit(data, 0);
  if (survey.dtype == ScalarType::Undefined) survey.dtype = default_dtype();
  if (dtype == ScalarType::Undefined) dtype = survey.dtype;
  Tensor out =
      empty_tensor(survey.sizes, dtype, device.is_meta() ? Device(DeviceType::CPU) : device);
  if (out.numel() > 0) fill(data, out, 0, static_cast<char*>(out.data()));
  return device.is_meta() ? empty_tensor(survey.sizes, dtype, device) : out;
}

}  // namespace flambeau::python
