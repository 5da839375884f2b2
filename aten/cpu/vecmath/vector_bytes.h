#pragma once
// Bytes of the widest vectors of the instruction set being compiled. The compiler takes wider
// vector types apart, their shuffles element by element. For loop files that name vector types; the
// constant has internal linkage, so that each instruction set has its own.

namespace flambeau::vec {

#if defined(__AVX512BW__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

}  // namespace flambeau::vec
