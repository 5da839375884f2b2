// A read is an item per result. Writes and sums are an item per fiber, which takes the indices in
// order, so results are the same in every run and those of the CPU.
#include "positions.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

constexpr const char* kAxes = R"cl(
typedef struct { long size[4], step[4]; } Axes;
inline long offset_of(long at, const long size, const long step) {
  return (at < 0 ? at + size : at) * step;
}
)cl";

constexpr const char* kBounds = R"cl(
__kernel void run(const Geometry g, const long low, const long high, __global int* outside,
                  __global const INDEX* index) {
  const long i = get_global_id(0);
  if (i >= g.elements) return;
  long place = g.offsets[0], rest = i;
  for (long d = g.dims - 1; d >= 0; --d) {
    place += rest % g.sizes[d] * g.strides[0][d];
    rest /= g.sizes[d];
  }
  if (index[place] < low || index[place] >= high) *outside = 1;
}
)cl";

constexpr const char* kRead = R"cl(
__kernel void run(const Geometry g, const Axes axes, __global WORD* out,
                  __global const WORD* in INDICES) {
  const long i = get_global_id(0);
  if (i >= g.elements) return;
  long at[6], rest = i;
  for (int a = 0; a < 6; ++a) at[a] = g.offsets[a];
  for (long d = g.dims - 1; d >= 0; --d) {
    const long k = rest % g.sizes[d];
    rest /= g.sizes[d];
    for (int a = 0; a < 6; ++a) at[a] += k * g.strides[a][d];
  }
  long from = at[1];
  FOR_EACH_INDEX(at, from)
  out[at[0]] = in[from];
}
)cl";

// Arrays of `outer` and `inner`: the tensor that is written, the values, the indices.
constexpr const char* kWrite = R"cl(
__kernel void run(const Geometry outer, const Geometry inner, const Axes axes, __global IN* out,
                  __global const IN* values INDICES) {
  const long i = get_global_id(0);
  if (i >= outer.elements) return;
  long start[6], rest = i;
  for (int a = 0; a < 6; ++a) start[a] = outer.offsets[a];
  for (long d = outer.dims - 1; d >= 0; --d) {
    const long k = rest % outer.sizes[d];
    rest /= outer.sizes[d];
    for (int a = 0; a < 6; ++a) start[a] += k * outer.strides[a][d];
  }
  for (long j = 0; j < inner.elements; ++j) {
    long at[6];
    for (int a = 0; a < 6; ++a) at[a] = start[a];
    rest = j;
    for (long d = inner.dims - 1; d >= 0; --d) {
      const long k = rest % inner.sizes[d];
      rest /= inner.sizes[d];
      for (int a = 1; a < 6; ++a) at[a] += k * inner.strides[a][d];
    }
    long to = at[0];
    FOR_EACH_INDEX(at, to)
#ifdef COMBINE
    const T a = (T)READ_IN(out, to), b = (T)READ_IN(values, at[1]);
    WRITE_IN(out, to, (T)(COMBINE));
#else
    out[to] = values[at[1]];
#endif
  }
}
)cl";

// The parameters of `count` indices, and the statements that add what each contributes.
std::string index_definitions(size_t count) {
  std::string parameters, statements;
  for (size_t k = 0; k < count; ++k) {
    const std::string n = std::to_string(k);
    parameters += ", __global const INDEX* i" + n;
    statements += " to += offset_of(i" + n + "[at[" + std::to_string(k + 2) + "]], axes.size[" + n +
                  "], axes.step[" + n + "]);";
  }
  return "#define INDICES " + parameters + "\n#define FOR_EACH_INDEX(at, to) {" + statements +
         " }\n";
}

bool is_index(const Tensor& t) {
  return t.dtype() == ScalarType::Int64 || t.dtype() == ScalarType::Int32;
}

size_t rounded(int64_t items) { return (static_cast<size_t>(items) + 63) / 64 * 64; }

// Whether all indices are in [low, high). Waits for the device.
bool is_inside(const Tensor& index, int64_t low, int64_t high) {
  Geometry g;
  if (!coalesce(g, index.sizes(), {list_of(index.strides())})) return false;
  if (g.elements == 0) return true;
  g.offsets[0] = index.storage_offset();
  Device& device = device_at(index.device().index);
  const Tensor outside = flambeau::zeros_tensor({1}, ScalarType::Int32, index.device());
  const std::string options =
      "-DINDEX=" + type_name(index.dtype(), device) + " " + type_options(ScalarType::Int32, device);
  const cl_kernel kernel = device.kernel("bounds " + options, prelude() + kBounds, options);
  Launch(device, kernel)
      .value(g)
      .value(low)
      .value(high)
      .memory(device_memory(outside))
      .memory(device_memory(index))
      .run({rounded(g.elements)}, {64});
  return flambeau::item_of(outside).to_int64() == 0;
}

void set_offsets(Geometry& g, const Tensor& first, const Tensor& second, const Positions& p) {
  g.offsets[0] = first.storage_offset();
  g.offsets[1] = second.storage_offset();
  for (size_t k = 0; k < p.indices.size(); ++k) g.offsets[k + 2] = p.indices[k].storage_offset();
}

}  // namespace

std::vector<int64_t> list_of(IntArrayRef values) { return {values.begin(), values.end()}; }

bool Positions::add(const Tensor& self, int64_t dim, const Tensor& index, bool from_end,
                    std::vector<int64_t> outer_strides, std::vector<int64_t> inner_strides) {
  if (indices.size() == kMaxIndices || !is_index(index) || index.device() != self.device() ||
      (!indices.empty() && index.dtype() != indices[0].dtype()))
    return false;
  const int64_t size = self.size(dim);
  if (!is_inside(index, from_end ? -size : 0, size)) return false;
  axes.size[indices.size()] = size;
  axes.step[indices.size()] = self.stride(dim);
  indices.push_back(index);
  outer.push_back(std::move(outer_strides));
  inner.push_back(std::move(inner_strides));
  return true;
}

bool read_at(const Tensor& out, const Tensor& self, std::vector<int64_t> self_strides,
             const Positions& p) {
  std::vector<std::vector<int64_t>> strides{list_of(out.strides()), std::move(self_strides)};
  strides.insert(strides.end(), p.outer.begin(), p.outer.end());
  Geometry g;
  if (!coalesce(g, out.sizes(), strides)) return false;
  if (g.elements == 0) return true;
  set_offsets(g, out, self, p);
  Device& device = device_at(self.device().index);
  const std::string options = "-DWORD=" + word_name(self.dtype()) +
                              " -DINDEX=" + type_name(p.indices[0].dtype(), device) + " " +
                              type_options(ScalarType::Int32, device);
  const size_t count = p.indices.size();
  const cl_kernel kernel =
      device.kernel("read " + std::to_string(count) + options,
                    prelude() + kAxes + index_definitions(count) + kRead, options);
  Launch launch(device, kernel);
  launch.value(g).value(p.axes).memory(device_memory(out)).memory(device_memory(self));
  for (const Tensor& index : p.indices) launch.memory(device_memory(index));
  launch.run({rounded(g.elements)}, {64});
  return true;
}

bool write_at(const Tensor& self, const Tensor& values, const WriteLoops& loops, const Positions& p,
              const std::string& combine) {
  std::vector<std::vector<int64_t>> outer{loops.self_outer, loops.values_outer};
  std::vector<std::vector<int64_t>> inner{std::vector<int64_t>(loops.inner_sizes.size(), 0),
                                          loops.values_inner};
  outer.insert(outer.end(), p.outer.begin(), p.outer.end());
  inner.insert(inner.end(), p.inner.begin(), p.inner.end());
  Geometry g, fiber;
  if (!coalesce(g, loops.outer_sizes, outer) || !coalesce(fiber, loops.inner_sizes, inner))
    return false;
  if (g.elements == 0 || fiber.elements == 0) return true;
  set_offsets(g, self, values, p);
  Device& device = device_at(self.device().index);
  std::string options = "-DINDEX=" + type_name(p.indices[0].dtype(), device) + " ";
  options += combine.empty()
                 ? type_options(ScalarType::Int32, device) + " -DIN=" + word_name(self.dtype())
                 : type_options(self.dtype(), device) + array_options("IN", self.dtype(), device);
  const size_t count = p.indices.size();
  const std::string define = combine.empty() ? "" : "#define COMBINE " + combine + "\n";
  const cl_kernel kernel =
      device.kernel("write " + std::to_string(count) + combine + options,
                    prelude() + kAxes + define + index_definitions(count) + kWrite, options);
  Launch launch(device, kernel);
  launch.value(g).value(fiber).value(p.axes);
  launch.memory(device_memory(self)).memory(device_memory(values));
  for (const Tensor& index : p.indices) launch.memory(device_memory(index));
  launch.run({rounded(g.elements)}, {64});
  return true;
}

}  // namespace flambeau_opencl
