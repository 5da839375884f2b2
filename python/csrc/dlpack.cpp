// DLPack, version 0.8 layout (github.com/dmlc/dlpack, include/dlpack/dlpack.h).
#include "aten/core/shape.h"
#include "python/csrc/arg_parser.h"
#include "python/csrc/data.h"
#include "python/csrc/transforms.h"

namespace flambeau::python {
namespace {

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
constexpr int32_t kDLCPU = 1;
enum : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};
constexpr const char* kFresh = "dltensor";
constexpr const char* kUsed = "used_dltensor";

DLDataType type_of(ScalarType t) {
  uint8_t code = kDLInt;
  if (is_floating_type(t)) code = t == ScalarType::BFloat16 ? kDLBfloat : kDLFloat;
  if (is_complex_type(t)) code = kDLComplex;
  if (is_integral_type(t, false) && !is_signed_type(t)) code = kDLUInt;
  if (t == ScalarType::Bool) code = kDLBool;
  return {code, static_cast<uint8_t>(8 * element_size(t)), 1};
}
ScalarType scalar_type_of_dl(DLDataType wanted) {
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto t = static_cast<ScalarType>(i);
    const DLDataType mine = type_of(t);
    if (mine.code == wanted.code && mine.bits == wanted.bits && wanted.lanes == 1) return t;
  }
  fail(ErrorKind::Runtime, "from_dlpack: unsupported dtype (code ", int64_t{wanted.code}, ", bits ",
       int64_t{wanted.bits}, ", lanes ", int64_t{wanted.lanes}, ")");
}

struct Export {
  DLManagedTensor managed;
  Tensor tensor;
  DimVector sizes;
  DimVector strides;
};

void destroy_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh)) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  if (managed && managed->deleter) managed->deleter(managed);
}

}  // namespace

PyObject* to_dlpack(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  return guarded([&] {
    const Tensor& t = readable(self);
    if (tensor_of(self).requires_grad()) {
      PyErr_SetString(PyExc_BufferError, "DLPack: the tensor requires grad; export its detach()");
      throw PythonError();
    }
    if (t.is_conj() || t.is_neg()) {
      PyErr_SetString(PyExc_BufferError,
                      "DLPack: the tensor is a view with its conjugate or negative bit set; export "
                      "its resolve_conj() or resolve_neg()");
      throw PythonError();
    }
    if (!t.is_cpu()) {
      PyErr_SetString(PyExc_BufferError, "DLPack export is offered for tensors on the CPU");
      throw PythonError();
    }
    auto held = std::make_unique<Export>();
    held->tensor = t;
    held->sizes = DimVector(t.sizes());
    held->strides = DimVector(t.strides());
    held->managed.dl_tensor = {t.data(),
                               {kDLCPU, 0},
                               static_cast<int32_t>(t.dim()),
                               type_of(t.dtype()),
                               held->sizes.data(),
                               held->strides.data(),
                               0};
    held->managed.manager_ctx = held.get();
    held->managed.deleter = [](DLManagedTensor* managed) {
      delete static_cast<Export*>(managed->manager_ctx);
    };
    PyObject* capsule = PyCapsule_New(&held->managed, kFresh, &destroy_unused);
    if (capsule) static_cast<void>(held.release());
    return capsule;
  });
}

PyObject* dlpack_device(PyObject*, PyObject*) { return Py_BuildValue("(ii)", kDLCPU, 0); }

PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
    if (!managed) {
      PyErr_Clear();
      fail(ErrorKind::Runtime,
           "from_dlpack: expected a capsule named 'dltensor' that was not consumed before");
    }
    const DLTensor& dl = managed->dl_tensor;
    check(dl.device.device_type == kDLCPU,
          "from_dlpack: expected memory of the host, got DLPack device type ",
          int64_t{dl.device.device_type});
    const ScalarType dtype = scalar_type_of_dl(dl.dtype);
    const DimVector sizes(IntArrayRef(dl.shape, static_cast<size_t>(dl.ndim)));
    const DimVector strides = dl.strides
                                  ? DimVector(IntArrayRef(dl.strides, static_cast<size_t>(dl.ndim)))
                                  : contiguous_strides(sizes);
    for (const int64_t s : strides)
      check(s >= 0, "from_dlpack: negative strides are not supported");
    const size_t bytes = static_cast<size_t>(extent_of(sizes, strides)) * element_size(dtype);
    const auto release = [](void* context) {
      auto* held = static_cast<DLManagedTensor*>(context);
      if (held->deleter) held->deleter(held);
    };
    Storage storage = make_intrusive<StorageImpl>(static_cast<char*>(dl.data) + dl.byte_offset,
                                                  bytes, Device(DeviceType::CPU), release, managed);
    checked(PyCapsule_SetName(capsule, kUsed));
    Tensor t(make_intrusive<TensorImpl>(std::move(storage), dtype, Device(DeviceType::CPU)));
    t.impl()->set_geometry(sizes, strides, 0);
    return wrap(std::move(t));
  });
}

}  // namespace flambeau::python
