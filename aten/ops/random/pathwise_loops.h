#pragma once
// Implicit derivatives of gamma and beta samples by series, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::pathwise {

// Elements of one call.
inline constexpr int64_t kBlock = 64;
// From this concentration on the gamma distribution takes its uniform expansion.
inline constexpr double kUniformFrom = 40;

// Coefficients c_k[n] of the uniform expansion's polynomials: those of a^-k eta^n.
inline constexpr int kOrders = 7;
inline constexpr int kPowers = 24;
using UniformTable = double[kOrders][kPowers];

// How exact a result has to be.
struct Precision {
  double term;          // terms below this share of their sum are left out
  double cancellation;  // largest ratio of a sum's parts to the sum
  int orders, powers;   // of the uniform expansion
};

// kBlock elements at once. Where a series would be long or cancel, or an argument is outside of its
// range, unsure[i] is 1 and out[i] any number.
struct Loops {
  void (*gamma)(const double* a, const double* x, const UniformTable& table, const Precision& p,
                double* out, uint8_t* unsure);
  // Of beta(a, total - a), divided by 1 - x.
  void (*beta)(const double* x, const double* a, const double* total, const Precision& p,
               double* out, uint8_t* unsure);
};

}  // namespace flambeau::pathwise
