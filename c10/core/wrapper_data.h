#pragma once
// The elements behind a wrapper without memory of its own.
#include "c10/core/tensor_impl.h"

namespace flambeau::c10 {

// Set by aten/transforms at load: the address of the elements of a functional tensor, in the
// strides of the wrapper; nullptr where there is none.
extern void* (*wrapper_data)(const TensorImpl& wrapper);

}  // namespace flambeau::c10
