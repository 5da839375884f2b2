#include "aten/core/special_functions.h"

#include "aten/core/special/bessel.h"
#include "aten/core/special/error_functions.h"
#include "aten/core/special/gamma.h"
#include "aten/core/special/polynomials.h"

namespace flambeau::special_functions {

double bessel_j0(double x) { return special::bessel_j0(x); }
double bessel_j1(double x) { return special::bessel_j1(x); }
double bessel_y0(double x) { return special::bessel_y0(x); }
double bessel_y1(double x) { return special::bessel_y1(x); }
double modified_bessel_i0(double x) { return special::modified_bessel_i0(x); }
double modified_bessel_i1(double x) { return special::modified_bessel_i1(x); }
double modified_bessel_k0(double x) { return special::modified_bessel_k0(x); }
double modified_bessel_k1(double x) { return special::modified_bessel_k1(x); }
double scaled_modified_bessel_i0(double x) { return special::scaled_modified_bessel_i0(x); }
double scaled_modified_bessel_i1(double x) { return special::scaled_modified_bessel_i1(x); }
double scaled_modified_bessel_k0(double x) { return special::scaled_modified_bessel_k0(x); }
double scaled_modified_bessel_k1(double x) { return special::scaled_modified_bessel_k1(x); }
double spherical_bessel_j0(double x) { return special::spherical_bessel_j0(x); }
double airy_ai(double x) { return special::airy_ai(x); }
double erfcx(double x) { return special::erfcx(x); }
double ndtr(double x) { return special::ndtr(x); }
double log_ndtr(double x) { return special::log_ndtr(x); }
double normal_hazard(double x) { return special::normal_hazard(x); }
double ndtri(double x) { return special::ndtri(x); }
double zeta(double s, double q) { return special::zeta(s, q); }
double polygamma(double n, double x) { return special::polygamma(n, x); }
double igamma(double a, double x) { return special::igamma(a, x); }
double igammac(double a, double x) { return special::igammac(a, x); }
double chebyshev_polynomial_t(double x, double n) { return special::chebyshev_polynomial_t(x, n); }
double chebyshev_polynomial_u(double x, double n) { return special::chebyshev_polynomial_u(x, n); }
double chebyshev_polynomial_v(double x, double n) { return special::chebyshev_polynomial_v(x, n); }
double chebyshev_polynomial_w(double x, double n) { return special::chebyshev_polynomial_w(x, n); }
double hermite_polynomial_h(double x, double n) { return special::hermite_polynomial_h(x, n); }
double hermite_polynomial_he(double x, double n) { return special::hermite_polynomial_he(x, n); }
double laguerre_polynomial_l(double x, double n) { return special::laguerre_polynomial_l(x, n); }
double legendre_polynomial_p(double x, double n) { return special::legendre_polynomial_p(x, n); }

}  // namespace flambeau::special_functions
