// Functions of Lanes: error bounds in ulps against the C library in double over all magnitudes,
// special values, neighbours, and parts of vectors. Compiled once per instruction set; those of
// AVX2 and AVX-512 have Lanes.
#include <cmath>
#include <limits>
#include <vector>

#include "aten/cpu/loop_support.h"
#include "c10/core/isa.h"
#include "harness.h"

#ifndef FLAMBEAU_ISA
#define FLAMBEAU_ISA x86_64
#endif
#define JOIN_NAME(a, b) a##_##b
#define EXPAND_NAME(a, b) JOIN_NAME(a, b)
#define TEST_PER_ISA(name) EXPAND_TEST(EXPAND_NAME(name, FLAMBEAU_ISA))
#define EXPAND_TEST(name) TEST(name)

using namespace flambeau;

#ifdef FLAMBEAU_HAS_LANES

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename F>
std::vector<float> run(const std::vector<float>& in, const F& function) {
  std::vector<float> out(in.size());
  loops::each_lanes(static_cast<int64_t>(in.size()), out.data(), function, in.data());
  return out;
}

double ulps(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isnan(got) || std::isnan(nearest))
    return std::isnan(got) == std::isnan(nearest) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(nearest)) return got == nearest ? 0 : 1e30;
  const float magnitude = std::fabs(nearest);
  return std::fabs(got - exact) / (std::nextafter(magnitude, kInfinity) - magnitude);
}

// Every 997th bit pattern, which meets infinities, NaN, denormals and both signs, and a dense sweep
// of [low, high].
template <typename F, typename R>
void expect_ulps(const char* name, double bound, float low, float high, const F& function,
                 const R& exact) {
  std::vector<float> in;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 997)
    in.push_back(__builtin_bit_cast(float, static_cast<uint32_t>(bits)));
  for (int i = 0; i < 300001; ++i) in.push_back(low + (high - low) * static_cast<float>(i) / 3e5f);
  const std::vector<float> out = run(in, function);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double error = ulps(out[i], exact(static_cast<double>(in[i])));
    if (error > worst) worst = error, at = in[i];
  }
  testing::report(worst <= bound, __FILE__, __LINE__,
                  text_of(name, ": expected at most ", bound, " ulp, got ", worst, " at ", at));
}

template <typename F>
float one(float x, const F& function) {
  return run(std::vector<float>{x}, function)[0];
}

const auto exp_lanes = [](vec::Lanes x) { return vec::exp(x); };
const auto log_lanes = [](vec::Lanes x) { return vec::log(x); };
const auto tanh_lanes = [](vec::Lanes x) { return vec::tanh(x); };
const auto erfinv_lanes = [](vec::Lanes x) { return vec::erfinv(x); };

}  // namespace

TEST_PER_ISA(lanes_error_bounds) {
  expect_ulps("exp", 1, -104, 89, exp_lanes, [](double x) { return std::exp(x); });
  expect_ulps("log", 1, 0.25, 4, log_lanes, [](double x) { return std::log(x); });
  expect_ulps("tanh", 3, -10, 10, tanh_lanes, [](double x) { return std::tanh(x); });
  expect_ulps("erfinv", 4, -1, 1, erfinv_lanes, [](double x) { return vec::erfinv(x); });
}

TEST_PER_ISA(lanes_special_values) {
  EXPECT(one(kInfinity, exp_lanes) == kInfinity && one(-kInfinity, exp_lanes) == 0 &&
         std::isnan(one(kNan, exp_lanes)) && one(1e30f, exp_lanes) == kInfinity &&
         one(-1e30f, exp_lanes) == 0 && one(-0.0f, exp_lanes) == 1);
  EXPECT(one(0, log_lanes) == -kInfinity && one(-0.0f, log_lanes) == -kInfinity &&
         std::isnan(one(-1e-45f, log_lanes)) && std::isnan(one(-kInfinity, log_lanes)) &&
         one(kInfinity, log_lanes) == kInfinity && std::isnan(one(kNan, log_lanes)) &&
         one(1, log_lanes) == 0);
  EXPECT(one(kInfinity, tanh_lanes) == 1 && one(-kInfinity, tanh_lanes) == -1 &&
         std::isnan(one(kNan, tanh_lanes)) && std::signbit(one(-0.0f, tanh_lanes)) &&
         one(-1e-45f, tanh_lanes) == -1e-45f);
  EXPECT(one(1, erfinv_lanes) == kInfinity && one(-1, erfinv_lanes) == -kInfinity &&
         std::isnan(one(1.5f, erfinv_lanes)) && std::isnan(one(-kInfinity, erfinv_lanes)) &&
         std::isnan(one(kNan, erfinv_lanes)) && std::signbit(one(-0.0f, erfinv_lanes)));
}

// The result of a lane depends on no other lane: vectors of ordinary numbers may take a shorter
// way.
TEST_PER_ISA(lanes_do_not_depend_on_neighbours) {
  const float odd[] = {0,          -0.0f, 1e-45f, -1e-45f, 1e-39f, kInfinity,
                       -kInfinity, kNan,  100,    -100,    -2};
  const auto check = [&](const auto& function) {
    for (int i = 0; i < 4000; ++i) {
      const float x = 0.011f * static_cast<float>(i) - 20;
      const float alone = one(x, function);
      std::vector<float> among(static_cast<size_t>(vec::kLanes), x);
      among[static_cast<size_t>(i + 1) % among.size()] = odd[i % 11];
      const float beside = run(among, function)[static_cast<size_t>(i) % among.size()];
      EXPECT(__builtin_bit_cast(int32_t, alone) == __builtin_bit_cast(int32_t, beside));
    }
  };
  check(exp_lanes);
  check(log_lanes);
  check(tanh_lanes);
  check(erfinv_lanes);
}

// A part of a vector gives what a whole one does, and neither reads nor writes beside it.
TEST_PER_ISA(lanes_parts_of_vectors) {
  std::vector<float> in(40);
  for (size_t i = 0; i < in.size(); ++i) in[i] = 0.37f * static_cast<float>(i) - 5;
  const std::vector<float> whole = run(in, exp_lanes);
  for (size_t n = 0; n <= in.size(); ++n) {
    std::vector<float> out(in.size() + 1, -7.0f);
    loops::each_lanes(static_cast<int64_t>(n), out.data(), exp_lanes, in.data());
    for (size_t i = 0; i < out.size(); ++i) EXPECT(out[i] == (i < n ? whole[i] : -7.0f));
  }
  loops::each_lanes(static_cast<int64_t>(in.size()), in.data(), exp_lanes, in.data());
  EXPECT(in == whole);
}

#else

template <typename T>
concept TakenByExp = requires(T x) { vec::exp(x); };
static_assert(TakenByExp<float> && !TakenByExp<vec::Lanes>);

#endif
