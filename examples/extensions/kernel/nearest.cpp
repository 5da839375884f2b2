// For each point the index of the nearest centre and the squared distance to it, by accessors.
#include <torch/extension.h>

#include <limits>
#include <tuple>

std::tuple<at::Tensor, at::Tensor> nearest(const at::Tensor& points, const at::Tensor& centres) {
  TORCH_CHECK(points.dim() == 2 && centres.dim() == 2 && points.size(1) == centres.size(1),
              "nearest: expected matrices with equal numbers of columns, got ", points.sizes(),
              " and ", centres.sizes());
  TORCH_CHECK_VALUE(centres.size(0) > 0, "nearest: expected a centre at least");
  TORCH_CHECK_TYPE(points.scalar_type() == centres.scalar_type(),
                   "nearest: expected one dtype, got ", points.scalar_type(), " and ",
                   centres.scalar_type());
  at::Tensor index = at::empty({points.size(0)}, points.options().dtype(at::kLong));
  at::Tensor distance = at::empty({points.size(0)}, points.options());
  AT_DISPATCH_FLOATING_TYPES(points.scalar_type(), "nearest", [&] {
    const auto p = points.accessor<scalar_t, 2>(), c = centres.accessor<scalar_t, 2>();
    auto best_index = index.accessor<int64_t, 1>();
    auto best = distance.accessor<scalar_t, 1>();
    at::parallel_for(0, points.size(0), 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        best[i] = std::numeric_limits<scalar_t>::infinity();
        best_index[i] = 0;
        for (int64_t k = 0; k < c.size(0); ++k) {
          scalar_t sum = 0;
          for (int64_t d = 0; d < c.size(1); ++d) sum += (p[i][d] - c[k][d]) * (p[i][d] - c[k][d]);
          if (sum < best[i]) {
            best[i] = sum;
            best_index[i] = k;
          }
        }
      }
    });
  });
  return {index, distance};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("nearest", &nearest, py::arg("points"), py::arg("centres"),
        py::call_guard<py::gil_scoped_release>());
}
