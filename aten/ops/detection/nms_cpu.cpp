// Non-maximum suppression on CPU.
// Formula: boxes in descending order of their scores are kept unless they overlap one that is kept,
// |a and b| / |a or b| > threshold. Equal scores keep their order.
// Accumulates in: the dtype; float32 for half.
// NaN, infinity: NaN scores come first; a NaN overlap suppresses nothing.
// Error: exact but for the rounding of overlaps: 4 eps.
// Source: Girshick et al. 2014, "Rich Feature Hierarchies for Accurate Object Detection".
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "aten/core/factory.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/detection_kernels.h"

namespace flambeau::ops {
namespace {

template <typename Acc>
struct Box {
  Acc x1, y1, x2, y2;
  Acc area() const { return (x2 - x1) * (y2 - y1); }
};

template <typename Acc>
Acc overlap(const Box<Acc>& a, const Box<Acc>& b) {
  const Acc width = std::max(Acc(0), std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const Acc height = std::max(Acc(0), std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const Acc both = width * height;
  return both / (a.area() + b.area() - both);
}

template <typename T>
std::vector<int64_t> by_score(const T* scores, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const auto a = static_cast<accumulate_t<T>>(scores[i]),
               b = static_cast<accumulate_t<T>>(scores[j]);
    return std::isnan(a) ? !std::isnan(b) : a > b;
  });
  return order;
}

template <typename T>
std::vector<int64_t> kept_boxes(const T* corners, const T* scores, int64_t count,
                                double threshold) {
  using Acc = accumulate_t<T>;
  std::vector<Box<Acc>> kept;
  std::vector<int64_t> found;
  for (const int64_t i : by_score(scores, count)) {
    const T* c = corners + 4 * i;
    const Box<Acc> box{static_cast<Acc>(c[0]), static_cast<Acc>(c[1]), static_cast<Acc>(c[2]),
                       static_cast<Acc>(c[3])};
    const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](const Box<Acc>& other) {
      return static_cast<double>(overlap(other, box)) > threshold;
    });
    if (suppressed) continue;
    kept.push_back(box);
    found.push_back(i);
  }
  return found;
}

}  // namespace

Tensor nms_cpu(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  const Tensor boxes = contiguous_tensor(dets), order = contiguous_tensor(scores);
  std::vector<int64_t> found;
  dispatch_floating(dets.dtype(), "nms", [&]<typename T>() {
    found = kept_boxes(boxes.data_as<T>(), order.data_as<T>(), dets.size(0), iou_threshold);
  });
  Tensor result = empty_tensor({static_cast<int64_t>(found.size())}, ScalarType::Int64);
  std::copy(found.begin(), found.end(), result.data_as<int64_t>());
  return result;
}

}  // namespace flambeau::ops
