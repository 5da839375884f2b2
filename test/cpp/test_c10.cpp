// Scalars, dtypes, reference counts, shapes and the dispatcher's boxing.
#include <cstring>

#include "aten/core/factory.h"
#include "aten/core/promotion.h"
#include "aten/core/shape.h"
#include "aten/core/shape_rules.h"
#include "aten/core/view.h"
#include "aten/dispatch/boxing.h"
#include "harness.h"

using namespace flambeau;
using testing::throws;

TEST(scalar_converts_and_refuses) {
  EXPECT(Scalar(3).to<double>() == 3.0 && Scalar(2.9).to<int64_t>() == 2 &&
         Scalar(true).to<int32_t>() == 1);
  EXPECT(Scalar(-1).to<uint8_t>() == 255);
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [] { Scalar(300).to<uint8_t>(); }));
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [] { Scalar(1e300).to<float>(); }));
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [] { Scalar(-0.5).to<uint8_t>(); }));
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [] { Scalar(-128.5).to<int8_t>(); }));
  EXPECT(Scalar(-1).to<uint8_t>() == 255);
  EXPECT(Scalar(complex<double>(0, 1)).to<bool>());
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [] { Scalar(0x1p63).to<int64_t>(); }));
  EXPECT(throws(ErrorKind::Runtime, "without overflow",
                [] { Scalar(c10::complex<double>(1, 2)).to<double>(); }));
  EXPECT(Scalar(-0x1p63).to<int64_t>() == INT64_MIN);
  EXPECT_EQ(text_of(Scalar(1.0), " ", Scalar(2), " ", Scalar(true)), std::string("1.0 2 True"));
  EXPECT_EQ((-Scalar(INT64_MIN)).to_int64(), INT64_MIN);
}

TEST(half_rounds_to_even) {
  EXPECT(static_cast<float>(Half(65519.0f)) == 65504.0f &&
         std::isinf(static_cast<float>(Half(65520.0f))));
  EXPECT(static_cast<float>(Half(0x1p-24f)) == 0x1p-24f && static_cast<float>(Half(0x1p-26f)) == 0);
  EXPECT(static_cast<float>(BFloat16(1.00390625f)) == 1.0f &&
         std::isnan(static_cast<float>(BFloat16(NAN))));
}

TEST(dtypes_promote) {
  EXPECT_EQ(promote_types(ScalarType::UInt8, ScalarType::Int8), ScalarType::Int16);
  EXPECT_EQ(promote_types(ScalarType::Float16, ScalarType::BFloat16), ScalarType::Float32);
  EXPECT_EQ(promote_types(ScalarType::Complex64, ScalarType::Float64), ScalarType::Complex128);
  EXPECT_EQ(promote_types(ScalarType::Int64, ScalarType::Float16), ScalarType::Float16);
  EXPECT(can_cast(ScalarType::Int64, ScalarType::UInt8) &&
         !can_cast(ScalarType::Float32, ScalarType::Int64));
  const Tensor ints = zeros_tensor({2}, ScalarType::Int32);
  EXPECT_EQ(result_type(ints, Scalar(1.5)), ScalarType::Float32);
  EXPECT_EQ(result_type(ints, zeros_tensor({}, ScalarType::Int64)), ScalarType::Int32);
  EXPECT_EQ(result_type(zeros_tensor({2}, ScalarType::Float16), Scalar(c10::complex<double>(0, 1))),
            ScalarType::Complex32);
}

TEST(wide_unsigned_types_promote_with_floats_only) {
  EXPECT_EQ(promote_types(ScalarType::UInt32, ScalarType::BFloat16), ScalarType::BFloat16);
  EXPECT(throws(ErrorKind::Runtime, "Promotion",
                [] { promote_types(ScalarType::UInt16, ScalarType::Int64); }));
  EXPECT(throws(ErrorKind::Runtime, "Promotion",
                [] { promote_types(ScalarType::Complex64, ScalarType::UInt64); }));
  EXPECT_EQ(promote_types(ScalarType::Complex32, ScalarType::Int64), ScalarType::Complex32);
  EXPECT_EQ(promote_types(ScalarType::Complex32, ScalarType::BFloat16), ScalarType::Complex64);
  EXPECT_EQ(result_type(zeros_tensor({2}, ScalarType::UInt16), zeros_tensor({}, ScalarType::Int64)),
            ScalarType::UInt16);
  EXPECT(!is_signed_type(ScalarType::UInt64) && is_integral_type(ScalarType::UInt16, false));
}

TEST(scalars_hold_the_highest_bit) {
  const Scalar most(UINT64_MAX);
  EXPECT(most.is_integral(false) && most.to<uint64_t>() == UINT64_MAX);
  EXPECT(throws(ErrorKind::Runtime, "without overflow", [&] { most.to_int64(); }));
  EXPECT(most.to_double() == 0x1p64 && most.to<float>() == 0x1p64f);
  EXPECT(!most.equals(Scalar(-1)) && Scalar(uint64_t{5}).equals(Scalar(5)));
  uint64_t stored = 0;
  most.store(ScalarType::UInt64, &stored);
  EXPECT(stored == UINT64_MAX && Scalar::load(ScalarType::UInt64, &stored).equals(most));
  EXPECT(Scalar(0x1p63).to<uint64_t>() == uint64_t{1} << 63);
  EXPECT_EQ(text_of(most), std::string("18446744073709551615"));
}

TEST(device_parses) {
  EXPECT(Device::parse("cuda:1") == Device(DeviceType::CUDA, 1) &&
         Device::parse("cpu") == Device());
  EXPECT(throws(ErrorKind::Runtime, "expected one of cpu, cuda", [] { Device::parse("gpu"); }));
  EXPECT(throws(ErrorKind::Runtime, "Invalid device string", [] { Device::parse("cuda:x"); }));
}

TEST(reference_counts) {
  static int alive;
  alive = 0;
  struct Counted final : RefCounted {
    Counted() { ++alive; }
    ~Counted() override { --alive; }
  };
  auto p = make_intrusive<Counted>();
  weak_intrusive_ptr<Counted> weak(p);
  {
    auto q = weak.lock();
    EXPECT(q == p && p->use_count() == 2);
  }
  p.reset();
  EXPECT(weak.expired() && !weak.lock() && alive == 1);  // memory stays for the weak reference
  weak = {};
  EXPECT_EQ(alive, 0);
}

TEST(shapes) {
  EXPECT(broadcast_sizes({3, 1}, {4}) == DimVector({3, 4}));
  EXPECT(throws(ErrorKind::Runtime,
                "at dimension 1 the size of tensor a (3) must match the size of tensor b (4)",
                [] { broadcast_sizes({2, 3}, {2, 4}); }));
  EXPECT(infer_size({2, -1}, 6) == DimVector({2, 3}));
  EXPECT(throws(ErrorKind::Runtime,
                "expected a shape of 6 elements, got [4, -1], which is invalid for input of size 6",
                [] { infer_size({4, -1}, 6); }));
  EXPECT(throws(ErrorKind::Runtime, "expected -1 once at most (only one dimension can be inferred)",
                [] { infer_size({-1, -1}, 6); }));
  EXPECT(throws(ErrorKind::Runtime, "negative dimension", [] { numel_of({2, -1}); }));
  EXPECT(throws(ErrorKind::Runtime, "overflow",
                [] { numel_of({int64_t{1} << 40, int64_t{1} << 40}); }));
  EXPECT(*view_strides({2, 3, 4}, {12, 4, 1}, {6, 4}) == DimVector({4, 1}));
  EXPECT(!view_strides({3, 2}, {1, 3}, {6}));
  EXPECT(*view_strides({3, 2}, {1, 3}, {3, 1, 2}) == DimVector({1, 6, 3}) ||
         view_strides({3, 2}, {1, 3}, {3, 1, 2}));
  EXPECT(*view_strides({4, 1}, {2, 9}, {2, 2}) == DimVector({4, 2}));
  EXPECT(*view_strides({}, {}, {1, 1}) == DimVector({1, 1}));
  EXPECT(channels_last_strides({2, 3, 4, 5}) == DimVector({60, 1, 15, 3}));
  const Tensor t = zeros_tensor({4, 6}, ScalarType::Float32);
  OutSpec spec;
  const int64_t one = 1;
  shape::reduced(t, std::optional<IntArrayRef>(IntArrayRef(&one, 1)), true, &spec);
  EXPECT(spec.sizes == DimVector({4, 1}));
}

TEST(overlap) {
  const Tensor t = zeros_tensor({10}, ScalarType::Float32);
  const Tensor head = as_view(t, {{5}, {1}, 0}), tail = as_view(t, {{5}, {1}, 5}),
               middle = as_view(t, {{5}, {1}, 3});
  EXPECT(overlap_of(head, tail) == Overlap::No && overlap_of(head, middle) == Overlap::Partial);
  EXPECT(overlap_of(t, t) == Overlap::Full &&
         overlap_of(t, zeros_tensor({10}, ScalarType::Float32)) == Overlap::No);
  EXPECT(has_internal_overlap(as_view(t, {{3, 2}, {0, 1}, 0})) && !has_internal_overlap(t));
}

namespace {

struct Scale {
  using Kernel = Tensor (*)(DispatchKeySet, const Tensor&, double, IntArrayRef,
                            std::optional<int64_t>);
  static OperatorEntry entry;
};
int calls = 0;
Tensor scale_cpu(DispatchKeySet, const Tensor& self, double factor, IntArrayRef dims,
                 std::optional<int64_t> extra) {
  ++calls;
  EXPECT(factor == 2.5 && dims == IntArrayRef({1, 2}) && extra == std::optional<int64_t>(7));
  return self;
}
void* erase(Scale::Kernel kernel) { return reinterpret_cast<void*>(kernel); }
OperatorEntry Scale::entry = {"scale",
                              "scale(Tensor self, float factor, int[] dims, int? extra) -> Tensor",
                              {erase(scale_cpu)},
                              &boxing::Signature<Scale::Kernel>::call,
                              erase(&boxing::Signature<Scale::Kernel>::adapter<Scale>),
                              {}};
Tensor call_scale(const Tensor& self) {
  const DispatchKeySet keys = effective_keys(keys_of(self));
  return reinterpret_cast<Scale::Kernel>(Scale::entry.lookup(keys))(keys, self, 2.5, {1, 2}, 7);
}

}  // namespace

TEST(dispatcher_boxes_and_falls_back) {
  OperatorEntry* const entries[] = {&Scale::entry};
  register_operators(entries, 1);
  EXPECT(find_operator("scale") == &Scale::entry && !find_operator("scal"));
  const Tensor t = zeros_tensor({2}, ScalarType::Float32);
  calls = 0;
  EXPECT(call_scale(t).is_same(t) && calls == 1);
  static int seen = 0;
  const BoxedKernel fallback = [](const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
    ++seen;
    EXPECT_EQ(stack.size(), size_t{4});
    redispatch_boxed(op, keys.below(DispatchKey::Tracing), stack);
  };
  {
    const IncludeKeys tracing{DispatchKeySet(DispatchKey::Tracing)};
    EXPECT(call_scale(t).is_same(t) && calls == 2 &&
           seen == 0);  // falls through without a fallback
    set_boxed_fallback(DispatchKey::Tracing, fallback);
    EXPECT(call_scale(t).is_same(t) && calls == 3 && seen == 1);
    set_boxed_fallback(DispatchKey::Tracing, nullptr);
    set_boxed_kernel(Scale::entry, DispatchKey::Tracing, fallback);
    EXPECT(call_scale(t).is_same(t) && calls == 4 && seen == 2);
    set_boxed_kernel(Scale::entry, DispatchKey::Tracing, nullptr);
  }
  const Tensor meta = empty_tensor({2}, ScalarType::Float32, DeviceType::Meta);
  EXPECT(throws(ErrorKind::NotImplemented,
                "Could not run 'scale' with arguments from the 'Meta' backend",
                [&] { call_scale(meta); }));
}
