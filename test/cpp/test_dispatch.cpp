// The dispatcher: lookup by key, boxed kernels and fallbacks, replacement while others call.
#include <atomic>
#include <thread>

#include "aten/core/factory.h"
#include "aten/dispatch/boxing.h"
#include "harness.h"

using namespace flambeau;

namespace {

int64_t double_cpu(DispatchKeySet, const Tensor&, int64_t n) { return 2 * n; }
int64_t triple_cpu(DispatchKeySet, const Tensor&, int64_t n) { return 3 * n; }

struct Sample {
  using Kernel = int64_t (*)(DispatchKeySet, const Tensor&, int64_t);
  static OperatorEntry entry;
  static int64_t call(const Tensor& self, int64_t n) {
    const DispatchKeySet keys = effective_keys(keys_of(self));
    return reinterpret_cast<Kernel>(entry.lookup(keys))(keys, self, n);
  }
};
OperatorEntry Sample::entry = [] {
  using S = boxing::Signature<Sample::Kernel>;
  OperatorEntry e{"sample", "sample(Tensor self, int n) -> int", {}, S::call, nullptr};
  e.boxing_adapter = reinterpret_cast<void*>(S::adapter<Sample>);
  e.kernels[static_cast<int>(DispatchKey::CPU)] = reinterpret_cast<void*>(double_cpu);
  return e;
}();

void add_one(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  redispatch_boxed(op, keys.below(DispatchKey::Autograd), stack);
  const int64_t n = stack.pop().get<Scalar>().to<int64_t>();
  stack.push(IValue(Scalar(n + 1)));
}

Tensor marked() {
  Tensor t = empty_tensor({1}, ScalarType::Float32);
  t.impl()->add_keys(DispatchKey::Autograd);
  return t;
}

}  // namespace

TEST(dispatch_falls_through_keys_without_kernel) {
  EXPECT_EQ(Sample::call(marked(), 4), int64_t{8});
  const Tensor meta = empty_tensor({1}, ScalarType::Float32, DeviceType::Meta);
  EXPECT(testing::throws(ErrorKind::NotImplemented, "Could not run 'sample'",
                         [&] { Sample::call(meta, 4); }));
}

TEST(dispatch_boxed_kernel_and_fallback) {
  const Tensor t = marked();
  set_boxed_kernel(Sample::entry, DispatchKey::Autograd, add_one);
  EXPECT_EQ(Sample::call(t, 4), int64_t{9});
  set_boxed_kernel(Sample::entry, DispatchKey::Autograd, nullptr);
  EXPECT_EQ(Sample::call(t, 4), int64_t{8});
  set_boxed_fallback(DispatchKey::Autograd, add_one);
  EXPECT_EQ(Sample::call(t, 4), int64_t{9});
  set_boxed_fallback(DispatchKey::Autograd, nullptr);
  EXPECT_EQ(Sample::call(t, 4), int64_t{8});
}

TEST(dispatch_checks_what_a_boxed_kernel_leaves) {
  set_boxed_kernel(Sample::entry, DispatchKey::Autograd,
                   [](const OperatorEntry&, DispatchKeySet, Stack& stack) { stack.clear(); });
  EXPECT(testing::throws(ErrorKind::Runtime, "expected the boxed kernel to leave 1 results, got 0",
                         [] { Sample::call(marked(), 4); }));
  set_boxed_kernel(Sample::entry, DispatchKey::Autograd, nullptr);
}

TEST(dispatch_kernels_change_while_others_call) {
  const Tensor t = empty_tensor({1}, ScalarType::Float32);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread caller([&] {
    while (!stop.load()) {
      const int64_t n = Sample::call(t, 1);
      if (n != 2 && n != 3) ++wrong;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    void* const kernel = reinterpret_cast<void*>(i % 2 ? double_cpu : triple_cpu);
    set_kernel(Sample::entry, DispatchKey::CPU, kernel);
  }
  stop = true;
  caller.join();
  EXPECT_EQ(wrong.load(), 0);
}
