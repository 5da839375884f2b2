// What every operator does under function transforms: the front fallback passes a call to the
// innermost layer; the back fallback, which autograd's wrappers reach below themselves, leaves it.
#include "aten/autograd/variable.h"
#include "aten/transforms/batching.h"
#include "aten/transforms/calls.h"
#include "aten/transforms/functional.h"
#include "aten/transforms/layers.h"

namespace flambeau::transforms {

namespace {

constexpr DispatchKeySet kFront{DispatchKey::FuncTorch};
constexpr DispatchKeySet kBack{DispatchKey::FuncTorchBack};
constexpr DispatchKeySet kAutograd{DispatchKey::Autograd};

// The keys that the operator's own call would gather from these arguments.
DispatchKeySet keys_of_arguments(Stack& stack) {
  DispatchKeySet keys;
  each_tensor(stack, [&](const Tensor& t, int) { keys = keys | t.keys(); });
  for (size_t i = 0; i < stack.size() && keys.empty(); ++i) {
    if (std::holds_alternative<Device>(stack[i].payload()))
      keys = backend_key(stack[i].get<Device>().type);
  }
  return effective_keys(keys_or_cpu(keys));
}

bool changes_any(const OperatorEntry& op) {
  if (!op.traits) return false;
  for (const ArgumentTraits& argument : op.traits->arguments) {
    if (argument.is_mutable) return true;
  }
  return false;
}
// A factory has no derivative, but what it makes is batched if the tensor that it is like is, which
// the parts of a composite would not see.
bool is_factory(const OperatorEntry& op) { return op.traits && op.traits->is_factory; }

// --- dead wrappers ------------------------------------------------------------------------------

struct Escaped {
  Tensor wrapper;
  uint32_t version;
};

// Wrappers that outlived their layer take part as their values.
std::vector<Escaped> unwrap_dead(Stack& stack) {
  std::vector<Escaped> escaped;
  each_tensor(stack, [&](Tensor& t, int) {
    const Wrapper* wrapper = wrapper_of(t);
    if (!wrapper || !is_dead(*wrapper)) return;
    escaped.push_back({t, version_of(t)});
    t = without_dead(t);
  });
  return escaped;
}

// A wrapper around a dead one is refreshed after the one behind it.
void refresh_chain(const Tensor& t, uint32_t version) {
  const Wrapper* wrapper = wrapper_of(t);
  if (!wrapper) return;
  if (is_dead(*wrapper)) refresh_chain(wrapper->value, version);
  if (is_dead(*wrapper)) refresh(t, version);
}

// --- gradient layers ----------------------------------------------------------------------------

// An argument that will be written to must belong to the layer, or its history there would be lost.
void require_own(const OperatorEntry& op, const Tensor& t, const Layer& layer) {
  const Tensor base = autograd::base_of(t);
  const Wrapper* seen = wrapper_at(base.defined() ? base : t, layer.level);
  if (seen && !seen->is_captured) return;
  check(!seen && is_internal(t), op.name,
        ": a transformed function may not mutate a captured Tensor; pass it as an argument");
  become_wrapper(t, autograd::shallow_alias(t), -1, layer.level);
}

void run_tracked(const OperatorEntry& op, Stack& stack, const Layer& layer) {
  if (changes_any(op)) {
    each_tensor(stack, [&](const Tensor& t, int position) {
      if (is_changed(op, position)) require_own(op, t, layer);
    });
  }
  each_tensor(stack, [&](Tensor& t, int) {
    if (wrapper_at(t, layer.level)) return;
    const bool captured = !is_internal(t);
    t = make_tracked(t, layer.level);
    static_cast<Wrapper*>(t.impl()->wrapper())->is_captured = captured;
  });
  // The switches stay as they are: what autograd's wrapper calls besides is a call in this layer.
  const DispatchKeySet untracked = is_factory(op) ? kAutograd : DispatchKeySet();
  redispatch_boxed(op, (keys_of_arguments(stack) - kFront - untracked) | kBack, stack);
}

// One wrapped argument of a call below the layer.
struct Argument {
  Tensor wrapper;
  int position;
  uint32_t version;
};

// A result of the call as a tensor of the layer.
Tensor tracked_result(const OperatorEntry& op, const Tensor& result, int place, bool of_many,
                      const std::vector<Argument>& arguments, int64_t level) {
  const int viewed = viewed_argument(op, place);
  for (const Argument& a : arguments) {
    const Tensor& value = wrapper_of(a.wrapper)->value;
    if (result.is_same(value) && is_changed(op, a.position)) return a.wrapper;
    if (a.position != viewed && result.storage() != value.storage()) continue;
    Tensor view = make_tracked_view(result, a.wrapper);
    if (note_view && !thread_state.inference_mode && autograd::is_view(bottom_of(result)))
      note_view(a.wrapper, view, of_many);
    return view;
  }
  return make_tracked(result, level);
}

void leave_tracked(const OperatorEntry& op, DispatchKeySet, Stack& stack) {
  const Layer* layer = innermost_layer();
  check(layer && layer->kind != LayerKind::Vmap, op.name, ": no gradient layer to leave");
  const int64_t level = layer->level;
  std::vector<Argument> arguments;
  each_tensor(stack, [&](Tensor& t, int position) {
    const Wrapper* wrapper = wrapper_at(t, level);
    if (!wrapper) return;
    arguments.push_back({t, position, version_of(t)});
    t = wrapper->value;
  });
  {
    const BelowLayer below;
    call_operator(op, stack);
  }
  each_tensor(stack, [&](Tensor& t, int place) {
    const bool of_many = !stack[static_cast<size_t>(place)].is_tensor();
    t = tracked_result(op, t, place, of_many, arguments, level);
  });
  for (const Argument& a : arguments) {
    if (is_changed(op, a.position)) refresh(a.wrapper, a.version);
  }
}

// --- the front ----------------------------------------------------------------------------------

void check_reachable(const OperatorEntry& op, Stack& stack) {
  each_tensor(stack, [&](const Tensor& t, int) {
    const Wrapper* wrapper = wrapper_of(t);
    check(!wrapper || wrapper->level == kNoLayer, op.name, ": got a tensor of transform level ",
          wrapper ? wrapper->level : 0,
          ", which is not active here. A tensor cannot be used outside of its transform or on "
          "another thread while the transform runs.");
  });
}

bool has_batched(Stack& stack, int64_t level) {
  bool found = false;
  each_tensor(stack, [&](const Tensor& t, int) { found = found || wrapper_at(t, level); });
  return found;
}

void run_in(const OperatorEntry& op, DispatchKeySet keys, Stack& stack, const Layer& layer) {
  if (layer.kind == LayerKind::Functionalize) return run_functional(op, keys, stack, layer.level);
  const bool batches = layer.kind == LayerKind::Vmap;
  // A composite may have a rule for all of it besides its parts.
  if (batches && has_batched(stack, layer.level)) return run_batched(op, stack);
  void* const composite = is_factory(op) && !batches ? nullptr : composite_kernel(op);
  if (composite) return op.call_boxed(composite, keys, stack);
  if (!batches) return run_tracked(op, stack, layer);
  if (op.traits && op.traits->is_random) return run_batched(op, stack);
  const BelowLayer below;
  call_operator(op, stack);
}

void enter(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const std::vector<Escaped> escaped = unwrap_dead(stack);
  if (const Layer* layer = innermost_layer()) {
    run_in(op, keys, stack, *layer);
  } else {
    check_reachable(op, stack);
    call_operator(op, stack);
  }
  if (escaped.empty() || !changes_any(op)) return;
  for (const Escaped& e : escaped) refresh_chain(e.wrapper, e.version);
}

[[maybe_unused]] const bool installed = [] {
  set_boxed_fallback(DispatchKey::FuncTorch, enter);
  set_boxed_fallback(DispatchKey::FuncTorchBack, leave_tracked);
  return true;
}();

}  // namespace

void call_operator(const OperatorEntry& op, Stack& stack) {
  redispatch_boxed(op, keys_of_arguments(stack), stack);
}

}  // namespace flambeau::transforms
