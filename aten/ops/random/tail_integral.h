#pragma once
// Integrals of weight(s) e^exponent(s) over s >= 0, where the exponent is concave, 0 at 0, and the
// weight is positive: nothing cancels. Gauss-Legendre rules on the panels between break points.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace flambeau {

// Nodes on [0, 1] and weights of the N-point Gauss-Legendre rule, by Newton's method.
template <int N>
struct GaussRule {
  std::array<double, N> node, weight;
  GaussRule() {
    for (int i = 0; i < N; ++i) {
      double z = std::cos(3.14159265358979323846 * (i + 0.75) / (N + 0.5)), slope = 1;
      for (int step = 0; step < 8; ++step) {
        double p = 1, before = 0;
        for (int k = 1; k <= N; ++k) {
          const double next = ((2 * k - 1) * z * p - (k - 1) * before) / k;
          before = p;
          p = next;
        }
        slope = N * (z * p - before) / (z * z - 1);
        z -= p / slope;
      }
      node[static_cast<size_t>(i)] = (1 - z) / 2;
      weight[static_cast<size_t>(i)] = 1 / ((1 - z * z) * slope * slope);
    }
  }
};

// What an integral needs to know about its integrand.
struct TailRange {
  double first_guess;             // where e^exponent may have vanished
  double end;                     // beyond it the integrand is a known exponential
  std::array<double, 5> changes;  // where the integrand changes its form
};

// How exact an integral is: N nodes a panel, up to where e^exponent has fallen to e^-depth.
template <int N, int Depth>
struct Precision {
  static constexpr int kNodes = N;
  static constexpr double kDepth = Depth;
};
using SinglePrecision = Precision<12, 20>;
using DoublePrecision = Precision<24, 40>;

template <typename P, typename Tail>
double integrate_panel(const Tail& tail, double begin, double end) {
  static const GaussRule<P::kNodes> rule;
  double sum = 0;
  for (size_t i = 0; i < P::kNodes; ++i) {
    const auto [exponent, weight] = tail.at(begin + (end - begin) * rule.node[i]);
    sum += rule.weight[i] * weight * std::exp(exponent);
  }
  return sum * (end - begin);
}

// Tail: range() gives a TailRange, at(s) exponent and weight, rest() the integral beyond
// range().end.
// Where e^exponent has fallen to between e^-depth and e^-2depth, or `end`.
template <typename P, typename Tail>
double length_of(const Tail& tail, double guess, double end) {
  double low = 0, high = std::min(guess, end);
  while (high < end && tail.at(high).first > -P::kDepth) {
    low = high;
    high *= 1.5;
  }
  while (tail.at(high).first < -2 * P::kDepth) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (tail.at(middle).first > -P::kDepth ? low : high) = middle;
  }
  return std::min(high, end);
}

template <typename P, typename Tail>
double integrate_tail(const Tail& tail) {
  const TailRange range = tail.range();
  if (range.end <= 0) return tail.rest(0);
  const double length = length_of<P>(tail, range.first_guess, range.end);
  const bool whole = length >= range.end;
  // The first quarter holds most of the integral.
  const auto& at = range.changes;
  std::array<double, 7> ends = {length / 4, at[0], at[1], at[2], at[3], at[4], length};
  std::sort(ends.begin(), ends.end());
  double sum = whole ? tail.rest(length) : 0, begin = 0;
  for (const double end : ends) {
    if (end <= begin || end > length) continue;
    sum += integrate_panel<P>(tail, begin, end);
    begin = end;
  }
  return sum;
}

}  // namespace flambeau
