#pragma once
// How a fused group runs over inputs of one geometry. Made once; read by any number of threads.
//
// Steps of one size are a part; parts run one after another, smaller sizes first, and what one part
// needs of another lies in memory. Within a part, tiles are independent of each other. For each
// tile the codes of the part run in order: gather an operand into a buffer, run a loop, convert.
#include <memory>

#include "aten/core/loop_types.h"
#include "aten/core/out_spec.h"
#include "aten/cpu/cast.h"
#include "aten/cpu/fused.h"
#include "aten/cpu/fused_trial.h"

namespace flambeau {

// A tensor that a part reads or writes in memory.
struct FusedArray {
  enum class Source : uint8_t { Input, Result, Constant };
  Source source;
  int32_t index;  // input, step, or constant of the plan
  ScalarType dtype;
};

// The loop nest of a part: as StridedLoop, for any number of arrays.
struct FusedNest {
  int ndim = 0;
  int arrays = 0;
  std::vector<int64_t> sizes;                 // innermost first
  std::vector<std::vector<int64_t>> strides;  // bytes, by array

  void set_sizes(IntArrayRef row_major);
  void add(const Tensor& t);
  void swap_dims(int a, int b);
  bool is_constant(size_t array) const;
};

// One action on the tile at hand. Places count arrays first, then buffers.
struct FusedCode {
  enum class Kind : uint8_t { Gather, Run, Convert, Scatter };
  Kind kind;
  uint8_t places_used = 0;
  bool is_kept = false;                   // Gather: what the buffer holds may fit the next tile
  int32_t places[kMaxOperands + 1] = {};  // the first is written
  PointwiseLoop loop = nullptr;
  int32_t params = 0;  // slot
  CastLoop cast = nullptr;
  int64_t from_bytes = 0, to_bytes = 0;
};

// Fills a buffer with one value before the first tile.
struct FusedSplat {
  int32_t place = -1;
  int32_t slot = -1;   // of a number, which has the buffer's type
  int32_t array = -1;  // of an array with one value
  CastLoop cast = nullptr;
  int64_t bytes = 0;
};

struct FusedPart {
  FusedNest nest;
  std::vector<FusedArray> arrays;
  std::vector<FusedCode> codes;
  std::vector<FusedSplat> splats;
  std::vector<int64_t> widths;   // of the buffers' elements
  std::vector<int64_t> offsets;  // of the buffers
  int64_t scratch = 0;           // bytes of all buffers
  int64_t bytes = 0;             // of all arrays' elements
  TileShape tile{};
  std::string text;                   // its values, from which a kernel is generated; may be empty
  FusedKernel kernel = nullptr;       // that does what the codes do
  std::shared_ptr<FusedTrial> trial;  // which of both runs
};

// A tensor on the CPU that has only sizes, strides and dtype: reading its elements is an error.
Tensor tensor_without_memory(const OutSpec& spec);

struct alignas(16) FusedSlot {
  char bytes[16];
};

class FusedPlan {
 public:
  FusedPlan(const FusedGroup& group, ArrayRef<const Tensor*> inputs);
  FusedPlan(const FusedPlan&) = delete;
  FusedPlan& operator=(const FusedPlan&) = delete;

  bool fits(ArrayRef<const Tensor*> inputs) const;
  const std::vector<FusedPart>& parts() const { return parts_; }
  const Tensor& constant(size_t index) const { return constants_[index]; }
  std::string slot_bytes() const {
    return {reinterpret_cast<const char*>(slots_.data()), slots_.size() * sizeof(FusedSlot)};
  }
  const PointwiseDTypes& types(size_t step) const { return types_[step]; }
  const Tensor& result(size_t step) const { return results_[step]; }
  // `given`: for each output the tensor to write to, or null; empty: all outputs are new.
  std::vector<Tensor> run(ArrayRef<const Tensor*> inputs, ArrayRef<const Tensor*> given = {}) const;

 private:
  friend class FusedPartMaker;
  void infer_shapes(const FusedGroup& group, ArrayRef<const Tensor*> inputs);
  std::vector<std::vector<int32_t>> split_by_size();
  std::vector<Tensor> memory_for(ArrayRef<const Tensor*> inputs,
                                 ArrayRef<const Tensor*> given) const;

  ScalarType default_dtype_;        // which integers become in some operators
  std::vector<Tensor> inputs_;      // without memory
  std::vector<Tensor> results_;     // by step, likewise
  std::vector<bool> is_row_major_;  // by step; the strides of others are as they were inferred
  std::vector<PointwiseDTypes> types_;
  std::vector<Tensor> constants_;
  std::vector<int32_t> part_of_;    // by step
  std::vector<bool> is_in_memory_;  // by step: an output, or used by another part
  std::vector<int32_t> outputs_;
  std::vector<FusedSlot> slots_;
  std::vector<FusedPart> parts_;
};

// Runs one part; `data`: the address of each array. Error bits of the loops.
uint32_t run_fused_part(const FusedPart& part, const FusedSlot* slots, char* const* data);

}  // namespace flambeau
