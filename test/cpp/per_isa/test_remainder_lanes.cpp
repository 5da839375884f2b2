// Remainders and quotients of Lanes against the C library, bit for bit: quotients of all lengths,
// pairs of special values, neighbours in one vector, parts of vectors. Compiled once per
// instruction set.
#include <cmath>
#include <cstring>
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

template <typename T>
struct Pairs {
  std::vector<T> a;
  std::vector<T> b;
};

// The same number, of the same sign; any two NaN.
template <typename T>
bool same(T x, T y) {
  return std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <typename T, typename F>
std::vector<T> run(const Pairs<T>& in, const F& function) {
  std::vector<T> out(in.a.size());
  loops::each_lanes(static_cast<int64_t>(out.size()), out.data(), function, in.a.data(),
                    in.b.data());
  return out;
}

template <typename T>
T remainder_of_numbers(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

template <typename T>
void expect_same(const char* name, const Pairs<T>& in) {
  const auto rest = run(in, [](auto x, auto y) { return vec::fmod(x, y); });
  const auto modulo = run(in, [](auto x, auto y) { return vec::remainder(x, y); });
  const auto whole = run(in, [](auto x, auto y) { return vec::floor_divide(x, y); });
  int wrong = 0;
  T at = 0, by = 0;
  for (size_t i = 0; i < in.a.size(); ++i) {
    const T a = in.a[i], b = in.b[i];
    if (!same(rest[i], std::fmod(a, b)) || !same(modulo[i], remainder_of_numbers(a, b)) ||
        !same(whole[i], vec::floor_divide(a, b))) {
      ++wrong, at = a, by = b;
    }
  }
  testing::report(wrong == 0, __FILE__, __LINE__,
                  text_of(name, ": expected the C library's results, got ", wrong, " others, at ",
                          at, " / ", by));
}

struct Random {
  uint64_t seed = 5;
  uint64_t next() { return (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 1; }
};
// Any bit pattern: all exponents, infinities, NaN, denormals.
float any(Random* random, float) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(random->next() >> 20));
}
double any(Random* random, double) {
  return __builtin_bit_cast(double, random->next() << 1 | (random->next() >> 40 & 1));
}

template <typename T>
Pairs<T> ordinary(int64_t n, int most_bits) {
  Random random;
  Pairs<T> in;
  for (int64_t i = 0; i < n; ++i) {
    const T b = static_cast<T>(static_cast<double>(random.next() >> 10) * 0x1p-53 + 0.5);
    const T unit = static_cast<T>(static_cast<double>(random.next() >> 10) * 0x1p-53);
    const int bits = static_cast<int>(random.next() >> 33) % (most_bits + 3) - 2;
    in.a.push_back((random.next() >> 40 & 1 ? -1 : 1) * std::ldexp(unit, bits));
    in.b.push_back(random.next() >> 40 & 1 ? -b : b);
  }
  return in;
}

// Multiples and their neighbours, where the quotient rounds to the next integer.
template <typename T>
Pairs<T> near_multiples() {
  Random random;
  Pairs<T> in;
  for (int i = 0; i < 60000; ++i) {
    const T b = std::ldexp(T(1) + static_cast<T>(random.next() >> 10) * T(0x1p-53), i % 40 - 20);
    const int64_t times = static_cast<int64_t>(random.next() >> (12 + i % 51));
    const T multiple = static_cast<T>(times) * b;
    const T toward = i % 3 == 0 ? T(0) : i % 3 == 1 ? std::numeric_limits<T>::max() : multiple;
    in.a.push_back((i % 2 ? -1 : 1) * std::nextafter(multiple, toward));
    in.b.push_back(i % 4 < 2 ? b : -b);
  }
  return in;
}

template <typename T>
Pairs<T> special_pairs() {
  using L = std::numeric_limits<T>;
  std::vector<T> ends = {0,
                         1,
                         2,
                         T(0.1),
                         3,
                         L::denorm_min(),
                         L::min(),
                         L::max(),
                         L::infinity(),
                         L::quiet_NaN(),
                         T(1e30),
                         T(1e-30),
                         7,
                         T(0x1p22),
                         T(0x1p51)};
  const size_t count = ends.size();
  for (size_t i = 0; i < count; ++i) ends.push_back(-ends[i]);
  Pairs<T> in;
  for (const T a : ends) {
    for (const T b : ends) in.a.push_back(a), in.b.push_back(b);
  }
  return in;
}

template <typename T>
void expect_all() {
  expect_same("short quotients", ordinary<T>(40001, 3));
  expect_same("longer quotients", ordinary<T>(40001, 40));
  expect_same("the longest quotients", ordinary<T>(40001, sizeof(T) == 4 ? 120 : 1000));
  expect_same("neighbours of multiples", near_multiples<T>());
  const Pairs<T> special = special_pairs<T>();
  expect_same("special values", special);
  Random random;
  Pairs<T> in;
  for (int i = 0; i < 40000; ++i)
    in.a.push_back(any(&random, T())), in.b.push_back(any(&random, T()));
  expect_same("all bit patterns", in);
  // Beside each special pair ordinary numbers, and nothing after it.
  for (size_t i = 0; i < special.a.size(); ++i) {
    const Pairs<T> among = {{T(7.5), special.a[i], -3, T(1e20)}, {2, special.b[i], T(0.7), T(3.3)}};
    expect_same("neighbours", among);
  }
}

}  // namespace

TEST_PER_ISA(remainder_lanes_of_float) { expect_all<float>(); }
TEST_PER_ISA(remainder_lanes_of_double) { expect_all<double>(); }

// A part of a vector neither reads nor writes beside it.
TEST_PER_ISA(remainder_lanes_parts_of_vectors) {
  const Pairs<double> in = ordinary<double>(40, 20);
  for (size_t n = 0; n <= 40; ++n) {
    std::vector<double> out(41, -7.0);
    loops::each_lanes(
        static_cast<int64_t>(n), out.data(), [](auto x, auto y) { return vec::fmod(x, y); },
        in.a.data(), in.b.data());
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT(out[i] == (i < n ? std::fmod(in.a[i], in.b[i]) : -7.0));
  }
}

#else

template <typename T>
concept HasFmodOfLanes = requires(loops::lanes_t<T> x) {
  { vec::fmod(x, x) } -> vec::Lanewise;
};
static_assert(!HasFmodOfLanes<float> && !HasFmodOfLanes<double>);

#endif
