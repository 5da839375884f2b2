#pragma once
// A bool as memory holds it. Reading a C++ bool from a byte other than 0 and 1 is undefined
// behaviour, and such bytes are ordinary input: views of other dtypes, files, DLPack and
// uninitialised memory hold them. Free of library headers, for loop files include it.
#include <cstdint>

#include "c10/core/complex.h"

namespace flambeau::c10 {

// Any byte but 0 is true; what is written is 0 or 1.
struct StoredBool {
  uint8_t byte;

  StoredBool() = default;
  FLAMBEAU_HOST_DEVICE constexpr StoredBool(bool value) : byte(value) {}      // NOLINT
  FLAMBEAU_HOST_DEVICE constexpr operator bool() const { return byte != 0; }  // NOLINT
};

// The type in memory of a value that loops compute as T.
template <typename T>
struct StoredAs {
  using type = T;
};
template <>
struct StoredAs<bool> {
  using type = StoredBool;
};
template <typename T>
using stored_t = typename StoredAs<T>::type;

template <typename T>
inline constexpr bool is_bool = __is_same(T, bool) || __is_same(T, StoredBool);

}  // namespace flambeau::c10
