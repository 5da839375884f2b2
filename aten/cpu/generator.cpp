#include "aten/cpu/generator.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <utility>

#include "aten/core/loop_table.h"
#include "aten/cpu/random_loops.h"
#include "c10/core/check.h"
#include "c10/core/device_backend.h"
#include "c10/core/fork_mutex.h"

namespace flambeau {

FLAMBEAU_DECLARE_LOOPS(RandomLoops, random)

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

const RandomLoops& random_loops() {
  static const LoopTable<RandomLoops> table = FLAMBEAU_LOOP_TABLE(random);
  return table[0];
}

// Box-Muller on blocks of 16 uniforms in place: the first eight are radii, the last eight angles.
// As PyTorch's double kernel, the scaling is one fused operation.
void normal_blocks(double* data, int64_t n, double mean, double std) {
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = i; j < i + 8; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - data[j]));
      const double angle = 2.0 * std::numbers::pi * data[j + 8];
      data[j] = std::fma(radius * std::cos(angle), std, mean);
      data[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

void normal_blocks(float* data, int64_t n, float mean, float std) {
  random_loops().normal_blocks(n, data, mean, std);
}

// PyTorch's order of draws: whole blocks, then the last 16 elements anew if n is not a multiple.
template <typename T>
void fill_normal_blocks(CpuGenerator& generator, T* out, int64_t n, T mean, T std) {
  generator.fill_uniform(out, n, T(0), T(1));
  normal_blocks(out, n & ~int64_t{15}, mean, std);
  if (n % 16) {
    generator.fill_uniform(out + n - 16, 16, T(0), T(1));
    normal_blocks(out + n - 16, 16, mean, std);
  }
}

// Half types compute in float.
template <typename T>
void fill_normal_half(CpuGenerator& generator, T* out, int64_t n, double mean, double std) {
  if (n < 16) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(generator.normal(mean, std));
    return;
  }
  const float center = static_cast<float>(mean), scale = static_cast<float>(std);
  for (int64_t i = 0; i < n; i += 16) {
    T* block = out + std::min(i, n - 16);
    float uniform[16];
    generator.fill_uniform(uniform, 16, 0.0f, 1.0f);
    normal_blocks(uniform, 16, center, scale);
    std::copy_n(uniform, 16, block);
  }
}

}  // namespace

CpuGenerator::CpuGenerator(uint64_t seed, Device device) : GeneratorImpl(device) { set_seed(seed); }

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
  if (std::exchange(has_next_normal_, false)) return std::fma(next_normal_, std, mean);
  const double u1 = uniform_double();
  const double u2 = uniform_double();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2));
  const double angle = 2.0 * std::numbers::pi * u1;
  next_normal_ = radius * std::sin(angle);
  has_next_normal_ = true;
  return std::fma(radius * std::cos(angle), std, mean);
}

void CpuGenerator::fill_raw(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (next_ == kStateSize) refill();
    const int64_t run = std::min<int64_t>(n, kStateSize - next_);
    std::copy_n(tempered_ + next_, run, out);
    next_ += static_cast<int>(run);
    out += run;
    n -= run;
  }
}

void CpuGenerator::fill_raw64(uint64_t* out, int64_t n) {
  while (n > 0) {
    if (kStateSize - next_ < 2) {  // a pair over the edge of the state
      *out++ = random64();
      --n;
      continue;
    }
    const int64_t run = std::min<int64_t>(n, (kStateSize - next_) / 2);
    const uint32_t* raw = tempered_ + next_;
#pragma omp simd
    for (int64_t i = 0; i < run; ++i) out[i] = uint64_t{raw[2 * i]} << 32 | raw[2 * i + 1];
    next_ += static_cast<int>(2 * run);
    out += run;
    n -= run;
  }
}

void CpuGenerator::fill_uniform(float* out, int64_t n, float from, float to) {
  while (n > 0) {
    if (next_ == kStateSize) refill();
    const int64_t run = std::min<int64_t>(n, kStateSize - next_);
    random_loops().uniform_float(run, tempered_ + next_, out, from, to);
    next_ += static_cast<int>(run);
    out += run;
    n -= run;
  }
}

void CpuGenerator::fill_uniform(double* out, int64_t n, double from, double to) {
  while (n > 0) {
    int64_t run = std::min<int64_t>(n, (kStateSize - next_) / 2);
    if (run > 0) {
      random_loops().uniform_double(run, tempered_ + next_, out, from, to);
      next_ += static_cast<int>(2 * run);
    } else {  // a pair over the edge of the state
      const uint32_t pair[2] = {random(), random()};
      random_loops().uniform_double(run = 1, pair, out, from, to);
    }
    out += run;
    n -= run;
  }
}

void CpuGenerator::fill_normal(float* out, int64_t n, double mean, double std) {
  if (n >= 16) {
    fill_normal_blocks(*this, out, n, static_cast<float>(mean), static_cast<float>(std));
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

void CpuGenerator::fill_normal(Half* out, int64_t n, double mean, double std) {
  fill_normal_half(*this, out, n, mean, std);
}

void CpuGenerator::fill_normal(BFloat16* out, int64_t n, double mean, double std) {
  fill_normal_half(*this, out, n, mean, std);
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

namespace {

// The thread that was drawing while another one forked does not exist in the child.
void free_in_child() {
  std::mutex& mutex = default_cpu_generator().mutex();
  if (mutex.try_lock()) {
    mutex.unlock();
  } else {
    new (&mutex) std::mutex;
  }
}

}  // namespace

CpuGenerator& default_cpu_generator() {
  static CpuGenerator* const generator = [] {
    pthread_atfork(nullptr, nullptr, free_in_child);
    return new CpuGenerator;
  }();
  return *generator;
}

CpuGenerator& default_device_generator(Device device) {
  static auto* const mutex = new c10::ForkMutex;
  static auto* const made = new std::map<int, Generator>;
  const Device placed = c10::with_index(device);
  const std::lock_guard lock(*mutex);
  Generator& generator = (*made)[placed.index];
  if (!generator) generator = make_intrusive<CpuGenerator>(CpuGenerator::kDefaultSeed, placed);
  return static_cast<CpuGenerator&>(*generator);
}

CpuGenerator& cpu_generator_or_default(GeneratorImpl* generator) {
  if (!generator) return default_cpu_generator();
  check(generator->device().is_cpu(), "expected a generator on device cpu, got one on ",
        generator->device());
  return static_cast<CpuGenerator&>(*generator);
}

}  // namespace flambeau
