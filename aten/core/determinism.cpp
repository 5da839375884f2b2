#include "aten/core/determinism.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "aten/core/factory.h"
#include "c10/core/dtype_dispatch.h"

namespace flambeau {
namespace {

std::atomic<int> mode = 0;
std::atomic<bool> fill_is_wanted = true;
std::atomic<bool> fills = false;  // what both say together: every factory reads it

void settle() { fills.store(mode > 0 && fill_is_wanted, std::memory_order_relaxed); }

void settle_on_device(const Tensor& tensor, size_t begin) {
  // The memory from `begin` on, as elements in a row.
  const Tensor fresh(make_intrusive<TensorImpl>(tensor.storage(), tensor.dtype(), tensor.device()));
  const auto item = static_cast<int64_t>(element_size(tensor.dtype()));
  const int64_t first = static_cast<int64_t>(begin) / item;
  const int64_t count = static_cast<int64_t>(tensor.storage()->nbytes()) / item - first;
  fresh.impl()->set_geometry({count}, {1}, first);
  if (is_integral_type(fresh.dtype(), true)) {
    dispatch_stored(fresh.dtype(), "empty", [&]<typename T>() {
      if constexpr (std::numeric_limits<T>::is_integer)
        fill_with(fresh, static_cast<int64_t>(std::numeric_limits<T>::max()));
      else
        fill_with(fresh, true);  // bool
    });
  } else {
    fill_with(fresh, std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

bool fills_uninitialized() { return fills.load(std::memory_order_relaxed); }
int deterministic_mode() { return mode; }
void set_deterministic_mode(int value) {
  mode = value;
  settle();
}
void set_fills_uninitialized(bool value) {
  fill_is_wanted = value;
  settle();
}

void settle_uninitialized(const Tensor& fresh, size_t begin) {
  if (!fills_uninitialized() || fresh.device().is_meta()) return;
  if (fresh.device().type == DeviceType::PrivateUse1) return settle_on_device(fresh, begin);
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
