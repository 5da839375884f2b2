// Several threads over shared leaves and shared graphs; meant for ThreadSanitizer.
#include <atomic>
#include <thread>

#include "sample_operators.h"

using namespace flambeau;
using namespace flambeau::testing;

namespace {

constexpr int kThreads = 4;

template <typename Body>
void in_threads(const Body& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(body, t);
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST(threads_own_graphs_over_one_leaf) {
  const Tensor x = vector_of({1, 2}, true);
  in_threads([&](int t) {
    for (int i = 0; i < 200; ++i) backward(mul(x, vector_of({t + 1.0})));
  });
  EXPECT(values_of(autograd::grad_of(x)) == std::vector<double>({2000, 2000}));
}

TEST(threads_one_graph) {
  const Tensor x = vector_of({0.5}, true);
  Tensor y = exp(x);
  for (int i = 0; i < 50; ++i) y = autograd::operators::add(mul(y, vector_of({0.5})), y);
  const double expected = std::exp(0.5) * std::pow(1.5, 50);
  std::atomic<int> wrong{0};
  in_threads([&](int t) {
    for (int i = 0; i < 20; ++i) {
      if (t % 2) {
        backward(y, true);
      } else if (std::abs(value_of(grad(y, x, true)) / expected - 1) > 1e-9) {
        ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT(std::abs(value_of(autograd::grad_of(x)) / (expected * 20 * kThreads / 2) - 1) < 1e-9);
}

TEST(threads_race_to_free_one_graph) {
  // The second pass finds the saved tensors freed; no pass reads a tensor while it is freed.
  for (int round = 0; round < 100; ++round) {
    const Tensor x = vector_of({2}, true);
    Tensor y = mul(x, x);
    for (int i = 0; i < 5; ++i) y = mul(y, vector_of({1}));
    std::atomic<int> refused{0}, done{0};
    in_threads([&](int) {
      try {
        backward(y);
        ++done;
      } catch (const Error&) {
        ++refused;
      }
    });
    EXPECT_EQ(done.load() + refused.load(), kThreads);
    EXPECT(done.load() <= 1);
  }
}

TEST(threads_drop_one_graph) {
  for (int round = 0; round < 50; ++round) {
    const Tensor x = vector_of({1}, true);
    Tensor copies[kThreads];
    for (Tensor& copy : copies) copy = identity_chain(x, 100);
    Tensor joint = copies[0];
    for (int i = 1; i < kThreads; ++i) joint = autograd::operators::add(joint, copies[i]);
    Tensor holders[kThreads];
    for (Tensor& holder : holders) holder = joint;
    joint.reset();
    in_threads([&](int t) {
      holders[t].reset();
      copies[t].reset();
    });
  }
}

TEST(threads_ask_for_one_accumulator) {
  for (int round = 0; round < 100; ++round) {
    const Tensor x = vector_of({1}, true);
    intrusive_ptr<autograd::Node> nodes[kThreads];
    in_threads([&](int t) { nodes[t] = autograd::grad_accumulator(x); });
    for (const auto& node : nodes) EXPECT(node == nodes[0]);
  }
}

TEST(threads_take_the_first_views_of_one_base) {
  std::vector<Tensor> bases;
  for (int i = 0; i < 2000; ++i) bases.push_back(vector_of({1, 2, 3}));
  in_threads([&](int) {
    for (const Tensor& base : bases) EXPECT(autograd::base_of(slice(base, 0, 2)).is_same(base));
  });
}

TEST(threads_make_and_drop_views_of_one_base) {
  Tensor base = vector_of({1, 2, 3});
  in_threads([&](int) {
    for (int i = 0; i < 500; ++i) {
      const Tensor view = slice(base, 0, 2);
      EXPECT(autograd::base_of(view).is_same(base));
    }
  });
  mul_inplace(base, vector_of({1, 1, 1}, true));
  const Tensor view = slice(base, 1, 2);
  mul_inplace(base, vector_of({2}));
  intrusive_ptr<autograd::Node> nodes[kThreads];
  in_threads([&](int t) { nodes[t] = autograd::grad_fn(view); });
  for (const auto& node : nodes) EXPECT(node && node == nodes[0]);
}
