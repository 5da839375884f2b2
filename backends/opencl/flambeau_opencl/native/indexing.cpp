// Reads and writes at positions that tensors of indices name. Sums of half types are kept in float.
// Calls that the CPU refuses, among them those with indices that are out of range, run on the CPU,
// which raises the error.
#include <aten/core/view.h>
#include <torchgen_out/aten/arithmetic_ops.h>

#include <algorithm>

#include "positions.h"

namespace flambeau_opencl {
namespace {

std::vector<int64_t> without(std::vector<int64_t> list, int64_t dim) {
  list.erase(list.begin() + dim);
  return list;
}

// One dimension of the tensor `self` and the index of a call.
struct Along {
  Tensor self, index;
  int64_t dim;
};

std::optional<Along> along(const Call& call) {
  if (!is_here(call.at("self")) || !is_here(call.at("index"))) return std::nullopt;
  Along a{call.at("self").tensor(), call.at("index").tensor(), 0};
  const int64_t rank = a.self.dim();
  a.dim = call.at("dim").get<Scalar>().to_int64();
  if (a.dim < 0) a.dim += rank;
  if (rank == 0 || a.dim < 0 || a.dim >= rank) return std::nullopt;
  return a;
}

// Whether no two elements of `self` share a place, and none of the arguments lies in its memory.
bool is_writable(const Tensor& self, std::initializer_list<Tensor> arguments) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) > 1 && self.stride(d) == 0) return false;
  }
  return std::all_of(arguments.begin(), arguments.end(), [&](const Tensor& t) {
    return t.storage() != self.storage() && t.device() == self.device();
  });
}

// The text that joins a with b, where the device can compute in the dtype.
std::optional<std::string> combination(const std::string& name, const Tensor& self) {
  if (name.empty()) return "";
  if (!has_real(self.dtype(), device_at(self.device().index))) return std::nullopt;
  const bool is_bool = self.dtype() == ScalarType::Bool;
  if (name == "sum") return is_bool ? "a || b" : "a + b";
  if (name == "prod") return is_bool ? "a && b" : "a * b";
  if (name == "amax") return "maximum_of(a, b)";
  if (name == "amin") return "minimum_of(a, b)";
  return std::nullopt;
}

// What a call writes: the tensor itself, or for sums of half types a copy in float.
struct Destination {
  Tensor self, written;

  Destination(const Tensor& given, const std::string& combine)
      : self(given),
        written(!combine.empty() && is_reduced_floating_type(given.dtype())
                    ? in_dtype(given, ScalarType::Float32)
                    : given) {}
  void finish(Call& call) const {
    if (!written.is_same(self)) flambeau::copy_into(self, written);
    self.impl()->bump_version();
    call.stack.clear();
    call.stack.push(IValue(self));
  }
};

// Writes along one dimension, whose loop is the inner one. `index` has values' sizes, or is a
// vector with an element for each slice of `values`.
bool write_along(const Along& a, const Tensor& written, const Tensor& values, bool from_end,
                 const std::string& combine) {
  const Tensor source = in_dtype(values, written.dtype());
  const bool is_number = source.dim() == 0;
  const bool is_vector = a.index.dim() == 1 && written.dim() > 1;
  const auto dim = static_cast<size_t>(a.dim);
  std::vector<int64_t> sizes =
      is_vector ? list_of(is_number ? written.sizes() : source.sizes()) : list_of(a.index.sizes());
  sizes[dim] = a.index.size(is_vector ? 0 : a.dim);
  const std::vector<int64_t> none(sizes.size(), 0);
  std::vector<int64_t> from = is_number ? none : list_of(source.strides()), by_index = none;
  if (!is_vector) by_index = list_of(a.index.strides());
  by_index[dim] = a.index.stride(is_vector ? 0 : a.dim);
  Positions p;
  if (!p.add(written, a.dim, a.index, from_end, without(by_index, a.dim), {by_index[dim]}))
    return false;
  const WriteLoops loops{without(sizes, a.dim),
                         {sizes[dim]},
                         without(list_of(written.strides()), a.dim),
                         without(from, a.dim),
                         {from[dim]}};
  return write_at(written, source, loops, p, combine);
}

// Whether `inner` has the rank of `outer` and no larger size, except along `dim`.
bool fits(IntArrayRef inner, IntArrayRef outer, int64_t dim) {
  if (inner.size() != outer.size()) return false;
  for (size_t d = 0; d < inner.size(); ++d) {
    if (static_cast<int64_t>(d) != dim && inner[d] > outer[d]) return false;
  }
  return true;
}

// A number as a tensor on the device of `like`.
Tensor number_tensor(const Scalar& value, const Tensor& like) {
  return flambeau::scalar_tensor(value, like.dtype(), like.device());
}

// The argument with the values: a tensor, or a number that the dtype can hold.
std::optional<Tensor> values_of(const IValue& v, const Tensor& self) {
  if (is_here(v))
    return v.tensor().dtype() == self.dtype() ? std::optional(v.tensor()) : std::nullopt;
  if (v.is_tensor() || (v.get<Scalar>().is_complex() && !self.is_complex())) return std::nullopt;
  return number_tensor(v.get<Scalar>(), self);
}

// The strides of a tensor that broadcasts to `sizes`; nothing where it does not.
std::optional<std::vector<int64_t>> broadcast_strides(const Tensor& t, IntArrayRef sizes) {
  if (t.dim() > static_cast<int64_t>(sizes.size())) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 0);
  const size_t lead = sizes.size() - static_cast<size_t>(t.dim());
  for (size_t d = lead; d < sizes.size(); ++d) {
    const auto own = static_cast<int64_t>(d - lead);
    if (t.size(own) != 1 && t.size(own) != sizes[d]) return std::nullopt;
    if (t.size(own) != 1) strides[d] = t.stride(own);
  }
  return strides;
}

// The dimensions of `self[indices]`: where the indices' are, and what each other one is of self.
struct IndexPlan {
  std::vector<int64_t> index_sizes;  // of the indices, broadcast
  std::vector<int64_t> sizes;        // of the result
  std::vector<int64_t> sources;      // per dimension of the result: self's, or -1
  size_t first = 0;                  // where the indices' dimensions begin
};

std::optional<IndexPlan> plan_of(const Tensor& self, const std::vector<Tensor>& indices) {
  IndexPlan plan;
  std::vector<size_t> indexed;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    indexed.push_back(d);
    const IntArrayRef given = indices[d].sizes();
    if (given.size() > plan.index_sizes.size())
      plan.index_sizes.insert(plan.index_sizes.begin(), given.size() - plan.index_sizes.size(), 1);
    const size_t lead = plan.index_sizes.size() - given.size();
    for (size_t k = 0; k < given.size(); ++k) {
      if (given[k] != 1) plan.index_sizes[lead + k] = given[k];
    }
  }
  if (indexed.empty() || indices.size() > static_cast<size_t>(self.dim())) return std::nullopt;
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  plan.first = adjacent ? indexed.front() : 0;
  for (size_t d = 0; d < static_cast<size_t>(self.dim()); ++d) {
    if (d < indices.size() && indices[d].defined()) continue;
    plan.sizes.push_back(self.size(static_cast<int64_t>(d)));
    plan.sources.push_back(static_cast<int64_t>(d));
  }
  const auto at = static_cast<std::ptrdiff_t>(plan.first);
  plan.sizes.insert(plan.sizes.begin() + at, plan.index_sizes.begin(), plan.index_sizes.end());
  plan.sources.insert(plan.sources.begin() + at, plan.index_sizes.size(), -1);
  return plan;
}

// The strides of self along the dimensions of a plan.
std::vector<int64_t> strides_in(const IndexPlan& plan, const Tensor& self) {
  std::vector<int64_t> strides;
  for (const int64_t d : plan.sources) strides.push_back(d < 0 ? 0 : self.stride(d));
  return strides;
}

}  // namespace

bool run_index_select(Call& call) {
  const auto a = along(call);
  if (!a || a->index.dim() > 1 || a->index.device() != a->self.device()) return false;
  const Tensor spec = result_spec(call);
  std::vector<int64_t> from = list_of(a->self.strides()), by_index(from.size(), 0);
  from[static_cast<size_t>(a->dim)] = 0;
  by_index[static_cast<size_t>(a->dim)] = a->index.dim() ? a->index.stride(0) : 0;
  Positions p;
  if (!p.add(a->self, a->dim, a->index, false, by_index, {})) return false;
  Output output(call, spec, spec.dtype(), a->self.device());
  if (!read_at(output.written, a->self, from, p)) return false;
  output.finish(call);
  return true;
}

bool run_gather(Call& call) {
  const auto a = along(call);
  if (!a || a->index.dim() != a->self.dim()) return false;
  const Tensor spec = result_spec(call);
  std::vector<int64_t> from = list_of(a->self.strides());
  from[static_cast<size_t>(a->dim)] = 0;
  Positions p;
  if (!p.add(a->self, a->dim, a->index, false, list_of(a->index.strides()), {})) return false;
  Output output(call, spec, spec.dtype(), a->self.device());
  if (!read_at(output.written, a->self, from, p)) return false;
  output.finish(call);
  return true;
}

bool run_take(Call& call) {
  if (!is_here(call.at("self")) || !is_here(call.at("index"))) return false;
  const Tensor index = call.at("index").tensor(), given = call.at("self").tensor();
  const Tensor row_major = flambeau::contiguous_tensor(given);
  const Tensor flat =
      flambeau::plain_view(row_major, {{row_major.numel()}, {1}, row_major.storage_offset()});
  const Tensor spec = result_spec(call);
  Positions p;
  if (!p.add(flat, 0, index, true, list_of(index.strides()), {})) return false;
  Output output(call, spec, spec.dtype(), given.device());
  if (!read_at(output.written, flat, std::vector<int64_t>(spec.sizes().size(), 0), p)) return false;
  output.finish(call);
  return true;
}

// int64 positions; how many a mask selects is known to the host alone.
bool run_index_positions(Call& call) {
  if (!is_here(call.at("self"))) return false;
  const Tensor self = call.at("self").tensor();
  auto indices = call.at("indices").get<std::vector<Tensor>>();
  if (indices.size() > static_cast<size_t>(self.dim())) return false;
  for (Tensor& index : indices) {
    if (!index.defined()) continue;
    const bool is_position =
        index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32;
    if (!is_position || index.device() != self.device()) return false;
    index = in_dtype(index, ScalarType::Int64);
  }
  call.stack.clear();
  call.stack.push(IValue(std::move(indices)));
  return true;
}

bool run_index(Call& call) {
  if (!is_here(call.at("self"))) return false;
  const Tensor self = call.at("self").tensor();
  const auto indices = call.at("indices").get<std::vector<Tensor>>();
  const Tensor spec = result_spec(call);
  const auto plan = plan_of(self, indices);
  if (!plan) return false;
  Positions p;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const auto own = broadcast_strides(indices[d], plan->index_sizes);
    std::vector<int64_t> strides(plan->sizes.size(), 0);
    if (own)
      std::copy(own->begin(), own->end(),
                strides.begin() + static_cast<std::ptrdiff_t>(plan->first));
    if (!own || !p.add(self, static_cast<int64_t>(d), indices[d], true, strides, {})) return false;
  }
  Output output(call, spec, spec.dtype(), self.device());
  if (!read_at(output.written, self, strides_in(*plan, self), p)) return false;
  output.finish(call);
  return true;
}

bool run_index_put(Call& call) {
  if (!is_here(call.at("self")) || !is_here(call.at("values"))) return false;
  const Tensor self = call.at("self").tensor(), given = call.at("values").tensor();
  const auto indices = call.at("indices").get<std::vector<Tensor>>();
  const auto combine =
      combination(call.at("accumulate").get<Scalar>().to_bool() ? "sum" : "", self);
  const auto plan = plan_of(self, indices);
  if (!combine || !plan || given.dtype() != self.dtype() || !is_writable(self, {given}))
    return false;
  const Destination to(self, *combine);
  const Tensor values = in_dtype(given, to.written.dtype());
  const auto from = broadcast_strides(values, plan->sizes);
  if (!from) return false;
  Positions p;
  WriteLoops loops;
  const std::vector<int64_t> of_self = strides_in(*plan, to.written);
  for (size_t d = 0; d < plan->sizes.size(); ++d) {
    const bool is_inner = plan->sources[d] < 0;
    (is_inner ? loops.inner_sizes : loops.outer_sizes).push_back(plan->sizes[d]);
    (is_inner ? loops.values_inner : loops.values_outer).push_back((*from)[d]);
    if (!is_inner) loops.self_outer.push_back(of_self[d]);
  }
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const auto own = broadcast_strides(indices[d], plan->index_sizes);
    const std::vector<int64_t> none(loops.outer_sizes.size(), 0);
    if (!own || !is_writable(self, {indices[d]}) ||
        !p.add(to.written, static_cast<int64_t>(d), indices[d], true, none, *own))
      return false;
  }
  if (!write_at(to.written, values, loops, p, *combine)) return false;
  to.finish(call);
  return true;
}

// scatter_ and scatter_add_: an index of the tensor's rank.
bool run_scatter(Call& call, const char* values_name, const char* name) {
  const auto a = along(call);
  if (!a || !fits(a->index.sizes(), a->self.sizes(), a->dim)) return false;
  const auto values = values_of(call.at(values_name), a->self);
  const auto combine = combination(name, a->self);
  const bool is_number = values && !call.at(values_name).is_tensor();
  if (!values || !combine || !is_writable(a->self, {a->index, *values}) ||
      (!is_number && !fits(a->index.sizes(), values->sizes(), -1)))
    return false;
  const Destination to(a->self, *combine);
  if (!write_along(*a, to.written, *values, false, *combine)) return false;
  to.finish(call);
  return true;
}

// index_add_, index_copy_ and index_fill_: a vector with an index for each slice of the values.
bool run_slices(Call& call, const char* values_name, const char* name, bool is_fill) {
  const auto a = along(call);
  if (!a || a->index.dim() != 1 || (is_fill && a->index.dtype() != ScalarType::Int64)) return false;
  const auto values = values_of(call.at(values_name), a->self);
  const auto combine = combination(name, a->self);
  if (!values || !combine || !is_writable(a->self, {a->index, *values})) return false;
  if (is_fill != (values->dim() == 0)) return false;
  if (!is_fill) {
    std::vector<int64_t> wanted = list_of(a->self.sizes());
    wanted[static_cast<size_t>(a->dim)] = a->index.size(0);
    if (values->sizes() != IntArrayRef(wanted)) return false;
  }
  const Destination to(a->self, *combine);
  Tensor source = in_dtype(*values, to.written.dtype());
  if (!combine->empty()) {
    const Scalar alpha = call.at("alpha").get<Scalar>();
    const bool is_exact = is_floating_type(source.dtype()) || alpha.is_integral(true);
    if (!is_exact || source.dtype() == ScalarType::Bool) return false;
    if (!alpha.equals(1)) source = flambeau::ops::mul_Scalar::call(source, alpha);
  }
  if (!write_along(*a, to.written, source, is_fill, *combine)) return false;
  to.finish(call);
  return true;
}

// scatter_reduce into a copy, for reductions that join with the previous values.
bool run_scatter_reduce(Call& call) {
  const auto a = along(call);
  if (!a || call.target() || !call.at("include_self").get<Scalar>().to_bool()) return false;
  const auto combine = combination(call.at("reduce").get<std::string>(), a->self);
  if (!combine || combine->empty() || !is_here(call.at("src"))) return false;
  const Tensor values = call.at("src").tensor(), spec = result_spec(call);
  if (!fits(a->index.sizes(), a->self.sizes(), a->dim) || values.dtype() != a->self.dtype() ||
      values.device() != a->self.device())
    return false;
  Output output(call, spec, spec.dtype(), a->self.device());
  flambeau::copy_into(output.written, a->self);
  const Destination to(output.written, *combine);
  if (!write_along(*a, to.written, values, false, *combine)) return false;
  if (!to.written.is_same(output.written)) flambeau::copy_into(output.written, to.written);
  output.finish(call);
  return true;
}

}  // namespace flambeau_opencl
