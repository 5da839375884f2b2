#pragma once
// Whether algorithms must be deterministic, and whether uninitialized memory is filled, so that
// programs that read it by mistake find the same values in every run.
#include "aten/core/tensor.h"

namespace flambeau {

// What `use_deterministic_algorithms` has set, for the whole process: 0 requires nothing, 1 warns,
// 2 is an error where an operator cannot promise the same results.
int deterministic_mode();
void set_deterministic_mode(int mode);
// Whether memory is filled while the mode is not 0.
void set_fills_uninitialized(bool fills);
bool fills_uninitialized();

// Fills the memory of a fresh tensor, from byte `begin` of its storage on, if that is asked for:
// with NaN, with the largest integer, with true.
void settle_uninitialized(const Tensor& fresh, size_t begin = 0);

}  // namespace flambeau
