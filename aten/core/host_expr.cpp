#include "aten/core/host_expr.h"

namespace flambeau::host {

DimVector moved_dims(int64_t ndim, IntArrayRef source, IntArrayRef destination) {
  const auto count = static_cast<size_t>(ndim);
  DimVector order(count, -1), taken(count, 0);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(wrap_dim(source[i], ndim));
    const auto to = static_cast<size_t>(wrap_dim(destination[i], ndim));
    if (ndim == 0) continue;
    check(!taken[from], "movedim: repeated dim in source: ", source);
    check(order[to] < 0, "movedim: repeated dim in destination: ", destination);
    taken[from] = 1;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (int64_t& d : order) {
    while (next < count && taken[next]) ++next;
    if (d < 0) d = static_cast<int64_t>(next++);
  }
  return order;
}

}  // namespace flambeau::host
