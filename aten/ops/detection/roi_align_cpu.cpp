// RoIAlign, and its position-sensitive form, on CPU.
// Formula: output[k, c, p] = mean over samples s in bin p of region k of input[image, channel(c,
// p), s], interpolated bilinearly; channel(c, p) is c, or c * bins + p. Samples more than 1 pixel
// outside count as 0.
// Accumulates in: the dtype; float32 for half.
// NaN, infinity: NaN places count as 0; NaN pixels spread to their bins.
// Error: 8 eps of the mean magnitude of the pixels, plus that of the places themselves.
// Source: He et al. 2017, "Mask R-CNN"; Li et al. 2018, "Light-Head R-CNN".
#include <algorithm>
#include <vector>

#include "aten/core/factory.h"
#include "aten/cpu/parallel.h"
#include "aten/ops/detection/regions.h"
#include "c10/core/dtype_dispatch.h"
#include "torchgen_out/aten/detection_kernels.h"

namespace flambeau {
namespace {

using detection::Pooling;

// More samples than this along an axis are not taken: the bin is far larger than any image.
constexpr int64_t kMostSamples = int64_t{1} << 30;

// What callers may ask for: all samples of a bin are kept in memory at once.
constexpr int64_t kMostRatio = int64_t{1} << 16;

void check_ratio(const char* op, int64_t ratio) {
  check(ratio <= kMostRatio, op, ": expected a sampling_ratio of ", kMostRatio, " or less, got ",
        ratio);
}

// One sample along an axis, between two pixels.
template <typename Acc>
struct Sample {
  int64_t low, high;
  Acc low_weight, high_weight;
};

// One axis of a region: bins of equal size, each with `grid` samples.
template <typename Acc>
struct Axis {
  Acc start, bin;
  int64_t grid, size;

  Axis(Acc from, Acc to, bool at_least_one, int64_t pooled, int64_t ratio, int64_t pixels)
      : start(from), size(pixels) {
    Acc length = to - from;
    if (at_least_one) length = std::max(length, Acc(1));
    bin = length / static_cast<Acc>(pooled);
    const Acc samples = ratio > 0 ? static_cast<Acc>(ratio) : std::ceil(bin);
    const auto most = static_cast<Acc>(kMostSamples);
    grid = samples >= most ? kMostSamples : samples > -most ? static_cast<int64_t>(samples) : 0;
  }

  Acc place(int64_t p, int64_t i) const {
    return start + static_cast<Acc>(p) * bin +
           (static_cast<Acc>(i) + Acc(0.5)) * bin / static_cast<Acc>(grid);
  }

  // The samples of bin `p` that may lie in the image, so that their number is bounded by its size.
  std::pair<int64_t, int64_t> candidates(int64_t p) const {
    const double step = static_cast<double>(bin) / static_cast<double>(grid);
    const double base =
        static_cast<double>(start) + static_cast<double>(p) * static_cast<double>(bin);
    if (!std::isfinite(base) || !std::isfinite(step)) return {0, 0};
    if (step == 0) return {0, grid};  // kMostRatio at most, as ceil(0) is 0
    double first = (-1 - base) / step, last = (static_cast<double>(size) - base) / step;
    if (first > last) std::swap(first, last);
    const double margin =
        2 + (std::abs(base) + std::abs(static_cast<double>(bin))) * 0x1p-20 / std::abs(step);
    const auto within = [&](double i) {
      return static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(grid)));
    };
    return {within(std::floor(first - margin)), within(std::ceil(last + margin))};
  }

  void samples(int64_t p, std::vector<Sample<Acc>>& found) const {
    found.clear();
    if (grid <= 0) return;
    const auto [begin, end] = candidates(p);
    for (int64_t i = begin; i < end; ++i) {
      Acc at = place(p, i);
      if (!(at >= Acc(-1) && at <= static_cast<Acc>(size))) continue;
      at = std::max(at, Acc(0));
      const int64_t low = static_cast<int64_t>(at);
      if (low >= size - 1) {
        found.push_back({size - 1, size - 1, Acc(1), Acc(0)});
      } else {
        const Acc part = at - static_cast<Acc>(low);
        found.push_back({low, low + 1, Acc(1) - part, part});
      }
    }
  }
};

struct Align {
  const char* op;
  int64_t ratio;
  double offset;      // of the centre of a pixel
  bool at_least_one;  // regions are 1 pixel large or more
  bool by_position;   // each bin has channels of its own
};

// A region's samples for all bins along both axes.
template <typename Acc>
struct Region {
  int64_t image;
  Acc count;
  std::vector<std::vector<Sample<Acc>>> rows, columns;

  template <typename T>
  Region(const Align& align, const Pooling& at, const T* roi)
      : image(detection::image_of(align.op, static_cast<Acc>(roi[0]), at.batch)),
        rows(static_cast<size_t>(at.pooled_height)),
        columns(static_cast<size_t>(at.pooled_width)) {
    const auto end = [&](int i) {
      return static_cast<Acc>(roi[i]) * static_cast<Acc>(at.scale) - static_cast<Acc>(align.offset);
    };
    const Axis<Acc> y(end(2), end(4), align.at_least_one, at.pooled_height, align.ratio, at.height);
    const Axis<Acc> x(end(1), end(3), align.at_least_one, at.pooled_width, align.ratio, at.width);
    count = static_cast<Acc>(y.grid) * static_cast<Acc>(x.grid);
    if (!align.by_position) count = std::max(count, Acc(1));
    if (at.plane() == 0) return;
    for (size_t p = 0; p < rows.size(); ++p) y.samples(static_cast<int64_t>(p), rows[p]);
    for (size_t p = 0; p < columns.size(); ++p) x.samples(static_cast<int64_t>(p), columns[p]);
  }
};

// body(pixel, weight) for the four pixels of every sample of one bin.
template <typename Acc, typename Body>
void each_pixel(const Region<Acc>& region, int64_t bin, const Pooling& at, const Body& body) {
  const auto& rows = region.rows[static_cast<size_t>(bin / at.pooled_width)];
  const auto& columns = region.columns[static_cast<size_t>(bin % at.pooled_width)];
  for (const Sample<Acc>& y : rows) {
    const int64_t low = y.low * at.width, high = y.high * at.width;
    for (const Sample<Acc>& x : columns) {
      body(low + x.low, y.low_weight * x.low_weight);
      body(low + x.high, y.low_weight * x.high_weight);
      body(high + x.low, y.high_weight * x.low_weight);
      body(high + x.high, y.high_weight * x.high_weight);
    }
  }
}

int64_t channel_of(const Align& align, const Pooling& at, int64_t channel, int64_t bin) {
  return align.by_position ? channel * at.bins() + bin : channel;
}

void align_forward(const Align& align, const Pooling& at, const Tensor& input, const Tensor& rois,
                   Tensor& out) {
  check_ratio(align.op, align.ratio);
  if (out.numel() == 0) return;
  const Tensor features = contiguous_tensor(input), regions = contiguous_tensor(rois);
  const int64_t channels = out.size(1), bins = at.bins();
  dispatch_floating(input.dtype(), align.op, [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const T* pixels = features.data_as<T>();
    const T* boxes = regions.data_as<T>();
    T* to = out.data_as<T>();
    parallel_for(0, rois.size(0), 16 * channels * bins, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const Region<Acc> region(align, at, boxes + 5 * k);
        const T* image = pixels + region.image * at.channels * at.plane();
        for (int64_t i = 0; i < channels * bins; ++i) {
          const T* plane = image + channel_of(align, at, i / bins, i % bins) * at.plane();
          Acc sum = 0;
          each_pixel(region, i % bins, at, [&](int64_t pixel, Acc weight) {
            sum += weight * static_cast<Acc>(plane[pixel]);
          });
          to[k * channels * bins + i] = static_cast<T>(sum / region.count);
        }
      }
    });
  });
}

// Channels of the output are shared among threads, so that no two write to one pixel.
void align_backward(const Align& align, const Pooling& at, const Tensor& grad_output,
                    const Tensor& rois, Tensor& out) {
  check_ratio(align.op, align.ratio);
  if (grad_output.numel() == 0) return fill_with(out, 0);
  const Tensor grads = contiguous_tensor(grad_output), regions = contiguous_tensor(rois);
  const int64_t channels = grad_output.size(1), bins = at.bins();
  dispatch_floating(out.dtype(), align.op, [&]<typename T>() {
    using Acc = accumulate_t<T>;
    const Tensor sums = zeros_tensor(out.sizes(), scalar_type_of<Acc>);
    const T* from = grads.data_as<T>();
    const T* boxes = regions.data_as<T>();
    Acc* to = sums.data_as<Acc>();
    parallel_for(0, channels, 32 * rois.size(0) * bins, [&](int64_t begin, int64_t end) {
      for (int64_t k = 0; k < rois.size(0); ++k) {
        const Region<Acc> region(align, at, boxes + 5 * k);
        Acc* image = to + region.image * at.channels * at.plane();
        for (int64_t i = begin * bins; i < end * bins; ++i) {
          Acc* plane = image + channel_of(align, at, i / bins, i % bins) * at.plane();
          const Acc each = static_cast<Acc>(from[k * channels * bins + i]) / region.count;
          each_pixel(region, i % bins, at,
                     [&](int64_t pixel, Acc weight) { plane[pixel] += weight * each; });
        }
      }
    });
    copy_into(out, sums);
  });
}

Align plain(int64_t ratio, bool aligned) {
  return {"roi_align", ratio, aligned ? 0.5 : 0.0, !aligned, false};
}

Align by_position(int64_t ratio) { return {"ps_roi_align", ratio, 0.5, false, true}; }

Pooling pooling_of(const Tensor& input, double scale, int64_t pooled_height, int64_t pooled_width) {
  return {input.size(0), input.size(1), input.size(2), input.size(3),
          pooled_height, pooled_width,  scale};
}

}  // namespace

namespace ops {

void roi_align_cpu(const Tensor& input, const Tensor& rois, double spatial_scale,
                   int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
                   bool aligned, Tensor& out) {
  align_forward(plain(sampling_ratio, aligned),
                pooling_of(input, spatial_scale, pooled_height, pooled_width), input, rois, out);
}

void roi_align_backward_cpu(const Tensor& grad_output, const Tensor& rois, double spatial_scale,
                            int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                            int64_t channels, int64_t height, int64_t width, int64_t sampling_ratio,
                            bool aligned, Tensor& out) {
  align_backward(plain(sampling_ratio, aligned),
                 {batch_size, channels, height, width, pooled_height, pooled_width, spatial_scale},
                 grad_output, rois, out);
}

void ps_roi_align_cpu(const Tensor& input, const Tensor& rois, double spatial_scale,
                      int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
                      Tensor& output_out, Tensor& channel_mapping_out) {
  int32_t* mapping = channel_mapping_out.data_as<int32_t>();
  const int64_t each = std::max<int64_t>(1, input.size(1));
  for (int64_t i = 0; i < channel_mapping_out.numel(); ++i)
    mapping[i] = static_cast<int32_t>(i % each);
  align_forward(by_position(sampling_ratio),
                pooling_of(input, spatial_scale, pooled_height, pooled_width), input, rois,
                output_out);
}

void ps_roi_align_backward_cpu(const Tensor& grad_output, const Tensor& rois,
                               const Tensor& /*channel_mapping*/, double spatial_scale,
                               int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio,
                               int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                               Tensor& out) {
  align_backward(by_position(sampling_ratio),
                 {batch_size, channels, height, width, pooled_height, pooled_width, spatial_scale},
                 grad_output, rois, out);
}

}  // namespace ops
}  // namespace flambeau
