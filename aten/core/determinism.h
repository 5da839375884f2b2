#pragma once
// Whether uninitialized memory is filled, so that programs that read it by mistake find the same
// values in every run.
#include "aten/core/tensor.h"

namespace flambeau {

bool fills_uninitialized();
void set_fills_uninitialized(bool fills);  // for the whole process

// Fills the memory of a fresh tensor, from byte `begin` of its storage on, if that is asked for:
// with NaN, with the largest integer, with true.
void settle_uninitialized(const Tensor& fresh, size_t begin = 0);

}  // namespace flambeau
