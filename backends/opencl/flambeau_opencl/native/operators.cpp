// The kernels of pointwise operators and reductions, from the texts that flambeau's generator wrote
// (torchgen_out/opencl/kernels.h). The operator's Meta function checks the arguments and gives the
// shape; what a device cannot compute runs on the CPU.
#include <aten/core/factory.h>
#include <aten/core/promotion.h>
#include <torch/library.h>
#include <torchgen_out/aten/arithmetic_ops.h>
#include <torchgen_out/aten/view_ops.h>
#include <torchgen_out/opencl/kernels.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <sstream>

#include "kernels.h"

namespace flambeau_opencl {
namespace {

using flambeau::DispatchKeySet;
using flambeau::IValue;
using flambeau::OperatorEntry;
using flambeau::Stack;
using flambeau::api::device_memory;
using flambeau::c10::DeviceType;
using flambeau::c10::Scalar;

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

bool is_here(const IValue& v) {
  return v.is_tensor() && v.tensor().device().type == DeviceType::PrivateUse1;
}

// The arguments of a call by their names.
struct Call {
  const OperatorEntry& op;
  Stack& stack;

  const IValue& at(const std::string& name) const { return stack[position(name)]; }
  size_t position(const std::string& name) const {
    const auto arguments = op.traits->arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (name == arguments[i].name) return i;
    }
    TORCH_CHECK(false, op.name, ": expected an argument ", name);
  }
  // The tensor that is written, if the form writes one.
  std::optional<Tensor> target() const {
    const auto arguments = op.traits->arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].is_mutable) return stack[i].tensor();
    }
    return std::nullopt;
  }
};

// What the operator's Meta function makes of tensors with the geometry of the call's: sizes and
// dtype of the result. It raises the operator's errors.
Tensor result_spec(const Call& call) {
  Stack stack = call.stack;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!is_here(stack[i])) continue;
    const Tensor& t = stack[i].tensor();
    Tensor meta(flambeau::c10::make_intrusive<flambeau::c10::TensorImpl>(
        flambeau::c10::make_intrusive<flambeau::c10::StorageImpl>(t.storage()->nbytes(),
                                                                   flambeau::c10::Device(DeviceType::Meta)),
        t.dtype(), DeviceType::Meta));
    meta.impl()->set_geometry(t.sizes(), t.strides(), t.storage_offset());
    stack[i] = IValue(meta);
  }
  redispatch_boxed(call.op, flambeau::c10::DispatchKey::Meta, stack);
  return stack[0].tensor();
}

unsigned category_of(ScalarType dtype) {
  return dtype == ScalarType::Bool ? 1 : is_floating_type(dtype) ? 4 : 2;
}
bool computes(unsigned categories, ScalarType dtype, const Device& device) {
  return (categories & category_of(dtype)) != 0 && !type_name(dtype, device).empty();
}
ScalarType in_rule(const std::string& rule, ScalarType common) {
  if (rule == "floating" && !is_floating_type(common)) return flambeau::c10::default_dtype();
  if (rule == "number" && common == ScalarType::Bool) return ScalarType::Int64;
  return common;
}

// Numbers in the compute type, as the kernel's parameters take them.
struct Constant {
  alignas(8) char bytes[16] = {};
  size_t size;
  Constant(const Scalar& value, ScalarType compute) : size(element_size(compute)) {
    value.store(compute, bytes);
  }
};

Tensor in_dtype(const Tensor& t, ScalarType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor cast = flambeau::empty_tensor(t.sizes(), dtype, t.device());
  flambeau::copy_into(cast, t);
  return cast;
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

// The tensor that a kernel writes: the target itself where nothing else reads its memory, else a
// fresh one that is copied to it.
struct Output {
  Tensor written;
  std::optional<Tensor> target;

  Output(const Call& call, const Tensor& spec, ScalarType dtype, flambeau::c10::Device device)
      : target(call.target()) {
    if (target && target->sizes() != spec.sizes()) flambeau::ops::_set_sizes_::call(*target, spec.sizes(), false);
    const bool direct = target && target->dtype() == dtype && is_alone(call);
    written = direct ? *target
              : target ? flambeau::empty_tensor(spec.sizes(), dtype, device)
                       : flambeau::empty_strided_tensor(spec.sizes(), spec.strides(), dtype, device);
  }
  void finish(Call& call) {
    if (target) {
      if (!written.is_same(*target)) flambeau::copy_into(*target, written);
      target->impl()->bump_version();
    }
    const Tensor result = target ? *target : written;
    call.stack.clear();
    call.stack.push(IValue(result));
  }

 private:
  bool is_alone(const Call& call) const {
    for (size_t i = 0; i < call.stack.size(); ++i) {
      if (!is_here(call.stack[i])) continue;
      const Tensor& t = call.stack[i].tensor();
      const bool same_place = t.storage_offset() == target->storage_offset() &&
                              t.sizes() == target->sizes() && t.strides() == target->strides() &&
                              t.dtype() == target->dtype();
      if (t.storage() == target->storage() && !same_place) return false;
    }
    return true;
  }
};

// --- pointwise -----------------------------------------------------------------------------------

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

bool is_condition(const Row& row) {
  return std::strcmp(row.rule, "compare") == 0 || std::strcmp(row.rule, "logical") == 0;
}

std::string pointwise_source(const Row& row, const std::string& shape) {
  std::string arguments, reads, passed;
  int array = 1, k = 0;
  for (const char kind : shape) {
    const std::string n = std::to_string(k++);
    const std::string place = std::to_string(array);
    passed += (passed.empty() ? "" : ", ") + std::string(kind == 'T' ? "x" : "c") + n;
    if (kind == 'T') {
      arguments += ", __global const MEMORY* a" + n;
      reads += "  const T x" + n + " = (T)a" + n + "[at" + place + "];\n";
      ++array;
    } else {
      arguments += ", const MEMORY c" + n;
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
         reads + "  out[at0] = (OUT)cell(" + passed + ");\n}\n";
}

struct PointwiseCall {
  const Row& row;
  ScalarType compute;
  std::vector<Operand> operands;  // and params behind them
  std::string shape;              // per operand: T for a tensor, N for a number
};

std::optional<PointwiseCall> prepared(const std::vector<const Row*>& rows, const Call& call) {
  const Row* const row = chosen_row(rows, call);
  if (!row) return std::nullopt;
  PointwiseCall made{*row, compute_type(*row, call), {}, ""};
  int tensors = 0;
  for (const std::string& name : words(row->operands)) {
    const IValue& v = call.at(name);
    if (v.is_tensor() && !is_here(v) && v.tensor().dim() > 0) return std::nullopt;
    made.operands.push_back(operand_of(v));
    tensors += made.operands.back().tensor.has_value();
  }
  for (const std::string& name : words(row->params)) made.operands.push_back({std::nullopt, call.at(name).get<Scalar>()});
  for (const Operand& o : made.operands) {
    made.shape += o.tensor ? 'T' : 'N';
    if (o.tensor) continue;
    const bool rounds = o.number.is_floating() && !is_floating_type(made.compute);
    if (o.number.is_complex() || rounds) return std::nullopt;
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

bool run_pointwise(const std::vector<const Row*>& rows, Call& call) {
  const auto p = prepared(rows, call);
  if (!p) return false;
  const auto index = device_of(*p);
  if (!index || !computes(p->row.categories, p->compute, device_at(*index))) return false;
  Device& device = device_at(*index);
  const auto target = call.target();
  const ScalarType result = is_condition(p->row) ? ScalarType::Bool : p->compute;
  if (target && (target->device().type != DeviceType::PrivateUse1 || !can_cast(result, target->dtype()))) return false;
  const Tensor spec = result_spec(call);
  Output output(call, spec, result, flambeau::c10::Device(DeviceType::PrivateUse1, static_cast<int8_t>(*index)));
  Geometry g;
  std::vector<std::vector<int64_t>> strides{{output.written.strides().begin(), output.written.strides().end()}};
  g.offsets[0] = output.written.storage_offset();
  std::vector<Tensor> kept;
  for (const Operand& o : p->operands) {
    if (!o.tensor) continue;
    kept.push_back(in_dtype(*o.tensor, p->compute));
    g.offsets[kept.size()] = kept.back().storage_offset();
    strides.push_back(expanded(kept.back(), spec.sizes()));
  }
  if (!coalesce(g, spec.sizes(), strides)) return false;
  if (g.elements > 0) {
    const std::string options = type_options(p->compute, device) + " -DMEMORY=" +
                                memory_name(p->compute, device) + " -DOUT=" +
                                memory_name(result, device) + " -DRESULT=" +
                                (is_condition(p->row) ? "int" : "T");
    const std::string key = std::string(p->row.entry) + " " + p->row.chosen + " " + p->shape + options;
    const cl_kernel kernel = device.kernel(key, pointwise_source(p->row, p->shape), options);
    Launch launch(device, kernel);
    launch.value(g).memory(device_memory(output.written));
    size_t next = 0;
    for (const Operand& o : p->operands) {
      if (o.tensor) {
        launch.memory(device_memory(kept[next++]));
      } else {
        const Constant constant(o.number, p->compute);
        launch.bytes(constant.bytes, constant.size);
      }
    }
    launch.run({(static_cast<size_t>(g.elements) + 63) / 64 * 64}, {64});
  }
  output.finish(call);
  return true;
}

// --- reductions ----------------------------------------------------------------------------------

using Reduction = opencl_kernels::Reduction;

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
    acc = combine(acc, (T)map_one((T)in[place] PASSED));
  }
  parts[item] = acc;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    for (int k = 1; k < GROUP; ++k) acc = combine(acc, parts[k]);
    out[to] = (OUT)finish_one(acc, (T)inner.elements PASSED);
  }
}
)cl";

std::string reduce_source(const Reduction& row) {
  std::string source = prelude();
  const bool is_condition = std::strcmp(row.rule, "compare") == 0 || std::strcmp(row.rule, "logical") == 0;
  source += std::string("T map_one(") + row.parameters + ") { " + row.map + " }\n";
  source += std::string(is_condition ? "int" : "T") + " finish_one(const T acc, const T count" + row.finish_parameters + ") { " + row.finish + " }\n";
  std::string params, passed;
  int k = 0;
  for ([[maybe_unused]] const std::string& name : words(row.params)) {
    params += ", const MEMORY c" + std::to_string(k);
    passed += ", c" + std::to_string(k++);
  }
  return source + "#define PARAMS " + params + "\n#define PASSED " + passed + "\n#define IDENTITY " + row.identity + "\n#define COMBINE " + row.combine + "\n" + kReduce;
}

// Which dimensions the call reduces; nothing where its argument is out of range.
std::optional<std::vector<bool>> reduced_dims(const Reduction& row, const Call& call, int64_t rank) {
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
bool split(const Tensor& in, const Tensor& out, const std::vector<bool>& reduced, Geometry& outer, Geometry& inner) {
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

bool run_reduction(const Reduction& row, Call& call) {
  const std::vector<std::string> names = words(row.operands);
  if (names.size() != 1 || !is_here(call.at(names[0])) || call.target()) return false;
  const Tensor& given = call.at(names[0]).tensor();
  Device& device = device_at(given.device().index);
  if (type_name(given.dtype(), device).empty()) return false;
  const auto reduced = reduced_dims(row, call, given.dim());
  if (!reduced) return false;
  const Tensor spec = result_spec(call);
  const bool is_condition = std::strcmp(row.rule, "compare") == 0 || std::strcmp(row.rule, "logical") == 0;
  const ScalarType compute = is_condition ? given.dtype() : spec.dtype();
  if (!computes(row.categories, compute, device)) return false;
  const Tensor in = in_dtype(given, compute);
  Output output(call, spec, spec.dtype(), given.device());
  Geometry outer, inner;
  if (!split(in, output.written, *reduced, outer, inner)) return false;
  if (outer.elements > 0) {
    const int group = outer.elements >= 1024 || inner.elements <= 64 ? 1 : 64;
    const std::string options = type_options(compute, device) + " -DGROUP=" + std::to_string(group) + " -DMEMORY=" + memory_name(compute, device) +
                                " -DIN=" + memory_name(compute, device) + " -DOUT=" + memory_name(spec.dtype(), device);
    const cl_kernel kernel = device.kernel(std::string("reduce ") + row.entry + options, reduce_source(row), options);
    Launch launch(device, kernel);
    launch.value(outer).value(inner).memory(device_memory(output.written)).memory(device_memory(in));
    for (const std::string& name : words(row.params)) {
      const Constant constant(call.at(name).get<Scalar>(), compute);
      launch.bytes(constant.bytes, constant.size);
    }
    launch.run({static_cast<size_t>(outer.elements) * static_cast<size_t>(group)}, {static_cast<size_t>(group)});
  }
  output.finish(call);
  return true;
}

// --- products ------------------------------------------------------------------------------------

bool run_product(Call& call) {
  for (size_t i = 0; i < call.stack.size(); ++i) {
    if (!is_here(call.stack[i])) return false;
  }
  const size_t first = call.stack.size() == 3 ? 1 : 0;  // _addmm(self, mat1, mat2)
  const Tensor a = call.stack[first].tensor(), b = call.stack[first + 1].tensor();
  const Tensor spec = result_spec(call);
  for (size_t i = 0; i < call.stack.size(); ++i) {
    if (call.stack[i].tensor().device() != a.device()) return false;
  }
  Output output(call, spec, spec.dtype(), a.device());
  if (!multiply(a, b, output.written)) return false;
  if (first) output.written = flambeau::ops::add_Tensor::call(output.written, call.stack[0].tensor(), 1);
  output.finish(call);
  return true;
}

// --- registration --------------------------------------------------------------------------------

template <typename F>
void implement(flambeau::api::Library& library, const char* entry, const F& run) {
  const OperatorEntry* const op = flambeau::find_operator(entry);
  TORCH_CHECK(op != nullptr, "opencl: this flambeau has no operator ", entry);
  library.impl(entry, flambeau::api::CppFunction::boxed([op, run](DispatchKeySet, Stack& stack) {
    Call call{*op, stack};
    if (!run(call)) flambeau::api::run_on_cpu(*op, stack);
  }));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::map<std::string, std::vector<const Row*>> rows;
  for (const Row& row : opencl_kernels::pointwise) rows[row.entry].push_back(&row);
  for (const auto& [entry, cases] : rows)
    implement(m, entry.c_str(), [cases = cases](Call& call) { return run_pointwise(cases, call); });
  for (const Reduction& row : opencl_kernels::reductions)
    implement(m, row.entry, [&row](Call& call) { return run_reduction(row, call); });
  for (const char* entry : {"mm", "bmm", "_addmm"}) implement(m, entry, run_product);
}

}  // namespace
}  // namespace flambeau_opencl
