#pragma once
// Memory for the buffers of one call: the first kilobytes lie in the frame, the rest on the heap,
// so that a thread with a small stack can run every kernel.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace flambeau {

template <size_t kInline = 4096 + 256>  // bytes in the frame
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    while (chunks_) std::free(std::exchange(chunks_, chunks_->next));
  }

  // `bytes` of unset memory, aligned to 64 bytes, until the end of this object.
  char* take(int64_t bytes) {
    const size_t size = (static_cast<size_t>(bytes) + kLine - 1) / kLine * kLine;
    if (size > kInline - used_) return take_from_heap(size);
    char* const taken = frame_ + used_;
    used_ += size;
    return taken;
  }

 private:
  struct Chunk {
    Chunk* next;
  };
  static constexpr size_t kLine = 64;

  [[gnu::noinline]] char* take_from_heap(size_t size) {
    auto* const chunk = static_cast<Chunk*>(std::malloc(sizeof(Chunk) + kLine + size));
    if (!chunk) throw std::bad_alloc();
    chunk->next = chunks_;
    chunks_ = chunk;
    const auto first = reinterpret_cast<uintptr_t>(chunk + 1);
    return reinterpret_cast<char*>(chunk + 1) + (kLine - first % kLine) % kLine;
  }

  alignas(kLine) char frame_[kInline];
  size_t used_ = 0;
  Chunk* chunks_ = nullptr;
};

}  // namespace flambeau
