#pragma once
// The Tensor of the public interface: the operators as methods (generated) and what C++ code asks
// of memory and autograd. It has no data of its own, so that it may stand for the library's Tensor.
#include "api/accessor.h"
#include "api/dispatch_keys.h"
#include "api/maybe_owned.h"
#include "torchgen_out/api/methods.h"

namespace flambeau::api {

struct TensorIndex;

class Tensor : public Methods<Tensor> {
 public:
  using Methods::Methods;
  Tensor() = default;
  Tensor(flambeau::Tensor tensor) : Methods(tensor.take_impl()) {}  // NOLINT

  // --- geometry and dtype
  // IndexError for a dimension that does not exist.
  int64_t size(int64_t d) const { return sizes()[place_of(d)]; }
  int64_t stride(int64_t d) const { return strides()[place_of(d)]; }
  int64_t ndimension() const { return dim(); }
  api::ScalarType scalar_type() const { return flambeau::Tensor::dtype(); }
  api::ScalarType dtype() const { return flambeau::Tensor::dtype(); }
  api::ScalarType type() const { return flambeau::Tensor::dtype(); }
  api::Device device() const { return flambeau::Tensor::device(); }
  int64_t get_device() const { return device().index(); }
  size_t itemsize() const { return c10::element_size(flambeau::Tensor::dtype()); }
  int64_t element_size() const { return static_cast<int64_t>(itemsize()); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * itemsize(); }
  bool is_sparse() const { return layout() == Layout::SparseCoo; }
  bool has_storage() const { return defined(); }
  uint32_t use_count() const { return impl() ? impl()->use_count() : 0; }
  bool is_alias_of(const Tensor& o) const { return storage() == o.storage(); }
  TensorOptions options() const {
    return TensorOptions(flambeau::Tensor::dtype()).device(device()).layout(layout());
  }
  // With Autograd, whether or not the tensor requires a gradient.
  DispatchKeySet key_set() const { return keys() | c10::DispatchKey::Autograd; }
  std::string toString() const;

  // --- memory: RuntimeError for another dtype than the tensor's
  void* data_ptr() const {
    writable();
    return impl()->data();
  }
  template <typename T>
  T* data_ptr() const {
    check_dtype<T>("data_ptr");
    if constexpr (!std::is_const_v<T>) writable();
    return static_cast<T*>(memory());
  }
  const void* const_data_ptr() const { return impl()->data(); }
  template <typename T>
  const T* const_data_ptr() const {
    check_dtype<T>("const_data_ptr");
    return static_cast<const T*>(memory());
  }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <typename T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    return {accessed<T>(N), sizes().data(), strides().data()};
  }
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits,
            typename Index = int64_t>
  PackedTensorAccessor<T, N, Traits, Index> packed_accessor() const& {
    return {accessed<T>(N), sizes().data(), strides().data()};
  }
  template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const& {
    return packed_accessor<T, N, Traits, int32_t>();
  }
  template <typename T, size_t N, template <typename> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const& {
    return packed_accessor<T, N, Traits, int64_t>();
  }

  // The tensor itself if it has the format, which it must then outlive; otherwise a copy that has.
  MaybeOwned<Tensor> expect_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const&;
  MaybeOwned<Tensor> expect_contiguous(MemoryFormat format = MemoryFormat::Contiguous) && = delete;

  // --- conversion
  using Methods::item;
  template <typename T>
  T item() const {
    return item().template to<T>();
  }
  using Methods::to;
  Tensor to(c10::ScalarType type, bool non_blocking = false, bool copy = false) const {
    return Methods::to(type, non_blocking, copy, std::nullopt);
  }
  Tensor to(api::ScalarType type, bool non_blocking = false, bool copy = false) const {
    return to(type.value, non_blocking, copy);
  }
  Tensor to(c10::Device where, bool non_blocking = false, bool copy = false) const {
    return Methods::to(std::optional<c10::Device>(where), std::nullopt, non_blocking, copy);
  }
  Tensor to(DeviceType where, bool non_blocking = false, bool copy = false) const {
    return to(c10::Device(where), non_blocking, copy);
  }
  Tensor to(c10::Device where, c10::ScalarType type, bool non_blocking = false,
            bool copy = false) const {
    return Methods::to(std::optional<c10::Device>(where), std::optional<c10::ScalarType>(type),
                       non_blocking, copy);
  }
  Tensor cpu() const { return to(DeviceType::CPU); }
  Tensor cuda() const { return to(DeviceType::CUDA); }
  Tensor toType(c10::ScalarType type) const { return to(type); }

  // --- elements
  Tensor operator[](int64_t i) const;  // IndexError for an index out of range
  Tensor operator[](const Tensor& i) const;
  Tensor slice(int64_t dim = 0, std::optional<int64_t> start = std::nullopt,
               std::optional<int64_t> end = std::nullopt, int64_t step = 1) const {
    return ops::slice_Tensor::call(*this, dim, start, end, step);
  }
  Tensor index(ArrayRef<TensorIndex> indices) const;
  Tensor index(const std::initializer_list<TensorIndex>& indices) const;
  Tensor& index_put_(ArrayRef<TensorIndex> indices, const flambeau::Tensor& value);
  Tensor& index_put_(const std::initializer_list<TensorIndex>& indices,
                     const flambeau::Tensor& value);
  Tensor& index_put_(const std::initializer_list<TensorIndex>& indices, const Scalar& value);

  // --- autograd
  Tensor grad() const { return autograd::grad_of(*this); }
  void set_grad(const flambeau::Tensor& grad) const { autograd::set_grad(*this, grad); }
  bool requires_grad() const { return autograd::requires_grad(*this); }
  const Tensor& set_requires_grad(bool wanted) const {
    autograd::set_requires_grad(*this, wanted);
    return *this;
  }
  const Tensor& requires_grad_(bool wanted = true) const { return set_requires_grad(wanted); }
  bool is_leaf() const { return autograd::is_leaf(*this); }
  intrusive_ptr<autograd::Node> grad_fn() const { return autograd::grad_fn(*this); }
  void retain_grad() const { autograd::retain_grad(*this); }
  void backward(const flambeau::Tensor& gradient = {},
                std::optional<bool> retain_graph = std::nullopt, bool create_graph = false) const;
  Tensor variable_data() const { return autograd::variable_data(*this); }
  Tensor tensor_data() const { return autograd::variable_data(*this); }
  Tensor data() const { return autograd::variable_data(*this); }
  int64_t _version() const { return impl()->version(); }

  Tensor& operator+=(const Tensor& o) { return add_(o); }
  Tensor& operator-=(const Tensor& o) { return sub_(o); }
  Tensor& operator*=(const Tensor& o) { return mul_(o); }
  Tensor& operator/=(const Tensor& o) { return div_(o); }
  Tensor& operator+=(const Scalar& o) { return add_(o); }
  Tensor& operator-=(const Scalar& o) { return sub_(o); }
  Tensor& operator*=(const Scalar& o) { return mul_(o); }
  Tensor& operator/=(const Scalar& o) { return div_(o); }
  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }

 private:
  size_t place_of(int64_t d) const;
  void writable() const { make_writable(static_cast<const flambeau::Tensor&>(*this)); }
  // nullptr where there is no element to point to.
  void* memory() const { return numel() == 0 ? nullptr : impl()->data(); }
  template <typename T>
  void check_dtype(const char* what) const {
    using Element = std::remove_const_t<T>;
    constexpr c10::ScalarType wanted = CppTypeToScalarType<Element>::value;
    if (flambeau::Tensor::dtype() != wanted) [[unlikely]]
      fail_dtype(what, wanted);
  }
  [[noreturn]] void fail_dtype(const char* what, c10::ScalarType wanted) const;
  [[noreturn]] void fail_rank(size_t wanted) const;
  template <typename T>
  T* accessed(size_t rank) const {
    if (static_cast<size_t>(dim()) != rank) fail_rank(rank);
    check_dtype<T>("accessor");
    if constexpr (!std::is_const_v<T>) writable();
    return static_cast<T*>(memory());
  }
};
static_assert(sizeof(Tensor) == sizeof(flambeau::Tensor));

inline MaybeOwned<Tensor> Tensor::expect_contiguous(MemoryFormat format) const& {
  Tensor made = contiguous(format);
  return made.is_same(*this) ? MaybeOwned<Tensor>::borrowed(*this)
                             : MaybeOwned<Tensor>::owned(std::move(made));
}

using TensorList = ArrayRef<Tensor>;

// Removes the gradient of a tensor, or fills it with zeros in place. No effect without a gradient.
void clear_grad(const Tensor& tensor, bool set_to_none);

}  // namespace flambeau::api
