// The kernel of every operator for conjugate and negative views. One that passes tensors on
// (OperatorTraits::passes_lazy) meets them as they are. All others read memory: they get copies in
// which nothing is pending, and what they write is copied back.
#include "aten/dispatch/lazy_views.h"

#include "aten/core/factory.h"
#include "aten/core/out_spec.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/operator_traits.h"

namespace flambeau {
namespace {

struct Written {
  Tensor view;
  Tensor copy;
};

template <typename F>
void each_tensor(IValue& value, const F& f) {
  if (value.is_tensor()) {
    f(value.get<Tensor>());
  } else if (std::holds_alternative<std::vector<Tensor>>(value.payload())) {
    for (Tensor& t : value.get<std::vector<Tensor>>()) f(t);
  }
}

// An out= argument may have got another size.
void write_back(const char* op, Written& written) {
  const Tensor& result = written.copy;
  const OutSpec spec{DimVector(result.sizes()), {}, result.dtype(), result.device()};
  prepare_out(op, written.view, spec);
  copy_into(written.view, result);
  written.view.impl()->bump_version();
}

void resolve(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  const DispatchKeySet below = keys - kLazyKeys;
  if (!op.traits || op.traits->passes_lazy) return redispatch_boxed(op, below, stack);
  std::vector<Written> writes;
  for (size_t i = 0; i < stack.size(); ++i) {
    const bool is_mutable = op.traits->arguments[i].is_mutable;
    each_tensor(stack[i], [&](Tensor& t) {
      if (!is_lazy(t)) return;
      const Tensor copy = resolved(t);
      if (is_mutable) writes.push_back({t, copy});
      t = copy;
    });
  }
  redispatch_boxed(op, below, stack);
  for (Written& written : writes) write_back(op.name, written);
  for (size_t i = 0; i < stack.size(); ++i) {
    each_tensor(stack[i], [&](Tensor& t) {
      for (const Written& written : writes) {
        if (t.is_same(written.copy)) t = written.view;
      }
    });
  }
}

[[maybe_unused]] const bool installed = [] {
  set_boxed_fallback(DispatchKey::Conjugate, resolve);
  set_boxed_fallback(DispatchKey::Negative, resolve);
  return true;
}();

}  // namespace

Tensor resolved(const Tensor& t) {
  if (!is_lazy(t)) return t;
  Tensor copy = empty_like_tensor(t);
  copy_into(copy, t);
  copy.impl()->set_wrapped_number(t.impl()->is_wrapped_number());
  return copy;
}

}  // namespace flambeau
