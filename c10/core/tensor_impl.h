#pragma once
// The object behind a Tensor handle: storage, geometry, dtype, dispatch keys, autograd and Python
// slots.
#include <atomic>
#include <memory>

#include "c10/core/dispatch_key.h"
#include "c10/core/scalar_type.h"
#include "c10/core/sizes_and_strides.h"
#include "c10/core/storage.h"

namespace flambeau::c10 {

class TensorImpl;

// What autograd hangs on a tensor; the concrete type lives in aten/autograd, which core does not
// know.
struct AutogradMetaBase {
  virtual ~AutogradMetaBase() = default;
};

// The Python object of a tensor, at most one. Normally the object owns the TensorImpl; when the
// last Python reference goes while C++ still holds the tensor, the binding flips the ownership so
// that the same object (and its attributes) comes back on the next visit to Python.
struct PyObjectSlot {
  void* object = nullptr;
  bool owned_by_impl = false;
};
// What makes a tensor stand for another one: a function transform's batched or tracked tensor. The
// concrete type lives in aten/transforms.
struct WrapperBase : RefCounted {};
// The version counter of what `.data` gives or takes, and of the views of it.
struct VersionCounter final : RefCounted {
  explicit VersionCounter(uint32_t start) : count(start) {}
  std::atomic<uint32_t> count;
};
// Set once by the binding; called (with the GIL taken inside) when an impl that owns its object
// dies.
extern void (*release_py_object)(void* object);

class TensorImpl final : public RefCounted {
 public:
  TensorImpl(Storage storage, ScalarType dtype, Device device);
  ~TensorImpl() override;
  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);

  IntArrayRef sizes() const { return geometry_.sizes(); }
  IntArrayRef strides() const { return geometry_.strides(); }
  int64_t dim() const { return static_cast<int64_t>(geometry_.dim()); }
  int64_t numel() const { return numel_; }
  int64_t storage_offset() const { return storage_offset_; }
  ScalarType dtype() const { return dtype_; }
  Device device() const { return device_; }
  DispatchKeySet keys() const { return keys_; }
  const Storage& storage() const { return storage_; }
  bool is_contiguous() const { return contiguous_; }
  // Whether the elements fill one block without gaps or overlap, in any order of dimensions.
  bool is_non_overlapping_and_dense() const;
  bool is_contiguous(MemoryFormat format) const;

  // Address of element 0. nullptr for tensors without elements; RuntimeError where elements have no
  // memory (Meta, a storage resized to nothing).
  void* data() const {
    char* const base = static_cast<char*>(storage_->data());
    if (!base) [[unlikely]]
      return no_data();
    return base + storage_offset_ * static_cast<int64_t>(element_size(dtype_));
  }

  void set_contiguous_sizes(IntArrayRef sizes);
  void set_geometry(IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset);
  void set_storage(Storage storage) { storage_ = std::move(storage); }
  void set_dtype(ScalarType dtype) { dtype_ = dtype; }
  void set_device(Device d) { device_ = d; }
  void add_keys(DispatchKeySet keys) { keys_ = keys_ | keys; }
  void remove_keys(DispatchKeySet keys) { keys_ = keys_ - keys; }

  // The counter behind the in-place check. Views share it through the storage; a tensor detached
  // from it by `.data` or `.data =` has another one, which its views take over.
  uint32_t version() const {
    return own_version_ ? own_version_->count.load(std::memory_order_relaxed) : storage_->version();
  }
  void bump_version() {
    if (own_version_) {
      own_version_->count.fetch_add(1, std::memory_order_relaxed);
    } else {
      storage_->bump_version();
    }
  }
  void detach_version_counter(uint32_t start) {
    own_version_ = make_intrusive<VersionCounter>(start);
  }
  void share_version_counter(const TensorImpl& other) { own_version_ = other.own_version_; }

  // 0-dim tensor made from a Python number: it takes part in promotion by category only.
  bool is_wrapped_number() const { return wrapped_number_; }
  void set_wrapped_number(bool value) { wrapped_number_ = value; }
  bool is_inference() const { return inference_; }
  void set_inference(bool value) { inference_ = value; }

  AutogradMetaBase* autograd_meta() const { return autograd_meta_.load(std::memory_order_acquire); }
  void set_autograd_meta(std::unique_ptr<AutogradMetaBase> meta) {
    const AutogradMetaBase* replaced = autograd_meta_.load(std::memory_order_relaxed);
    autograd_meta_.store(meta.release(), std::memory_order_release);
    delete replaced;
  }
  // Threads that take views of one tensor may both want to give it its metadata: the first does.
  AutogradMetaBase* offer_autograd_meta(std::unique_ptr<AutogradMetaBase> meta) {
    AutogradMetaBase* present = nullptr;
    const bool first =
        autograd_meta_.compare_exchange_strong(present, meta.get(), std::memory_order_acq_rel);
    return first ? meta.release() : present;
  }

  PyObjectSlot& py_slot() { return py_slot_; }

  // nullptr for all tensors but those that a function transform made.
  WrapperBase* wrapper() const { return wrapper_.get(); }
  void set_wrapper(intrusive_ptr<WrapperBase> wrapper) { wrapper_ = std::move(wrapper); }

  // Takes over storage, geometry, dtype, device and backend key of `other` (Tensor.data = ...,
  // set_).
  void shallow_copy_from(const TensorImpl& other);

 private:
  void release_resources() override;
  void* no_data() const;
  void refresh_flags();

  Storage storage_;
  std::atomic<AutogradMetaBase*> autograd_meta_ = nullptr;  // owned
  PyObjectSlot py_slot_;
  intrusive_ptr<WrapperBase> wrapper_;
  intrusive_ptr<VersionCounter> own_version_;  // null: the storage's
  SizesAndStrides geometry_;
  int64_t storage_offset_ = 0;
  int64_t numel_ = 0;
  DispatchKeySet keys_;
  Device device_;
  ScalarType dtype_;
  bool contiguous_ = true;
  bool wrapped_number_ = false;
  bool inference_ = false;
};

}  // namespace flambeau::c10
