// The execution of fused parts: tiles in parallel, the codes of each tile in order.
#include <atomic>
#include <chrono>

#include "aten/cpu/fused_plan.h"
#include "aten/cpu/parallel.h"
#include "aten/cpu/scratch.h"

namespace flambeau {
namespace {

// What a buffer holds from an earlier tile: elements of a broadcast array.
struct Kept {
  const char* from = nullptr;
  int64_t columns = 0;
  int64_t rows = 0;

  bool covers(const char* data, int64_t width, int64_t height) const {
    if (from != data || columns < width || rows < height) return false;
    return columns == width || height == 1;
  }
};

class FusedTiles {
 public:
  FusedTiles(const FusedPart& part, const FusedSlot* slots, char* const* data, char* scratch)
      : part_(part), slots_(slots), data_(data), kept_(part.codes.size()) {
    at_.resize(part.arrays.size() + part.widths.size());
    for (size_t b = 0; b < part.widths.size(); ++b)
      at_[part.arrays.size() + b] = scratch + part.offsets[b];
    for (const FusedSplat& s : part.splats) {
      char* const buffer = at_[static_cast<size_t>(s.place)];
      const char* value = buffer;
      if (s.array >= 0) {
        s.cast(1, data[s.array], 0, buffer, 0);
      } else {
        value = slots[s.slot].bytes;
      }
      splat(value, s.bytes, part.tile.columns * part.tile.rows, buffer);
    }
  }

  uint32_t run(int64_t begin, int64_t end) {
    uint32_t errors = 0;
    for (int64_t i = begin; i < end; ++i) {
      move_to(i);
      errors |= run_tile();
    }
    return errors;
  }

 private:
  void move_to(int64_t index) {
    const FusedNest& nest = part_.nest;
    const int64_t width = nest.sizes[0], height = nest.ndim > 1 ? nest.sizes[1] : 1;
    const int64_t across = (width + part_.tile.columns - 1) / part_.tile.columns;
    const int64_t down = (height + part_.tile.rows - 1) / part_.tile.rows;
    const int64_t column = index % across * part_.tile.columns;
    const int64_t row = index / across % down * part_.tile.rows;
    columns_ = std::min(part_.tile.columns, width - column);
    rows_ = std::min(part_.tile.rows, height - row);
    for (size_t a = 0; a < part_.arrays.size(); ++a) {
      const std::vector<int64_t>& strides = nest.strides[a];
      char* at = data_[a] + column * strides[0];
      if (nest.ndim > 1) at += row * strides[1];
      int64_t rest = index / across / down;
      for (size_t d = 2; d < static_cast<size_t>(nest.ndim); ++d) {
        at += rest % nest.sizes[d] * strides[d];
        rest /= nest.sizes[d];
      }
      at_[a] = at;
    }
  }

  TileSide side_of(int32_t array, int64_t bytes, CastLoop cast) const {
    const std::vector<int64_t>& strides = part_.nest.strides[static_cast<size_t>(array)];
    return {place(array), strides[0], part_.nest.ndim > 1 ? strides[1] : 0, bytes, cast};
  }

  char* place(int32_t p) const { return at_[static_cast<size_t>(p)]; }

  void gather_into(const FusedCode& code, Kept& kept) {
    const char* const from = place(code.places[1]);
    if (code.is_kept && kept.covers(from, columns_, rows_)) return;
    gather(side_of(code.places[1], code.from_bytes, code.cast), columns_, rows_,
           place(code.places[0]), code.to_bytes);
    kept = {from, columns_, rows_};
  }

  uint32_t run_tile() {
    uint32_t errors = 0;
    const int64_t n = columns_ * rows_;
    for (size_t i = 0; i < part_.codes.size(); ++i) {
      const FusedCode& code = part_.codes[i];
      switch (code.kind) {
        case FusedCode::Kind::Run: {
          char* data[kMaxOperands + 1];
          for (int p = 0; p < code.places_used; ++p) data[p] = place(code.places[p]);
          errors |= code.loop(n, data, slots_ + code.params);
          break;
        }
        case FusedCode::Kind::Convert:
          code.cast(n, place(code.places[1]), code.from_bytes, place(code.places[0]),
                    code.to_bytes);
          break;
        case FusedCode::Kind::Gather:
          gather_into(code, kept_[i]);
          break;
        case FusedCode::Kind::Scatter:
          scatter(place(code.places[1]), code.from_bytes, columns_, rows_,
                  side_of(code.places[0], code.to_bytes, code.cast));
          break;
      }
    }
    return errors;
  }

  const FusedPart& part_;
  const FusedSlot* slots_;
  char* const* data_;
  SmallVector<char*, 48> at_;  // by place
  std::vector<Kept> kept_;     // by code
  int64_t columns_ = 0;
  int64_t rows_ = 0;
};

uint32_t run_range(const FusedPart& part, const FusedSlot* slots, char* const* data, int64_t begin,
                   int64_t end) {
  Scratch<> scratch;
  return FusedTiles(part, slots, data, scratch.take(part.scratch)).run(begin, end);
}

}  // namespace

namespace {

uint32_t run_codes(const FusedPart& part, const FusedSlot* slots, char* const* data) {
  const FusedNest& nest = part.nest;
  int64_t tiles = (nest.sizes[0] + part.tile.columns - 1) / part.tile.columns;
  if (nest.ndim > 1) tiles *= (nest.sizes[1] + part.tile.rows - 1) / part.tile.rows;
  for (size_t d = 2; d < static_cast<size_t>(nest.ndim); ++d) tiles *= nest.sizes[d];
  const int64_t cost = part.tile.columns * part.tile.rows *
                       (part.bytes / 4 + static_cast<int64_t>(part.codes.size()));
  std::atomic<uint32_t> errors{0};
  parallel_for(0, tiles, cost, [&](int64_t begin, int64_t end) {
    errors.fetch_or(run_range(part, slots, data, begin, end), std::memory_order_relaxed);
  });
  return errors.load(std::memory_order_relaxed);
}

// The same through the part's kernel, which needs no buffers: tiles are larger.
uint32_t run_kernel(const FusedPart& part, const FusedSlot* slots, char* const* data) {
  constexpr int64_t kTile = 8192;
  const FusedNest& nest = part.nest;
  const int64_t width = nest.sizes[0], height = nest.ndim > 1 ? nest.sizes[1] : 1;
  const int64_t columns = std::min(width, kTile);
  const int64_t rows = std::clamp<int64_t>(kTile / columns, 1, height);
  const int64_t across = (width + columns - 1) / columns, down = (height + rows - 1) / rows;
  int64_t tiles = across * down;
  for (size_t d = 2; d < static_cast<size_t>(nest.ndim); ++d) tiles *= nest.sizes[d];
  SmallVector<int64_t, 64> steps;
  for (const std::vector<int64_t>& strides : nest.strides) {
    steps.push_back(strides[0]);
    steps.push_back(nest.ndim > 1 ? strides[1] : 0);
  }
  std::atomic<uint32_t> errors{0};
  const auto run = [&](int64_t begin, int64_t end) {
    SmallVector<char*, 32> at;
    at.resize(part.arrays.size());
    uint32_t found = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % across * columns, row = i / across % down * rows;
      for (size_t a = 0; a < at.size(); ++a) {
        at[a] = data[a] + column * steps[2 * a] + row * steps[2 * a + 1];
        int64_t rest = i / across / down;
        for (size_t d = 2; d < static_cast<size_t>(nest.ndim); ++d) {
          at[a] += rest % nest.sizes[d] * nest.strides[a][d];
          rest /= nest.sizes[d];
        }
      }
      found |= part.kernel(std::min(columns, width - column), std::min(rows, height - row),
                           at.data(), steps.data(), slots);
    }
    errors.fetch_or(found, std::memory_order_relaxed);
  };
  const int64_t cost =
      columns * rows * (part.bytes / 4 + static_cast<int64_t>(part.codes.size()) / 2);
  parallel_for(0, tiles, cost, run);
  return errors.load(std::memory_order_relaxed);
}

}  // namespace

uint32_t run_fused_part(const FusedPart& part, const FusedSlot* slots, char* const* data) {
  if (!part.kernel) return run_codes(part, slots, data);
  const auto run = [&](bool uses_kernel) {
    return uses_kernel ? run_kernel(part, slots, data) : run_codes(part, slots, data);
  };
  return part.trial->run(run);
}

}  // namespace flambeau
