#pragma once
// Classical orthogonal polynomials of Lanes: the formulas of aten/core/special/polynomials.h, in
// double for both types. All lanes take as many steps of the recurrence as the highest degree among
// them needs, and each keeps the value of its own degree.
// NaN and infinities: NaN gives NaN; degrees below 0 give 0, those above kHighestDegree NaN.
// Error bound (tested): that of the functions of numbers.
#include "aten/core/special/polynomials.h"
#include "aten/core/special_functions.h"
#include "aten/cpu/vecmath/lanes.h"
#include "aten/cpu/vecmath/libm.h"

namespace flambeau::vec {
inline namespace FLAMBEAU_VEC_TARGET {

template <Floating T>
inline T chebyshev_polynomial_t(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_t(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_u(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_u(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_v(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_v(x, n));
}
template <Floating T>
inline T chebyshev_polynomial_w(T x, same_t<T> n) {
  return static_cast<T>(special_functions::chebyshev_polynomial_w(x, n));
}
template <Floating T>
inline T hermite_polynomial_h(T x, same_t<T> n) {
  return static_cast<T>(special_functions::hermite_polynomial_h(x, n));
}
template <Floating T>
inline T hermite_polynomial_he(T x, same_t<T> n) {
  return static_cast<T>(special_functions::hermite_polynomial_he(x, n));
}
template <Floating T>
inline T laguerre_polynomial_l(T x, same_t<T> n) {
  return static_cast<T>(special_functions::laguerre_polynomial_l(x, n));
}
template <Floating T>
inline T legendre_polynomial_p(T x, same_t<T> n) {
  return static_cast<T>(special_functions::legendre_polynomial_p(x, n));
}

#ifdef FLAMBEAU_HAS_LANES

// Vectors that take their steps together: one of doubles, or the halves of one of floats.
template <int64_t kCount>
struct Vectors {
  DoubleLanes of[kCount];
};

// p(k + 1) = P::next(k, x, p(k), p(k - 1)) from p(0) = 1 and p(1) = P::first(x).
template <typename P, int64_t kCount>
[[gnu::always_inline]] inline Vectors<kCount> by_recurrence(const Vectors<kCount>& x,
                                                            const Vectors<kCount>& n) {
  const DoubleLanes one = spread(1.0), nan = spread(__builtin_nan(""));
  Vectors<kCount> degree, before, here;
  DoubleLanes highest = DoubleLanes{};
  // A lane that has become NaN stays so and asks for no further steps.
  const auto find_highest = [&]() __attribute__((always_inline)) {
    highest = DoubleLanes{};
    for (int64_t h = 0; h < kCount; ++h) {
      const DoubleLanes asked = here.of[h] == here.of[h] ? degree.of[h] : DoubleLanes{};
      highest = asked > highest ? asked : highest;
    }
  };
  for (int64_t h = 0; h < kCount; ++h) {
    degree.of[h] = n.of[h] > special::kHighestDegree ? DoubleLanes{} : trunc(n.of[h]);
    before.of[h] = one;
    here.of[h] = degree.of[h] >= 1.0 ? P::first(x.of[h]) : one;
  }
  find_highest();
  for (int64_t step = 1; any_at_least(highest, spread(static_cast<double>(step + 1))); ++step) {
    const double k = static_cast<double>(step);
    for (int64_t h = 0; h < kCount; ++h) {
      const DoubleLanes after = P::next(k, x.of[h], here.of[h], before.of[h]);
      const DoubleLaneBits goes_on = degree.of[h] > k;
      before.of[h] = goes_on ? here.of[h] : before.of[h];
      here.of[h] = goes_on ? after : here.of[h];
    }
    if (step % 64 == 0) find_highest();
  }
  for (int64_t h = 0; h < kCount; ++h) {
    const DoubleLanes value = n.of[h] <= special::kHighestDegree ? here.of[h] : nan;
    here.of[h] = x.of[h] == x.of[h] ? (n.of[h] <= -1.0 ? DoubleLanes{} : value) : nan;
  }
  return here;
}

struct HermiteH {
  static constexpr bool kHasEnds = false;
  static DoubleLanes first(DoubleLanes x) { return x + x; }
  static DoubleLanes next(double k, DoubleLanes x, DoubleLanes here, DoubleLanes before) {
    return (x + x) * here - 2.0 * k * before;
  }
};
struct HermiteHe {
  static constexpr bool kHasEnds = false;
  static DoubleLanes first(DoubleLanes x) { return x; }
  static DoubleLanes next(double k, DoubleLanes x, DoubleLanes here, DoubleLanes before) {
    return x * here - k * before;
  }
};
struct LaguerreL {
  static constexpr bool kHasEnds = false;
  static DoubleLanes first(DoubleLanes x) { return 1.0 - x; }
  static DoubleLanes next(double k, DoubleLanes x, DoubleLanes here, DoubleLanes before) {
    return ((2.0 * k + 1.0 - x) * here - k * before) / (k + 1.0);
  }
};

// 1 or -1 at the ends of [-1, 1], as its number of factors is even or odd.
[[gnu::always_inline]] inline DoubleLanes sign_of_power(DoubleLanes x, DoubleLanes n) {
  const DoubleLanes half = 0.5 * trunc(n);
  const DoubleLaneBits even = (half == trunc(half)) & (half < __builtin_inf());
  return (x > 0.0) | even ? spread(1.0) : spread(-1.0);
}
// Polynomials whose values at 1 and -1 have a formula, also for degrees that no recurrence reaches.
struct LegendreP {
  static constexpr bool kHasEnds = true, kHasWaves = false;
  static DoubleLanes first(DoubleLanes x) { return x; }
  static DoubleLanes next(double k, DoubleLanes x, DoubleLanes here, DoubleLanes before) {
    return ((2.0 * k + 1.0) * x * here - k * before) / (k + 1.0);
  }
  static DoubleLanes at_ends(DoubleLanes x, DoubleLanes n) { return sign_of_power(x, n); }
};
// Chebyshev's, which are also waves(degree, angle) for x = cos(angle).
struct Chebyshev {
  static constexpr bool kHasEnds = true, kHasWaves = true;
  static DoubleLanes next(double, DoubleLanes x, DoubleLanes here, DoubleLanes before) {
    return madd(x + x, here, -before);
  }
};
struct ChebyshevT : Chebyshev {
  static DoubleLanes first(DoubleLanes x) { return x; }
  [[gnu::always_inline]] static double waves(double k, double angle) { return cos(k * angle); }
  static DoubleLanes at_ends(DoubleLanes x, DoubleLanes n) { return sign_of_power(x, n); }
};
struct ChebyshevU : Chebyshev {
  static DoubleLanes first(DoubleLanes x) { return x + x; }
  [[gnu::always_inline]] static double waves(double k, double angle) {
    return sin((k + 1.0) * angle) / sin(angle);
  }
  static DoubleLanes at_ends(DoubleLanes x, DoubleLanes n) {
    return sign_of_power(x, n) * (trunc(n) + 1.0);
  }
};
struct ChebyshevV : Chebyshev {
  static DoubleLanes first(DoubleLanes x) { return x + x - 1.0; }
  [[gnu::always_inline]] static double waves(double k, double angle) {
    return cos((k + 0.5) * angle) / cos(0.5 * angle);
  }
  static DoubleLanes at_ends(DoubleLanes x, DoubleLanes n) {
    return x > 0.0 ? spread(1.0) : sign_of_power(x, n) * (2.0 * trunc(n) + 1.0);
  }
};
struct ChebyshevW : Chebyshev {
  static DoubleLanes first(DoubleLanes x) { return x + x + 1.0; }
  [[gnu::always_inline]] static double waves(double k, double angle) {
    return sin((k + 0.5) * angle) / sin(0.5 * angle);
  }
  static DoubleLanes at_ends(DoubleLanes x, DoubleLanes n) {
    return x > 0.0 ? 2.0 * trunc(n) + 1.0 : sign_of_power(x, n);
  }
};

template <typename P>
[[gnu::always_inline]] inline DoubleLanes waves_of(DoubleLanes x, DoubleLanes degree) {
  alignas(sizeof(DoubleLanes)) double xs[kDoubleLanes], degrees[kDoubleLanes], out[kDoubleLanes];
  __builtin_memcpy(xs, &x, sizeof x);
  __builtin_memcpy(degrees, &degree, sizeof degree);
#pragma omp simd
  for (int64_t i = 0; i < kDoubleLanes; ++i) out[i] = P::waves(degrees[i], acos(xs[i]));
  DoubleLanes result;
  __builtin_memcpy(&result, out, sizeof result);
  return result;
}
// By recurrence, but at the ends by their formula and, for degrees above `high`, by waves.
template <typename P, int64_t kCount>
[[gnu::always_inline]] inline Vectors<kCount> polynomial(const Vectors<kCount>& x,
                                                         const Vectors<kCount>& n,
                                                         [[maybe_unused]] double high) {
  if constexpr (!P::kHasEnds) {
    return by_recurrence<P>(x, n);
  } else {
    DoubleLaneBits is_end[kCount] = {}, is_high[kCount] = {};
    Vectors<kCount> asked = n;
    bool is_plain = true;
    for (int64_t h = 0; h < kCount; ++h) {
      is_plain &= !any_at_least(abs(x.of[h]), spread(1.0));
      if constexpr (P::kHasWaves) is_plain &= !any_at_least(n.of[h], spread(high));
    }
    for (int64_t h = 0; h < kCount && !is_plain; ++h) {
      is_end[h] = (abs(x.of[h]) == 1.0) & (n.of[h] > -1.0);
      if constexpr (P::kHasWaves) is_high[h] = (n.of[h] > high) & (abs(x.of[h]) < 1.0);
      asked.of[h] = is_end[h] | is_high[h] ? DoubleLanes{} : n.of[h];
    }
    Vectors<kCount> value = by_recurrence<P>(x, asked);
    if (is_plain) return value;
    for (int64_t h = 0; h < kCount; ++h) {
      if (any_lane(is_end[h])) value.of[h] = is_end[h] ? P::at_ends(x.of[h], n.of[h]) : value.of[h];
      if constexpr (P::kHasWaves) {
        if (any_lane(is_high[h]))
          value.of[h] = is_high[h] ? waves_of<P>(x.of[h], trunc(n.of[h])) : value.of[h];
      }
    }
    return value;
  }
}

// For float, recurrences in double keep enough digits up to this degree, and are faster there than
// an arc cosine and a cosine.
inline constexpr double kHighDegreeOfFloat = 16;

template <typename P>
[[gnu::always_inline]] inline DoubleLanes polynomial_of(DoubleLanes x, DoubleLanes n) {
  return polynomial<P>(Vectors<1>{{x}}, Vectors<1>{{n}}, special::kHighDegree).of[0];
}
template <typename P>
[[gnu::always_inline]] inline Lanes polynomial_of(Lanes x, Lanes n) {
  const DoubleHalves xs = as_doubles(x), degrees = as_doubles(n);
  const Vectors<2> value = polynomial<P>(
      Vectors<2>{{xs.low, xs.high}}, Vectors<2>{{degrees.low, degrees.high}}, kHighDegreeOfFloat);
  return as_floats(value.of[0], value.of[1]);
}

template <Lanewise V>
[[gnu::always_inline]] inline V chebyshev_polynomial_t(V x, V n) {
  return polynomial_of<ChebyshevT>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V chebyshev_polynomial_u(V x, V n) {
  return polynomial_of<ChebyshevU>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V chebyshev_polynomial_v(V x, V n) {
  return polynomial_of<ChebyshevV>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V chebyshev_polynomial_w(V x, V n) {
  return polynomial_of<ChebyshevW>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V hermite_polynomial_h(V x, V n) {
  return polynomial_of<HermiteH>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V hermite_polynomial_he(V x, V n) {
  return polynomial_of<HermiteHe>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V laguerre_polynomial_l(V x, V n) {
  return polynomial_of<LaguerreL>(x, n);
}
template <Lanewise V>
[[gnu::always_inline]] inline V legendre_polynomial_p(V x, V n) {
  return polynomial_of<LegendreP>(x, n);
}

#endif

}  // namespace FLAMBEAU_VEC_TARGET
}  // namespace flambeau::vec
