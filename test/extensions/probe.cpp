// What an extension can do wrong, and what it may ask for: test_probe.py calls each function.
#include <torch/extension.h>

#include <stdexcept>

namespace {

at::Tensor kept;

void raise(const std::string& kind) {
  if (kind == "runtime_error") throw std::runtime_error("from std");
  if (kind == "out_of_range") throw std::out_of_range("from std");
  if (kind == "bad_alloc") throw std::bad_alloc();
  if (kind == "py_value") throw py::value_error("from pybind11");
  if (kind == "py_key") throw py::key_error("from pybind11");
  if (kind == "not_std") throw 1;
  TORCH_CHECK(kind != "check", "check of ", kind, ", ", 2, " and ", 1.5);
  TORCH_CHECK_INDEX(kind != "index", "index");
  TORCH_CHECK_VALUE(kind != "value", "value");
  TORCH_CHECK_TYPE(kind != "type", "type");
  TORCH_CHECK_NOT_IMPLEMENTED(kind != "not_implemented", "not yet");
  TORCH_CHECK(kind != "bare");
  AT_ERROR("kind ", kind);
}

double read_double(const at::Tensor& t) { return *t.data_ptr<double>(); }
float read_accessor(const at::Tensor& t) { return t.accessor<float, 2>()[1][0]; }
int64_t read_packed(const at::Tensor& t) { return t.packed_accessor32<int64_t, 1>()[1]; }
int64_t size_of(const at::Tensor& t, int64_t d) { return t.size(d); }

std::string dispatched(const at::Tensor& t) {
  return AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(
      at::kHalf, at::kBool, t.scalar_type(), "dispatched",
      [&] { return std::string(at::toString(c10::CppTypeToScalarType<scalar_t>::value)); });
}

at::Tensor indexed(const at::Tensor& t) {
  using namespace torch::indexing;
  return t.index({Slice(1, None), Ellipsis, 0});
}
at::Tensor masked(at::Tensor t, const at::Tensor& mask) {
  t.index_put_({mask}, -1);
  return t;
}

std::tuple<at::Tensor, std::vector<at::Tensor>, at::ScalarType, c10::Device, at::Scalar,
           std::optional<at::Tensor>>
echo(const at::Tensor& t, const std::vector<at::Tensor>& list, at::ScalarType type,
     c10::Device device, const at::Scalar& number, const std::optional<at::Tensor>& maybe) {
  return {t, list, type, device, number, maybe};
}
int64_t summed(torch::IntArrayRef values) {
  int64_t total = 0;
  for (const int64_t v : values) total += v;
  return total;
}
at::Tensor joined(at::TensorList list) { return at::cat(list, 0); }

struct Scale : torch::autograd::Function<Scale> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, at::Tensor a,
                                                double factor, std::optional<at::Tensor> b) {
    ctx->save_for_backward({a});
    ctx->saved_data["factor"] = factor;
    ctx->saved_data["has_b"] = b.has_value();
    return {a * a * factor, b ? *b + 1 : a.detach()};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto a = ctx->get_saved_variables()[0];
    return {grads[0] * a * 2 * ctx->saved_data["factor"].toDouble(), at::Tensor(),
            ctx->saved_data["has_b"].toBool() ? grads[1] : at::Tensor()};
  }
};
std::vector<at::Tensor> scale(const at::Tensor& a, double factor,
                              const std::optional<at::Tensor>& b) {
  return Scale::apply(a, factor, b);
}

// As many gradients as `count` says.
struct Miscounts : torch::autograd::Function<Miscounts> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor a, int64_t count) {
    ctx->saved_data["count"] = count;
    return a.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const int64_t count = ctx->saved_data["count"].toInt();
    TORCH_CHECK_VALUE(count >= 0, "count is ", count);
    return torch::autograd::variable_list(static_cast<size_t>(count), grads[0]);
  }
};

at::Tensor made(int64_t n) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).requires_grad(true);
  return torch::full({n, 2}, 3, options);
}
bool records(const at::Tensor& t) {
  const torch::NoGradGuard guard;
  return (t * 2).requires_grad();
}
at::Tensor grad_of_square(const at::Tensor& t) {
  return torch::autograd::grad({(t * t).sum()}, {t})[0];
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("raise_", &raise);
  m.def("read_double", &read_double);
  m.def("read_accessor", &read_accessor);
  m.def("read_packed", &read_packed);
  m.def("size_of", &size_of);
  m.def("dispatched", &dispatched);
  m.def("indexed", &indexed);
  m.def("masked", &masked);
  m.def("echo", &echo);
  m.def("summed", &summed);
  m.def("joined", &joined);
  m.def("scale", &scale);
  m.def("miscounts", [](const at::Tensor& a, int64_t count) { return Miscounts::apply(a, count); });
  m.def("made", &made);
  m.def("records", &records);
  m.def("grad_of_square", &grad_of_square);
  m.def("keep", [](const at::Tensor& t) { kept = t; });
  m.def("give_back", [] { return std::exchange(kept, at::Tensor()); });
  m.def("undefined", [] { return at::Tensor(); });
  m.def("warn", [] { TORCH_WARN("careful with ", 3); });
  m.def("multiply",
        torch::wrap_pybind_function_no_gil(
            *+[](const at::Tensor& a, const at::Tensor& b) -> at::Tensor { return a.mm(b); }));
  m.def("arithmetic", [](const at::Tensor& a) {
    return (2 - a) / 4 + a % 3 - 1.5 * a * a + (a > 1).to(at::kFloat);
  });
}
