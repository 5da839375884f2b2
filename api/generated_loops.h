#pragma once
// What generated loops include (docs/extending.md): vector math and access to elements, compiled
// once per instruction set.
#include "aten/core/loop_types.h"
#include "aten/core/special_functions.h"
#include "aten/cpu/loop_support.h"
#include "c10/core/half.h"
