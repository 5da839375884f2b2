// Matrix products of half types in float32: blocks of the operands are converted, multiplied into a
// float32 block of the result, and that block is rounded once at the end. The accumulate type is
// float32. Error bound, tested: one rounding of the half type plus k * 2^-23 * sum |a||b|. NaN and
// infinity follow IEEE arithmetic.
#include <algorithm>

#include "aten/core/factory.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/matmul/gemm.h"

namespace flambeau::gemm {
namespace {

// A block of the result has at most kSide rows and columns, so that each converted element takes
// part in about a thousand multiplications; blocks of the operands have at most kOperands elements
// together (4 MB of float32).
constexpr int64_t kSide = 1024;
constexpr int64_t kOperands = int64_t{1} << 20;

// `count` lines of `length` elements; strides in bytes.
struct Lines {
  char* data;
  int64_t count, length, line_stride, step;
};

void convert(CastLoop cast, Lines from, Lines to) {
  const auto is_one_run = [](const Lines& l) { return l.line_stride == l.length * l.step; };
  if (is_one_run(from) && is_one_run(to)) {
    parallel_for(0, from.count * from.length, 1, [&](int64_t begin, int64_t end) {
      cast(end - begin, from.data + begin * from.step, from.step, to.data + begin * to.step,
           to.step);
    });
    return;
  }
  parallel_for(0, from.count, from.length, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      cast(from.length, from.data + i * from.line_stride, from.step, to.data + i * to.line_stride,
           to.step);
    }
  });
}

struct Span {
  int64_t begin, size;
};

// A block of a matrix in float32 at `to`: row-major, or column-major where the matrix is.
Matrix converted(ScalarType dtype, const Matrix& m, Span rows, Span cols, float* to) {
  const auto width = static_cast<int64_t>(element_size(dtype));
  const auto out_width = static_cast<int64_t>(sizeof(float));
  const bool by_rows = m.col_stride <= m.row_stride;
  const int64_t outer = (by_rows ? m.row_stride : m.col_stride) * width,
                inner = (by_rows ? m.col_stride : m.row_stride) * width;
  const int64_t count = by_rows ? rows.size : cols.size, length = by_rows ? cols.size : rows.size;
  const char* from = static_cast<const char*>(m.data) +
                     (rows.begin * m.row_stride + cols.begin * m.col_stride) * width;
  convert(cast_loop(dtype, ScalarType::Float32),
          {const_cast<char*>(from), count, length, outer, inner},
          {reinterpret_cast<char*>(to), count, length, length * out_width, out_width});
  return {to, rows.size, cols.size, by_rows ? length : 1, by_rows ? 1 : length};
}

// The row-major block of the result and its float32 buffer, as lines.
struct Result {
  Lines half, buffer;
};
Result result_block(ScalarType dtype, void* out, int64_t ldc, Span rows, Span cols, float* buffer) {
  const auto width = static_cast<int64_t>(element_size(dtype));
  const auto wide = static_cast<int64_t>(sizeof(float));
  char* at = static_cast<char*>(out) + (rows.begin * ldc + cols.begin) * width;
  return {{at, rows.size, cols.size, ldc * width, width},
          {reinterpret_cast<char*>(buffer), rows.size, cols.size, cols.size * wide, wide}};
}

}  // namespace

void multiply_in_float(ScalarType dtype, const Matrix& a, const Matrix& b, void* out, int64_t ldc,
                       bool accumulate) {
  const int64_t height = std::min(a.rows, kSide), width = std::min(b.cols, kSide);
  const int64_t depth = std::min(a.cols, kOperands / (height + width));
  const Tensor buffer =
      empty_tensor({(height + width) * depth + height * width}, ScalarType::Float32);
  float* block_a = buffer.data_as<float>();
  float* block_b = block_a + height * depth;
  float* block_c = block_b + width * depth;
  const CastLoop load = cast_loop(dtype, ScalarType::Float32),
                 store = cast_loop(ScalarType::Float32, dtype);
  for (int64_t i = 0; i < a.rows; i += height) {
    const Span rows{i, std::min(height, a.rows - i)};
    for (int64_t j = 0; j < b.cols; j += width) {
      const Span cols{j, std::min(width, b.cols - j)};
      const Result c = result_block(dtype, out, ldc, rows, cols, block_c);
      if (accumulate) convert(load, c.half, c.buffer);
      for (int64_t p = 0; p < a.cols; p += depth) {
        const Span sum{p, std::min(depth, a.cols - p)};
        multiply(ScalarType::Float32, converted(dtype, a, rows, sum, block_a),
                 converted(dtype, b, sum, cols, block_b), block_c, cols.size, accumulate || p > 0);
      }
      convert(store, c.buffer, c.half);
    }
  }
}

void multiply_row_and_column(ScalarType dtype, const Matrix& a, const Matrix& b, void* out,
                             bool accumulate) {
  constexpr int64_t kBlock = 512, kSums = 16;
  constexpr auto kWide = static_cast<int64_t>(sizeof(float));
  const auto width = static_cast<int64_t>(element_size(dtype));
  const CastLoop load = cast_loop(dtype, ScalarType::Float32);
  float left[kBlock], right[kBlock], sums[kSums] = {};
  for (int64_t first = 0; first < a.cols; first += kBlock) {
    const int64_t n = std::min(kBlock, a.cols - first);
    const auto read = [&](const Matrix& m, int64_t step, float* to) {
      load(n, static_cast<const char*>(m.data) + first * step * width, step * width,
           reinterpret_cast<char*>(to), kWide);
      std::fill(to + n, to + (n + kSums - 1) / kSums * kSums, 0.0f);
    };
    read(a, a.col_stride, left);
    read(b, b.row_stride, right);
    for (int64_t p = 0; p < n; p += kSums) {
#pragma omp simd
      for (int64_t l = 0; l < kSums; ++l) sums[l] += left[p + l] * right[p + l];
    }
  }
  float sum = 0;
  if (accumulate)
    load(1, static_cast<const char*>(out), width, reinterpret_cast<char*>(&sum), kWide);
  for (const float part : sums) sum += part;
  cast_loop(ScalarType::Float32, dtype)(1, reinterpret_cast<const char*>(&sum), kWide,
                                        static_cast<char*>(out), width);
}

}  // namespace flambeau::gemm
