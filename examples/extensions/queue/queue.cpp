// A class of C++ that Python holds, operators that take its objects, and an operator with a kernel
// per dispatch key. There is no Python here.
//
// A Window keeps the last `capacity` tensors that it was given, and adds them with weights that
// fall by `decay` per step: sum_k decay^k x[n - k].
#include <torch/custom_class.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <deque>
#include <sstream>

namespace {

struct Window : torch::CustomClassHolder {
  Window(int64_t capacity, double decay) : capacity(capacity), decay(decay) {
    TORCH_CHECK_VALUE(capacity > 0, "Window: expected a capacity of 1 or more, got ", capacity);
  }

  void push(const at::Tensor& value) {
    TORCH_CHECK(items.empty() || items.front().sizes() == value.sizes(),
                "Window: expected tensors of one shape");
    items.push_front(value.detach().clone());
    while (static_cast<int64_t>(items.size()) > capacity) items.pop_back();
  }
  at::Tensor latest() const {
    TORCH_CHECK_INDEX(!items.empty(), "Window: expected a tensor in it, got none");
    return items.front();
  }
  int64_t size() const { return static_cast<int64_t>(items.size()); }
  std::vector<at::Tensor> tensors() const { return {items.begin(), items.end()}; }

  int64_t capacity;
  double decay;
  std::deque<at::Tensor> items;
};

// Moves all tensors of one window behind those of the other.
void drain(const c10::intrusive_ptr<Window>& to, const c10::intrusive_ptr<Window>& from) {
  TORCH_CHECK(to.get() != from.get(), "drain: expected two windows, got one twice");
  while (!from->items.empty()) {
    to->push(from->items.back());
    from->items.pop_back();
  }
}

// --- an operator over the object and a tensor
// -----------------------------------------------------

at::Tensor smoothed_cpu(const at::Tensor& self, const c10::intrusive_ptr<Window>& window) {
  at::Tensor sum = self.clone();
  double weight = 1;
  for (const at::Tensor& earlier : window->items) {
    weight *= window->decay;
    sum.add_(earlier, weight);
  }
  return sum;
}

at::Tensor smoothed_meta(const at::Tensor& self, const c10::intrusive_ptr<Window>& /*window*/) {
  return at::empty_like(self);
}

// The derivative to `self` is 1. The kernel passes the call on to the kernels below Autograd.
struct Smoothed : torch::autograd::Function<Smoothed> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& self,
                            c10::DispatchKeySet keys, const c10::intrusive_ptr<Window>& window) {
    static const auto op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("example_queue::smoothed", "")
            .typed<at::Tensor(const at::Tensor&, const c10::intrusive_ptr<Window>&)>();
    at::AutoDispatchBelowADInplaceOrView below;
    return op.redispatch(keys & c10::after_autograd_keyset, self, window);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};
at::Tensor smoothed_autograd(c10::DispatchKeySet keys, const at::Tensor& self,
                             const c10::intrusive_ptr<Window>& window) {
  return Smoothed::apply(self, keys, window);
}

// --- boxed kernels
// ---------------------------------------------------------------------------------

int64_t calls_seen = 0;

// A kernel for any operator: counts the call and passes it on to the kernel below Autocast.
void counted(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  ++calls_seen;
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autocast_dispatch_keyset);
  op.redispatchBoxed(keys - c10::autocast_dispatch_keyset, stack);
}

// gap(Tensor x, Tensor y, int order) as a function of the stack: |x - y|^order, summed.
void gap_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK(stack->size() == op.schema().arguments().size());
  const int64_t order = torch::jit::pop(*stack).toInt();
  const at::Tensor y = torch::jit::pop(*stack).toTensor();
  const at::Tensor x = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, (x - y).abs().pow(order).sum());
}

// Calls an operator of the library by its name, whatever its schema is.
at::Tensor by_name(const std::string& name, const at::Tensor& x, const at::Tensor& y) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  TORCH_CHECK_VALUE(op.has_value(), "by_name: expected an operator, got ", name);
  torch::jit::Stack stack;
  torch::jit::push(stack, x, y, int64_t{2});
  op->callBoxed(&stack);
  return stack.at(0).toTensor();
}

std::string described(const std::string& name) {
  std::ostringstream text;
  text << c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").schema();
  return text.str();
}

}  // namespace

TORCH_LIBRARY(example_queue, m) {
  m.class_<Window>("Window")
      .def(torch::init<int64_t, double>(), "", {torch::arg("capacity"), torch::arg("decay") = 0.5})
      .def("push", &Window::push)
      .def("latest", &Window::latest)
      .def("__len__", &Window::size)
      .def("tensors", &Window::tensors)
      .def("drain", [](const c10::intrusive_ptr<Window>& self,
                       const c10::intrusive_ptr<Window>& from) { drain(self, from); })
      .def_readwrite("decay", &Window::decay)
      .def_readonly("capacity", &Window::capacity)
      .def_property(
          "is_full",
          [](const c10::intrusive_ptr<Window>& self) { return self->size() == self->capacity; })
      .def_static("of",
                  [](std::vector<at::Tensor> tensors) {
                    auto made =
                        c10::make_intrusive<Window>(static_cast<int64_t>(tensors.size()), 1.0);
                    for (const at::Tensor& t : tensors) made->push(t);
                    return made;
                  })
      .def_pickle(
          [](const c10::intrusive_ptr<Window>& self) {
            return std::make_tuple(self->capacity, self->decay, self->tensors());
          },
          [](std::tuple<int64_t, double, std::vector<at::Tensor>> state) {
            auto made = c10::make_intrusive<Window>(std::get<0>(state), std::get<1>(state));
            const auto& tensors = std::get<2>(state);
            made->items.assign(tensors.begin(), tensors.end());
            return made;
          });
  m.def("smoothed(Tensor self, __torch__.torch.classes.example_queue.Window window) -> Tensor");
  m.def("gap(Tensor x, Tensor y, int order=2) -> Tensor",
        torch::CppFunction::makeFromBoxedFunction<&gap_boxed>());
  m.def("by_name", &by_name);
  m.def("described", &described);
  m.def("calls_seen", [] { return calls_seen; });
}
TORCH_LIBRARY_IMPL(example_queue, CPU, m) { m.impl("smoothed", &smoothed_cpu); }
TORCH_LIBRARY_IMPL(example_queue, Meta, m) { m.impl("smoothed", &smoothed_meta); }
TORCH_LIBRARY_IMPL(example_queue, Autograd, m) {
  m.impl("smoothed", &smoothed_autograd);
  m.impl("gap", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(example_queue, Autocast, m) {
  m.impl("smoothed", torch::CppFunction::makeFromBoxedFunction<&counted>());
}
