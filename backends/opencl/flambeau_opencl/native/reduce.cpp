// Kernels of reductions: a group of items per result joins the elements of a fiber.
#include <algorithm>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;
using opencl_kernels::Reduction;

constexpr const char* kReduce = R"cl(
T combine(const T a, const T b) { return (T)(COMBINE); }
// One group per result, whose items join every GROUP-th element each.
__kernel void run(const Geometry outer, const Geometry inner, __global OUT* out,
                  __global const IN* in PARAMS) {
  __local T parts[GROUP];
  const long result = get_group_id(0);
  const int item = get_local_id(0);
  long to = outer.offsets[0], from = outer.offsets[1], rest = result;
  for (long d = outer.dims - 1; d >= 0; --d) {
    const long at = rest % outer.sizes[d];
    rest /= outer.sizes[d];
    to += at * outer.strides[0][d];
    from += at * outer.strides[1][d];
  }
  T acc = (T)(IDENTITY);
  for (long i = item; i < inner.elements; i += GROUP) {
    long place = from;
    rest = i;
    for (long d = inner.dims - 1; d >= 0; --d) {
      place += rest % inner.sizes[d] * inner.strides[0][d];
      rest /= inner.sizes[d];
    }
    acc = combine(acc, (T)map_one((T)READ_IN(in, place) PASSED));
  }
  parts[item] = acc;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    for (int k = 1; k < GROUP; ++k) acc = combine(acc, parts[k]);
    WRITE_OUT(out, to, finish_one(acc, FROM_REAL(inner.elements) PASSED));
  }
}
)cl";

std::string reduce_source(const Reduction& row) {
  std::string source = prelude();
  source += std::string("T map_one(") + row.parameters + ") { " + row.map + " }\n";
  source += std::string(is_condition(row.rule) ? "int" : "T") +
            " finish_one(const T acc, const T count" + row.finish_parameters + ") { " + row.finish +
            " }\n";
  std::string params, passed;
  int k = 0;
  for ([[maybe_unused]] const std::string& name : words(row.params)) {
    params += ", const CONSTANT c" + std::to_string(k);
    passed += ", c" + std::to_string(k++);
  }
  return source + "#define PARAMS " + params + "\n#define PASSED " + passed +
         "\n#define IDENTITY " + row.identity + "\n#define COMBINE " + row.combine + "\n" + kReduce;
}

// Which dimensions the call reduces; nothing where its argument is out of range.
std::optional<std::vector<bool>> reduced_dims(const Reduction& row, const Call& call,
                                              int64_t rank) {
  std::vector<int64_t> dims;
  bool all = !*row.dim;
  if (*row.dim) {
    const IValue& v = call.at(row.dim);
    if (v.is_none()) {
      all = true;
    } else if (std::holds_alternative<std::vector<int64_t>>(v.payload())) {
      dims = v.get<std::vector<int64_t>>();
      if (dims.empty() && row.reduces_all) all = true;
    } else {
      dims = {v.get<Scalar>().to_int64()};
    }
  }
  std::vector<bool> reduced(static_cast<size_t>(rank), all);
  for (int64_t d : dims) {
    if (rank == 0) continue;
    if (d < -rank || d >= rank) return std::nullopt;
    reduced[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  }
  return reduced;
}

// Splits the loops over an operand: `outer` over results (arrays: result, operand), `inner` over
// the elements of one result.
bool split(const Tensor& in, const Tensor& out, const std::vector<bool>& reduced, Geometry& outer,
           Geometry& inner) {
  std::vector<int64_t> outer_sizes, inner_sizes, to, from, within;
  const bool keeps = out.dim() == in.dim();
  int64_t place = 0;
  for (int64_t d = 0; d < in.dim(); ++d) {
    if (reduced[static_cast<size_t>(d)]) {
      inner_sizes.push_back(in.size(d));
      within.push_back(in.stride(d));
      place += keeps;
    } else {
      outer_sizes.push_back(in.size(d));
      from.push_back(in.stride(d));
      to.push_back(out.stride(place++));
    }
  }
  outer.offsets[0] = out.storage_offset();
  outer.offsets[1] = in.storage_offset();
  return coalesce(outer, outer_sizes, {to, from}) && coalesce(inner, inner_sizes, {within});
}

void launch(const Reduction& row, const Call& call, const Tensor& in, const Tensor& out,
            const Geometry& outer, const Geometry& inner) {
  if (outer.elements == 0) return;
  Device& device = device_at(in.device().index);
  const int group = outer.elements >= 1024 || inner.elements <= 64 ? 1 : 64;
  const std::string options =
      type_options(in.dtype(), device) + " -DGROUP=" + std::to_string(group) +
      " -DCONSTANT=" + constant_name(in.dtype(), device) + array_options("IN", in.dtype(), device) +
      array_options("OUT", out.dtype(), device);
  const cl_kernel kernel =
      device.kernel(std::string("reduce ") + row.entry + options, reduce_source(row), options);
  Launch launched(device, kernel);
  launched.value(outer).value(inner).memory(device_memory(out)).memory(device_memory(in));
  for (const std::string& name : words(row.params)) {
    const Constant constant(call.at(name).get<Scalar>(), in.dtype());
    launched.bytes(constant.bytes, constant.size);
  }
  const auto items = static_cast<size_t>(group);
  launched.run({static_cast<size_t>(outer.elements) * items}, {items});
}

}  // namespace

bool run_reduction(const std::vector<const Reduction*>& rows, Call& call) {
  const Reduction& first = *rows[0];
  const std::vector<std::string> names = words(first.operands);
  if (names.size() != 1 || !is_here(call.at(names[0])) || call.target()) return false;
  const Tensor given = call.at(names[0]).tensor();
  Device& device = device_at(given.device().index);
  const auto reduced = reduced_dims(first, call, given.dim());
  if (type_name(given.dtype(), device).empty() || !reduced) return false;
  const Tensor spec = result_spec(call);
  const ScalarType compute = is_condition(first.rule) ? given.dtype() : spec.dtype();
  const auto row = std::ranges::find_if(
      rows, [&](const Reduction* each) { return computes(each->categories, compute, device); });
  if (row == rows.end()) return false;
  const Tensor in = in_dtype(given, compute);
  Output output(call, spec, spec.dtype(), given.device());
  Geometry outer, inner;
  if (!split(in, output.written, *reduced, outer, inner)) return false;
  launch(**row, call, in, output.written, outer, inner);
  output.finish(call);
  return true;
}

}  // namespace flambeau_opencl
