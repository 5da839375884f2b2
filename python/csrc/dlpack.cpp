// DLPack in its two layouts, before and since version 1.0 (github.com/dmlc/dlpack,
// include/dlpack/dlpack.h). The newer one carries a version and flags.
#include <memory>

#include "aten/core/shape.h"
#include "aten/core/sparse.h"
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

  static constexpr const char* kFresh = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};
struct DLManagedTensorVersioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;

  static constexpr const char* kFresh = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};
constexpr uint32_t kMajorVersion = 1, kMinorVersion = 0;
constexpr uint64_t kIsCopied = 2;
constexpr int32_t kDLCPU = 1;
enum : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
  kDLFloat8E4M3FN = 10,
  kDLFloat8E4M3FNUZ = 11,
  kDLFloat8E5M2 = 12,
  kDLFloat8E5M2FNUZ = 13,
  kDLFloat8E8M0FNU = 14,
  kDLFloat4E2M1FN = 17
};

DLDataType type_of(ScalarType t) {
  switch (t) {
    case ScalarType::Float8E4M3FN:
      return {kDLFloat8E4M3FN, 8, 1};
    case ScalarType::Float8E4M3FNUZ:
      return {kDLFloat8E4M3FNUZ, 8, 1};
    case ScalarType::Float8E5M2:
      return {kDLFloat8E5M2, 8, 1};
    case ScalarType::Float8E5M2FNUZ:
      return {kDLFloat8E5M2FNUZ, 8, 1};
    case ScalarType::Float8E8M0FNU:
      return {kDLFloat8E8M0FNU, 8, 1};
    case ScalarType::Float4E2M1FNx2:
      return {kDLFloat4E2M1FN, 4, 2};
    default:
      break;
  }
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
    if (mine.code == wanted.code && mine.bits == wanted.bits && mine.lanes == wanted.lanes)
      return t;
  }
  fail(ErrorKind::Runtime, "from_dlpack: expected a dtype of flambeau, got an unsupported dtype ",
       "(code ", int64_t{wanted.code}, ", bits ", int64_t{wanted.bits}, ", lanes ",
       int64_t{wanted.lanes}, ")");
}

[[noreturn]] void fail_export(const char* reason) {
  PyErr_SetString(PyExc_BufferError, reason);
  throw PythonError();
}

// --- export --------------------------------------------------------------------------------------

template <typename Managed>
struct Export {
  Managed managed{};
  SharedMemory memory;
  DimVector sizes;
  DimVector strides;

  explicit Export(const Tensor& t) : memory(t.storage()), sizes(t.sizes()), strides(t.strides()) {
    managed.dl_tensor = {t.numel() ? t.data() : nullptr,
                         {kDLCPU, 0},
                         static_cast<int32_t>(t.dim()),
                         type_of(t.dtype()),
                         sizes.data(),
                         strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->manager_ctx); };
  }
};

template <typename Managed>
void destroy_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::kFresh)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kFresh));
  if (managed && managed->deleter) managed->deleter(managed);
}

template <typename Managed>
PyObject* capsule_of(std::unique_ptr<Export<Managed>> held) {
  PyObject* capsule = PyCapsule_New(&held->managed, Managed::kFresh, &destroy_unused<Managed>);
  if (capsule) static_cast<void>(held.release());
  return capsule;
}

// --- import --------------------------------------------------------------------------------------

template <typename Managed>
void release(void* context) {
  auto* held = static_cast<Managed*>(context);
  if (held->deleter) held->deleter(held);
}

template <typename Managed>
Tensor tensor_of_capsule(PyObject* capsule) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kFresh));
  if (!managed) throw PythonError();
  const DLTensor& dl = managed->dl_tensor;
  check(dl.device.device_type == kDLCPU, "from_dlpack: expected memory of the host, got DLPack ",
        "device type ", int64_t{dl.device.device_type});
  check(dl.ndim >= 0 && (dl.ndim == 0 || dl.shape),
        "from_dlpack: expected a capsule with a shape, got one without");
  const ScalarType dtype = scalar_type_of_dl(dl.dtype);
  const DimVector sizes(IntArrayRef(dl.shape, static_cast<size_t>(dl.ndim)));
  numel_of(sizes);
  const DimVector strides = dl.strides
                                ? DimVector(IntArrayRef(dl.strides, static_cast<size_t>(dl.ndim)))
                                : contiguous_strides(sizes);
  for (const int64_t s : strides)
    check(s >= 0, "from_dlpack: expected strides of 0 or more, got ", s);
  char* data = static_cast<char*>(dl.data);
  if (data) data += dl.byte_offset;
  checked(PyCapsule_SetName(capsule, Managed::kUsed));  // its memory is ours from here on
  return tensor_over(data, sizes, strides, dtype, &release<Managed>, managed);
}

Tensor tensor_of_versioned(PyObject* capsule) {
  using Managed = DLManagedTensorVersioned;
  const auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kFresh));
  if (!managed) throw PythonError();
  if (managed->version.major > kMajorVersion) {
    fail_export("from_dlpack: the capsule's DLPack version is newer than 1.x");
  }
  return tensor_of_capsule<Managed>(capsule);
}

}  // namespace

// _to_dlpack(versioned, copied)
PyObject* to_dlpack(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    int versioned, copied;
    if (!PyArg_ParseTuple(args, "pp", &versioned, &copied)) return nullptr;
    const Tensor& t = readable(self);
    if (tensor_of(self).requires_grad())
      fail_export("DLPack: the tensor requires grad; export its detach()");
    if (t.is_conj() || t.is_neg()) {
      fail_export(
          "DLPack: the tensor is a view with its conjugate or negative bit set; export its "
          "resolve_conj() or resolve_neg()");
    }
    if (is_sparse(t)) fail_export("DLPack: sparse tensors have no memory; export to_dense()");
    if (!t.is_cpu()) fail_export("DLPack export is offered for tensors on the CPU");
    if (!versioned) return capsule_of(std::make_unique<Export<DLManagedTensor>>(t));
    auto held = std::make_unique<Export<DLManagedTensorVersioned>>(t);
    held->managed.version = {kMajorVersion, kMinorVersion};
    held->managed.flags = copied ? kIsCopied : 0;
    return capsule_of(std::move(held));
  });
}

PyObject* dlpack_device(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Device device = tensor_of(self).device();
    check_value(device.is_cpu(), "__dlpack__: expected a tensor on the CPU, got one on ", device);
    return Py_BuildValue("(ii)", kDLCPU, 0);
  });
}

PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    if (PyCapsule_IsValid(capsule, DLManagedTensorVersioned::kFresh))
      return wrap(tensor_of_versioned(capsule));
    check(
        PyCapsule_IsValid(capsule, DLManagedTensor::kFresh),
        "from_dlpack: expected an object with __dlpack__ or an unused capsule, got another object "
        "or a capsule that was consumed before; each one can be used once");
    return wrap(tensor_of_capsule<DLManagedTensor>(capsule));
  });
}

}  // namespace flambeau::python
