// Kernels of pointwise operators: the generated text in a loop over strided operands.
#include <aten/core/promotion.h>

#include <algorithm>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::api::device_memory;

ScalarType in_rule(const std::string& rule, ScalarType common) {
  const bool is_floating = is_floating_type(common) || is_complex_type(common);
  if (rule == "floating" && !is_floating) return flambeau::c10::default_dtype();
  if (rule == "number" && common == ScalarType::Bool) return ScalarType::Int64;
  return common;
}

std::vector<int64_t> expanded(const Tensor& t, IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  const size_t lead = sizes.size() - static_cast<size_t>(t.dim());
  for (size_t d = lead; d < sizes.size(); ++d) {
    const auto own = static_cast<int64_t>(d - lead);
    if (t.size(own) != 1) strides[d] = t.stride(own);
  }
  return strides;
}

struct Operand {
  std::optional<Tensor> tensor;  // on the device; else a number
  Scalar number;
};

Operand operand_of(const IValue& v) {
  if (is_here(v)) return {v.tensor(), {}};
  if (v.is_tensor()) return {std::nullopt, flambeau::item_of(v.tensor())};
  return {std::nullopt, v.get<Scalar>()};
}

using Row = opencl_kernels::Pointwise;

const Row* chosen_row(const std::vector<const Row*>& rows, const Call& call) {
  if (!*rows[0]->switched) return rows[0];
  const IValue& value = call.at(rows[0]->switched);
  const std::string text = value.is_none() ? "" : value.get<std::string>();
  for (const Row* row : rows) {
    if (text == row->chosen) return row;
  }
  return nullptr;
}

// The row of the same case for the compute type.
const Row* row_for(const std::vector<const Row*>& rows, const Row& found, ScalarType compute) {
  for (const Row* row : rows) {
    if (std::string(row->chosen) == found.chosen && is_for(row->categories, compute)) return row;
  }
  return nullptr;
}

ScalarType compute_type(const Row& row, const Call& call) {
  const std::vector<std::string> masks = words(row.masks);
  flambeau::TypePromotion promotion;
  for (const std::string& name : words(row.operands)) {
    if (std::find(masks.begin(), masks.end(), name) != masks.end()) continue;
    const IValue& v = call.at(name);
    v.is_tensor() ? promotion.add(v.tensor()) : promotion.add(v.get<Scalar>());
  }
  return in_rule(row.rule, promotion.result());
}

std::string pointwise_source(const Row& row, const std::string& shape) {
  std::string arguments, reads, passed;
  int array = 1, k = 0;
  for (const char kind : shape) {
    const std::string n = std::to_string(k++);
    const std::string place = std::to_string(array);
    passed += (passed.empty() ? "" : ", ") + std::string(kind == 'T' ? "x" : "c") + n;
    if (kind == 'T') {
      arguments += ", __global const IN* a" + n;
      reads += "  const T x" + n + " = (T)READ_IN(a" + n + ", at" + place + ");\n";
      ++array;
    } else {
      arguments += ", const CONSTANT c" + n;
    }
  }
  std::string moves, starts;
  for (int a = 0; a < array; ++a) {
    const std::string n = std::to_string(a);
    starts += "  long at" + n + " = g.offsets[" + n + "];\n";
    moves += "    at" + n + " += at * g.strides[" + n + "][d];\n";
  }
  return prelude() + "RESULT cell(" + row.parameters + ") { " + row.body + " }\n" +
         "__kernel void run(const Geometry g, __global OUT* out" + arguments + ") {\n" +
         "  const long i = get_global_id(0);\n  if (i >= g.elements) return;\n" + starts +
         "  long rest = i;\n  for (long d = g.dims - 1; d >= 0; --d) {\n" +
         "    const long at = rest % g.sizes[d];\n    rest /= g.sizes[d];\n" + moves + "  }\n" +
         reads + "  WRITE_OUT(out, at0, cell(" + passed + "));\n}\n";
}

struct PointwiseCall {
  const Row& row;
  ScalarType compute;
  std::vector<Operand> operands;  // and params behind them
  std::string shape;              // per operand: T for a tensor, N for a number
};

std::optional<PointwiseCall> prepared(const std::vector<const Row*>& rows, const Call& call) {
  const Row* const found = chosen_row(rows, call);
  if (!found) return std::nullopt;
  const ScalarType compute = compute_type(*found, call);
  const Row* const row = row_for(rows, *found, compute);
  if (!row) return std::nullopt;
  PointwiseCall made{*row, compute, {}, ""};
  int tensors = 0;
  for (const std::string& name : words(row->operands)) {
    const IValue& v = call.at(name);
    if (v.is_tensor() && !is_here(v) && v.tensor().dim() > 0) return std::nullopt;
    made.operands.push_back(operand_of(v));
    tensors += made.operands.back().tensor.has_value();
  }
  for (const std::string& name : words(row->params))
    made.operands.push_back({std::nullopt, call.at(name).get<Scalar>()});
  for (const Operand& o : made.operands) {
    made.shape += o.tensor ? 'T' : 'N';
    if (o.tensor) continue;
    const bool is_complex = is_complex_type(made.compute);
    const bool rounds = o.number.is_floating() && !is_floating_type(made.compute);
    if (!is_complex && (o.number.is_complex() || rounds)) return std::nullopt;
  }
  return tensors > 0 && tensors < kMaxArrays ? std::optional(made) : std::nullopt;
}

// All operands are on one device, which the call's errors have to say otherwise.
std::optional<int> device_of(const PointwiseCall& call) {
  std::optional<int> found;
  for (const Operand& o : call.operands) {
    if (!o.tensor) continue;
    const int index = o.tensor->device().index;
    if (found && *found != index) return std::nullopt;
    found = index;
  }
  return found;
}

// Whether the result can be written where the call wants it.
bool fits_target(const Call& call, ScalarType result) {
  const auto target = call.target();
  return !target ||
         (target->device().type == DeviceType::PrivateUse1 && can_cast(result, target->dtype()));
}

// The operands in the compute type, and the loop over them and the output.
struct Loop {
  Geometry geometry;
  std::vector<Tensor> tensors;
  bool is_possible;

  Loop(const PointwiseCall& p, const Tensor& written) {
    std::vector<std::vector<int64_t>> strides{{written.strides().begin(), written.strides().end()}};
    geometry.offsets[0] = written.storage_offset();
    for (const Operand& o : p.operands) {
      if (!o.tensor) continue;
      tensors.push_back(in_dtype(*o.tensor, p.compute));
      geometry.offsets[tensors.size()] = tensors.back().storage_offset();
      strides.push_back(expanded(tensors.back(), written.sizes()));
    }
    is_possible = coalesce(geometry, written.sizes(), strides);
  }
};

void launch(const PointwiseCall& p, const Loop& loop, const Tensor& written, Device& device) {
  if (loop.geometry.elements == 0) return;
  const std::string options =
      type_options(p.compute, device) + " -DCONSTANT=" + constant_name(p.compute, device) +
      array_options("IN", p.compute, device) + array_options("OUT", written.dtype(), device) +
      " -DRESULT=" + (is_condition(p.row.rule) ? "int" : "T");
  const std::string key =
      std::string(p.row.entry) + " " + p.row.chosen + " " + p.shape + " " + options;
  const cl_kernel kernel = device.kernel(key, pointwise_source(p.row, p.shape), options);
  Launch call(device, kernel);
  call.value(loop.geometry).memory(device_memory(written));
  size_t next = 0;
  for (const Operand& o : p.operands) {
    if (o.tensor) {
      call.memory(device_memory(loop.tensors[next++]));
    } else {
      const Constant constant(o.number, p.compute);
      call.bytes(constant.bytes, constant.size);
    }
  }
  call.run({(static_cast<size_t>(loop.geometry.elements) + 63) / 64 * 64}, {64});
}

}  // namespace

bool run_pointwise(const std::vector<const Row*>& cases, Call& call) {
  const auto p = prepared(cases, call);
  if (!p) return false;
  const auto index = device_of(*p);
  if (!index || !computes(p->row.categories, p->compute, device_at(*index))) return false;
  const ScalarType result = is_condition(p->row.rule) ? ScalarType::Bool : p->compute;
  if (!fits_target(call, result)) return false;
  const Tensor spec = result_spec(call);
  const flambeau::c10::Device place(DeviceType::PrivateUse1, static_cast<int8_t>(*index));
  Output output(call, spec, result, place);
  const Loop loop(*p, output.written);
  if (!loop.is_possible) return false;
  launch(*p, loop, output.written, device_at(*index));
  output.finish(call);
  return true;
}

}  // namespace flambeau_opencl
