// Views, in-place operations and the histories they rewrite.
#include "sample_operators.h"

using namespace flambeau;
using namespace flambeau::testing;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST(history_inplace_on_a_tensor) {
  const Tensor x = vector_of({2, 3}, true);
  Tensor y = mul(x, vector_of({1, 1}));
  mul_inplace(y, vector_of({5, 7}));
  backward(y);
  EXPECT(values_of(autograd::grad_of(x)) == Values({5, 7}));
}

TEST(history_inplace_on_a_view_reaches_its_base) {
  const Tensor x = vector_of({1, 2, 3, 4}, true);
  Tensor y = mul(x, vector_of({1}));
  Tensor middle = slice(y, 1, 3);
  mul_inplace(middle, vector_of({10, 20}));
  EXPECT(values_of(y) == Values({1, 20, 60, 4}));
  EXPECT(std::string_view(autograd::grad_fn(y)->name()) == "CopySlices");
  backward(sum(y), true);
  EXPECT(values_of(autograd::grad_of(x)) == Values({1, 10, 20, 1}));
  EXPECT(values_of(grad(middle, x)) == Values({0, 10, 20, 0}));
}

TEST(history_inplace_with_a_factor_that_requires_grad) {
  Tensor base = vector_of({1, 2, 3});
  Tensor view = slice(base, 0, 2);
  const Tensor w = vector_of({4, 5}, true);
  mul_inplace(view, w);
  EXPECT(autograd::requires_grad(base) && autograd::requires_grad(view));
  backward(mul(base, vector_of({1, 1, 100})));
  EXPECT(values_of(autograd::grad_of(w)) == Values({1, 2}));
}

TEST(history_of_a_view_follows_its_base) {
  const Tensor x = vector_of({1, 2}, true);
  Tensor y = mul(x, vector_of({1}));
  const Tensor view = slice(y, 0, 1);
  mul_inplace(y, vector_of({3, 3}));
  EXPECT(values_of(grad(view, x)) == Values({3, 0}));
}

TEST(history_views_made_before_the_base_requires_grad) {
  Tensor base = vector_of({1, 2});
  const Tensor view = slice(base, 1, 2);
  {
    const Tensor gone = slice(base, 0, 1);
  }
  mul_inplace(base, vector_of({3, 4}, true));
  EXPECT(autograd::requires_grad(view));
}

TEST(history_double_backward_through_a_view) {
  const Tensor x = vector_of({2, 3}, true);
  Tensor y = mul(x, x);
  Tensor view = slice(y, 0, 1);
  mul_inplace(view, slice(x, 0, 1));  // y = (x0^3, x1^2)
  const Tensor first = grad(sum(y), x, true);
  EXPECT(values_of(first) == Values({12, 6}));
  EXPECT(values_of(grad(sum(first), x)) == Values({12, 2}));
}

TEST(history_output_saved_by_an_inplace_operation_on_a_view) {
  // LeakSanitizer: the node that saves the view's new value lies behind the view's own node.
  const Tensor x = vector_of({0, 1}, true);
  Tensor y = mul(x, vector_of({1}));
  Tensor view = slice(y, 0, 1);
  exp_inplace(view);
  const Tensor first = grad(sum(y), x, true);
  EXPECT(values_of(first) == Values({1, 1}));
  EXPECT(values_of(grad(first, x)) == Values({1, 0}));
}

TEST(history_retained_gradient_of_a_view_that_changes) {
  const Tensor x = vector_of({1, 2}, true);
  Tensor y = mul(x, vector_of({1}));
  Tensor view = slice(y, 0, 1);
  autograd::retain_grad(view);
  autograd::retain_grad(y);
  mul_inplace(view, vector_of({5}));
  backward(autograd::operators::add(sum(mul(view, vector_of({2}))), sum(y)));
  EXPECT(values_of(autograd::grad_of(view)) == Values({2}));
  EXPECT(values_of(autograd::grad_of(y)) == Values({3, 1}));
}

TEST(history_refuses_ambiguous_changes) {
  Tensor leaf = vector_of({1, 2}, true);
  EXPECT(throws(ErrorKind::Runtime, "on a leaf Variable that requires grad",
                [&] { mul_inplace(leaf, vector_of({1})); }));
  Tensor view = slice(leaf, 0, 1);
  EXPECT(throws(ErrorKind::Runtime, "on a view of a leaf",
                [&] { mul_inplace(view, vector_of({1})); }));
  Tensor y = mul(leaf, leaf);
  Tensor hidden;
  {
    const GradModeGuard off(false);
    hidden = slice(y, 0, 1);
  }
  EXPECT(throws(ErrorKind::Runtime, "created in no_grad mode",
                [&] { mul_inplace(hidden, vector_of({1})); }));
}

TEST(history_long_chain_of_changes_to_a_view) {
  const Tensor x = vector_of({1, 1}, true);
  Tensor y = mul(x, vector_of({1}));
  Tensor view = slice(y, 0, 1);
  for (int i = 0; i < 20'000; ++i) mul_inplace(view, vector_of({-1}));
  backward(y);
  EXPECT(values_of(autograd::grad_of(x)) == Values({1, 1}));
  // Each of these nodes is referred to weakly by the one behind it.
  Tensor z = mul(x, vector_of({1}));
  Tensor window = slice(z, 0, 1);
  for (int i = 0; i < 20'000; ++i) exp_inplace(window);
}
