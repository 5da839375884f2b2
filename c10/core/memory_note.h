#pragma once
// Notes on allocations of the CPU allocator, for a profiler. A thread makes them while it has the
// dispatch key Tracing, so that other threads read one switch.
#include <cstdint>

#include "c10/core/thread_state.h"

namespace flambeau::c10 {

// `bytes` is negative when the block is released. Must not throw.
extern void (*note_memory)(const void* block, int64_t bytes) noexcept;

[[gnu::always_inline]] inline void tell_memory(const void* block, int64_t bytes) noexcept {
  if (thread_state.included & DispatchKeySet(DispatchKey::Tracing).bits()) [[unlikely]] {
    if (note_memory) note_memory(block, bytes);
  }
}

}  // namespace flambeau::c10
