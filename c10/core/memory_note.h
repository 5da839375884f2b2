#pragma once
// Notes on what the CPU allocator does: to a profiler, from threads that are profiled, and to a
// history of memory, from every thread. Both are off in most programs.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "c10/core/thread_state.h"

namespace flambeau::c10 {

// `bytes` is negative when the block is released. Must not throw.
extern void (*note_memory)(const void* block, int64_t bytes) noexcept;

enum class MemoryAction : uint8_t {
  Allocate,  // by a tensor; the bytes that it asked for
  Release,   // by a tensor, before another one can get the block
  Obtain,    // by the allocator, from the system; the bytes of the whole block
  Return,    // by the allocator, to the system
  Fail,      // for lack of memory; no block
};

// Set while a history is kept. The thread may be any, with or without the GIL. The function must
// neither allocate tensors nor wait for a thread that does.
extern std::atomic<void (*)(MemoryAction action, const void* block, size_t bytes) noexcept>
    note_action;

inline void tell_action(MemoryAction action, const void* block, size_t bytes) noexcept {
  if (const auto note = note_action.load(std::memory_order_relaxed)) [[unlikely]]
    note(action, block, bytes);
}

[[gnu::always_inline]] inline void tell_memory(MemoryAction action, const void* block,
                                               size_t bytes) noexcept {
  if (thread_state.included & DispatchKeySet(DispatchKey::Tracing).bits()) [[unlikely]] {
    const auto change = static_cast<int64_t>(bytes);
    if (note_memory) note_memory(block, action == MemoryAction::Release ? -change : change);
  }
  tell_action(action, block, bytes);
}

}  // namespace flambeau::c10
