// Copies, casts, fills and comparisons as a whole on CPU.
// Formula: copy: self[i] = src[i]; fill: self[i] = value; equal: every self[i] == other[i] in the
// common dtype.
// Accumulates in: none: values are moved or cast.
// NaN, infinity: copies keep NaN and infinity; equal is false where an element is NaN.
// Error: none: copies are exact, casts round once.
// Source: by definition.
#include <algorithm>
#include <atomic>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "torchgen_out/aten/copy_kernels.h"

namespace flambeau::ops {

void to_copy_cpu(const Tensor& self, std::optional<ScalarType>, std::optional<Layout>,
                 std::optional<Device>, std::optional<bool>, bool, std::optional<MemoryFormat>,
                 Tensor& out) {
  copy_into(out, self);
}

void clone_cpu(const Tensor& self, std::optional<MemoryFormat>, Tensor& out) {
  copy_into(out, self);
}

Tensor lazy_clone_cpu(const Tensor& self) {
  Storage storage = self.storage()->lazy_clone();
  if (!storage) {
    const auto bytes = static_cast<int64_t>(self.storage()->nbytes());
    const auto whole = [&](const Storage& of) {
      Tensor t(make_intrusive<TensorImpl>(of, ScalarType::UInt8, self.device()));
      t.impl()->set_contiguous_sizes({bytes});
      return t;
    };
    storage = empty_tensor({bytes}, ScalarType::UInt8, self.device()).storage();
    copy_into(whole(storage), whole(self.storage()));
  }
  Tensor out(make_intrusive<TensorImpl>(std::move(storage), self.dtype(), self.device()));
  out.impl()->set_geometry(self.sizes(), self.strides(), self.storage_offset());
  return out;
}

void copy_cpu(Tensor& self, const Tensor& src, bool) { copy_into(self, src); }

void fill_cpu(Tensor& self, const Scalar& value) { fill_with(self, value); }

void fill_tensor_cpu(Tensor& self, const Tensor& value) {
  check(value.dim() == 0, "fill_: expected a value of 0 dimensions, got ", value.dim());
  copy_into(self, value);
}

void zero_cpu(Tensor& self) { fill_with(self, 0); }

Scalar local_scalar_dense_cpu(const Tensor& self) { return item_of(self); }
Scalar local_scalar_dense_meta(const Tensor& self) { return item_of(self); }  // raises

bool is_any_cpu(const Tensor& self) {
  if (self.dtype() != ScalarType::Bool) fail_dtype("_is_any", self.dtype());
  const Tensor flags = contiguous_tensor(self);
  const StoredBool* const first = flags.data_as<StoredBool>();
  return std::find(first, first + flags.numel(), true) != first + flags.numel();
}

bool is_any_meta(const Tensor&) { return false; }

bool equal_cpu(const Tensor& self, const Tensor& other) {
  if (self.sizes() != other.sizes()) return false;
  const ScalarType common = promote_types(self.dtype(), other.dtype());
  const Tensor a = contiguous_tensor(cast_tensor(self, common));
  const Tensor b = contiguous_tensor(cast_tensor(other, common));
  std::atomic<bool> same{true};
  dispatch_stored(common, "equal", [&]<typename T>() {
    const T* x = a.data_as<T>();
    const T* y = b.data_as<T>();
    parallel_for(0, a.numel(), 1, [&](int64_t begin, int64_t end) {
      if (!same.load(std::memory_order_relaxed)) return;
      if (!std::equal(x + begin, x + end, y + begin)) same.store(false, std::memory_order_relaxed);
    });
  });
  return same;
}

}  // namespace flambeau::ops
