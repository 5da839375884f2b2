#include "c10/core/intrusive_ptr.h"

namespace flambeau::c10 {

void RefCounted::expire() const {
  if (counts_.load(std::memory_order_acquire) != kWeak) {
    const_cast<RefCounted*>(this)->release_resources();
  }
  release_weak();
}

}  // namespace flambeau::c10
