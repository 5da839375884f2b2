// RoI pooling on CPU, and its position-sensitive form.
// Formula: the maximum of each bin of a region and its place in the plane (-1 and 0 for an empty
// bin); position-sensitive: the mean of the bin's own channel c * bins + p.
// Accumulates in: means in the dtype, float32 for half; maxima: none, values are moved.
// NaN, infinity: NaN is the maximum of a bin that holds one; regions with a NaN corner are empty.
// Error: maxima are exact, means 2 eps * (size of the bin).
// Source: Girshick 2015, "Fast R-CNN"; Dai et al. 2016, "R-FCN".
#include <algorithm>
#include <cmath>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/detection/regions.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/detection_kernels.h"

namespace flambeau {
namespace {

using detection::limited;
using detection::Pooling;

// Pixels [begin, end) of a bin along an axis.
struct Range {
  int64_t begin, end;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

struct Bin {
  Range rows, columns;
  int64_t area() const { return rows.size() * columns.size(); }
};

// One axis of a region with rounded corners. The corner belongs to the region where it is `closed`;
// bins end at pixel `last`.
template <typename Acc>
struct Axis {
  Acc start = 0, bin = 0;
  int64_t last;
  bool empty;

  Axis(Acc from, Acc to, bool closed, int64_t pooled, int64_t last_pixel)
      : last(last_pixel), empty(std::isnan(from) || std::isnan(to)) {
    if (empty) return;
    start = std::round(from);
    const Acc size = std::round(to) - start + (closed ? Acc(1) : Acc(0));
    bin = std::max(size, Acc(1)) / static_cast<Acc>(pooled);
    empty = std::isnan(bin);
  }

  Range range(int64_t p) const {
    if (empty) return {0, 0};
    const Acc low = std::floor(static_cast<Acc>(p) * bin),
              high = std::ceil(static_cast<Acc>(p + 1) * bin);
    if (std::isnan(low) || std::isnan(high)) return {0, 0};
    const auto inside = [&](Acc offset) {
      return std::clamp<int64_t>(limited(offset) + limited(start), 0, last);
    };
    return {inside(low), inside(high)};
  }
};

template <typename T, typename Body>
void each_bin(const char* op, bool closed, const Pooling& at, const T* roi, const Body& body) {
  using Acc = accumulate_t<T>;
  const int64_t image = detection::image_of(op, static_cast<Acc>(roi[0]), at.batch);
  const auto end = [&](int i) { return static_cast<Acc>(roi[i]) * static_cast<Acc>(at.scale); };
  const int64_t beyond = closed ? 0 : 1;  // torchvision's means leave out the last row and column
  const int64_t bottom = std::max<int64_t>(0, at.height - beyond);
  const int64_t right = std::max<int64_t>(0, at.width - beyond);
  const Axis<Acc> y(end(2), end(4), closed, at.pooled_height, bottom);
  const Axis<Acc> x(end(1), end(3), closed, at.pooled_width, right);
  for (int64_t p = 0; p < at.bins(); ++p) {
    body(image, p, Bin{y.range(p / at.pooled_width), x.range(p % at.pooled_width)});
  }
}

template <typename Body>
void each_place(const Bin& bin, int64_t width, const Body& body) {
  for (int64_t y = bin.rows.begin; y < bin.rows.end; ++y) {
    for (int64_t x = bin.columns.begin; x < bin.columns.end; ++x) body(y * width + x);
  }
}

template <typename T>
int64_t place_of_maximum(const T* plane, const Bin& bin, int64_t width) {
  using Acc = accumulate_t<T>;
  int64_t best = -1;
  each_place(bin, width, [&](int64_t i) {
    const auto value = static_cast<Acc>(plane[i]);
    const bool first = best < 0;
    const auto most = first ? Acc(0) : static_cast<Acc>(plane[best]);
    if (first || value > most || (std::isnan(value) && !std::isnan(most))) best = i;
  });
  return best;
}

Pooling pooling_of(const Tensor& input, double scale, int64_t pooled_height, int64_t pooled_width) {
  return {input.size(0), input.size(1), input.size(2), input.size(3),
          pooled_height, pooled_width,  scale};
}

}  // namespace

namespace ops {

void roi_pool_cpu(const Tensor& input, const Tensor& rois, double spatial_scale,
                  int64_t pooled_height, int64_t pooled_width, Tensor& output_out,
                  Tensor& argmax_out) {
  if (output_out.numel() == 0) return;
  const Pooling at = pooling_of(input, spatial_scale, pooled_height, pooled_width);
  const Tensor features = contiguous_tensor(input), regions = contiguous_tensor(rois);
  int32_t* places = argmax_out.data_as<int32_t>();
  dispatch_floating(input.dtype(), "roi_pool", [&]<typename T>() {
    const T* pixels = features.data_as<T>();
    const T* boxes = regions.data_as<T>();
    T* to = output_out.data_as<T>();
    parallel_for(0, rois.size(0), at.channels * at.plane(), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        each_bin("roi_pool", true, at, boxes + 5 * k,
                 [&](int64_t image, int64_t p, const Bin& bin) {
                   for (int64_t c = 0; c < at.channels; ++c) {
                     const T* plane = pixels + (image * at.channels + c) * at.plane();
                     const int64_t best = place_of_maximum(plane, bin, at.width);
                     const int64_t i = (k * at.channels + c) * at.bins() + p;
                     to[i] = best < 0 ? T(0) : plane[best];
                     places[i] = static_cast<int32_t>(best);
                   }
                 });
      }
    });
  });
}

void roi_pool_backward_cpu(const Tensor& grad_output, const Tensor& rois, const Tensor& argmax,
                           double /*spatial_scale*/, int64_t pooled_height, int64_t pooled_width,
                           int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                           Tensor& out) {
  if (grad_output.numel() == 0) return fill_with(out, 0);
  const Tensor grads = contiguous_tensor(grad_output), regions = contiguous_tensor(rois);
  const Tensor maxima = contiguous_tensor(argmax);
  const int64_t bins = pooled_height * pooled_width, plane = height * width;
  dispatch_floating(out.dtype(), "roi_pool", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const Tensor sums = zeros_tensor(out.sizes(), scalar_type_of<Acc>);
    Acc* to = sums.data_as<Acc>();
    for (int64_t k = 0; k < rois.size(0); ++k) {
      const auto index = static_cast<Acc>(regions.data_as<T>()[5 * k]);
      const int64_t image = detection::image_of("roi_pool", index, batch_size);
      for (int64_t i = 0; i < channels * bins; ++i) {
        const int64_t best = maxima.data_as<int32_t>()[k * channels * bins + i];
        if (best < 0) continue;
        check(best < plane, "roi_pool: expected places below ", plane, " in argmax, got ", best);
        to[(image * channels + i / bins) * plane + best] +=
            static_cast<Acc>(grads.data_as<T>()[k * channels * bins + i]);
      }
    }
    copy_into(out, sums);
  });
}

void ps_roi_pool_cpu(const Tensor& input, const Tensor& rois, double spatial_scale,
                     int64_t pooled_height, int64_t pooled_width, Tensor& output_out,
                     Tensor& channel_mapping_out) {
  if (output_out.numel() == 0) return;
  const Pooling at = pooling_of(input, spatial_scale, pooled_height, pooled_width);
  const Tensor features = contiguous_tensor(input), regions = contiguous_tensor(rois);
  const int64_t channels = output_out.size(1), bins = at.bins();
  int32_t* mapping = channel_mapping_out.data_as<int32_t>();
  for (int64_t i = 0; i < channel_mapping_out.numel(); ++i) {
    mapping[i] = static_cast<int32_t>(i % at.channels);
  }
  dispatch_floating(input.dtype(), "ps_roi_pool", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const T* pixels = features.data_as<T>();
    const T* boxes = regions.data_as<T>();
    T* to = output_out.data_as<T>();
    parallel_for(0, rois.size(0), channels * at.plane(), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        each_bin(
            "ps_roi_pool", false, at, boxes + 5 * k, [&](int64_t image, int64_t p, const Bin& bin) {
              for (int64_t c = 0; c < channels; ++c) {
                const T* plane = pixels + (image * at.channels + c * bins + p) * at.plane();
                Acc sum = 0;
                each_place(bin, at.width, [&](int64_t i) { sum += static_cast<Acc>(plane[i]); });
                const auto area = static_cast<Acc>(std::max<int64_t>(1, bin.area()));
                to[(k * channels + c) * bins + p] = static_cast<T>(sum / area);
              }
            });
      }
    });
  });
}

void ps_roi_pool_backward_cpu(const Tensor& grad_output, const Tensor& rois,
                              const Tensor& /*channel_mapping*/, double spatial_scale,
                              int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                              int64_t channels, int64_t height, int64_t width, Tensor& out) {
  if (grad_output.numel() == 0) return fill_with(out, 0);
  const Pooling at{batch_size, channels, height, width, pooled_height, pooled_width, spatial_scale};
  const Tensor grads = contiguous_tensor(grad_output), regions = contiguous_tensor(rois);
  const int64_t groups = grad_output.size(1), bins = at.bins();
  dispatch_floating(out.dtype(), "ps_roi_pool", [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const Tensor sums = zeros_tensor(out.sizes(), scalar_type_of<Acc>);
    const T* from = grads.data_as<T>();
    Acc* to = sums.data_as<Acc>();
    for (int64_t k = 0; k < rois.size(0); ++k) {
      const T* roi = regions.data_as<T>() + 5 * k;
      each_bin("ps_roi_pool", false, at, roi, [&](int64_t image, int64_t p, const Bin& bin) {
        for (int64_t c = 0; c < groups; ++c) {
          Acc* plane = to + (image * channels + c * bins + p) * at.plane();
          const auto area = static_cast<Acc>(std::max<int64_t>(1, bin.area()));
          const Acc each = static_cast<Acc>(from[(k * groups + c) * bins + p]) / area;
          each_place(bin, width, [&](int64_t i) { plane[i] += each; });
        }
      });
    }
    copy_into(out, sums);
  });
}

}  // namespace ops
}  // namespace flambeau
