// Operators that only move elements: their results are views that are copied into one another.
#include <aten/core/view.h>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::DimVector;
using flambeau::plain_view;
using flambeau::ViewGeometry;

ViewGeometry geometry_of(const Tensor& t) {
  return {DimVector(t.sizes()), DimVector(t.strides()), t.storage_offset()};
}

// Elements begin, begin + step, ... along a dimension.
Tensor slice(const Tensor& t, int64_t dim, int64_t begin, int64_t size, int64_t step = 1) {
  ViewGeometry g = geometry_of(t);
  const auto d = static_cast<size_t>(dim);
  g.storage_offset += begin * g.strides[d];
  g.sizes[d] = size;
  g.strides[d] *= step;
  return plain_view(t, g);
}

Tensor select(const Tensor& t, int64_t dim, int64_t at) {
  ViewGeometry g = geometry_of(slice(t, dim, at, 1));
  g.sizes.erase(static_cast<size_t>(dim));
  g.strides.erase(static_cast<size_t>(dim));
  return plain_view(t, g);
}

Tensor result_like(const Tensor& spec, flambeau::c10::Device device) {
  return flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), spec.dtype(), device);
}

int64_t wrapped(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

void leave(Call& call, const Tensor& result) {
  call.stack.clear();
  call.stack.push(IValue(result));
}

// The device of all tensors of a list; nothing where one is elsewhere.
std::optional<flambeau::c10::Device> device_of(const std::vector<Tensor>& tensors) {
  std::optional<flambeau::c10::Device> found;
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    if (!is_here(IValue(t)) || (found && t.device() != *found)) return std::nullopt;
    found = t.device();
  }
  return found;
}

}  // namespace

bool run_join(Call& call, bool is_new) {
  const auto tensors = call.at("tensors").get<std::vector<Tensor>>();
  const auto device = device_of(tensors);
  if (!device || call.target()) return false;
  const Tensor spec = result_spec(call), out = result_like(spec, *device);
  const int64_t dim = wrapped(call.at("dim").get<Scalar>().to_int64(), out.dim());
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    if (is_new) {
      flambeau::copy_into(select(out, dim, at++), t);
    } else if (t.dim() == out.dim()) {
      flambeau::copy_into(slice(out, dim, at, t.size(dim)), t);
      at += t.size(dim);
    }
  }
  leave(call, out);
  return true;
}

// Zeros with gradients in place of the parts that a view took.
bool run_part_gradient(Call& call, Part part) {
  const IValue& grad = call.at("grad_output");
  if (!is_here(grad) || call.target()) return false;
  const Tensor from = grad.tensor(), spec = result_spec(call);
  const Tensor out = result_like(spec, from.device());
  const int64_t dim = wrapped(call.at("dim").get<Scalar>().to_int64(), out.dim());
  flambeau::fill_with(out, 0);
  if (part == Part::Element) {
    const int64_t at = wrapped(call.at("index").get<Scalar>().to_int64(), out.size(dim));
    flambeau::copy_into(select(out, dim, at), from);
  } else {
    const IValue& start = call.at("start");
    const int64_t size = out.size(dim);
    int64_t begin = start.is_none() ? 0 : wrapped(start.get<Scalar>().to_int64(), size);
    begin = std::min(std::max<int64_t>(begin, 0), size);
    const int64_t step = call.at("step").get<Scalar>().to_int64();
    flambeau::copy_into(slice(out, dim, begin, from.size(dim), step), from);
  }
  leave(call, out);
  return true;
}

bool run_flip(Call& call) {
  if (!is_here(call.at("self")) || call.target()) return false;
  const Tensor self = call.at("self").tensor(), spec = result_spec(call);
  const Tensor out = result_like(spec, self.device());
  ViewGeometry g = geometry_of(out);
  if (out.numel() > 0) {
    // Views cannot run backwards, but the kernel's loops can.
    c10::DeviceElements to{flambeau::api::device_memory(out), 0, out.dtype(), {}, {}, 0};
    for (const int64_t given : call.at("dims").get<std::vector<int64_t>>()) {
      const auto d = static_cast<size_t>(wrapped(given, out.dim()));
      if (out.dim() == 0) break;
      g.storage_offset += (g.sizes[d] - 1) * g.strides[d];
      g.strides[d] = -g.strides[d];
    }
    to.offset = g.storage_offset;
    to.device = self.device().index;
    to.sizes = g.sizes;
    to.strides = g.strides;
    const c10::DeviceElements from{flambeau::api::device_memory(self),
                                   self.storage_offset(),
                                   self.dtype(),
                                   self.sizes(),
                                   self.strides(),
                                   to.device};
    if (!copy_on_device(to, from)) return false;
  }
  leave(call, out);
  return true;
}

// Each dimension is two parts that change places.
bool run_roll(Call& call, bool is_back) {
  if (!is_here(call.at("self")) || call.target()) return false;
  const Tensor self = call.at("self").tensor(), spec = result_spec(call);
  const auto shifts = call.at("shifts").get<std::vector<int64_t>>();
  const auto dims = call.at("dims").get<std::vector<int64_t>>();
  Tensor from = self;
  const bool is_flat = dims.empty();
  if (is_flat) {
    const Tensor flat = flambeau::contiguous_tensor(self);
    from = plain_view(flat, {{flat.numel()}, {1}, flat.storage_offset()});
  }
  for (size_t k = 0; k < shifts.size() && self.numel() > 0; ++k) {
    const int64_t dim = is_flat ? 0 : wrapped(dims[k], from.dim());
    if (from.dim() == 0) continue;
    const int64_t size = from.size(dim);
    int64_t shift = (is_back ? -shifts[k] : shifts[k]) % size;
    if (shift < 0) shift += size;
    const Tensor to = flambeau::empty_tensor(from.sizes(), from.dtype(), from.device());
    flambeau::copy_into(slice(to, dim, shift, size - shift), slice(from, dim, 0, size - shift));
    flambeau::copy_into(slice(to, dim, 0, shift), slice(from, dim, size - shift, shift));
    from = to;
  }
  const Tensor out = result_like(spec, self.device());
  const DimVector row_major =
      flambeau::empty_tensor(out.sizes(), out.dtype(), flambeau::c10::DeviceType::Meta).strides();
  if (is_flat) from = plain_view(from, {DimVector(out.sizes()), row_major, from.storage_offset()});
  flambeau::copy_into(out, from);
  leave(call, out);
  return true;
}

bool run_constant_pad(Call& call) {
  if (!is_here(call.at("self")) || call.target()) return false;
  const Tensor self = call.at("self").tensor(), spec = result_spec(call);
  const auto pad = call.at("pad").get<std::vector<int64_t>>();
  const Tensor out = result_like(spec, self.device());
  flambeau::fill_with(out, call.at("value").get<Scalar>());
  Tensor to = out, from = self;
  for (size_t k = 0; k * 2 < pad.size(); ++k) {
    const int64_t dim = self.dim() - 1 - static_cast<int64_t>(k);
    const int64_t before = pad[2 * k], after = pad[2 * k + 1];
    const int64_t skipped = std::max<int64_t>(-before, 0);
    const int64_t size =
        std::max<int64_t>(self.size(dim) - skipped - std::max<int64_t>(-after, 0), 0);
    to = slice(to, dim, std::max<int64_t>(before, 0), size);
    from = slice(from, dim, skipped, size);
  }
  flambeau::copy_into(to, from);
  leave(call, out);
  return true;
}

}  // namespace flambeau_opencl
