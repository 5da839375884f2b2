// The streams were recorded from PyTorch 2.13 with manual_seed(0) and stay equal to it bit for bit.
#include <vector>

#include "aten/cpu/generator.h"
#include "harness.h"

using namespace flambeau;

TEST(generator_uniform_equals_pytorch) {
  CpuGenerator g(0);
  const float expected[] = {0.49625658988952637f, 0.7682217955589294f, 0.08847743272781372f,
                            0.13203048706054688f, 0.30742281675338745f};
  for (const float e : expected) EXPECT(g.uniform_float() == e);
  g.set_seed(0);
  const double expected64[] = {0.9700530018065531, 0.707819864399788, 0.45938294312745087,
                               0.9207476841219603, 0.6450241201227648};
  for (const double e : expected64) EXPECT(g.uniform_double() == e);
}

TEST(generator_bulk_equals_single_draws) {
  CpuGenerator a(7), b(7);
  std::vector<float> bulk(2000);
  a.fill_uniform(bulk.data(), 2000, 0.0f, 1.0f);
  for (const float x : bulk) EXPECT(x == b.uniform_float());
}

TEST(generator_normal_equals_pytorch) {
  CpuGenerator g(0);
  double small[5];
  g.fill_normal(small, 5, 0.0, 1.0);
  const double expected[] = {1.5409961082440433, -0.2934289057609464, -2.1787893820745574,
                             0.5684312772806678, -1.084522342424021};
  for (int i = 0; i < 5; ++i) EXPECT(small[i] == expected[i]);
  g.set_seed(0);
  float batch[17];
  g.fill_normal(batch, 17, 0.0f, 1.0f);
  const float expected_batch[] = {-1.1258398294448853f, -1.6959311962127686f, 0.5666506290435791f,
                                  0.7935083508491516f,  0.5988394618034363f,  -1.5550950765609741f,
                                  -0.3413603901863098f, 1.85300612449646f,    0.46809640526771545f,
                                  -0.5854975581169128f, -0.1733967512845993f, 0.18347793817520142f,
                                  1.3893661499023438f,  1.586334228515625f,   0.946298360824585f,
                                  -0.843676745891571f,  0.9318265914916992f};
  for (int i = 0; i < 17; ++i) EXPECT(batch[i] == expected_batch[i]);
}

TEST(generator_raw_blocks_equal_single_draws) {
  CpuGenerator a(3), b(3);
  a.random();  // an odd position: pairs cross the edge of the state
  b.random();
  std::vector<uint64_t> wide(700);
  a.fill_raw64(wide.data(), 700);
  for (const uint64_t x : wide) EXPECT(x == b.random64());
  std::vector<uint32_t> narrow(1500);
  a.fill_raw(narrow.data(), 1500);
  for (const uint32_t x : narrow) EXPECT(x == b.random());
}

TEST(generator_permutation_equals_pytorch) {
  CpuGenerator g(0);
  int64_t order[10];
  g.permutation(order, 10);
  const int64_t expected_order[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(order[i], expected_order[i]);
}

TEST(generator_state_restores_position) {
  CpuGenerator g(42);
  for (int i = 0; i < 700; ++i) g.random();
  g.normal(0, 1);
  const std::vector<uint8_t> state = g.state();
  const double next_normal = g.normal(0, 1);
  const uint32_t next = g.random();
  CpuGenerator other(1);
  other.set_state(state);
  EXPECT(other.normal(0, 1) == next_normal);
  EXPECT(other.random() == next);
  EXPECT_EQ(other.seed(), uint64_t{42});
  EXPECT(
      testing::throws(ErrorKind::Runtime, "expected a state of", [&] { other.set_state({1, 2}); }));
}
