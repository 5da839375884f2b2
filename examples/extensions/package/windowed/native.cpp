// window_sum(x, n)[i] = x[i] + ... + x[i + n - 1], along the last dimension.
#include <torch/extension.h>

#include <optional>

torch::Tensor window_sum(const torch::Tensor& x, int64_t n,
                         std::optional<torch::ScalarType> dtype) {
  TORCH_CHECK_INDEX(x.dim() > 0, "window_sum: expected a dimension at least");
  TORCH_CHECK_VALUE(n > 0 && n <= x.size(-1), "window_sum: expected a window of 1 to ", x.size(-1),
                    ", got ", n);
  const auto wide = dtype ? x.to(*dtype) : x;
  return wide.unfold(-1, n, 1).sum(-1);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("window_sum", &window_sum, py::arg("x"), py::arg("n"), py::arg("dtype") = py::none());
}
