#include "aten/core/sparse.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "aten/core/factory.h"
#include "aten/core/out_spec.h"
#include "aten/core/tensor_text.h"
#include "aten/core/view.h"
#include "c10/core/fork_mutex.h"
#include "c10/core/thread_state.h"

namespace flambeau {
namespace {

// From storages to the parts that they own: a storage has room for an address of memory alone,
// which must stay null.
struct Owners {
  ForkMutex mutex;
  std::unordered_map<const StorageImpl*, SparseParts*> parts;
};
Owners& owners() {
  static auto* const all = new Owners;
  return *all;
}

struct Held {
  SparseParts parts;
  const StorageImpl* storage = nullptr;
};

void release_parts(void* context) {
  const std::unique_ptr<Held> held(static_cast<Held*>(context));
  const std::lock_guard lock(owners().mutex);
  owners().parts.erase(held->storage);
}

// The lock of `owners` must be held.
SparseParts* parts_of(const Tensor& t) {
  const auto found = owners().parts.find(t.storage().get());
  return found == owners().parts.end() ? nullptr : found->second;
}

Storage storage_of(SparseParts parts, Device device) {
  auto* held = new Held{std::move(parts)};
  Storage storage = make_intrusive<StorageImpl>(nullptr, 0, device, &release_parts, held);
  held->storage = storage.get();
  const std::lock_guard lock(owners().mutex);
  owners().parts.emplace(storage.get(), &held->parts);
  return storage;
}

// Without history: the sparse tensor has one of its own.
Tensor detached(const Tensor& t) {
  return plain_view(t, {DimVector(t.sizes()), DimVector(t.strides()), t.storage_offset()});
}

void check_parts(const char* op, IntArrayRef sizes, const SparseParts& parts) {
  const Tensor& indices = parts.indices;
  const Tensor& values = parts.values;
  check(indices.dtype() == ScalarType::Int64 && indices.dim() == 2, op,
        ": expected indices to be int64[sparse dimensions, entries], got ", indices);
  check(indices.is_cpu() && values.is_cpu(), op, ": expected indices and values on the CPU, got ",
        indices.device(), " and ", values.device());
  check(!is_sparse(indices) && !is_sparse(values), op,
        ": expected strided indices and values, got a tensor of layout sparse_coo");
  const size_t lead = static_cast<size_t>(parts.sparse_dim());
  check(values.dim() > 0 && sizes.size() == lead + static_cast<size_t>(values.dim()) - 1, op,
        ": expected as many sizes as dimensions of indices and values together (", lead, " + ",
        values.dim() - 1, "), got sizes ", sizes);
  check(values.size(0) == parts.count(), op, ": expected a value for each of ", parts.count(),
        " entries, got values ", values);
  const IntArrayRef dense = sizes.slice(lead, sizes.size() - lead);
  check(values.sizes().slice(1, dense.size()) == dense, op, ": expected values of the dense sizes ",
        dense, ", got ", values);
}

int64_t product_of(const char* op, IntArrayRef sizes) {
  int64_t product = 1;
  bool overflow = false, empty = false;
  for (const int64_t size : sizes) {
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(product, size, &product);
  }
  check(empty || !overflow, op, ": the sparse sizes ", sizes,
        " have more positions than an int64 can count (integer overflow)");
  return empty ? 0 : product;
}

// There is no memory to have strides in.
void set_sizes(const Tensor& t, IntArrayRef sizes) {
  t.impl()->set_geometry(sizes, DimVector(sizes.size(), 0), 0);
}

}  // namespace

SparseParts sparse_parts(const char* op, const Tensor& t) {
  if (is_sparse(t)) {
    const std::lock_guard lock(owners().mutex);
    if (const SparseParts* parts = parts_of(t)) return *parts;
  }
  fail(ErrorKind::Runtime, op, ": expected a tensor of layout sparse_coo, got ", t,
       " of layout strided");
}

Tensor make_sparse(const char* op, IntArrayRef sizes, SparseParts parts) {
  check_parts(op, sizes, parts);
  product_of(op, sizes.slice(0, static_cast<size_t>(parts.sparse_dim())));
  parts.indices = detached(contiguous_tensor(parts.indices));
  parts.values = detached(parts.values);
  parts.is_coalesced |= parts.count() < 2;
  const ScalarType dtype = parts.values.dtype();
  const Device device = parts.values.device();
  Storage storage = storage_of(std::move(parts), device);
  Tensor t(make_intrusive<TensorImpl>(std::move(storage), dtype, device));
  t.impl()->add_keys(kSparseKey);
  set_sizes(t, sizes);
  if (thread_state.inference_mode) [[unlikely]] {
    t.impl()->set_inference(true);
    t.impl()->add_keys(DispatchKey::Autograd);
  }
  return t;
}

void set_sparse_parts(const char* op, const Tensor& self, IntArrayRef sizes, SparseParts parts) {
  check_parts(op, sizes, parts);
  product_of(op, sizes.slice(0, static_cast<size_t>(parts.sparse_dim())));
  check(parts.values.dtype() == self.dtype(), op, ": expected values of dtype ", self.dtype(),
        ", got ", parts.values);
  parts.indices = detached(contiguous_tensor(parts.indices));
  parts.values = detached(parts.values);
  parts.is_coalesced |= parts.count() < 2;
  const bool resizes = self.sizes() != sizes;
  check(!resizes || self.storage()->use_count() == 1, op, ": expected a result of sizes ",
        self.sizes(), ", which other tensors share, got ", sizes);
  if (resizes) set_sizes(self, sizes);
  {
    const std::lock_guard lock(owners().mutex);
    SparseParts* const own = parts_of(self);
    check(is_sparse(self) && own != nullptr, op,
          ": expected a tensor of layout sparse_coo, got a strided one");
    std::swap(*own, parts);
  }  // the old parts are released without the lock, which releasing a sparse storage takes
}

void require_sparse(const char* op, DispatchKeySet operands) {
  if (operands.has(kSparseKey)) return;
  fail(ErrorKind::NotImplemented, op,
       ": expected a strided out= for strided operands, got one of layout sparse_coo");
}

void store_result(const char* op, const Tensor& target, const Tensor& result) {
  check(is_sparse(target) == is_sparse(result), op, ": expected to write a result of layout ",
        is_sparse(result) ? "sparse_coo" : "strided", " into a tensor of that layout, got ", target,
        " of another one");
  check(can_cast(result.dtype(), target.dtype()), op, ": result type ", result.dtype(),
        " can't be cast to the type that is written, ", target.dtype());
  if (!is_sparse(target)) {
    Tensor out = target;
    prepare_out(op, out, {DimVector(result.sizes()), {}, result.dtype(), result.device()});
    return copy_into(out, result);
  }
  SparseParts parts = sparse_parts(op, result);
  parts.values = cast_tensor(parts.values, target.dtype());
  set_sparse_parts(op, target, result.sizes(), std::move(parts));
}

std::vector<int64_t> sparse_positions(const char* op, const Tensor& indices, IntArrayRef sizes) {
  const auto dims = static_cast<size_t>(indices.size(0));
  const auto count = static_cast<size_t>(indices.size(1));
  product_of(op, sizes.slice(0, dims));
  const Tensor rows = contiguous_tensor(indices);
  const auto* index = rows.data_as<int64_t>();
  std::vector<int64_t> positions(count, 0);
  for (size_t d = 0; d < dims; ++d) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t at = index[d * count + i];
      check_index(at >= 0 && at < sizes[d], op, ": expected an index below ", sizes[d],
                  " in dimension ", d, ", got ", at, " for entry ", i, " (out of range)");
      positions[i] = positions[i] * sizes[d] + at;
    }
  }
  return positions;
}

}  // namespace flambeau
