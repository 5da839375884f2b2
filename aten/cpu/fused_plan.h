#pragma once
// How a fused group uses its blocks of memory: fixed when the group is made, for every geometry.
#include <memory>
#include <vector>

#include "aten/cpu/cast.h"
#include "aten/cpu/fused.h"

namespace flambeau {

// RuntimeError unless the tensor has memory that CPU kernels read as it is.
void check_fusable(const char* name, const Tensor& t);
void check_loop_errors(uint32_t errors);

struct FusedPlan {
  enum class Place : uint8_t { Input, Output, Buffer, Number };
  struct Where {
    Place place = Place::Buffer;
    int index = 0;
  };
  struct Source {
    Where where;
    CastLoop cast = nullptr;  // to the loop's type; null: read as it is
    int64_t bytes = 0;        // per element, of the value and of what the loop reads
    int64_t loop_bytes = 0;
  };
  struct Step {
    PointwiseLoop loop;
    std::vector<Source> operands;
    Source result;
    std::vector<char> params;  // 16-byte slots
  };
  struct Number {
    char value[16];
    int64_t bytes;
  };

  FusedPlan(const std::vector<ScalarType>& inputs, const std::vector<FusedStep>& steps,
            const std::vector<int>& outputs);

  std::vector<Step> steps;
  std::vector<Number> numbers;
  int num_buffers = 0;
  int64_t width = 1;  // bytes of the widest element

 private:
  Source source_of(ScalarType own, ScalarType loop, Where where) const;
  int number_of(const Scalar& number, ScalarType dtype);
  Step step_of(const FusedStep& from, const std::vector<ScalarType>& dtypes,
               const std::vector<Where>& where, size_t value);
};

// The memory of one thread: a block for each array that cannot be read in place, for each
// intermediate value, each number, and each conversion.
class FusedBlocks {
 public:
  // `arrays`: inputs and outputs; `most`: elements of a tile.
  FusedBlocks(const FusedPlan& plan, int arrays, int64_t most);
  char* array(int a) { return block(a); }
  uint32_t run(const FusedPlan::Step& step, int64_t n);

  char* inputs[kMaxFusedArrays];
  char* outputs[kMaxFusedArrays];

 private:
  char* block(int i) { return memory_ + i * step_; }
  char* at(FusedPlan::Where where);

  static constexpr int kInline = 32 * 1024;
  int64_t step_;
  int arrays_;
  int num_buffers_;
  int num_numbers_;
  std::unique_ptr<char[]> owned_;
  char* memory_;
  alignas(64) char inline_[kInline];
};

}  // namespace flambeau
