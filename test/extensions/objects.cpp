// A class whose objects operators read and change: test_objects_in_graphs.py records their calls.
#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

namespace {

struct Counter : torch::CustomClassHolder {
  explicit Counter(int64_t count) : count(count) {}
  int64_t count;
};
using Held = c10::intrusive_ptr<Counter>;

at::Tensor counted(const at::Tensor& x, const Held& counter) { return x + counter->count++; }
at::Tensor counted_meta(const at::Tensor& x, const Held& /*counter*/) { return at::empty_like(x); }
void add_to(const Held& counter, const at::Tensor& x, int64_t by) {
  counter->count += by * x.numel();
}
void add_to_meta(const Held& /*counter*/, const at::Tensor& /*x*/, int64_t /*by*/) {}
Held twin_of(const at::Tensor& /*x*/, const Held& counter) {
  return c10::make_intrusive<Counter>(counter->count);
}

}  // namespace

TORCH_LIBRARY(counters, m) {
  m.class_<Counter>("Counter")
      .def(torch::init<int64_t>())
      .def_readonly("count", &Counter::count)
      .def("next", [](const Held& self) { return self->count++; });
  m.def("counted(Tensor x, __torch__.torch.classes.counters.Counter counter) -> Tensor");
  m.def("add_to(__torch__.torch.classes.counters.Counter counter, Tensor x, int by) -> ()");
  m.def(
      "twin_of(Tensor x, __torch__.torch.classes.counters.Counter counter) -> "
      "__torch__.torch.classes.counters.Counter");
}
TORCH_LIBRARY_IMPL(counters, CPU, m) {
  m.impl("counted", &counted);
  m.impl("add_to", &add_to);
  m.impl("twin_of", &twin_of);
}
TORCH_LIBRARY_IMPL(counters, Meta, m) {
  m.impl("counted", &counted_meta);
  m.impl("add_to", &add_to_meta);
  m.impl("twin_of", &twin_of);
}
