#pragma once
// The CPU generator: MT19937 (Matsumoto & Nishimura 1998) with PyTorch's stream and its ways of
// making numbers from it, so that equal seeds give equal tensors. Hold `mutex()` while drawing.
#include "c10/core/generator.h"
#include "c10/core/half.h"

namespace flambeau {

class CpuGenerator final : public GeneratorImpl {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;
  // `device`: where the numbers are wanted, an out-of-tree device or the CPU.
  explicit CpuGenerator(uint64_t seed = kDefaultSeed, Device device = DeviceType::CPU);

  void set_seed(uint64_t seed) override;
  uint64_t seed() const override { return seed_; }
  std::vector<uint8_t> state() const override;
  void set_state(const std::vector<uint8_t>& state) override;

  // Raw 32 bits; two draws, the first one in the upper half.
  uint32_t random() {
    if (next_ == kStateSize) refill();
    return tempered_[next_++];
  }
  uint64_t random64() {
    const uint64_t high = random();
    return (high << 32) | random();
  }
  // [0, 1) on a grid of 2^-24 and 2^-53.
  float uniform_float() { return static_cast<float>(random() & 0xffffffu) * 0x1p-24f; }
  double uniform_double() {
    return static_cast<double>(random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }
  // Box-Muller on two doubles; the second normal is kept for the next call.
  double normal(double mean, double std);

  // `n` draws each, in stream order.
  void fill_raw(uint32_t* out, int64_t n);
  void fill_raw64(uint64_t* out, int64_t n);
  // A float result that rounds up to `to` becomes `from`: the interval stays half open.
  void fill_uniform(float* out, int64_t n, float from, float to);
  void fill_uniform(double* out, int64_t n, double from, double to);
  // What randn and normal_ do: batched Box-Muller from 16 elements on, else one by one.
  void fill_normal(float* out, int64_t n, double mean, double std);
  void fill_normal(double* out, int64_t n, double mean, double std);
  // The half types draw block by block, the last block over the end of the one before.
  void fill_normal(Half* out, int64_t n, double mean, double std);
  void fill_normal(BFloat16* out, int64_t n, double mean, double std);
  // A random permutation of 0 .. n-1 (Fisher-Yates, forward).
  void permutation(int64_t* out, int64_t n);

 private:
  static constexpr int kStateSize = 624;
  void refill();

  uint64_t seed_ = 0;
  uint32_t state_[kStateSize];
  uint32_t tempered_[kStateSize];
  int next_ = kStateSize;
  bool has_next_normal_ = false;
  double next_normal_ = 0;
};

// The process's generator.
CpuGenerator& default_cpu_generator();
// The default generator of an out-of-tree device.
CpuGenerator& default_device_generator(Device device);
// `generator` or the default one; RuntimeError when it is for another device.
CpuGenerator& cpu_generator_or_default(GeneratorImpl* generator);

}  // namespace flambeau
