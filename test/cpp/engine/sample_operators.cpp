#include "sample_operators.h"

#include "aten/cpu/pointwise.h"
#include "aten/cpu/reduce.h"
#include "sample_loops.h"
#include "sample_tensors.h"

namespace flambeau::testing {
namespace {

using namespace autograd;

uint32_t mul_loop(int64_t n, char* const* data, const void*) {
  const auto at = [&](int k) { return reinterpret_cast<double*>(data[k]); };
  for (int64_t i = 0; i < n; ++i) at(0)[i] = at(1)[i] * at(2)[i];
  return 0;
}
uint32_t exp_loop(int64_t n, char* const* data, const void*) {
  const auto at = [&](int k) { return reinterpret_cast<double*>(data[k]); };
  for (int64_t i = 0; i < n; ++i) at(0)[i] = std::exp(at(1)[i]);
  return 0;
}
constexpr size_t kDouble = static_cast<size_t>(ScalarType::Float64);
struct DoubleTable {
  explicit DoubleTable(PointwiseLoop loop) { loops[kDouble] = loop; }
  PointwiseLoop loops[kNumComputeTypes] = {};
};
const DoubleTable mul_table(mul_loop), exp_table(exp_loop);
const PointwiseOp kMul =
    with_table({"mul", DTypeRule::Promote, 1 << kDouble, 2, 0, 0, {}}, mul_table.loops);
const PointwiseOp kExp =
    with_table({"exp", DTypeRule::Promote, 1 << kDouble, 1, 0, 0, {}}, exp_table.loops);
const Scalar kOne[] = {Scalar(1)};

// Whether a call on `args` is recorded here; generated code learns it from the dispatcher.
template <typename... Args>
bool records(const Args&... args) {
  const bool excluded = (thread_state.excluded & DispatchKeySet(DispatchKey::Autograd).bits()) != 0;
  return !excluded && any_requires_grad(args...);
}

// The gradient of both operands alike.
struct AddBackward final : Node {
  const char* name() const override { return "AddBackward0"; }
  Gradients apply(Gradients&& grads) override {
    Gradients out(2);
    for (size_t i = 0; i < 2; ++i) {
      if (should_compute(i)) out[i] = grads[0];
    }
    return out;
  }
};

struct MulBackward final : Node {
  const char* name() const override { return "MulBackward0"; }
  void release_saved() override {
    a.reset();
    b.reset();
  }
  Gradients apply(Gradients&& grads) override {
    Gradients out(2);
    if (!grads[0].defined()) return out;
    if (should_compute(0)) out[0] = mul(grads[0], b.unpack(*this));
    if (should_compute(1)) out[1] = mul(grads[0], a.unpack(*this));
    return out;
  }
  SavedTensor a, b;
};

struct ExpBackward final : Node {
  const char* name() const override { return "ExpBackward0"; }
  void release_saved() override { result.reset(); }
  Gradients apply(Gradients&& grads) override {
    Gradients out(1);
    if (grads[0].defined() && should_compute(0)) out[0] = mul(grads[0], result.unpack(*this));
    return out;
  }
  SavedTensor result;
};

// A gradient of one element, repeated; what sum's backward and sum_dims' share.
struct SumBackward final : Node {
  const char* name() const override { return "SumBackward0"; }
  Gradients apply(Gradients&& grads) override {
    Gradients out(1);
    if (!grads[0].defined() || !should_compute(0)) return out;
    Tensor ones = zeros_tensor(sizes, ScalarType::Float64);
    fill_with(ones, 1);
    out[0] = mul(ones, grads[0]);
    return out;
  }
  DimVector sizes;
};

struct SliceBackward final : Node {
  const char* name() const override { return "SliceBackward0"; }
  Gradients apply(Gradients&& grads) override {
    Gradients out(1);
    if (!grads[0].defined() || !should_compute(0)) return out;
    out[0] = zeros_tensor(sizes, ScalarType::Float64);
    Tensor window = operators::as_strided(out[0], grads[0].sizes(), strides, offset);
    operators::copy_inplace(window, grads[0]);
    return out;
  }
  DimVector sizes, strides;
  int64_t offset = 0;
};

struct CopyBackward final : Node {
  const char* name() const override { return "CopyBackward0"; }
  Gradients apply(Gradients&& grads) override {
    Gradients out(2);
    if (should_compute(1)) out[1] = grads[0];
    return out;
  }
};

struct IdentityBackward final : Node {
  const char* name() const override { return "IdentityBackward0"; }
  Gradients apply(Gradients&& grads) override { return std::move(grads); }
};

intrusive_ptr<MulBackward> mul_node(const Tensor& a, const Tensor& b, bool overwrites_a) {
  auto node = make_node<MulBackward>();
  node->add_next_edge(a);
  node->add_next_edge(b);
  if (node->should_compute(0)) node->b = SavedTensor(b);
  if (node->should_compute(1)) node->a = SavedTensor(overwrites_a ? operators::clone(a) : a);
  return node;
}

Tensor ones_like(const Tensor& t) {
  Tensor ones = empty_like_tensor(t);
  fill_with(ones, 1);
  return ones;
}

}  // namespace

Tensor vector_of(std::initializer_list<double> values, bool requires_grad) {
  Tensor t = empty_tensor({static_cast<int64_t>(values.size())}, ScalarType::Float64);
  std::copy(values.begin(), values.end(), t.data_as<double>());
  if (requires_grad) set_requires_grad(t, true);
  return t;
}

std::vector<double> values_of(const Tensor& t) {
  std::vector<double> values;
  for (int64_t i = 0; t.defined() && i < t.numel(); ++i)
    values.push_back(value_at(t, i, t.sizes()));
  return values;
}

double value_of(const Tensor& t) { return t.defined() ? item_of(t).to_double() : NAN; }

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor result = pointwise(kMul, {Operand(a), Operand(b)}, {});
  if (records(a, b)) set_history(result, mul_node(a, b, false));
  return result;
}

Tensor exp(const Tensor& t) {
  Tensor result = pointwise(kExp, {Operand(t)}, {});
  if (!records(t)) return result;
  auto node = make_node<ExpBackward>();
  node->add_next_edge(t);
  set_history(result, node);
  node->result = SavedTensor(result, /*is_output=*/true);
  return result;
}

Tensor sum(const Tensor& t) {
  const Tensor* operands[] = {&t};
  Tensor result = reduce(kSum, operands, std::nullopt, false, std::nullopt, {});
  if (!records(t)) return result;
  auto node = make_node<SumBackward>();
  node->add_next_edge(t);
  node->sizes = t.sizes();
  set_history(result, node);
  return result;
}

Tensor& mul_inplace(Tensor& self, const Tensor& other) {
  const bool recorded = records(self, other);
  check_inplace_grad(self, recorded);
  const auto node = recorded ? mul_node(self, other, true) : nullptr;
  pointwise_inplace(kMul, self, {Operand(self), Operand(other)}, {});
  self.impl()->bump_version();
  if (node) rebase_history(self, node);
  return self;
}

Tensor& exp_inplace(Tensor& self) {
  const bool recorded = records(self);
  check_inplace_grad(self, recorded);
  intrusive_ptr<ExpBackward> node;
  if (recorded) {
    node = make_node<ExpBackward>();
    node->add_next_edge(self);
  }
  pointwise_inplace(kExp, self, {Operand(self)}, {});
  self.impl()->bump_version();
  if (node) {
    rebase_history(self, node);
    node->result = SavedTensor(self, /*is_output=*/true, is_view(self));
  }
  return self;
}

Tensor slice(const Tensor& t, int64_t begin, int64_t end) {
  return operators::as_strided(t, {end - begin}, t.strides(),
                               t.storage_offset() + begin * t.stride(0));
}

Tensor identity_chain(Tensor t, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    Tensor next = shallow_alias(t);
    auto node = make_node<IdentityBackward>();
    node->add_next_edge(t);
    set_history(next, node);
    t = std::move(next);
  }
  return t;
}

void backward(const Tensor& output, bool retain_graph) {
  const Tensor outputs[] = {output}, grads[] = {ones_like(output)};
  BackwardOptions options;
  options.retain_graph = retain_graph;
  autograd::backward(outputs, grads, {}, options);
}

Tensor grad(const Tensor& output, const Tensor& input, bool create_graph) {
  const Tensor outputs[] = {output}, grads[] = {ones_like(output)}, inputs[] = {input};
  BackwardOptions options;
  options.create_graph = options.retain_graph = create_graph;
  return autograd::grad(outputs, grads, inputs, options)[0];
}

}  // namespace flambeau::testing

// What aten/autograd/operators.cpp takes from the generated operators.
namespace flambeau::autograd::operators {

using namespace testing;

Tensor add(const Tensor& a, const Tensor& b) {
  Tensor result = pointwise(kAdd, {Operand(a), Operand(b)}, kOne);
  if (!records(a, b)) return result;
  auto node = make_node<AddBackward>();
  node->add_next_edge(a);
  node->add_next_edge(b);
  set_history(result, node);
  return result;
}

void add_inplace(Tensor& a, const Tensor& b) {
  check_inplace_grad(a, records(a, b));
  pointwise_inplace(kAdd, a, {Operand(a), Operand(b)}, kOne);
  a.impl()->bump_version();
}

Tensor sum_dims(const Tensor& t, IntArrayRef dims, bool keepdim) {
  const Tensor* operands[] = {&t};
  Tensor result =
      reduce(kSum, operands, std::optional<IntArrayRef>(dims), keepdim, std::nullopt, {});
  if (!records(t)) return result;
  auto node = make_node<SumBackward>();
  node->add_next_edge(t);
  node->sizes = t.sizes();
  set_history(result, node);
  return result;
}

Tensor clone(const Tensor& t) {
  Tensor copy = empty_like_tensor(t);
  copy_into(copy, t);
  if (!records(t)) return copy;
  auto node = make_node<IdentityBackward>();
  node->add_next_edge(t);
  set_history(copy, node);
  return copy;
}
Tensor clone_contiguous(const Tensor& t) { return contiguous_tensor(clone(t)); }

Tensor zeros_strided(const Tensor& like, IntArrayRef sizes, IntArrayRef strides) {
  Tensor zeros = empty_strided_tensor(sizes, strides, like.dtype(), like.device());
  fill_with(zeros, 0);
  return zeros;
}

Tensor as_strided(const Tensor& t, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset) {
  Tensor view = as_view(t, {sizes, strides, storage_offset, ScalarType::Undefined});
  if (!records(t)) return view;
  auto node = make_node<SliceBackward>();
  node->add_next_edge(t);
  node->sizes = t.sizes();
  node->strides = strides;
  node->offset = storage_offset - t.storage_offset();
  set_history(view, node);
  return view;
}

// No sample is answered for in Python, or has complex numbers.
Tensor ones_like(const Tensor&) { fail(ErrorKind::NotImplemented, "ones_like: no sample"); }
Tensor detached_in_python(const Tensor&) {
  fail(ErrorKind::NotImplemented, "detached_in_python: no sample");
}
Tensor conj_view(const Tensor&) { fail(ErrorKind::NotImplemented, "conj_view: no sample"); }
Tensor neg_view(const Tensor&) { fail(ErrorKind::NotImplemented, "neg_view: no sample"); }
Tensor view_as_real(const Tensor&) { fail(ErrorKind::NotImplemented, "view_as_real: no sample"); }
Tensor view_as_complex(const Tensor&) {
  fail(ErrorKind::NotImplemented, "view_as_complex: no sample");
}

void copy_inplace(Tensor& self, const Tensor& source) {
  const bool recorded = records(self, source);
  check_inplace_grad(self, recorded);
  intrusive_ptr<CopyBackward> node;
  if (recorded) {
    node = make_node<CopyBackward>();
    node->add_next_edge(self);
    node->add_next_edge(source);
  }
  copy_into(self, source);
  self.impl()->bump_version();
  if (node) rebase_history(self, node);
}

Tensor to_dtype(const Tensor& t, ScalarType dtype) { return cast_tensor(t, dtype); }

bool has_nan(const Tensor& t) {
  for (const double value : values_of(t)) {
    if (value != value) return true;
  }
  return false;
}

}  // namespace flambeau::autograd::operators
