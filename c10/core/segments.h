#pragma once
// The blocks that the CPU allocator got from the system, for a map of memory.
#include <cstddef>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

struct Segment {
  const void* data;
  size_t bytes;
  size_t requested;  // by the tensor that has the block; 0: kept for reuse
  bool is_large;
};

// Calls visit(context, segment) for each large block, and for each small block that the calling
// thread or no thread keeps. Which small blocks tensors have is not known here. A lock of the
// allocator is held meanwhile: `visit` must not allocate tensors.
void visit_segments(void (*visit)(void* context, const Segment& segment), void* context);
// The bytes of the block that an allocation of `bytes` gets.
size_t held_bytes(size_t bytes);

namespace small_blocks {
// The small ones of them.
void visit_kept(void (*visit)(void* context, const Segment& segment), void* context);
}  // namespace small_blocks

}  // namespace flambeau::c10
