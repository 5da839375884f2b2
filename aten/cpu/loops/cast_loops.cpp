// Conversion loops between all dtypes, compiled once per instruction set.
#include <string.h>

#include <type_traits>

#include "aten/core/loop_types.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/convert.h"
#include "aten/cpu/vecmath/bfloat16.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed to functions that are inlined

namespace flambeau::loops {
namespace {

using c10::is_float8;

template <typename From, typename To>
inline void convert_run(int64_t n, const From* in, To* out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
}

#ifdef __AVX512F__
constexpr __mmask16 kAll = 0xffff;  // the plain forms warn about a vector that they leave unset
#endif
#ifdef __F16C__
inline void convert_run(int64_t n, const Half* in, float* out) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    __builtin_prefetch(in + i + vec::kWidenedAhead);
    const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_maskz_cvtph_ps(kAll, packed));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    __builtin_prefetch(in + i + vec::kWidenedAhead);
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(packed));
  }
  for (; i < n; ++i) out[i] = in[i];
}
inline void convert_run(int64_t n, const float* in, Half* out) {
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    const __m256i packed =
        _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), packed);
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i packed = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), packed);
  }
  for (; i < n; ++i) out[i] = Half(in[i]);
}
#endif

inline void convert_run(int64_t n, const BFloat16* in, float* out) { vec::widen_run(n, in, out); }
inline void convert_run(int64_t n, const float* in, BFloat16* out) { vec::round_run(n, in, out); }

template <typename From, typename To>
[[gnu::noinline]] void cast_elements(int64_t n, const char* source, int64_t source_stride,
                                     char* destination, int64_t destination_stride) {
  constexpr int64_t kIn = sizeof(From), kOut = sizeof(To);
  if (source_stride == kIn && destination_stride == kOut) {
    if constexpr (__is_same(From, To)) {
      memcpy(destination, source, static_cast<size_t>(n * kIn));
    } else {
      convert_run(n, reinterpret_cast<const From*>(source), reinterpret_cast<To*>(destination));
    }
    return;
  }
  if constexpr (__is_same(From, To)) {
    if (source_stride == -kIn && destination_stride == kOut) {
      const From* in = reinterpret_cast<const From*>(source) - (n - 1);
      To* out = reinterpret_cast<To*>(destination);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = in[n - 1 - i];
      return;
    }
  }
  if (destination_stride == kOut) {
    To* out = reinterpret_cast<To*>(destination);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = convert<To>(*reinterpret_cast<const From*>(source + i * source_stride));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    *reinterpret_cast<To*>(destination + i * destination_stride) =
        convert<To>(*reinterpret_cast<const From*>(source + i * source_stride));
  }
}

// Whether numbers of the rare type A become B by way of float, without another result.
template <typename A, typename B>
constexpr bool passes_float =
    !__is_same(B, float) && (is_float8<A> || (__is_same(A, c10::complex<c10::Half>) &&
                                              !c10::is_complex_v<B> && !c10::is_bool<B>));

// By tiles of float: one pair of loops for each rare type suffices.
template <typename From, typename To>
void cast_through_float(int64_t n, const char* source, int64_t source_stride, char* destination,
                        int64_t destination_stride) {
  constexpr int64_t kTile = 256;
  alignas(64) char tile[kTile * sizeof(float)];
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t count = n - begin < kTile ? n - begin : kTile;
    cast_elements<From, float>(count, source + begin * source_stride, source_stride, tile,
                               sizeof(float));
    cast_elements<float, To>(count, tile, sizeof(float), destination + begin * destination_stride,
                             destination_stride);
  }
}

// The sign of a type does not change the bits that a conversion gives: that of the result among
// integers and of short integers, that of the argument where bits are dropped. One loop for both.
template <typename T>
struct Signed {
  using type = T;
};
template <typename T>
  requires std::is_integral_v<T>
struct Signed<T> {
  using type = std::make_signed_t<T>;
};
template <typename From, typename To>
using SameTo = std::conditional_t<std::is_integral_v<From> || sizeof(To) < 4, Signed<To>,
                                  std::type_identity<To>>::type;
template <typename From, typename To>
using SameFrom = std::conditional_t<std::is_integral_v<To> && sizeof(To) <= sizeof(From),
                                    Signed<From>, std::type_identity<From>>::type;

template <typename From, typename To>
constexpr CastLoop cast_between() {
  using Pair = c10::Float4E2M1FNx2;
  if constexpr (__is_same(From, To)) {
    return &cast_elements<From, To>;
  } else if constexpr (__is_same(From, Pair) || __is_same(To, Pair)) {
    return nullptr;
  } else if constexpr (passes_float<From, To> || passes_float<To, From>) {
    return &cast_through_float<From, To>;
  } else {
    return &cast_elements<SameFrom<From, To>, SameTo<From, To>>;
  }
}

// Elements of one width, stored by whole lines of the cache.
template <typename T>
void splat_as(const char* value, int64_t n, char* destination) {
  constexpr int64_t kLine = 64, kWidth = sizeof(T);
  using Line [[gnu::vector_size(kLine), gnu::aligned(1), gnu::may_alias]] = char;
  T element;
  memcpy(&element, value, sizeof element);  // destination may begin with it
  alignas(kLine) T line[kLine / kWidth];
  for (T& place : line) place = element;
  const Line pattern = *reinterpret_cast<const Line*>(line);
  const int64_t bytes = n * kWidth, whole = bytes - bytes % kLine;
  for (int64_t i = 0; i < whole; i += kLine) *reinterpret_cast<Line*>(destination + i) = pattern;
  memcpy(destination + whole, line, static_cast<size_t>(bytes - whole));
}

void splat(const char* value, int64_t bytes, int64_t n, char* destination) {
  switch (bytes) {
    case 1:
      return splat_as<uint8_t>(value, n, destination);
    case 2:
      return splat_as<uint16_t>(value, n, destination);
    case 4:
      return splat_as<uint32_t>(value, n, destination);
    case 8:
      return splat_as<uint64_t>(value, n, destination);
    default:
      return splat_as<unsigned __int128>(value, n, destination);
  }
}

template <int... I>
constexpr CastTable make_table(std::integer_sequence<int, I...>) {
  return {{cast_between<cpp_type_t<static_cast<ScalarType>(I / kNumScalarTypes)>,
                        cpp_type_t<static_cast<ScalarType>(I % kNumScalarTypes)>>()...},
          &splat};
}

}  // namespace

extern const CastTable FLAMBEAU_LOOPS(cast)[1];
const CastTable FLAMBEAU_LOOPS(cast)[1] = {
    make_table(std::make_integer_sequence<int, kNumScalarTypes * kNumScalarTypes>())};

}  // namespace flambeau::loops
