#pragma once
// CRC-32 as in zip files.
#include <cstddef>
#include <cstdint>

#include "c10/core/namespace.h"

namespace flambeau::c10 {

// The checksum of `size` bytes; `start` is that of the bytes before them.
uint32_t crc32(const void* data, size_t size, uint32_t start = 0);
// Whether the processor has the instructions that make it several times as fast as zlib's.
bool has_fast_crc32();

}  // namespace flambeau::c10
