#pragma once
// Special functions of mathematics, in double for every compute type. Host code calls them: they
// are long, and one copy serves all instruction sets. Device code has them inlined.
#ifdef __CUDACC__
#include "aten/core/special/bessel.h"
#include "aten/core/special/error_functions.h"
#include "aten/core/special/gamma.h"
#include "aten/core/special/polynomials.h"

namespace flambeau::special_functions {
using namespace special;
}
#else
#include "c10/core/namespace.h"

namespace flambeau::special_functions {

double bessel_j0(double x);
double bessel_j1(double x);
double bessel_y0(double x);
double bessel_y1(double x);
double modified_bessel_i0(double x);
double modified_bessel_i1(double x);
double modified_bessel_k0(double x);
double modified_bessel_k1(double x);
double scaled_modified_bessel_i0(double x);
double scaled_modified_bessel_i1(double x);
double scaled_modified_bessel_k0(double x);
double scaled_modified_bessel_k1(double x);
double spherical_bessel_j0(double x);
double airy_ai(double x);
double erfcx(double x);
double ndtr(double x);
double log_ndtr(double x);
double normal_hazard(double x);
double ndtri(double x);
double zeta(double s, double q);
double polygamma(double n, double x);
double igamma(double a, double x);
double igammac(double a, double x);
double chebyshev_polynomial_t(double x, double n);
double chebyshev_polynomial_u(double x, double n);
double chebyshev_polynomial_v(double x, double n);
double chebyshev_polynomial_w(double x, double n);
double hermite_polynomial_h(double x, double n);
double hermite_polynomial_he(double x, double n);
double laguerre_polynomial_l(double x, double n);
double legendre_polynomial_p(double x, double n);

}  // namespace flambeau::special_functions
#endif
