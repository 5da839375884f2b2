// The largest and smallest elements and where they are, sorting, the first k elements.
// NaN counts as largest and wins in both directions of a search; of equal elements the first one
// comes first. An item per result searches; a sort is a bitonic network over the places of each
// fiber, a launch per step of the network.
#include <aten/core/view.h>

#include "fibers.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

// BEFORE: whether x comes ahead of y, which are not equal in the order.
constexpr const char* kSearch = R"cl(
#define IS_NAN(x) ((x) != (x))
__kernel void run(const Fibers f, __global IN* values, __global long* places,
                  __global const IN* in) {
  const long fiber = get_global_id(0);
  if (fiber >= f.outer.elements) return;
  const long from = start_of(f, fiber, 2);
  T best = (T)READ_IN(in, from);
  long place = 0;
  for (long i = 1; i < f.size; ++i) {
    const T x = (T)READ_IN(in, from + i * f.steps[2]), y = best;
    if (IS_NAN(y)) break;
    if (IS_NAN(x) || (BEFORE)) {
      best = x;
      place = i;
    }
  }
#ifdef WITH_VALUES
  WRITE_IN(values, start_of(f, fiber, 0), best);
#endif
  places[start_of(f, fiber, 1)] = place;
}
)cl";

// One step of the network: pairs at distance `reach` in blocks of `block` elements. Places from
// f.size on are padding, which stays behind all elements.
constexpr const char* kSortStep = R"cl(
inline bool is_ahead(const T x, const T y, const long left, const long right) {
#ifdef DESCENDING
  if (x != x || y != y) return x != x && (y == y || left < right);
  return x != y ? x > y : left < right;
#else
  if (x != x || y != y) return y != y && (x == x || left < right);
  return x != y ? x < y : left < right;
#endif
}
__kernel void run(const Fibers f, const long padded, const long block, const long reach,
                  __global long* places, __global const IN* in) {
  const long half_size = padded / 2, item = get_global_id(0);
  if (item >= f.outer.elements * half_size) return;
  const long fiber = item / half_size, pair = item % half_size;
  const long low = pair / reach * reach * 2 + pair % reach, high = low + reach;
  const long from = start_of(f, fiber, 1), at = fiber * padded;
  const long left = places[at + low], right = places[at + high];
  const bool rises = (low & block) == 0;
  bool is_right = left < f.size || right >= f.size;
  if (left < f.size && right < f.size)
    is_right = is_ahead((T)READ_IN(in, from + left * f.steps[1]),
                        (T)READ_IN(in, from + right * f.steps[1]), left, right);
  if (is_right != rises) {
    places[at + low] = right;
    places[at + high] = left;
  }
}
)cl";

constexpr const char* kSortStart = R"cl(
__kernel void run(const long padded, const long elements, __global long* places) {
  const long i = get_global_id(0);
  if (i < elements) places[i] = i % padded;
}
)cl";

// The first `f.size` elements of each sorted fiber.
constexpr const char* kSortFinish = R"cl(
__kernel void run(const Fibers f, const long padded, __global WORD* values, __global long* places,
                  __global const WORD* in, __global const long* sorted) {
  const long item = get_global_id(0);
  if (item >= f.outer.elements * f.size) return;
  const long fiber = item / f.size, k = item % f.size;
  const long place = sorted[fiber * padded + k];
  values[start_of(f, fiber, 0) + k * f.steps[0]] = in[start_of(f, fiber, 2) + place * f.steps[2]];
  places[start_of(f, fiber, 1) + k * f.steps[1]] = place;
}
)cl";

size_t rounded(int64_t items) { return (static_cast<size_t>(items) + 63) / 64 * 64; }

bool has_kernels(const Tensor& t) { return has_real(t.dtype(), device_at(t.device().index)); }

Tensor empty_like_spec(const Tensor& spec, const Tensor& self) {
  return flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), spec.dtype(), self.device());
}

// `t` with a dimension of size 1 at `dim` if a reduction has removed it.
Tensor with_dim(const Tensor& t, int64_t dim, int64_t rank) {
  if (t.dim() == rank) return t;
  flambeau::DimVector sizes(t.sizes()), strides(t.strides());
  sizes.insert(static_cast<size_t>(dim), 1);
  strides.insert(static_cast<size_t>(dim), 1);
  return flambeau::plain_view(t, {sizes, strides, t.storage_offset()});
}

void search(const Tensor& self, int64_t dim, const Tensor* values, const Tensor& places,
            bool largest) {
  Device& device = device_at(self.device().index);
  const Tensor at = with_dim(places, dim, self.dim());
  const Tensor best = values ? with_dim(*values, dim, self.dim()) : at;
  Fibers f = *Fibers::of({best, at, self}, dim);
  if (f.outer.elements == 0) return;
  f.size = self.dim() ? self.size(dim) : 1;
  const std::string options = type_options(self.dtype(), device) +
                              array_options("IN", self.dtype(), device) +
                              (values ? " -DWITH_VALUES" : "");
  const std::string define = std::string("#define BEFORE ") + (largest ? "x > y" : "x < y") + "\n";
  const cl_kernel kernel = device.kernel("search " + define + options,
                                         prelude() + fibers_text() + define + kSearch, options);
  Launch(device, kernel)
      .value(f)
      .memory(device_memory(best))
      .memory(device_memory(at))
      .memory(device_memory(self))
      .run({rounded(f.outer.elements)}, {64});
}

// The sorted order of each fiber: rows of places. The first `size` of a row are elements.
Tensor sorted_places(const Tensor& self, const Fibers& f, int64_t padded, bool descending) {
  Device& device = device_at(self.device().index);
  const int64_t count = f.outer.elements * padded;
  const Tensor places = flambeau::empty_tensor({count}, ScalarType::Int64, self.device());
  const std::string plain = type_options(ScalarType::Int32, device);
  Launch(device, device.kernel("sort start", prelude() + kSortStart, plain))
      .value(padded)
      .value(count)
      .memory(device_memory(places))
      .run({rounded(count)}, {64});
  const std::string options = type_options(self.dtype(), device) +
                              array_options("IN", self.dtype(), device) +
                              (descending ? " -DDESCENDING" : "");
  const cl_kernel step =
      device.kernel("sort step " + options, prelude() + fibers_text() + kSortStep, options);
  for (int64_t block = 2; block <= padded; block *= 2) {
    for (int64_t reach = block / 2; reach > 0; reach /= 2) {
      Launch(device, step)
          .value(f)
          .value(padded)
          .value(block)
          .value(reach)
          .memory(device_memory(places))
          .memory(device_memory(self))
          .run({rounded(count / 2)}, {64});
    }
  }
  return places;
}

// values, places <- the first elements of each fiber of `self` in order.
void sort_into(const Tensor& values, const Tensor& places, const Tensor& self, int64_t dim,
               bool descending) {
  const Fibers results = *Fibers::of({values, places, self}, dim);
  if (results.outer.elements == 0 || results.size == 0) return;
  const Fibers f = *Fibers::of({self, self}, dim);
  int64_t padded = 1;
  while (padded < f.size) padded *= 2;
  const Tensor sorted = sorted_places(self, f, padded, descending);
  Device& device = device_at(self.device().index);
  const std::string options =
      "-DWORD=" + word_name(self.dtype()) + " " + type_options(ScalarType::Int32, device);
  const cl_kernel kernel =
      device.kernel("sort finish " + options, prelude() + fibers_text() + kSortFinish, options);
  Launch(device, kernel)
      .value(results)
      .value(padded)
      .memory(device_memory(values))
      .memory(device_memory(places))
      .memory(device_memory(self))
      .memory(device_memory(sorted))
      .run({rounded(results.outer.elements * results.size)}, {64});
}

// A tensor here of a dtype with kernels whose fibers along any dimension can be looped over.
std::optional<Tensor> operand_of(const Call& call) {
  if (!is_here(call.at("self")) || call.target()) return std::nullopt;
  const Tensor self = call.at("self").tensor();
  if (!has_kernels(self) || self.dim() > kMaxDims) return std::nullopt;
  return self;
}

void finish(Call& call, const Tensor& values, const Tensor& places) {
  call.stack.clear();
  call.stack.push(IValue(values));
  call.stack.push(IValue(places));
}

}  // namespace

bool run_arg_search(Call& call, bool largest) {
  const auto given = operand_of(call);
  if (!given || given->numel() == 0) return false;
  const Tensor spec = result_spec(call);
  const Tensor places = empty_like_spec(spec, *given);
  if (!call.at("dim").is_none()) {
    search(*given, *wrapped_dim(call, given->dim()), nullptr, places, largest);
  } else {
    const Tensor flat = flambeau::contiguous_tensor(*given);
    const Tensor row = flambeau::plain_view(flat, {{flat.numel()}, {1}, flat.storage_offset()});
    const Tensor one = flambeau::plain_view(places, {{}, {}, places.storage_offset()});
    search(row, 0, nullptr, one, largest);
  }
  call.stack.clear();
  call.stack.push(IValue(places));
  return true;
}

bool run_search(Call& call, bool largest) {
  const auto given = operand_of(call);
  if (!given || given->numel() == 0) return false;
  Stack specs = results_on_meta(call);
  const Tensor values = empty_like_spec(specs[0].tensor(), *given);
  const Tensor places = empty_like_spec(specs[1].tensor(), *given);
  search(*given, *wrapped_dim(call, given->dim()), &values, places, largest);
  finish(call, values, places);
  return true;
}

bool run_sort(Call& call, const char* descending) {
  const auto given = operand_of(call);
  if (!given) return false;
  Stack specs = results_on_meta(call);
  const Tensor values = empty_like_spec(specs[0].tensor(), *given);
  const Tensor places = empty_like_spec(specs[1].tensor(), *given);
  sort_into(values, places, *given, *wrapped_dim(call, given->dim()),
            call.at(descending).get<Scalar>().to_bool());
  finish(call, values, places);
  return true;
}

}  // namespace flambeau_opencl
