#include "aten/core/determinism.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "c10/core/dtype_dispatch.h"

namespace flambeau {
namespace {

std::atomic<bool> fills = false;

}  // namespace

bool fills_uninitialized() { return fills.load(std::memory_order_relaxed); }
void set_fills_uninitialized(bool value) { fills.store(value, std::memory_order_relaxed); }

void settle_uninitialized(const Tensor& fresh, size_t begin) {
  if (!fills_uninitialized() || fresh.device().is_meta()) return;
  char* memory = static_cast<char*>(fresh.storage()->data());
  if (fresh.dtype() == ScalarType::Float4E2M1FNx2) {  // no NaN: all bits, 6 twice with a minus
    const size_t bytes = fresh.storage()->nbytes();
    if (bytes > begin) std::fill_n(memory + begin, bytes - begin, static_cast<char>(0xff));
    return;
  }
  dispatch_stored(fresh.dtype(), "empty", [&]<typename T>() {
    T value{};
    if constexpr (std::numeric_limits<T>::is_integer) {
      value = std::numeric_limits<T>::max();
    } else if constexpr (requires { typename T::value_type; }) {
      const auto nan = static_cast<typename T::value_type>(std::numeric_limits<float>::quiet_NaN());
      value = T(nan, 0);
    } else {
      value = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    }
    const size_t bytes = fresh.storage()->nbytes();
    if (bytes > begin)
      std::fill_n(reinterpret_cast<T*>(memory + begin), (bytes - begin) / sizeof(T), value);
  });
}

}  // namespace flambeau
