#include "aten/transforms/autocast.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "aten/autograd/variable.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/cast_policy.h"
#include "aten/dispatch/operator_library.h"
#include "aten/dispatch/operator_traits.h"
#include "c10/core/device_backend.h"
#include "torchgen_out/aten/copy_ops.h"

namespace flambeau::autocast {
namespace {

constexpr int kDevices = 3;  // CPU, CUDA, the out-of-tree device
constexpr DispatchKeySet kKey(DispatchKey::Autocast);

struct CachedCast {
  weak_intrusive_ptr<TensorImpl> source;  // so that no other tensor gets its address meanwhile
  uint32_t version;
  Tensor cast;
};
using Cache = std::unordered_map<const TensorImpl*, CachedCast>;

struct State {
  bool enabled[kDevices] = {};
  ScalarType dtypes[kDevices] = {ScalarType::BFloat16, ScalarType::Float16, ScalarType::Float16};
  bool cache_enabled = true;
  int nesting = 0;
  bool is_meta_cpu = false;
  Cache* cache = nullptr;  // a pointer: a thread's end must not touch Python's objects
};
thread_local constinit State state;

int index_of(DeviceType device) {
  check(is_supported(device), "autocast: expected the device type cpu or cuda, which have it, got ",
        name_of(device));
  return device == DeviceType::CPU ? 0 : device == DeviceType::CUDA ? 1 : 2;
}

bool is_on(const Tensor& t, DeviceType device) {
  const DeviceType own = t.device().type;
  return own == device ||
         (own == DeviceType::Meta && device == DeviceType::CPU && state.is_meta_cpu);
}

bool is_eligible(const Tensor& t, DeviceType device) {
  return t.defined() && is_on(t, device) && t.is_floating_point() &&
         t.dtype() != ScalarType::Float64;
}

// A parameter is cast once in a region. Under a transform its impl stands for one layer only.
bool is_kept(const Tensor& t, ScalarType dtype, DeviceType device) {
  return state.cache_enabled && state.nesting > 0 && t.dtype() == ScalarType::Float32 &&
         dtype == state.dtypes[index_of(device)] && autograd::requires_grad(t) &&
         autograd::is_leaf(t) && !autograd::is_view(t) && thread_state.grad_enabled &&
         !effective_keys(t.keys()).has(DispatchKey::FuncTorch) &&
         !t.keys().has(DispatchKey::FuncTorchBack) && !t.impl()->is_inference();
}

Tensor cast_to(const Tensor& t, ScalarType dtype, DeviceType device) {
  if (!is_eligible(t, device) || t.dtype() == dtype) return t;
  if (!is_kept(t, dtype, device)) return ops::to_dtype::call(t, dtype);
  if (!state.cache) state.cache = new Cache();
  const auto found = state.cache->find(t.impl());
  const uint32_t version = t.impl()->version();
  if (found != state.cache->end() && found->second.version == version &&
      found->second.cast.dtype() == dtype) {
    return found->second.cast;
  }
  Tensor cast = ops::to_dtype::call(t, dtype);
  const auto source = intrusive_ptr<TensorImpl>::share(t.impl());
  state.cache->insert_or_assign(t.impl(),
                                CachedCast{weak_intrusive_ptr<TensorImpl>(source), version, cast});
  return cast;
}

template <typename F>
void for_each_tensor(Stack& stack, F&& visit) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) {
      visit(stack[i].get<Tensor>());
    } else if (std::holds_alternative<std::vector<Tensor>>(stack[i].payload())) {
      for (Tensor& t : stack[i].get<std::vector<Tensor>>()) visit(t);
    }
  }
}

void cast_all(Stack& stack, ScalarType dtype, DeviceType device) {
  for_each_tensor(stack, [&](Tensor& t) { t = cast_to(t, dtype, device); });
}

// The widest dtype among the arguments: the region's or float32. None where another floating dtype
// is among them, which is left to the operator.
std::optional<ScalarType> widest(Stack& stack, DeviceType device) {
  const ScalarType lower = state.dtypes[index_of(device)];
  ScalarType dtype = lower;
  bool is_known = true;
  for_each_tensor(stack, [&](Tensor& t) {
    if (!t.defined() || !t.is_floating_point() || !is_on(t, device)) return;
    is_known &= t.dtype() == lower || t.dtype() == ScalarType::Float32;
    if (t.dtype() == ScalarType::Float32) dtype = t.dtype();
  });
  return is_known ? std::optional(dtype) : std::nullopt;
}

// Sets the argument `dtype` to float32 where the operator has one that was not given.
bool ask_for_float32(Stack& stack, DeviceType device, const OperatorEntry& op) {
  bool is_any = false;
  for_each_tensor(stack, [&](Tensor& t) { is_any |= is_eligible(t, device); });
  if (!op.traits || !is_any) return false;
  for (size_t i = 0; i < op.traits->arguments.size(); ++i) {
    if (std::string_view(op.traits->arguments[i].name) != "dtype") continue;
    if (stack[i].is_none()) stack[i] = IValue(ScalarType::Float32);
    return true;
  }
  return false;
}

void apply(CastPolicy policy, Stack& stack, DeviceType device, const OperatorEntry& op) {
  switch (policy) {
    case CastPolicy::None:
    case CastPolicy::Keep:
      return;
    case CastPolicy::LowerPrecision:
      return cast_all(stack, state.dtypes[index_of(device)], device);
    case CastPolicy::Float32Result:
      if (ask_for_float32(stack, device, op)) return;
      [[fallthrough]];
    case CastPolicy::Float32:
      return cast_all(stack, ScalarType::Float32, device);
    case CastPolicy::Promote:
      if (const std::optional<ScalarType> dtype = widest(stack, device))
        cast_all(stack, *dtype, device);
      return;
    case CastPolicy::Refuse:
      fail(ErrorKind::Runtime, op.name,
           ": unsafe to autocast: many results are not representable in the lower precision; "
           "combine it with the sigmoid before it, as binary_cross_entropy_with_logits");
  }
}

// The outermost of the devices that the keys name. An out-of-tree device casts as CUDA does.
std::optional<DeviceType> device_of(DispatchKeySet keys) {
  for (const DeviceType t : {DeviceType::PrivateUse1, DeviceType::CUDA, DeviceType::CPU}) {
    if (keys.has(backend_key(t)) && is_supported(t)) return t;
  }
  if (state.is_meta_cpu && keys.has(backend_key(DeviceType::Meta))) return DeviceType::CPU;
  return std::nullopt;
}

template <CastPolicy cpu, CastPolicy cuda>
void run(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const std::optional<DeviceType> applies = device_of(keys);
  const DeviceType device = applies.value_or(DeviceType::CPU);
  const CastPolicy policy = device == DeviceType::CPU ? cpu : cuda;
  if (!applies || policy == CastPolicy::None || !state.enabled[index_of(device)])
    return redispatch_boxed(op, keys - kKey, stack);
  const ExcludeKeys plain(kKey);  // what the operator is made of does not cast again
  apply(policy, stack, device, op);
  redispatch_boxed(op, keys - kKey, stack);
}

template <size_t... i>
BoxedKernel kernel_of(size_t at, std::index_sequence<i...>) {
  constexpr size_t kPolicies = static_cast<size_t>(CastPolicy::Refuse) + 1;
  static constexpr BoxedKernel kernels[] = {
      run<static_cast<CastPolicy>(i / kPolicies), static_cast<CastPolicy>(i % kPolicies)>...};
  return kernels[at];
}

void install_rows(std::span<const CastPolicies> rows) {
  constexpr size_t kPolicies = static_cast<size_t>(CastPolicy::Refuse) + 1;
  for (const CastPolicies& row : rows) {
    const size_t at = static_cast<size_t>(row.cpu) * kPolicies + static_cast<size_t>(row.cuda);
    set_boxed_kernel(*row.entry, DispatchKey::Autocast,
                     kernel_of(at, std::make_index_sequence<kPolicies * kPolicies>()));
  }
}

}  // namespace

void install() {
  install_rows(cast_policies());
  on_library_policies(install_rows);
}

bool casts(const OperatorEntry& op, DeviceType device) {
  const auto of_row = [&](const CastPolicies& row) {
    const CastPolicy policy = device == DeviceType::CPU ? row.cpu : row.cuda;
    return policy != CastPolicy::None && policy != CastPolicy::Keep;
  };
  for (const CastPolicies& row : cast_policies()) {
    if (row.entry == &op) return of_row(row);
  }
  const CastPolicies* const row = library_policies(op);
  return row && of_row(*row);
}

bool is_supported(DeviceType device) {
  const bool is_private = device == DeviceType::PrivateUse1 && c10::private_backend();
  return device == DeviceType::CPU || device == DeviceType::CUDA || is_private;
}
bool is_enabled(DeviceType device) { return state.enabled[index_of(device)]; }
void set_enabled(DeviceType device, bool enabled) {
  state.enabled[index_of(device)] = enabled;
  if (std::find(std::begin(state.enabled), std::end(state.enabled), true) !=
      std::end(state.enabled)) {
    thread_state.included |= kKey.bits();
  } else {
    thread_state.included &= ~kKey.bits();
  }
}
ScalarType dtype_of(DeviceType device) { return state.dtypes[index_of(device)]; }
void set_dtype(DeviceType device, ScalarType dtype) { state.dtypes[index_of(device)] = dtype; }

bool is_cache_enabled() { return state.cache_enabled; }
void set_cache_enabled(bool enabled) { state.cache_enabled = enabled; }
void clear_cache() { delete std::exchange(state.cache, nullptr); }
bool set_meta_as_cpu(bool on) { return std::exchange(state.is_meta_cpu, on); }
int increment_nesting() { return ++state.nesting; }
int decrement_nesting() { return --state.nesting; }

}  // namespace flambeau::autocast
