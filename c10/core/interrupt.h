#pragma once
// Long work stops when it is asked to: between two pieces of it the thread calls check_interrupt(),
// which throws when the user has interrupted the program, when another part of the same parallel
// region has failed, or when the process is about to end. A tensor that was being written is then
// partly written.
#include <atomic>
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

// Asks the host program whether the calling thread must stop; throws if so. Null: no host program.
using InterruptPoll = void (*)();
extern std::atomic<InterruptPoll> interrupt_poll;

// Called after the first run of a library's routine, which may have made objects that exit()
// destroys while other threads still use them. Null: nobody waits for threads at the end.
using LibraryNote = void (*)();
extern std::atomic<LibraryNote> note_library_use;

// Thrown in a part of a region after another part has failed, whose exception is the reason.
struct Stopped {};

// Set by a parallel region for each of its threads; null outside.
extern thread_local constinit const std::atomic<bool>* stop_flag;

// Costs some nanoseconds; the host is asked ten times a second.
void check_interrupt();

// body(begin, end) on pieces of [0, n), one after the other, between which the work may stop.
template <typename Body>
void in_pieces(int64_t n, const Body& body) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    if (begin > 0) check_interrupt();
    body(begin, n - begin < kPiece ? n : begin + kPiece);
  }
}

// From now on every check_interrupt() throws.
void stop_long_work() noexcept;

// Monotonic time in nanoseconds, within a factor of two, without a system call.
int64_t coarse_time();

}  // namespace flambeau::c10
