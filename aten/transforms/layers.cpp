#include "aten/transforms/layers.h"

#include <memory>
#include <vector>

#include "aten/autograd/transform_hooks.h"
#include "aten/autograd/variable.h"
#include "aten/core/sparse.h"
#include "aten/transforms/functional.h"

namespace flambeau::transforms {

namespace {

struct Life final : RefCounted {
  explicit Life(LayerKind k) : kind(k) {}
  std::atomic<bool> alive{true};
  const LayerKind kind;
};

// All layers that were pushed and not popped, also those that a BelowLayer has left for a while:
// their levels stay taken.
thread_local std::vector<std::unique_ptr<Layer>> layers;
thread_local constinit Layer* innermost = nullptr;

constexpr DispatchKeySet kFront{DispatchKey::FuncTorch};

struct ThreadLayers {
  std::vector<std::unique_ptr<Layer>> layers;
  Layer* innermost;
};

void exchange_layers(void*& box) {
  if (!box) {
    box = new ThreadLayers{std::exchange(layers, {}), std::exchange(innermost, nullptr)};
    return;
  }
  const std::unique_ptr<ThreadLayers> moved(
      static_cast<ThreadLayers*>(std::exchange(box, nullptr)));
  layers = std::move(moved->layers);
  innermost = moved->innermost;
}

bool is_batched_at(const Tensor& t, int64_t level) {
  for (const Wrapper* w = wrapper_of(t); w; w = wrapper_of(w->value)) {
    if (w->level == level) return w->batch_dim >= 0;
  }
  return false;
}
bool has_batches_of(const Tensor& target, const Tensor& value) {
  for (const Wrapper* w = wrapper_of(value); w; w = wrapper_of(w->value)) {
    if (w->batch_dim >= 0 && !is_dead(*w) && !is_batched_at(target, w->level)) return false;
  }
  return true;
}

const Layer& layer_at(int64_t level) {
  for (size_t i = layers.size(); i-- > 0;) {
    if (layers[i]->level == level) return *layers[i];
  }
  fail(ErrorKind::Runtime, "transform level ", level, " is not active on this thread");
}

// A gradient layer has switches for gradients of its own.
bool keeps_modes(const Layer& layer) {
  return layer.kind == LayerKind::Vmap || layer.kind == LayerKind::Functionalize;
}

// --- wrappers -----------------------------------------------------------------------------------

void release_storage(void* storage) { Storage::adopt(static_cast<StorageImpl*>(storage)); }

void* address_of(const StorageImpl& memory) {
  return memory.device_data() ? memory.device_data() : memory.data();
}

// A storage object of its own over the value's memory, which it keeps alive.
Storage borrowed(const Tensor& value) {
  StorageImpl* const memory = value.storage().get();
  return make_intrusive<StorageImpl>(address_of(*memory), memory->nbytes(), value.device(),
                                     &release_storage, Storage(value.storage()).detach());
}

void take_geometry(TensorImpl& impl, const Tensor& value, int64_t batch_dim) {
  if (batch_dim < 0) {
    impl.set_geometry(value.sizes(), value.strides(), value.storage_offset());
    return;
  }
  DimVector sizes, strides;
  for (int64_t d = 0; d < value.dim(); ++d) {
    if (d == batch_dim) continue;
    sizes.push_back(value.size(d));
    strides.push_back(value.stride(d));
  }
  impl.set_geometry(sizes, strides, value.storage_offset());
}

void attach(const Tensor& t, const Tensor& value, int64_t batch_dim, const Layer& layer) {
  auto wrapper = make_intrusive<Wrapper>();
  wrapper->value = value;
  wrapper->level = layer.level;
  wrapper->batch_dim = batch_dim;
  wrapper->life = layer.life;
  TensorImpl& impl = *t.impl();
  take_geometry(impl, value, batch_dim);
  impl.set_wrapped_number(value.impl()->is_wrapped_number());
  impl.add_keys(kFront | (value.keys() & (kLazyKeys | kSparseKey)));
  impl.set_wrapper(std::move(wrapper));
}

Tensor make_wrapper(const Tensor& value, Storage storage, int64_t batch_dim, const Layer& layer) {
  Tensor t(make_intrusive<TensorImpl>(std::move(storage), value.dtype(), value.device()));
  attach(t, value, batch_dim, layer);
  return t;
}

[[maybe_unused]] const bool installed = [] {
  autograd::belongs_to_jvp = [](const TensorImpl& impl) {
    const auto* wrapper = static_cast<const Wrapper*>(impl.wrapper());
    return static_cast<const Life&>(*wrapper->life).kind == LayerKind::Jvp;
  };
  autograd::move_layers = exchange_layers;
  autograd::can_hold = has_batches_of;
  return true;
}();

}  // namespace

Storage storage_without_memory(const Tensor& value) {
  return make_intrusive<StorageImpl>(nullptr, 0, value.device(), [](void*) {}, nullptr);
}

namespace {

const Tensor& value_of(Wrapper& wrapper) {
  return wrapper.is_functional ? updated(static_cast<Functional&>(wrapper)) : wrapper.value;
}

}  // namespace

bool is_dead(const Wrapper& wrapper) { return !static_cast<const Life&>(*wrapper.life).alive; }

bool is_batched(const Tensor& t) {
  const Tensor* at = &t;
  while (const Wrapper* wrapper = wrapper_of(*at)) {
    if (wrapper->batch_dim >= 0) return true;
    at = &wrapper->value;
  }
  return false;
}

Tensor without_dead(const Tensor& t) {
  const Tensor* at = &t;
  const Wrapper* wrapper = wrapper_of(*at);
  while (wrapper && is_dead(*wrapper)) {
    at = &value_of(const_cast<Wrapper&>(*wrapper));
    wrapper = wrapper_of(*at);
  }
  return *at;
}

const Tensor& bottom_of(const Tensor& t) {
  const Tensor* at = &t;
  while (const Wrapper* wrapper = wrapper_of(*at)) at = &value_of(const_cast<Wrapper&>(*wrapper));
  return *at;
}

uint32_t version_of(const Tensor& t) {
  const Tensor* at = &t;
  for (const Wrapper* w = wrapper_of(*at); w && !w->is_functional; w = wrapper_of(*at))
    at = &w->value;
  return at->impl()->version();
}

Tensor make_batched(const Tensor& value, int64_t batch_dim, int64_t level) {
  check_index(batch_dim >= -value.dim() && batch_dim < value.dim(),
              "expected a batch dimension of a tensor of ", value.dim(), " dimensions, got ",
              batch_dim);
  check(!is_sparse(value), "vmap: expected strided tensors, got one of layout sparse_coo");
  const Layer& layer = layer_at(level);
  check(layer.kind == LayerKind::Vmap, "expected the level of a vmap, got transform level ", level);
  const int64_t dim = batch_dim < 0 ? batch_dim + value.dim() : batch_dim;
  check_value(value.size(dim) == layer.batch_size, "expected dimension ", dim,
              " of the tensor to have the batch size ", layer.batch_size, ", got ",
              value.size(dim));
  return make_wrapper(value, storage_without_memory(value), dim, layer);
}

Tensor make_tracked(const Tensor& value, int64_t level) {
  const Layer& layer = layer_at(level);
  check(!keeps_modes(layer), "expected the level of a gradient transform, got level ", level);
  return make_wrapper(value, borrowed(value), -1, layer);
}

void attach_functional(const Tensor& t, intrusive_ptr<Wrapper> wrapper) {
  static const intrusive_ptr<RefCounted> unlimited = make_intrusive<Life>(LayerKind::Functionalize);
  const Tensor& value = wrapper->value;
  const DispatchKeySet front = wrapper->level == kNoLayer ? DispatchKey::Functionalize : kFront;
  wrapper->life = wrapper->level == kNoLayer ? unlimited : layer_at(wrapper->level).life;
  t.impl()->set_wrapped_number(value.impl()->is_wrapped_number());
  t.impl()->remove_keys(kLazyKeys);
  t.impl()->add_keys(front | (value.keys() & kLazyKeys));
  t.impl()->set_wrapper(std::move(wrapper));
}

bool layer_copies_views(int64_t level) { return layer_at(level).copies_views; }

Tensor make_tracked_view(const Tensor& value, const Tensor& base) {
  return make_wrapper(value, base.storage(), -1, layer_at(wrapper_of(base)->level));
}

void become_wrapper(const Tensor& t, const Tensor& value, int64_t batch_dim, int64_t level) {
  t.impl()->set_storage(batch_dim < 0 ? borrowed(value) : storage_without_memory(value));
  attach(t, value, batch_dim, layer_at(level));
}

namespace {

Tensor lifted_to(Tensor t, const Layer* layer) {
  if (!layer) return t;
  t = lifted_to(std::move(t), layer->outer);
  if (layer->kind == LayerKind::Functionalize) return make_functional(t, layer->level);
  return layer->kind == LayerKind::Vmap ? t : make_tracked(t, layer->level);
}

}  // namespace

Tensor lift_fresh(Tensor t) { return lifted_to(std::move(t), innermost); }

void refresh(const Tensor& t, uint32_t version_before) {
  const Wrapper& wrapper = *wrapper_of(t);
  const Tensor& value = wrapper.value;
  take_geometry(*t.impl(), value, wrapper.batch_dim);
  if (wrapper.batch_dim < 0 && address_of(*t.storage()) != address_of(*value.storage()))
    t.impl()->set_storage(borrowed(value));
  if (version_of(value) != version_before) t.impl()->bump_version();
}

// --- the stack ----------------------------------------------------------------------------------

int64_t push_layer(LayerKind kind, int64_t batch_size, Randomness randomness, bool copies_views) {
  check_value(kind != LayerKind::Vmap || batch_size >= 0,
              "vmap: expected a batch size that is not negative, got ", batch_size);
  auto layer = std::make_unique<Layer>();
  layer->kind = kind;
  layer->level = layers.empty() ? 1 : layers.back()->level + 1;
  layer->batch_size = batch_size;
  layer->randomness = randomness;
  layer->copies_views = copies_views;
  layer->outside = thread_state;
  layer->life = make_intrusive<Life>(kind);
  layer->outer = innermost;
  const int64_t level = layer->level;
  innermost = layer.get();
  layers.push_back(std::move(layer));
  thread_state.included |= kFront.bits();
  if (kind == LayerKind::Jvp) ++autograd::forward_levels;
  return level;
}

void pop_layer() {
  check(innermost, "no transform is active on this thread");
  check(innermost == layers.back().get(),
        "a transform ended while one inside of it was still active");
  static_cast<Life&>(*innermost->life).alive = false;
  if (innermost->kind == LayerKind::Jvp) --autograd::forward_levels;
  if (keeps_modes(*innermost)) {
    thread_state.included = innermost->outside.included;
  } else {
    thread_state = innermost->outside;
  }
  innermost = innermost->outer;
  layers.pop_back();
}

const Layer* innermost_layer() { return innermost; }

int64_t depth() {
  int64_t n = 0;
  for (const Layer* layer = innermost; layer; layer = layer->outer) ++n;
  return n;
}

BelowLayer::BelowLayer() : layer_(innermost), inside_(thread_state) {
  check(layer_, "no transform is active on this thread");
  innermost = layer_->outer;
  if (keeps_modes(*layer_)) {
    // Such a layer has no gradient modes of its own: no_grad inside it stays in effect below it.
    thread_state.included = layer_->outside.included;
  } else {
    // no_grad inside a gradient layer also applies below it: what is constant inside is constant
    // for the outer layers too.
    thread_state = layer_->outside;
    thread_state.grad_enabled &= inside_.grad_enabled;
    thread_state.forward_grad_enabled &= inside_.forward_grad_enabled;
  }
}

BelowLayer::~BelowLayer() {
  innermost = layer_;
  thread_state = inside_;
}

}  // namespace flambeau::transforms
