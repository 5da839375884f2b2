#include "aten/transforms/functional.h"

#include <algorithm>

#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "aten/core/sparse.h"
#include "aten/dispatch/assign.h"
#include "aten/transforms/calls.h"
#include "c10/core/wrapper_data.h"
#include "torchgen_out/aten/copy_ops.h"
#include "torchgen_out/aten/unary_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {
namespace {

constexpr DispatchKeySet kKey{DispatchKey::Functionalize};
constexpr DispatchKeySet kAllButBackends(((uint64_t{1} << kNumDispatchKeys) - 1) &
                                         ~kBackendKeys.bits());
thread_local constinit bool copies_views_without_layer = false;

// Runs `f` where the tensors of the level are seen as their values.
template <typename F>
void below(int64_t level, const F& f) {
  const Layer* layer = innermost_layer();
  if (layer && layer->level >= level) {
    const BelowLayer left;
    return below(level, f);
  }
  const ExcludeKeys ordinary(level == kNoLayer ? kKey : DispatchKeySet());
  f();
}

Functional& root_of(Functional& functional) {
  Functional* at = &functional;
  while (at->parent) at = at->parent.get();
  return *at;
}

ViewGeometry geometry_of(const Tensor& t, int64_t offset) {
  return {DimVector(t.sizes()), DimVector(t.strides()), offset, t.dtype(), t.keys() & kLazyKeys};
}
bool is_equal(const ViewGeometry& a, const ViewGeometry& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.storage_offset == b.storage_offset;
}

Tensor wrapped(intrusive_ptr<Functional> functional, Storage storage) {
  const ViewGeometry geometry = functional->geometry;
  Tensor t(
      make_intrusive<TensorImpl>(std::move(storage), geometry.dtype, functional->value.device()));
  t.impl()->set_geometry(geometry.sizes, geometry.strides, geometry.storage_offset);
  attach_functional(t, std::move(functional));
  return t;
}

const Tensor& refreshed(Functional& functional);

// --- values --------------------------------------------------------------------------------------

bool is_strided(const Functional& view) {
  const ViewGeometry& base = view.parent->geometry;
  return base.dtype == view.geometry.dtype && base.flips == view.geometry.flips;
}
// The farthest tensor that differs from a view in geometry only.
Functional& ancestor_of(Functional& view) {
  Functional* from = &view;
  while (from->parent && is_strided(*from)) from = from->parent.get();
  return *from;
}

// Copies of views are row-major, but a program may count on their strides in memory.
bool needs_memory(const OperatorEntry& op, const Functional& base) {
  return base.copies_views && &op == &ops::as_strided::entry;
}
Tensor copied_from_memory(Functional& base, const ViewGeometry& part) {
  Functional& from = ancestor_of(base);
  return ops::_as_strided_copy::call(refreshed(from), from.geometry.strides,
                                     from.geometry.storage_offset, part.sizes, part.strides,
                                     part.storage_offset);
}

// Makes the views, or their copies, of the tensor on the stack.
void call_view(const OperatorEntry& op, Stack& stack, bool copies) {
  const OperatorEntry* copy = copies ? op.traits->functional : nullptr;
  call_operator(copy ? *copy : op, stack);
  if (copies && !copy) each_tensor(stack, [](Tensor& t, int) { t = ops::clone::call(t); });
}

Tensor viewed(const Functional& view, const Tensor& base) {
  const ViewCall& call = view.call;
  if (needs_memory(*call.op, *view.parent)) return copied_from_memory(*view.parent, view.geometry);
  Stack stack = call.arguments;
  stack[call.viewed] = IValue(base);
  call_view(*call.op, stack, view.copies_views);
  if (call.piece < 0) return stack[0].tensor();
  return stack[0].get<std::vector<Tensor>>()[static_cast<size_t>(call.piece)];
}

const Tensor& refreshed(Functional& functional) {
  const int64_t now = root_of(functional).generation;
  if (functional.generation == now) return functional.value;
  functional.value = viewed(functional, refreshed(*functional.parent));
  functional.generation = now;
  return functional.value;
}

// `value` in the strides of the geometry, which views of it may need.
Tensor restrided(const Tensor& value, const ViewGeometry& to) {
  if (value.strides() == IntArrayRef(to.strides) || value.numel() == 0) return value;
  const Tensor memory = ops::clone::call(value, MemoryFormat::Contiguous);
  const Tensor flat = ops::view_op::call(memory, {memory.numel()});
  const Tensor written = ops::as_strided_scatter::call(flat, value, to.sizes, to.strides, 0);
  return ops::as_strided::call(written, to.sizes, to.strides, 0);
}

// What the viewed tensor is where its view is `value`, for a view that reads memory as other
// numbers.
Tensor read_back(const Functional& view, const Tensor& value) {
  const OperatorEntry* inverse = view.call.op->traits->inverse;
  check(inverse, view.call.op->name,
        ": expected a view that can be written to, got one that cannot");
  if (inverse->traits->functional) inverse = inverse->traits->functional;
  Stack stack;
  stack.push(IValue(value));
  if (inverse->traits->arguments.size() > 1) stack.push(IValue(view.parent->geometry.dtype));
  call_operator(*inverse, stack);
  return ops::resolve_neg::call(ops::resolve_conj::call(stack[0].tensor()));
}

// Replaces the root's value so that the view has the elements of `value`.
void replace(Functional& view, Tensor value) {
  Functional* const from = &ancestor_of(view);
  const ViewGeometry& part = view.geometry;
  if (!is_equal(part, from->geometry)) {
    const int64_t offset = part.storage_offset - from->geometry.storage_offset;
    const Tensor whole = restrided(refreshed(*from), from->geometry);
    value = ops::as_strided_scatter::call(whole, value, part.sizes, part.strides, offset);
  }
  if (from->parent) return replace(*from->parent, read_back(*from, value));
  const bool fits = value.strides() == IntArrayRef(from->geometry.strides);
  from->value = fits                 ? value
                : from->copies_views ? ops::clone::call(value, MemoryFormat::Contiguous)
                                     : restrided(value, from->geometry);
  ++from->generation;
}

// --- calls ---------------------------------------------------------------------------------------

// A tensor of the call and what stands for it below.
struct Given {
  Tensor tensor;
  Tensor value;
};

std::vector<Given> take_values(Stack& stack, int64_t level) {
  std::vector<Given> given;
  each_tensor(stack, [&](Tensor& t, int) {
    Functional* functional = functional_at(t, level);
    given.push_back({t, functional ? updated(*functional) : t});
    t = given.back().value;
  });
  return given;
}

void wrap_results(Stack& stack, const std::vector<Given>& given, int64_t level) {
  each_tensor(stack, [&](Tensor& t, int) {
    for (const Given& g : given) {
      if (t.is_same(g.value)) return void(t = g.tensor);
    }
    t = make_functional(t, level);
  });
}

void run_plain(const OperatorEntry& op, Stack& stack, int64_t level) {
  const std::vector<Given> given = take_values(stack, level);
  below(level, [&] { call_operator(op, stack); });
  wrap_results(stack, given, level);
}

// A meta tensor with the geometry of another one, in memory that holds `extent` elements.
Tensor stand_in(const ViewGeometry& geometry, int64_t extent) {
  const Device device{DeviceType::Meta};
  const Tensor t = empty_strided_tensor({extent}, {1}, geometry.dtype, device);
  t.impl()->set_geometry(geometry.sizes, geometry.strides, geometry.storage_offset);
  t.impl()->add_keys(geometry.flips);
  return t;
}
int64_t extent_from(const ViewGeometry& geometry) {
  int64_t last = geometry.storage_offset;
  // Other sizes of an empty tensor may be so large that their product overflows.
  if (std::find(geometry.sizes.begin(), geometry.sizes.end(), 0) != geometry.sizes.end())
    return last;
  for (size_t d = 0; d < geometry.sizes.size(); ++d)
    last += (geometry.sizes[d] - 1) * geometry.strides[d];
  return last + 1;
}

void call_on_meta(const OperatorEntry& op, Stack& stack) {
  const ExcludeKeys plain(kAllButBackends);
  redispatch_boxed(op, DispatchKey::Meta, stack);
}

// --- views ---------------------------------------------------------------------------------------

bool views_functional(const OperatorEntry& op, Stack& stack, int64_t level) {
  const int at = viewed_argument(op, 0);
  return at >= 0 && op.call_boxed && op.kernel_at(static_cast<int>(DispatchKey::Meta)) &&
         stack[static_cast<size_t>(at)].is_tensor() &&
         functional_at(stack[static_cast<size_t>(at)].tensor(), level);
}

struct Viewing {
  ViewCall call;
  Tensor base;
  Functional& parent;
};

Tensor make_view(Viewing& viewing, const Tensor& geometry, int64_t piece, const Tensor& value) {
  auto view = make_intrusive<Functional>();
  view->level = viewing.parent.level;
  view->is_functional = true;
  view->copies_views = viewing.parent.copies_views;
  view->parent = intrusive_ptr<Functional>::share(&viewing.parent);
  view->call = viewing.call;
  view->call.piece = piece;
  view->geometry = geometry_of(geometry, geometry.storage_offset());
  view->value = value;
  view->generation = root_of(viewing.parent).generation;
  return wrapped(std::move(view), viewing.base.storage());
}

// The geometry of all views that the call makes.
std::vector<Tensor> geometries_of(const Viewing& viewing) {
  const ViewGeometry& root = root_of(viewing.parent).geometry;
  const size_t bytes = static_cast<size_t>(extent_from(root)) * element_size(root.dtype);
  const ViewGeometry& own = viewing.parent.geometry;
  const auto extent = static_cast<int64_t>(bytes / element_size(own.dtype));
  Stack stack = viewing.call.arguments;
  stack[viewing.call.viewed] = IValue(stand_in(own, extent));
  call_on_meta(*viewing.call.op, stack);
  if (stack[0].is_tensor()) return {stack[0].tensor()};
  return stack[0].get<std::vector<Tensor>>();
}

void run_view(const OperatorEntry& op, Stack& stack, int64_t level) {
  const auto at = static_cast<size_t>(viewed_argument(op, 0));
  const Tensor base = stack[at].tensor();
  Functional& parent = *functional_at(base, level);
  Viewing viewing{{&op, std::move(stack), at, -1}, base, parent};
  const std::vector<Tensor> geometries = geometries_of(viewing);
  stack = viewing.call.arguments;
  stack[at] = IValue(updated(parent));
  viewing.call.arguments[at] = IValue();
  below(level, [&] {
    if (!needs_memory(op, parent)) return call_view(op, stack, parent.copies_views);
    const Tensor& geometry = geometries[0];
    stack.clear();
    stack.push(
        IValue(copied_from_memory(parent, geometry_of(geometry, geometry.storage_offset()))));
  });
  const bool is_list = !stack[0].is_tensor();
  size_t piece = 0;
  tensors_of(stack[0], [&](Tensor& t) {
    t = make_view(viewing, geometries[piece], is_list ? static_cast<int64_t>(piece) : -1, t);
    ++piece;
  });
}

// --- writes --------------------------------------------------------------------------------------

void become(const Tensor& t, const Tensor& other, int64_t level) {
  Functional* const functional = functional_at(other, level);
  t.impl()->set_storage(other.storage());
  t.impl()->set_geometry(other.sizes(), other.strides(), other.storage_offset());
  attach_functional(t, intrusive_ptr<Functional>::share(functional));
}

// An argument that is written must be functional.
void require_functional(const OperatorEntry& op, const Tensor& t, int64_t level) {
  if (functional_at(t, level)) return;
  check(is_internal(t), op.name,
        ": expected a functional tensor to write to, as another argument is one, got an ordinary "
        "tensor; pass it to the function as an argument");
  become(t, make_functional(autograd::shallow_alias(t), level), level);
}

bool writes_functional(const OperatorEntry& op, Stack& stack, int64_t level) {
  bool writes = false, any = false;
  each_tensor(stack, [&](const Tensor& t, int position) {
    any = any || functional_at(t, level);
    writes = writes || is_changed(op, position);
  });
  if (!writes || !any) return false;
  each_tensor(stack, [&](const Tensor& t, int position) {
    if (is_changed(op, position)) require_functional(op, t, level);
  });
  return true;
}

// `value` has the sizes that the operator gave to `t`.
void write(const Tensor& t, Tensor value, int64_t level) {
  Functional& functional = *functional_at(t, level);
  if (value.sizes() != t.sizes()) {  // other views keep what they see
    become(t, make_functional(value, level), level);
    functional_at(t, level)->generation = 1;
  } else {
    below(level, [&] {
      if (value.dtype() != t.dtype())
        value = ops::_to_copy::call(value, t.dtype(), {}, {}, {}, false, {});
      replace(functional, std::move(value));
    });
  }
  t.impl()->bump_version();
}

// The arguments of the functional form, by name.
Stack arguments_for(const OperatorEntry& functional, const OperatorEntry& op, const Stack& stack) {
  Stack arguments;
  for (const ArgumentTraits& wanted : functional.traits->arguments) {
    size_t i = 0;
    while (std::string_view(op.traits->arguments[i].name) != wanted.name) ++i;
    arguments.push(stack[i]);
  }
  return arguments;
}

Tensor stand_in_for(const Tensor& t) {
  const ViewGeometry geometry = geometry_of(t, 0);
  const Tensor meta = stand_in(geometry, extent_from(geometry));
  meta.impl()->remove_keys(kLazyKeys);
  meta.impl()->set_wrapped_number(t.impl()->is_wrapped_number());
  return meta;
}

// Whether the operator has errors of its own on meta tensors. Those of an out= form of a composite
// are the functional form's and those of `assign_out`; without inputs there is no device to change.
bool has_checks(const OperatorEntry& op) {
  if (!op.call_boxed || !op.kernel_at(static_cast<int>(DispatchKey::Meta))) return false;
  const std::span<const ArgumentTraits> inputs = op.traits->functional->traits->arguments;
  return !op.traits->is_composite && std::any_of(inputs.begin(), inputs.end(), [](const auto& a) {
    return a.kind != ArgumentKind::Other;
  });
}

// Errors of the operator, whose functional form may accept more.
void check_on_meta(const OperatorEntry& op, const Stack& stack) {
  Stack metas = stack;
  bool is_plain = true;
  each_tensor(metas, [&](Tensor& t, int) {
    is_plain = is_plain && !is_sparse(t);
    if (!is_plain) return;
    t = stand_in_for(t);
  });
  if (is_plain) call_on_meta(op, metas);
}

void write_by_form(const OperatorEntry& op, DispatchKeySet keys, Stack& stack, int64_t level) {
  const OperatorEntry& functional = *op.traits->functional;
  const bool checks = has_checks(op);
  if (checks) check_on_meta(op, stack);
  Stack results = arguments_for(functional, op, stack);
  run_functional(functional, keys, results, level);
  const bool is_view = viewed_argument(functional, 0) >= 0;
  Stack written;
  for (size_t i = 0; i < op.traits->results.size(); ++i) {
    const auto at = static_cast<size_t>(op.traits->results[i].alias);
    const Tensor target = stack[at].tensor();
    if (is_view) {
      become(target, results[i].tensor(), level);
    } else {
      if (!checks) {
        Tensor out = stand_in_for(target);
        assign_out(op.name, out, stand_in_for(results[i].tensor()));
      }
      Functional* const result = functional_at(results[i].tensor(), level);
      write(target, result ? updated(*result) : results[i].tensor(), level);
    }
    written.push(IValue(target));
  }
  stack = std::move(written);
}

// An operator without a functional form writes to copies.
void write_to_copies(const OperatorEntry& op, Stack& stack, int64_t level) {
  struct Written {
    Tensor target, copy;
    Storage memory;
  };
  std::vector<Written> writes;
  std::vector<Given> given;
  each_tensor(stack, [&](Tensor& t, int position) {
    Functional* const functional = functional_at(t, level);
    Tensor value = functional ? updated(*functional) : t;
    if (is_changed(op, position)) {
      below(level, [&] { value = ops::clone::call(value); });
      writes.push_back({t, value, value.storage()});
    }
    given.push_back({t, value});
    t = value;
  });
  below(level, [&] { call_operator(op, stack); });
  wrap_results(stack, given, level);
  for (const Written& w : writes) {
    const Given* source = nullptr;  // whose memory the operator gave to the copy
    for (const Given& g : given) {
      if (!g.value.is_same(w.copy) && g.value.storage() == w.copy.storage()) source = &g;
    }
    if (source && w.memory != w.copy.storage() && functional_at(source->tensor, level)) {
      become(w.target, source->tensor, level);
    } else {
      write(w.target, w.copy, level);
    }
  }
}

void functionalize(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  run_functional(op, keys, stack, kNoLayer);
}

// Composites read numbers on the host.
void* data_of(const TensorImpl& impl) {
  const auto* const wrapper = static_cast<const Wrapper*>(impl.wrapper());
  if (!wrapper->is_functional) return nullptr;
  const Tensor& value = updated(const_cast<Functional&>(static_cast<const Functional&>(*wrapper)));
  return value.strides() == impl.strides() && !is_batched(value) ? value.impl()->data() : nullptr;
}

[[maybe_unused]] const bool installed = [] {
  c10::wrapper_data = data_of;
  set_boxed_fallback(DispatchKey::Functionalize, functionalize);
  return true;
}();

}  // namespace

Functional* functional_at(const Tensor& t, int64_t level) {
  const Wrapper* wrapper = wrapper_of(t);
  if (!wrapper || !wrapper->is_functional || wrapper->level != level) return nullptr;
  return static_cast<Functional*>(const_cast<Wrapper*>(wrapper));
}

Tensor make_functional(const Tensor& value, int64_t level) {
  if (!value.defined() || is_sparse(value) || functional_at(value, level)) return value;
  auto root = make_intrusive<Functional>();
  root->level = level;
  root->is_functional = true;
  root->copies_views = level == kNoLayer ? copies_views_without_layer : layer_copies_views(level);
  root->value = value;
  if (!value.impl()->is_non_overlapping_and_dense()) {
    below(level, [&] { root->value = ops::clone::call(value, MemoryFormat::Contiguous); });
  }
  root->geometry = geometry_of(root->value, 0);
  return wrapped(std::move(root), storage_without_memory(value));
}

const Tensor& updated(Functional& functional) {
  if (functional.generation != root_of(functional).generation)
    below(functional.level, [&] { refreshed(functional); });
  return functional.value;
}

bool have_one_root(const Functional& a, const Functional& b) {
  return &root_of(const_cast<Functional&>(a)) == &root_of(const_cast<Functional&>(b));
}

bool was_written(const Functional& functional) {
  return root_of(const_cast<Functional&>(functional)).generation > 0;
}

void run_functional(const OperatorEntry& op, DispatchKeySet keys, Stack& stack, int64_t level) {
  const bool is_whole = !op.call_boxed || (op.traits && op.traits->is_whole);
  if (void* const composite = is_whole ? nullptr : composite_kernel(op))
    return op.call_boxed(composite, keys, stack);
  if (!writes_functional(op, stack, level)) {
    return views_functional(op, stack, level) ? run_view(op, stack, level)
                                              : run_plain(op, stack, level);
  }
  if (op.traits->functional && !op.traits->results.empty())
    return write_by_form(op, keys, stack, level);
  write_to_copies(op, stack, level);
}

bool set_functionalization(bool on, bool copies_views) {
  const bool was_on = DispatchKeySet(thread_state.included).has(DispatchKey::Functionalize);
  thread_state.included &= ~kKey.bits();
  if (on) thread_state.included |= kKey.bits();
  copies_views_without_layer = on && copies_views;
  return was_on;
}

}  // namespace flambeau::transforms
