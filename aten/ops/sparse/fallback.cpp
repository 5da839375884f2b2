// The kernel of every operator without `sparse:` for calls with a sparse tensor.
// - A pointwise operator is evaluated at the entries, where it turns zeros into a zero; this is
//   tried out with the call's own numbers. Where it does not, and a strided operand has as many
//   elements as the result, all operands become strided.
// - A composite runs by its parts, which have rules or end here again, unless it writes to a sparse
//   tensor. One that makes a tensor must make it in the layout asked for.
// - Everything else is refused, so that no kernel of strided tensors meets a sparse one.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/core/sparse.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/operator_traits.h"
#include "torchgen_out/aten/comparison_ops.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/reduction_ops.h"
#include "torchgen_out/aten/sparse_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau {
namespace {

[[noreturn]] void refuse(const OperatorEntry& op) {
  fail(ErrorKind::NotImplemented, op.name,
       ": not implemented for tensors of layout sparse_coo; to_dense() gives a strided one");
}

// The tensors of a pointwise call by their places in the schema.
struct Call {
  const OperatorEntry& op;
  const Stack& arguments;
  std::vector<size_t> sparse, strided;  // operands; without numbers, which have no dimensions
  int target = -1;                      // what is written: self or out=

  const Tensor& at(size_t i) const { return arguments[i].tensor(); }
  bool writes_operand() const {
    return target >= 0 &&
           op.traits->rules[0].arguments[static_cast<size_t>(target)].role != BatchRole::Plain;
  }
};

Call call_of(const OperatorEntry& op, const Stack& stack) {
  Call call{op, stack, {}, {}};
  for (size_t i = 0; i < stack.size(); ++i) {
    const bool is_operand = op.traits->rules[0].arguments[i].role != BatchRole::Plain;
    if (op.traits->arguments[i].is_mutable) {
      if (call.target >= 0) refuse(op);
      call.target = static_cast<int>(i);
    }
    if (!is_operand || !stack[i].is_tensor()) continue;
    if (is_sparse(call.at(i))) {
      call.sparse.push_back(i);
    } else if (call.at(i).dim() > 0) {
      call.strided.push_back(i);
    }
  }
  return call;
}

Tensor run(const OperatorEntry& op, Stack stack) {
  DispatchKeySet keys;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) keys = keys | stack[i].tensor().keys();
  }
  redispatch_boxed(op, effective_keys(keys), stack);
  return stack[0].tensor();
}

bool fits(const Tensor& strided, IntArrayRef sizes) {
  return is_broadcastable_to(strided.sizes(), sizes);
}

// Whether zeros in place of the sparse operands give zeros, for all elements of the strided ones.
bool keeps_zero(const Call& call) {
  Stack zeros = call.arguments;
  for (const size_t i : call.sparse) zeros[i] = IValue(zeros_tensor({1}, call.at(i).dtype()));
  if (call.target >= 0) {
    const auto target = static_cast<size_t>(call.target);
    const ScalarType dtype = call.at(target).dtype();
    if (!call.writes_operand()) zeros[target] = IValue(empty_tensor({0}, dtype));
  }
  const Tensor result = run(call.op, std::move(zeros));
  return !item_of(ops::any::call(ops::ne_Scalar::call(result, Scalar(int64_t{0})))).to_bool();
}

// The places at which a sparse operand has an entry, in order.
Tensor places_of(const Call& call) {
  std::vector<Tensor> indices;
  int64_t count = 0;
  for (const size_t i : call.sparse) {
    indices.push_back(sparse_parts(call.op.name, call.at(i)).indices);
    count += indices.back().size(1);
  }
  const Tensor& first = call.at(call.sparse[0]);
  const auto lead = static_cast<size_t>(indices[0].size(0));
  const Tensor marks = empty_tensor({count}, ScalarType::Bool);
  const Tensor all = make_sparse(call.op.name, first.sizes().slice(0, lead),
                                 {ops::cat::call(indices, 1), marks, false});
  return sparse_parts(call.op.name, ops::_coalesce::call(all)).indices;
}

// The elements of an operand at the places, in a shape that broadcasts to the values there.
Tensor elements_at(const Tensor& t, const Tensor& places, int64_t ndim) {
  if (is_sparse(t)) return ops::_sparse_gather::call(t, places);
  const int64_t lead = places.size(0), missing = ndim - t.dim();
  if (missing >= lead) return t;
  std::vector<Tensor> rows;
  for (int64_t d = missing; d < lead; ++d) {
    const Tensor row = ops::select_int::call(places, 0, d);
    rows.push_back(t.size(d - missing) == 1 ? zeros_tensor(row.sizes(), ScalarType::Int64) : row);
  }
  return ops::_sparse_gather::call(t, ops::_stack::call(rows, 0));
}

Tensor at_entries(const Call& call) {
  const Tensor& first = call.at(call.sparse[0]);
  const Tensor places = places_of(call);
  Stack values = call.arguments;
  for (const std::vector<size_t>* found : {&call.sparse, &call.strided}) {
    for (const size_t i : *found) values[i] = IValue(elements_at(call.at(i), places, first.dim()));
  }
  if (call.target >= 0 && !call.writes_operand()) {
    const auto target = static_cast<size_t>(call.target);
    values[target] = IValue(empty_tensor({0}, call.at(target).dtype()));
  }
  const Tensor result = run(call.op, std::move(values));
  return make_sparse(call.op.name, first.sizes(), {places, result, true});
}

Tensor all_strided(const Call& call) {
  Stack strided = call.arguments;
  for (const size_t i : call.sparse) strided[i] = IValue(ops::_to_dense::call(call.at(i)));
  return run(call.op, std::move(strided));
}

void check_operands(const Call& call) {
  if (call.sparse.empty()) refuse(call.op);
  const Tensor& first = call.at(call.sparse[0]);
  if (first.dim() == 0) refuse(call.op);  // in promotion its values would count as a vector
  const int64_t lead = sparse_parts(call.op.name, first).sparse_dim();
  for (const size_t i : call.sparse) {
    const bool same = call.at(i).sizes() == first.sizes() &&
                      sparse_parts(call.op.name, call.at(i)).sparse_dim() == lead;
    if (!same) refuse(call.op);
  }
  // In place, strided operands would have to be as small as the zeros that are tried out.
  const bool is_sparse_self =
      call.writes_operand() && is_sparse(call.at(static_cast<size_t>(call.target)));
  if (is_sparse_self && !call.strided.empty()) refuse(call.op);
  for (const size_t i : call.strided) {
    if (!fits(call.at(i), first.sizes()) || !call.at(i).is_cpu()) refuse(call.op);
  }
}

void run_pointwise(const OperatorEntry& op, Stack& stack) {
  const Call call = call_of(op, stack);
  check_operands(call);
  const Tensor first = call.at(call.sparse[0]);
  const Tensor target = call.target < 0 ? Tensor() : call.at(static_cast<size_t>(call.target));
  const bool to_sparse = !target.defined() || is_sparse(target);
  Tensor result;
  if (to_sparse && keeps_zero(call)) {
    result = at_entries(call);
  } else {
    bool is_as_large = false;
    for (const size_t i : call.strided) is_as_large |= call.at(i).sizes() == first.sizes();
    if (!is_as_large || (target.defined() && to_sparse)) refuse(op);
    result = all_strided(call);
  }
  if (target.defined() && to_sparse) {
    store_result(op.name, target, result);
    target.impl()->bump_version();
  }
  const Tensor returned = target.defined() ? target : result;
  stack.clear();
  stack.push(IValue(returned));
}

bool writes_sparse(const IValue& value) {
  if (value.is_tensor()) return is_sparse(value.tensor());
  const auto* const list = std::get_if<std::vector<Tensor>>(&value.payload());
  return list && std::any_of(list->begin(), list->end(), is_sparse);
}

bool writes_sparse(const OperatorTraits& traits, const Stack& stack) {
  for (size_t i = 0; i < traits.arguments.size(); ++i) {
    if (traits.arguments[i].is_mutable && writes_sparse(stack[i])) return true;
  }
  return false;
}

Layout wanted_layout(const Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* const given = std::get_if<Layout>(&arguments[i].payload())) return *given;
  }
  return Layout::SparseCoo;  // like the sparse argument
}

void run_parts(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const Layout wanted = wanted_layout(stack);
  op.call_boxed(op.kernel_at(static_cast<int>(DispatchKey::CPU)), keys, stack);
  if (op.traits->is_factory && stack[0].tensor().layout() != wanted) refuse(op);
}

void run_sparse(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const OperatorTraits* traits = op.traits;
  if (!traits || traits->is_random) refuse(op);
  if (traits->is_composite && !writes_sparse(*traits, stack)) return run_parts(op, keys, stack);
  if (traits->is_factory || traits->rules.empty() ||
      traits->rules[0].method != BatchMethod::Pointwise)
    refuse(op);
  run_pointwise(op, stack);
}

[[maybe_unused]] const bool installed = [] {
  set_boxed_fallback(kSparseKey, run_sparse);
  return true;
}();

}  // namespace
}  // namespace flambeau
