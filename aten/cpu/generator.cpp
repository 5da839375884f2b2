#include "aten/cpu/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "c10/core/check.h"

namespace flambeau {
namespace {

constexpr int kShift = 397;
constexpr uint32_t kMatrix = 0x9908b0dfu;

uint32_t twist(uint32_t upper, uint32_t lower, uint32_t far) {
  const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return far ^ (y >> 1) ^ (-(lower & 1u) & kMatrix);
}

uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// Box-Muller on 16 uniforms in place: the first eight are radii, the last eight angles.
template <typename T>
void normal_block(T* data, T mean, T std) {
  for (int j = 0; j < 8; ++j) {
    const T radius = std::sqrt(T(-2) * std::log(T(1) - data[j]));
    const T angle = T(2) * std::numbers::pi_v<T> * data[j + 8];
    data[j] = radius * std::cos(angle) * std + mean;
    data[j + 8] = radius * std::sin(angle) * std + mean;
  }
}

// PyTorch's order of draws: whole blocks, then the last 16 elements afresh when n is no multiple.
template <typename T>
void fill_normal_blocks(CpuGenerator& generator, T* out, int64_t n, T mean, T std) {
  generator.fill_uniform(out, n, T(0), T(1));
  for (int64_t i = 0; i + 16 <= n; i += 16) normal_block(out + i, mean, std);
  if (n % 16) {
    generator.fill_uniform(out + n - 16, 16, T(0), T(1));
    normal_block(out + n - 16, mean, std);
  }
}

}  // namespace

CpuGenerator::CpuGenerator(uint64_t seed) : GeneratorImpl(DeviceType::CPU) { set_seed(seed); }

// The reference initialisation, from the low 32 bits of the seed.
void CpuGenerator::set_seed(uint64_t seed) {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (int i = 1; i < kStateSize; ++i) {
    const uint32_t previous = state_[i - 1];
    state_[i] = 1812433253u * (previous ^ (previous >> 30)) + static_cast<uint32_t>(i);
  }
  next_ = kStateSize;
  has_next_normal_ = false;
}

void CpuGenerator::refill() {
  constexpr int n = kStateSize;
#pragma omp simd
  for (int i = 0; i < n - kShift; ++i)
    state_[i] = twist(state_[i], state_[i + 1], state_[i + kShift]);
  // Reads what the first loop wrote, 227 words back: no shorter dependence.
#pragma omp simd safelen(16)
  for (int i = n - kShift; i < n - 1; ++i) {
    state_[i] = twist(state_[i], state_[i + 1], state_[i + kShift - n]);
  }
  state_[n - 1] = twist(state_[n - 1], state_[0], state_[kShift - 1]);
#pragma omp simd
  for (int i = 0; i < n; ++i) tempered_[i] = temper(state_[i]);
  next_ = 0;
}

double CpuGenerator::normal(double mean, double std) {
  if (std::exchange(has_next_normal_, false)) return next_normal_ * std + mean;
  const double u1 = uniform_double();
  const double u2 = uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  next_normal_ = radius * std::sin(angle);
  has_next_normal_ = true;
  return radius * std::cos(angle) * std + mean;
}

void CpuGenerator::fill_uniform(float* out, int64_t n, float from, float to) {
  const float range = to - from;
  while (n > 0) {
    if (next_ == kStateSize) refill();
    const int64_t run = std::min<int64_t>(n, kStateSize - next_);
    const uint32_t* raw = tempered_ + next_;
#pragma omp simd
    for (int64_t i = 0; i < run; ++i) {
      const float unit = static_cast<float>(static_cast<int32_t>(raw[i] & 0xffffffu)) * 0x1p-24f;
      out[i] = unit * range + from;
    }
    next_ += static_cast<int>(run);
    out += run;
    n -= run;
  }
}

void CpuGenerator::fill_uniform(double* out, int64_t n, double from, double to) {
  const double range = to - from;
  for (int64_t i = 0; i < n; ++i) out[i] = uniform_double() * range + from;
}

void CpuGenerator::fill_normal(float* out, int64_t n, float mean, float std) {
  if (n >= 16) {
    fill_normal_blocks(*this, out, n, mean, std);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(normal(mean, std));
  }
}

void CpuGenerator::fill_normal(double* out, int64_t n, double mean, double std) {
  if (n >= 16) {
    fill_normal_blocks(*this, out, n, mean, std);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = normal(mean, std);
  }
}

void CpuGenerator::fill_integers(int64_t* out, int64_t n, uint64_t range, int64_t from) {
  check(range > 0, "random integers: expected a positive range, got ", range);
  const uint64_t base = static_cast<uint64_t>(from);
  if (range >= (uint64_t{1} << 28)) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(random64() % range + base);
  } else {
    const uint32_t narrow = static_cast<uint32_t>(range);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(random() % narrow + base);
  }
}

void CpuGenerator::fill_bernoulli(uint8_t* out, int64_t n, double p) {
  for (int64_t i = 0; i < n; ++i) out[i] = uniform_double() < p;
}

void CpuGenerator::permutation(int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  const bool narrow = n < static_cast<int64_t>(UINT32_MAX / 20);
  for (int64_t i = 0; i + 1 < n; ++i) {
    const uint64_t draw = narrow ? random() : random64();
    std::swap(out[i], out[i + static_cast<int64_t>(draw % static_cast<uint64_t>(n - i))]);
  }
}

namespace {

struct SavedState {
  uint64_t seed;
  double next_normal;
  uint32_t words[624];
  int32_t next;
  int32_t has_next_normal;
};

}  // namespace

std::vector<uint8_t> CpuGenerator::state() const {
  SavedState saved{seed_, next_normal_, {}, next_, has_next_normal_};
  std::copy(std::begin(state_), std::end(state_), saved.words);
  std::vector<uint8_t> bytes(sizeof saved);
  std::memcpy(bytes.data(), &saved, sizeof saved);
  return bytes;
}

void CpuGenerator::set_state(const std::vector<uint8_t>& bytes) {
  SavedState saved;
  check(bytes.size() == sizeof saved, "set_state: expected a state of ", sizeof saved,
        " bytes, got ", bytes.size());
  std::memcpy(&saved, bytes.data(), sizeof saved);
  check(saved.next >= 0 && saved.next <= kStateSize,
        "set_state: expected a position within the state, got ", saved.next);
  seed_ = saved.seed;
  next_normal_ = saved.next_normal;
  std::copy(std::begin(saved.words), std::end(saved.words), state_);
  for (int i = 0; i < kStateSize; ++i) tempered_[i] = temper(state_[i]);
  next_ = saved.next;
  has_next_normal_ = saved.has_next_normal != 0;
}

CpuGenerator& default_cpu_generator() {
  static CpuGenerator* const generator = new CpuGenerator;
  return *generator;
}

CpuGenerator& cpu_generator_or_default(GeneratorImpl* generator) {
  if (!generator) return default_cpu_generator();
  check(generator->device().is_cpu(), "Expected a 'cpu' device type for generator but found '",
        generator->device(), "'");
  return static_cast<CpuGenerator&>(*generator);
}

}  // namespace flambeau
