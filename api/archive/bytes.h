#pragma once
// Where archives come from and go to: files, and bytes in memory.
#include <functional>
#include <memory>

#include "c10/core/check.h"

namespace flambeau::api::archive {

using c10::check;
using c10::fail;
using c10::text_of;

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  // Fills `out`. RuntimeError if the source ends before `at + count`.
  virtual void read(uint64_t at, void* out, size_t count) const = 0;
};
// RuntimeError if the path cannot be opened or is not a regular file.
std::unique_ptr<ByteSource> open_file(const std::string& path);
std::unique_ptr<ByteSource> bytes_of(std::string text);

// Receives the pieces of a file in order.
using Sink = std::function<void(const void* data, size_t size)>;
// Writes a file as a whole: the old one stays if `write` throws, the process is killed or the disk
// is full. A path that is not a regular file (a pipe, a device) is written directly. RuntimeError
// if writing fails.
void replace_file(const std::string& path, const std::function<void(const Sink&)>& write);

}  // namespace flambeau::api::archive
