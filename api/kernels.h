#pragma once
// What handwritten kernels of an author's operators include (docs/extending.md): tensors, dispatch
// over dtypes, fibers along a dimension, parallel loops, checks.
#include "aten/core/shape.h"
#include "aten/core/tensor.h"
#include "aten/cpu/fibers.h"
#include "aten/cpu/parallel.h"
#include "c10/core/check.h"
#include "c10/core/dtype_dispatch.h"
