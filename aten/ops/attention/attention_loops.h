#pragma once
// The loops of attention over one block of scores, one table per instruction set.
#include "aten/core/loop_types.h"

namespace flambeau::attention {

// Products of `rows` queries with `cols` keys, row-major, and what is masked of them.
struct Block {
  int64_t rows, cols;
  void* scores;
  double scale;
  const void* mask;  // null: none
  int64_t mask_row_stride, mask_col_stride;
  bool mask_is_bool;  // False: no part; else floating, added
  int64_t visible;    // row r sees the first visible + r columns
};

struct Loops {
  // Makes exp(scaled and masked score - top) of the scores, where `top` is the largest score of the
  // row so far; scales sum and the row of `acc` (width elements) to a new one.
  void (*accumulate)(const Block& block, void* top, void* sum, void* acc, int64_t width);
  // Makes exp(scaled and masked score - logsumexp) of the scores.
  void (*weights)(const Block& block, const void* logsumexp);
  // scores = weights * (grads - own[row]) * scale, in place of grads.
  void (*grads)(const Block& block, const void* weights, void* grads, const void* own);
};

}  // namespace flambeau::attention
