#include "aten/cpu/row_loop.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "aten/cpu/parallel.h"

namespace flambeau {
namespace {

constexpr int64_t kLine = 64;

// Rows [begin, end), which are numbered with the innermost size running fastest.
uint32_t run_rows(const RowLoop& loop, int64_t begin, int64_t end, char* const* data,
                  const void* slots, double* sums) {
  const size_t dims = loop.sizes.size(), each = dims + 1;
  const size_t arrays = loop.strides.size() / each;
  const int64_t inner = dims > 0 ? loop.sizes[0] : 1;
  const std::unique_ptr<char[]> memory(new char[static_cast<size_t>(loop.scratch + kLine)]);
  const auto first = reinterpret_cast<uintptr_t>(memory.get());
  char* const scratch = reinterpret_cast<char*>((first + kLine - 1) / kLine * kLine);
  SmallVector<char*, 32> at;
  at.resize(arrays);
  SmallVector<int64_t, 64> steps;
  for (size_t a = 0; a < arrays; ++a) {
    steps.push_back(loop.strides[a * each]);
    steps.push_back(dims > 0 ? loop.strides[a * each + 1] : 0);
  }
  uint32_t errors = 0;
  for (int64_t row = begin; row < end;) {
    const int64_t count = std::min(end - row, inner - row % inner);
    for (size_t a = 0; a < arrays; ++a) {
      at[a] = data[a];
      int64_t rest = row;
      for (size_t d = 0; d < dims; ++d) {
        at[a] += rest % loop.sizes[d] * loop.strides[a * each + 1 + d];
        rest /= loop.sizes[d];
      }
    }
    errors |= loop.kernel(loop.columns, count, at.data(), steps.data(), slots, scratch, sums);
    row += count;
  }
  return errors;
}

}  // namespace

uint32_t run_row_loop(const RowLoop& loop, char* const* data, const void* slots, double* sums) {
  int64_t rows = 1;
  for (const int64_t size : loop.sizes) rows *= size;
  const int64_t parts = std::min<int64_t>(parts_worthwhile(rows * loop.cost), rows);
  const auto width = static_cast<size_t>(loop.sums);
  std::vector<double> own(static_cast<size_t>(parts) * width);
  std::atomic<uint32_t> errors{0};
  parallel_for(0, parts, kSerialCost, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const uint32_t found = run_rows(loop, rows * p / parts, rows * (p + 1) / parts, data, slots,
                                      own.data() + static_cast<size_t>(p) * width);
      errors.fetch_or(found, std::memory_order_relaxed);
    }
  });
  std::fill_n(sums, width, 0.0);
  for (size_t i = 0; i < own.size(); ++i) sums[i % width] += own[i];
  return errors.load(std::memory_order_relaxed);
}

}  // namespace flambeau
