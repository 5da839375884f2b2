#pragma once
// Scalar functions that vectorise inside `#pragma omp simd` loops: branch-free, always inlined,
// exact about NaN, infinities and denormals, each with an error bound in ulps that
// test/cpp/test_vecmath checks. Compiled once per instruction set, so everything stands in a
// namespace named after the set: the linker can never mix two versions. Includes no library header;
// compile without -ffast-math.
#include "aten/core/loop_types.h"
#include "aten/cpu/vecmath/airy.h"
#include "aten/cpu/vecmath/basic.h"
#include "aten/cpu/vecmath/bessel.h"
#include "aten/cpu/vecmath/complex.h"
#include "aten/cpu/vecmath/exp_log.h"
#include "aten/cpu/vecmath/integer.h"
#include "aten/cpu/vecmath/lane_functions.h"
#include "aten/cpu/vecmath/libm.h"
#include "aten/cpu/vecmath/normal.h"
#include "aten/cpu/vecmath/ordinary_bessel.h"
#include "aten/cpu/vecmath/polynomial_lanes.h"
#include "aten/cpu/vecmath/remainder_lanes.h"
#include "aten/cpu/vecmath/special.h"
