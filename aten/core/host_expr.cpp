#include "aten/core/host_expr.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace flambeau::host {

DimVector moved_dims(int64_t ndim, IntArrayRef source, IntArrayRef destination) {
  // A tensor without dimensions has one name for a dimension, and none to move.
  const auto count = static_cast<size_t>(std::max<int64_t>(1, ndim));
  DimVector order(count, -1), taken(count, 0);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(wrap_dim(source[i], ndim));
    const auto to = static_cast<size_t>(wrap_dim(destination[i], ndim));
    check(!taken[from], "movedim: expected each dim once in source, got repeated dim in ", source);
    check(order[to] < 0, "movedim: expected each dim once in destination, got repeated dim in ",
          destination);
    taken[from] = 1;
    order[to] = static_cast<int64_t>(from);
  }
  if (ndim == 0) return {};
  size_t next = 0;
  for (int64_t& d : order) {
    while (next < count && taken[next]) ++next;
    if (d < 0) d = static_cast<int64_t>(next++);
  }
  return order;
}

DimVector chain_order(IntArrayRef sizes) {
  check(sizes.size() >= 2, "chain_order: expected the sizes of one matrix or more, got ", sizes);
  const size_t count = sizes.size() - 1;
  // Of the product of matrices i..j: the least number of multiplications, and the last of the first
  // part.
  std::vector<double> cost(count * count, 0);
  std::vector<size_t> last(count * count, 0);
  for (size_t width = 1; width < count; ++width) {
    for (size_t i = 0; i + width < count; ++i) {
      const size_t j = i + width;
      double least = std::numeric_limits<double>::infinity();
      last[i * count + j] = i;
      for (size_t k = i; k < j; ++k) {
        const double total = cost[i * count + k] + cost[(k + 1) * count + j] +
                             double(sizes[i]) * double(sizes[k + 1]) * double(sizes[j + 1]);
        if (total < least) {
          least = total;
          last[i * count + j] = k;
        }
      }
      cost[i * count + j] = least;
    }
  }
  DimVector order;
  // Both parts first, which then lie side by side from `place` on.
  const std::function<void(size_t, size_t, int64_t)> join = [&](size_t i, size_t j, int64_t place) {
    if (i == j) return;
    const size_t k = last[i * count + j];
    join(i, k, place);
    join(k + 1, j, place + 1);
    order.push_back(place);
  };
  join(0, count - 1, 0);
  return order;
}

}  // namespace flambeau::host
