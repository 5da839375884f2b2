// The engine's passes: order, sums, hooks, saved tensors, double backward, graphs of any depth.
#include "sample_operators.h"

using namespace flambeau;
using namespace flambeau::testing;

namespace {

using Values = std::vector<double>;

struct CountingHook final : autograd::TensorHook {
  Tensor call(const Tensor& grad) override {
    ++calls;
    return factor == 1 ? Tensor() : mul(grad, vector_of({factor}));
  }
  int calls = 0;
  double factor = 1;
};

}  // namespace

TEST(engine_chain) {
  const Tensor x = vector_of({2, 3}, true);
  const Tensor y = mul(mul(x, x), x);
  EXPECT(!autograd::is_leaf(y) && autograd::requires_grad(y));
  backward(y);
  EXPECT(values_of(autograd::grad_of(x)) == Values({12, 27}));
}

TEST(engine_diamond) {
  const Tensor x = vector_of({2}, true);
  const Tensor left = mul(x, vector_of({5})), right = exp(x);
  const Tensor y = autograd::operators::add(mul(left, right), left);
  backward(y);
  EXPECT(std::abs(value_of(autograd::grad_of(x)) - (15 * std::exp(2.0) + 5)) < 1e-12);
}

TEST(engine_wide_diamonds_are_not_walked_path_by_path) {
  const Tensor x = vector_of({1}, true);
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = autograd::operators::add(y, y);
  backward(y);
  EXPECT_EQ(value_of(autograd::grad_of(x)), std::ldexp(1.0, 60));
}

TEST(engine_accumulates_over_passes) {
  const Tensor x = vector_of({1, 2}, true);
  const Tensor y = mul(x, vector_of({3, 4}));
  backward(y, true);
  const Tensor first = autograd::grad_of(x);
  backward(y);
  EXPECT(values_of(autograd::grad_of(x)) == Values({6, 8}));
  EXPECT(first.is_same(autograd::grad_of(x)));
}

TEST(engine_first_gradient_is_not_shared) {
  // The gradient given by the caller reaches both leaves unchanged: each needs a copy of its own.
  const Tensor a = vector_of({1}, true), b = vector_of({1}, true);
  const Tensor y = autograd::operators::add(a, b);
  const Tensor given = vector_of({7});
  const Tensor outputs[] = {y}, grads[] = {given};
  autograd::backward(outputs, grads, {}, {});
  const Tensor of_a = autograd::grad_of(a), of_b = autograd::grad_of(b);
  EXPECT(of_a.data() != of_b.data() && of_a.data() != given.data() && of_b.data() != given.data());
}

TEST(engine_sums_broadcast_gradients) {
  const Tensor x = vector_of({2}, true), y = vector_of({1, 2, 3}, true);
  backward(mul(x, y));
  EXPECT(values_of(autograd::grad_of(x)) == Values({6}));
  EXPECT(values_of(autograd::grad_of(y)) == Values({2, 2, 2}));
}

TEST(engine_grad_touches_nothing_else) {
  const Tensor x = vector_of({2}, true), other = vector_of({3}, true);
  const Tensor middle = mul(x, other);
  const Tensor y = exp(middle);
  EXPECT(std::abs(value_of(grad(y, middle, true)) - std::exp(6.0)) < 1e-9);
  EXPECT(std::abs(value_of(grad(y, x)) - 3 * std::exp(6.0)) < 1e-9);
  EXPECT(!autograd::grad_of(x).defined() && !autograd::grad_of(other).defined());
}

TEST(engine_reports_unused_inputs) {
  const Tensor x = vector_of({2}, true), unused = vector_of({3}, true);
  const Tensor y = exp(x);
  EXPECT(throws(ErrorKind::Runtime, "not have been used in the graph", [&] { grad(y, unused); }));
}

TEST(engine_double_backward) {
  const Tensor x = vector_of({2}, true);
  const Tensor y = mul(mul(x, x), x);
  const Tensor first = grad(y, x, true);
  const Tensor second = grad(first, x, true);
  EXPECT_EQ(value_of(first), 12.0);
  EXPECT_EQ(value_of(second), 12.0);
  EXPECT_EQ(value_of(grad(second, x)), 6.0);
}

TEST(engine_double_backward_through_a_saved_output) {
  const Tensor x = vector_of({0.5}, true);
  const Tensor first = grad(exp(x), x, true);
  EXPECT(std::abs(value_of(grad(first, x)) - std::exp(0.5)) < 1e-12);
}

TEST(engine_frees_saved_tensors) {
  const Tensor x = vector_of({2}, true);
  const Tensor y = mul(x, x);
  backward(y);
  EXPECT(
      throws(ErrorKind::Runtime, "backward through the graph a second time", [&] { backward(y); }));
}

TEST(engine_checks_versions_of_saved_tensors) {
  const Tensor x = vector_of({2}, true);
  Tensor factor = vector_of({3});
  const Tensor y = mul(x, factor);
  mul_inplace(factor, factor);
  EXPECT(throws(ErrorKind::Runtime, "modified by an inplace operation", [&] { backward(y); }));
  Tensor output = exp(x);
  const Tensor z = mul(output, vector_of({2}));
  mul_inplace(output, vector_of({2}));
  EXPECT(throws(ErrorKind::Runtime, "which is output 0 of Exp", [&] { backward(output); }));
  EXPECT(throws(ErrorKind::Runtime, "is at version 1, but was saved at version 0",
                [&] { backward(z); }));
}

TEST(engine_survives_a_failing_pass) {
  const Tensor x = vector_of({2}, true);
  Tensor factor = vector_of({3});
  const Tensor shared = exp(x);
  const Tensor bad = mul(shared, factor);
  mul_inplace(factor, factor);
  EXPECT(throws(ErrorKind::Runtime, "inplace", [&] { backward(bad, true); }));
  EXPECT_EQ(thread_state.excluded, uint64_t{0});
  EXPECT(autograd::current_node() == nullptr);
  backward(shared);
  EXPECT(std::abs(value_of(autograd::grad_of(x)) - std::exp(2.0)) < 1e-12);
}

TEST(engine_hooks_see_and_replace_gradients) {
  const Tensor x = vector_of({2}, true);
  const Tensor middle = mul(x, vector_of({5}));
  const auto on_leaf = make_intrusive<CountingHook>(), on_middle = make_intrusive<CountingHook>();
  on_middle->factor = 10;
  autograd::add_tensor_hook(x, on_leaf);
  const uint64_t id = autograd::add_tensor_hook(middle, on_middle);
  autograd::retain_grad(middle);
  const Tensor y = mul(middle, vector_of({3}));
  backward(y, true);
  EXPECT_EQ(value_of(autograd::grad_of(x)), 150.0);
  EXPECT_EQ(value_of(autograd::grad_of(middle)), 30.0);
  autograd::tensor_hooks_of(middle)->remove(id);
  backward(y, true);
  EXPECT_EQ(value_of(autograd::grad_of(x)), 165.0);
  EXPECT(on_leaf->calls == 2 && on_middle->calls == 1);
}

TEST(engine_reentrant_pass_inside_a_hook) {
  struct Inner final : autograd::TensorHook {
    Tensor call(const Tensor& grad) override {
      const GradModeGuard recording(true);
      const Tensor v = vector_of({3}, true);
      testing::backward(mul(v, v));
      return mul(grad, autograd::grad_of(v));
    }
  };
  const Tensor x = vector_of({2}, true);
  Tensor y = x;
  for (int i = 0; i < 3; ++i) {
    y = mul(y, vector_of({1}));
    autograd::add_tensor_hook(y, make_intrusive<Inner>());
  }
  backward(y);
  EXPECT_EQ(value_of(autograd::grad_of(x)), 216.0);
}

TEST(engine_passes_nest_deeper_than_one_stack) {
  struct Nested final : autograd::TensorHook {
    explicit Nested(int left) : left(left) {}
    Tensor call(const Tensor&) override {
      if (left == 0) return Tensor();
      const GradModeGuard recording(true);
      const Tensor v = vector_of({1}, true);
      const Tensor y = mul(v, v);
      autograd::add_tensor_hook(y, make_intrusive<Nested>(left - 1));
      testing::backward(y);
      return mul(vector_of({1}), autograd::grad_of(v));
    }
    int left;
  };
  const Tensor x = vector_of({1}, true);
  const Tensor y = mul(x, x);
  autograd::add_tensor_hook(y, make_intrusive<Nested>(150));
  backward(y);
  EXPECT_EQ(value_of(autograd::grad_of(x)), std::ldexp(1.0, 151));
}

TEST(engine_accumulate_hook_may_run_a_pass_over_its_leaf) {
  struct Again final : autograd::AccumulateHook {
    void call(const Tensor& variable) override {
      if (++calls > 1) return;
      const GradModeGuard recording(true);
      testing::backward(mul(variable, vector_of({10})));
    }
    int calls = 0;
  };
  const Tensor x = vector_of({2}, true);
  const auto hook = make_intrusive<Again>();
  autograd::add_accumulate_hook(x, hook);
  backward(mul(x, vector_of({1})));
  EXPECT_EQ(hook->calls, 2);
  EXPECT_EQ(value_of(autograd::grad_of(x)), 11.0);
}

TEST(engine_million_nodes_in_a_row) {
  const Tensor x = vector_of({1}, true);
  Tensor y = identity_chain(x, 1'000'000);
  backward(y, true);
  EXPECT_EQ(value_of(autograd::grad_of(x)), 1.0);
  EXPECT_EQ(value_of(grad(y, x)), 1.0);
  y.reset();  // the graph goes without recursion
}

TEST(engine_chains_of_nodes_that_are_weakly_referred_to) {
  const Tensor x = vector_of({1}, true);
  std::vector<weak_intrusive_ptr<autograd::Node>> weak;
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) {
    y = identity_chain(y, 1);
    weak.emplace_back(autograd::grad_fn(y));
  }
  y.reset();
  for (const auto& node : weak) EXPECT(node.expired());
}

TEST(engine_many_edges_and_outputs) {
  struct Fan final : autograd::Node {
    const char* name() const override { return "FanBackward0"; }
    autograd::Gradients apply(autograd::Gradients&& grads) override {
      autograd::Gradients out(num_edges());
      for (size_t i = 0; i < out.size(); ++i) out[i] = grads[i];
      return out;
    }
  };
  std::vector<Tensor> leaves, outputs;
  const auto node = autograd::make_node<Fan>();
  for (int i = 0; i < 37; ++i) {
    leaves.push_back(vector_of({0}, true));
    node->add_next_edge(leaves.back());
    outputs.push_back(autograd::shallow_alias(leaves.back()));
    autograd::set_history(outputs.back(), node);
  }
  backward(mul(outputs[36], vector_of({4})));
  EXPECT_EQ(value_of(autograd::grad_of(leaves[36])), 4.0);
  EXPECT(!autograd::grad_of(leaves[0]).defined());
}
