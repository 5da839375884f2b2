// Boxes and segments: non-maximum suppression, and weighted sums and maxima of the rows of each
// segment with their gradients. Functions of pybind11 and operators of TORCH_LIBRARY in one file.
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <c10/util/irange.h>
#include <torch/extension.h>

#include <vector>

using torch::indexing::None;
using torch::indexing::Slice;

namespace {

// --- non-maximum suppression
// -------------------------------------------------------------------------

template <typename scalar_t>
scalar_t overlap(const at::TensorAccessor<scalar_t, 1>& a,
                 const at::TensorAccessor<scalar_t, 1>& b) {
  const scalar_t width = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const scalar_t height = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (width <= 0 || height <= 0) return 0;
  const scalar_t common = width * height;
  const scalar_t both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
  return common / (both - common);
}

// The indices of the boxes (x1, y1, x2, y2) that no box of a higher score overlaps by more than
// `threshold` (intersection over union), by falling score. Boxes of different classes do not
// compete.
at::Tensor suppress(const at::Tensor& boxes, const at::Tensor& scores, double threshold,
                    const c10::optional<at::Tensor>& classes) {
  TORCH_CHECK(boxes.device().is_cpu() && scores.device().is_cpu(),
              "suppress: expected tensors on the CPU, got ", boxes.device(), " and ",
              scores.device());
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4,
              "suppress: expected boxes of shape (n, 4), got ", boxes.sizes());
  TORCH_CHECK(scores.dim() == 1 && scores.size(0) == boxes.size(0),
              "suppress: expected a score per box, got ", scores.sizes());
  TORCH_CHECK_TYPE(boxes.scalar_type() == scores.scalar_type(),
                   "suppress: expected one dtype, got ", boxes.scalar_type(), " and ",
                   scores.scalar_type());
  const int64_t count = boxes.size(0);
  const at::Tensor order =
      std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  const at::Tensor sorted = boxes.index_select(0, order).contiguous();
  const at::Tensor kinds = classes.has_value() ? classes->to(at::kLong).index_select(0, order)
                                               : at::zeros({count}, order.options());
  at::Tensor keep = torch::ones({count}, torch::dtype(torch::kBool));
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "suppress", [&] {
    const auto box = sorted.accessor<scalar_t, 2>();
    const auto kind = kinds.accessor<int64_t, 1>();
    auto kept = keep.accessor<bool, 1>();
    for (const auto i : c10::irange(count)) {
      if (!kept[i]) continue;
      at::parallel_for(i + 1, count, 4096, [&](int64_t begin, int64_t end) {
        for (const auto j : c10::irange(begin, end)) {
          if (kind[i] == kind[j] && overlap<scalar_t>(box[i], box[j]) > threshold) kept[j] = false;
        }
      });
    }
  });
  return order.index({keep});
}

// --- sums of segments
// --------------------------------------------------------------------------------

// Rows of `index` are those of the result; -1 leaves a row of `values` out.
void check_segments(const at::Tensor& values, const at::Tensor& index, int64_t count) {
  TORCH_CHECK(values.dim() == 2, "segments: expected values of 2 dimensions, got ", values.dim());
  TORCH_CHECK(index.dim() == 1 && index.size(0) == values.size(0),
              "segments: expected an index per row, got ", index.sizes(), " for ", values.sizes());
  TORCH_CHECK_TYPE(index.scalar_type() == torch::kInt64, "segments: expected int64 indices, got ",
                   index.scalar_type());
  if (index.numel() == 0) return;
  const auto [low, high] = at::aminmax(index);
  TORCH_CHECK_INDEX(low.item<int64_t>() >= -1 && high.item<int64_t>() < count,
                    "segments: expected indices from -1 to ", count - 1, ", got ",
                    low.item<int64_t>(), " to ", high.item<int64_t>());
}

at::Tensor segment_sum_forward(const at::Tensor& values, const at::Tensor& index, int64_t count,
                               const std::optional<at::Tensor>& weight) {
  at::Tensor sums = at::zeros({count, values.size(1)}, values.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::ScalarType::Half, at::ScalarType::BFloat16, values.scalar_type(), "segment_sum", [&] {
        using acc_t = at::opmath_type<scalar_t>;
        const auto in = values.packed_accessor64<scalar_t, 2>();
        const auto at = index.accessor<int64_t, 1>();
        auto out = sums.packed_accessor64<scalar_t, 2>();
        const at::Tensor factors =
            weight.has_value() ? weight->to(values.scalar_type()).contiguous() : at::Tensor();
        const scalar_t* factor = factors.defined() ? factors.data_ptr<scalar_t>() : nullptr;
        // A thread owns columns, so no two add to one element.
        at::parallel_for(0, values.size(1), 16, [&](int64_t begin, int64_t end) {
          std::vector<acc_t> sum(static_cast<size_t>(count));
          for (int64_t column = begin; column < end; ++column) {
            std::fill(sum.begin(), sum.end(), acc_t(0));
            for (int64_t row = 0; row < values.size(0); ++row) {
              if (at[row] < 0) continue;
              const acc_t scale = factor ? static_cast<acc_t>(factor[row]) : acc_t(1);
              sum[static_cast<size_t>(at[row])] += scale * static_cast<acc_t>(in[row][column]);
            }
            for (int64_t row = 0; row < count; ++row)
              out[row][column] = static_cast<scalar_t>(sum[static_cast<size_t>(row)]);
          }
        });
      });
  return sums;
}

class SegmentSum : public torch::autograd::Function<SegmentSum> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& values,
                            const at::Tensor& index, int64_t count,
                            const std::optional<at::Tensor>& weight) {
    at::AutoDispatchBelowADInplaceOrView guard;
    check_segments(values, index, count);
    if (weight.has_value()) {
      TORCH_CHECK(weight->sizes() == index.sizes(), "segment_sum: expected a weight per row, got ",
                  weight->sizes());
    }
    ctx->save_for_backward({values, index, weight.value_or(at::Tensor())});
    ctx->saved_data["has_weight"] = weight.has_value();
    return segment_sum_forward(values, index, count, weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto& values = saved[0];
    const auto& index = saved[1];
    const auto& weight = saved[2];
    const bool has_weight = ctx->saved_data["has_weight"].toBool();
    // A row that belongs to no segment has no gradient.
    const auto is_used = (index >= 0).unsqueeze(1).to(values.scalar_type());
    const auto rows = grads[0].index({index.clamp_min(0)}) * is_used;
    torch::Tensor of_values, of_weight;
    if (ctx->needs_input_grad(0)) of_values = has_weight ? rows * weight.unsqueeze(-1) : rows;
    if (has_weight && ctx->needs_input_grad(3)) of_weight = (rows * values).sum(1);
    return {of_values, torch::Tensor(), torch::Tensor(), of_weight};
  }
};

at::Tensor segment_sum(const at::Tensor& values, const at::Tensor& index, int64_t count,
                       const std::optional<at::Tensor>& weight) {
  return SegmentSum::apply(values, index, count, weight);
}

// --- maxima of segments
// ------------------------------------------------------------------------------

// The largest value per segment and column, and the row that it is from; rows of segments without a
// value are 0 and -1.
class SegmentMax : public torch::autograd::Function<SegmentMax> {
 public:
  static torch::autograd::tensor_list forward(torch::autograd::AutogradContext* ctx,
                                              at::Tensor values, at::Tensor index, int64_t count) {
    check_segments(values, index, count);
    auto largest = torch::zeros({count, values.size(1)}, values.options());
    auto from = torch::full({count, values.size(1)}, -1, index.options());
    AT_DISPATCH_ALL_TYPES(values.scalar_type(), "segment_max", [&] {
      auto in = values.accessor<scalar_t, 2>();
      auto at = index.accessor<int64_t, 1>();
      auto top = largest.accessor<scalar_t, 2>();
      auto row_of = from.accessor<int64_t, 2>();
      for (int64_t row = 0; row < in.size(0); ++row) {
        if (at[row] < 0) continue;
        auto best = top[at[row]];
        auto best_row = row_of[at[row]];
        for (int64_t column = 0; column < in.size(1); ++column) {
          if (best_row[column] >= 0 && !(in[row][column] > best[column])) continue;
          best[column] = in[row][column];
          best_row[column] = row;
        }
      }
    });
    ctx->save_for_backward({from});
    ctx->saved_data["sizes"] = values.sizes().vec();
    ctx->mark_non_differentiable({from});
    return {largest, from};
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list grads) {
    const auto from = ctx->get_saved_variables()[0];
    const auto sizes = ctx->saved_data["sizes"].toIntVector();
    const auto used = grads[0].masked_fill(from == -1, 0);
    auto grad = torch::zeros(sizes, grads[0].options());
    grad = grad.scatter_add(0, from.clamp_min(0), used);
    return {grad, torch::Tensor(), torch::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> segment_max(const at::Tensor& values, const at::Tensor& index,
                                               c10::optional<int64_t> count) {
  const int64_t segments = count.has_value()    ? count.value()
                           : index.numel() == 0 ? 0
                                                : index.max().item<int64_t>() + 1;
  const auto found = SegmentMax::apply(values, index, segments);
  return std::make_tuple(found[0], found[1]);
}

// --- indexing
// ----------------------------------------------------------------------------------------

// Differences of neighbouring rows, with the last row unchanged; in place where asked for.
at::Tensor differences(at::Tensor values, bool inplace) {
  auto result = inplace ? values : values.clone();
  result.index_put_({Slice(None, -1)},
                    values.index({Slice(1, None)}) - values.index({Slice(0, -1)}));
  return result;
}

}  // namespace

TORCH_LIBRARY(example_segments, m) {
  m.def("suppress(Tensor boxes, Tensor scores, float threshold, Tensor? classes=None) -> Tensor");
  m.def("segment_sum(Tensor values, Tensor index, int count, Tensor? weight=None) -> Tensor",
        &segment_sum);
}
TORCH_LIBRARY_IMPL(example_segments, CPU, m) {
  m.impl(TORCH_SELECTIVE_NAME("example_segments::suppress"), TORCH_FN(suppress));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("suppress", &suppress, "Non-maximum suppression", py::arg("boxes"), py::arg("scores"),
        py::arg("threshold") = 0.5, py::arg("classes") = py::none());
  m.def("segment_sum", &segment_sum, py::arg("values"), py::arg("index"), py::arg("count"),
        py::arg("weight") = py::none());
  m.def("segment_max", &segment_max, py::arg("values"), py::arg("index"),
        py::arg("count") = py::none(), py::call_guard<py::gil_scoped_release>());
  m.def("differences", &differences, py::arg("values"), py::arg("inplace") = false);
}
