// Chooses the rule for a call under vmap. Rules are data (aten/dispatch/operator_traits.h), made
// from the YAML files; no operator is named here.
#include "aten/transforms/batching.h"

#include "aten/autograd/variable.h"
#include "aten/transforms/batching_rules.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/factory_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {

Tensor to_front(const Wrapper& wrapper) {
  if (wrapper.batch_dim == 0) return wrapper.value;
  SmallVector<int64_t, 8> dims;
  dims.push_back(wrapper.batch_dim);
  for (int64_t d = 0; d < wrapper.value.dim(); ++d) {
    if (d != wrapper.batch_dim) dims.push_back(d);
  }
  return ops::permute::call(wrapper.value, dims);
}

Tensor expanded(const Tensor& t, int64_t batch_size) {
  SmallVector<int64_t, 8> sizes;
  sizes.push_back(batch_size);
  for (const int64_t size : t.sizes()) sizes.push_back(size);
  return ops::expand::call(t, sizes);
}

Tensor padded(const Tensor& t, int64_t rank) {
  if (t.dim() - 1 >= rank) return t;
  SmallVector<int64_t, 8> sizes;
  sizes.push_back(t.size(0));
  for (int64_t d = t.dim() - 1; d < rank; ++d) sizes.push_back(1);
  for (int64_t d = 1; d < t.dim(); ++d) sizes.push_back(t.size(d));
  return ops::reshape::call(t, sizes);
}

namespace {

// --- what is written to -------------------------------------------------------------------------

// A tensor that C++ code made within this call: no caller can observe that it becomes batched.
bool is_fresh(const Tensor& t) {
  return !t.impl()->py_slot().object && !t.requires_grad() &&
         bottom_of(t).storage()->use_count() == 1;
}

void require_batched(const BatchedCall& call, Tensor& t) {
  if (const Wrapper* wrapper = call.batched(t)) {
    if (wrapper->batch_dim == 0) return;
    // In-place views change the geometry of the value itself, which must be the one in front.
    const BelowLayer below;
    return become_wrapper(t, to_front(*wrapper), 0, call.layer.level);
  }
  check(is_fresh(t), "vmap: inplace arithmetic(self, *extra_args) is not possible: ", call.op.name,
        " would write a value per entry of the batch to a tensor of size ", t.sizes(),
        " that has no entries of its own. Pass it as a batched argument, or use the operator that "
        "returns a new tensor.");
  Tensor value;
  {
    const BelowLayer below;
    value = ops::clone::call(expanded(autograd::shallow_alias(t), call.layer.batch_size),
                             MemoryFormat::Contiguous);
  }
  become_wrapper(t, value, 0, call.layer.level);
}

}  // namespace

void require_batched_targets(BatchedCall& call) {
  for (size_t i = 0; i < call.traits.arguments.size(); ++i) {
    if (!call.traits.arguments[i].is_mutable) continue;
    each_tensor(call.stack[i], [&](Tensor& t) { require_batched(call, t); });
  }
}

Targets::Targets(BatchedCall& call) {
  for (size_t i = 0; i < call.traits.arguments.size(); ++i) {
    if (!call.traits.arguments[i].is_mutable) continue;
    each_tensor(call.stack[i], [&](const Tensor& t) { targets_.push_back({i, t, version_of(t)}); });
  }
}

Tensor Targets::finished(size_t i) const {
  for (const Target& target : targets_) {
    if (target.argument == i) return target.wrapper;
  }
  return Tensor();
}

void Targets::refresh_all() const {
  for (const Target& target : targets_) {
    if (wrapper_of(target.wrapper)) refresh(target.wrapper, target.version);
  }
}

namespace {

// --- random numbers -----------------------------------------------------------------------------

// Draws for one entry and gives all entries its values.
void draw_once(BatchedCall& call) {
  size_t count = 0, at = 0;
  for (size_t i = 0; i < call.traits.arguments.size(); ++i) {
    if (!call.is_batched(call.stack[i])) continue;
    ++count;
    at = i;
  }
  check(count == 1 && call.traits.arguments[at].is_mutable, call.op.name,
        ": vmap does not support randomness 'same' with a batched tensor input, whose entries "
        "decide what is drawn");
  const Tensor target = call.stack[at].tensor();
  const uint32_t version = version_of(target);
  const Wrapper& wrapper = *call.batched(target);
  {
    const BelowLayer below;
    Tensor value = to_front(wrapper);
    Tensor entry = ops::empty_like::call(ops::select_int::call(value, 0, 0));
    call.stack[at] = IValue(entry);
    call_operator(call.op, call.stack);
    ops::copy_::call(value, entry);
  }
  refresh(target, version);
  call.stack.clear();
  call.stack.push(IValue(target));
}

// Returns whether the call was answered.
bool run_random(BatchedCall& call, bool batched) {
  check(call.layer.randomness != Randomness::Error, "vmap: ", call.op.name,
        " draws random numbers, which randomness error mode refuses. Choose randomness='same' or "
        "'different', or draw outside of vmap.");
  if (call.layer.randomness == Randomness::Different || call.layer.batch_size == 0) return false;
  if (batched) {
    draw_once(call);
  } else {
    const BelowLayer below;
    call_operator(call.op, call.stack);
  }
  return true;
}

// --- rules --------------------------------------------------------------------------------------

// A list without dimensions has a meaning of its own in each operator, and views of tensors without
// dimensions are refused by the operator itself.
bool names_dims(const BatchedCall& call, const BatchRule& rule, size_t i) {
  const int8_t kind = rule.arguments[i].at;
  for (size_t k = 0; k < rule.arguments.size(); ++k) {
    const auto* const sizes = std::get_if<std::vector<int64_t>>(&call.stack[k].payload());
    if (rule.arguments[k].role == BatchRole::Size && sizes && sizes->empty()) return false;
  }
  const IValue& value = call.stack[i];
  const auto* const list = std::get_if<std::vector<int64_t>>(&value.payload());
  if (kind == kDims && list && list->empty()) return false;
  const bool views = !call.traits.results.empty() && call.traits.results[0].alias >= 0 &&
                     !call.traits.results[0].is_self;
  return !(views && kind <= kDims && call.stack[0].tensor().dim() == 0);
}

bool applies(const BatchedCall& call, const BatchRule& rule) {
  if (rule.method == BatchMethod::Parts || rule.method == BatchMethod::Loop) return true;
  for (const BatchPlace& result : rule.results) {
    // Without dimensions there is none to merge the batch into.
    if (result.role == BatchRole::Follow && call.stack[0].tensor().dim() == 0) return false;
  }
  for (size_t i = 0; i < rule.arguments.size(); ++i) {
    const BatchRole role = rule.arguments[i].role;
    if (role == BatchRole::Plain && call.is_batched(call.stack[i])) return false;
    // Merged dimensions may lie in other memory, and without entries their sizes are lost.
    const bool may_fold = !call.traits.arguments[i].is_mutable && call.layer.batch_size > 0;
    if (role == BatchRole::Fold && !may_fold) return false;
    if (role == BatchRole::Dim && !names_dims(call, rule, i)) return false;
  }
  return true;
}

void run_rule(BatchedCall& call, const BatchRule& rule) {
  switch (rule.method) {
    case BatchMethod::Pointwise:
      return run_pointwise(call, rule);
    case BatchMethod::Place:
      return run_place(call, rule);
    case BatchMethod::Loop:
      return run_loop(call);
    case BatchMethod::Parts:
      return call.op.call_boxed(rule.parts, DispatchKeySet(DispatchKey::CPU), call.stack);
  }
}

}  // namespace

void run_batched(const OperatorEntry& op, Stack& stack) {
  check(op.traits, op.name, ": vmap knows no rule for an operator without traits");
  BatchedCall call{op, *op.traits, stack, *innermost_layer()};
  bool batched = false;
  for (size_t i = 0; i < stack.size(); ++i) batched = batched || call.is_batched(stack[i]);
  if (call.traits.is_random && run_random(call, batched)) return;
  if (!batched && !call.traits.is_random && !call.traits.is_composite) {
    const BelowLayer below;
    return call_operator(op, stack);
  }
  for (const BatchRule& rule : call.traits.rules) {
    if (applies(call, rule)) return run_rule(call, rule);
  }
  check(!call.traits.is_dynamic || !batched, op.name,
        ": vmap: the values of a batched tensor would decide a shape, a host value or "
        "data-dependent control flow (such as .item() or `if`), which may differ between entries");
  run_loop(call);
}

}  // namespace flambeau::transforms
