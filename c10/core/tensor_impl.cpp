#include "c10/core/tensor_impl.h"

#include <algorithm>

#include "c10/core/small_blocks.h"
#include "c10/core/wrapper_data.h"

namespace flambeau::c10 {

void (*release_py_object)(void* object) = nullptr;

TensorImpl::TensorImpl(Storage storage, ScalarType dtype, Device device)
    : storage_(std::move(storage)),
      keys_(backend_key(device.type)),
      device_(device),
      dtype_(dtype) {
  numel_ = 1;
}

TensorImpl::~TensorImpl() { TensorImpl::release_resources(); }

void* TensorImpl::operator new(size_t bytes) { return small_blocks::allocate(bytes); }
void TensorImpl::operator delete(void* p, size_t bytes) { small_blocks::deallocate(p, bytes); }

void TensorImpl::release_resources() {
  if (py_slot_.owned_by_impl && release_py_object) {
    py_slot_.owned_by_impl = false;
    release_py_object(std::exchange(py_slot_.object, nullptr));
  }
  set_autograd_meta(nullptr);
  wrapper_.reset();
  storage_.reset();
}

namespace {

// The last check of sizes of any origin: none negative, and their product counts.
int64_t count_elements(IntArrayRef sizes) {
  int64_t n = 1;
  bool overflow = false, negative = false, empty = false;
  for (const int64_t s : sizes) {
    negative |= s < 0;
    empty |= s == 0;
    overflow |= __builtin_mul_overflow(n, s, &n);
  }
  if (negative) [[unlikely]]
    fail(ErrorKind::Runtime, "negative dimension in shape ", sizes);
  if (empty) return 0;
  if (overflow) [[unlikely]]
    fail(ErrorKind::Runtime, "numel: integer multiplication overflow, got sizes ", sizes);
  return n;
}

// Whether walking the dimensions in `order` (innermost first) meets row-major strides.
bool strides_follow(IntArrayRef sizes, IntArrayRef strides, ArrayRef<int64_t> order) {
  int64_t expected = 1;
  for (const int64_t d : order) {
    const size_t i = static_cast<size_t>(d);
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace

void* (*wrapper_data)(const TensorImpl& wrapper) = nullptr;

void* TensorImpl::no_data() const {
  if (wrapper_ && wrapper_data && numel_ > 0) {
    if (void* const data = wrapper_data(*this)) return data;
  }
  check(numel_ == 0 || !wrapper_,
        "vmap: .item() and other reads of elements expect an unbatched Tensor, got a batched one, "
        "which has a value per entry of the batch");
  check(numel_ == 0 || device_.type != DeviceType::PrivateUse1,
        "expected a tensor in the memory of the host, got one on ", device_, "; cpu() copies it");
  check(numel_ == 0, "Cannot access data pointer of a tensor on ", device_,
        " that doesn't have storage for its ", numel_, " elements");
  return nullptr;
}

void TensorImpl::set_contiguous_sizes(IntArrayRef sizes) {
  const int64_t numel = count_elements(sizes);
  geometry_.set_contiguous(sizes);
  numel_ = numel;
  contiguous_ = true;
}

void TensorImpl::set_geometry(IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset) {
  const int64_t numel = count_elements(sizes);
  geometry_.set(sizes, strides);
  storage_offset_ = storage_offset;
  numel_ = numel;
  refresh_flags();
}

void TensorImpl::refresh_flags() {
  contiguous_ = true;
  if (numel_ == 0) return;
  int64_t expected = 1;
  for (size_t d = geometry_.dim(); d-- > 0;) {
    const int64_t size = geometry_.size(d);
    if (size == 1) continue;
    if (geometry_.stride(d) != expected) {
      contiguous_ = false;
      return;
    }
    expected *= size;
  }
}

bool TensorImpl::is_contiguous(MemoryFormat format) const {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      return dim() == 4 && (numel_ == 0 || strides_follow(sizes(), strides(), {1, 3, 2, 0}));
    case MemoryFormat::ChannelsLast3d:
      return dim() == 5 && (numel_ == 0 || strides_follow(sizes(), strides(), {1, 4, 3, 2, 0}));
    default:
      return contiguous_;
  }
}

bool TensorImpl::is_non_overlapping_and_dense() const {
  if (contiguous_) return true;
  DimVector order(geometry_.dim());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  const IntArrayRef steps = strides();
  const IntArrayRef extents = sizes();
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const size_t i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    // Dimensions of size 1 may carry any stride: they go first and are skipped.
    if ((extents[i] == 1) != (extents[j] == 1)) return extents[i] == 1;
    return steps[i] < steps[j];
  });
  return strides_follow(extents, steps, order);
}

void TensorImpl::shallow_copy_from(const TensorImpl& other) {
  storage_ = other.storage_;
  geometry_ = other.geometry_;
  storage_offset_ = other.storage_offset_;
  numel_ = other.numel_;
  contiguous_ = other.contiguous_;
  device_ = other.device_;
  dtype_ = other.dtype_;
  const DispatchKeySet taken = kBackendKeys | kLazyKeys;
  keys_ = (keys_ - taken) | (other.keys_ & taken);
}

}  // namespace flambeau::c10
