// What C++ code asks of keys, threads, stacks, schemas and settings: test_questions.py calls each
// function.
#include <ATen/Context.h>
#include <ATen/RedispatchFunctions.h>
#include <ATen/core/List.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/irange.h>
#include <torch/extension.h>

#include <set>
#include <sstream>

namespace {

std::string shown(const auto& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// --- dispatch keys
// -----------------------------------------------------------------------------------

std::vector<bool> keys_of(const at::Tensor& t) {
  const c10::DispatchKeySet keys = t.key_set();
  return {keys.has(c10::DispatchKey::CPU),
          keys.has(c10::DispatchKey::Meta),
          keys.has(c10::DispatchKey::AutogradCPU),
          keys.has(c10::DispatchKey::AutogradCUDA),
          keys.has(c10::DispatchKey::ADInplaceOrView),
          keys.has(c10::DispatchKey::Conjugate)};
}
std::vector<std::string> algebra() {
  using c10::DispatchKey;
  const c10::DispatchKeySet both({DispatchKey::CPU, DispatchKey::AutogradCPU});
  const c10::DispatchKeySet below = both & c10::after_autograd_keyset;
  return {shown(both.highestPriorityTypeId()),
          shown(below.highestPriorityTypeId()),
          shown((both - c10::DispatchKeySet(DispatchKey::CPU)).has(DispatchKey::CPU)),
          shown(both.add(DispatchKey::Meta).has_all(both)),
          shown(both.remove(DispatchKey::CPU).empty()),
          shown(c10::DispatchKeySet().highestPriorityTypeId()),
          shown(c10::DispatchKeySet(DispatchKey::AutogradFunctionality).has_any(both)),
          shown(c10::DispatchKeySet(DispatchKey::CPU).has_any(c10::autograd_dispatch_keyset))};
}
bool records(const at::Tensor& t, const std::string& how) {
  if (how == "exclude") {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset);
    return (t * 2).requires_grad();
  }
  if (how == "exclude and include") {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset);
    const bool was_excluded =
        c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradCPU);
    c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::Autograd, false);
    return was_excluded && (t * 2).requires_grad();
  }
  if (how == "below") {
    at::AutoDispatchBelowAutograd guard;
    return (t * 2).requires_grad();
  }
  if (how == "inference") {
    c10::InferenceMode guard;
    return !c10::InferenceMode::is_enabled() || (t * 2).requires_grad();
  }
  if (how == "inference off") {
    c10::InferenceMode outer;
    c10::InferenceMode guard(false);
    return c10::InferenceMode::is_enabled() || (t * 2).requires_grad();
  }
  if (how == "force") {
    const auto local = c10::impl::tls_local_dispatch_key_set();
    c10::impl::ForceDispatchKeyGuard guard(local.included_,
                                           local.excluded_ | c10::autograd_dispatch_keyset);
    return (t * 2).requires_grad();
  }
  return (t * 2).requires_grad();
}
at::Tensor added_below(const at::Tensor& a, const at::Tensor& b) {
  return at::redispatch::add(a.key_set() & c10::after_autograd_keyset, a, b, 2);
}
at::Tensor added_with_no_keys(const at::Tensor& a) {
  return at::redispatch::add(c10::DispatchKeySet(), a, a);
}

// --- operators by name
// -------------------------------------------------------------------------------

at::Tensor boxed_add(const at::Tensor& a, const at::Tensor& b) {
  torch::jit::Stack stack;
  torch::jit::push(stack, a, b, 3);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  op.callBoxed(stack);
  TORCH_CHECK(stack.size() == 1);
  return torch::jit::pop(stack).toTensor();
}
at::Tensor wrongly_typed(const at::Tensor& a) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("aten::add", "Tensor")
      .typed<at::Tensor(const at::Tensor&, int64_t)>()
      .call(a, 1);
}
std::vector<std::string> schema_of(const std::string& name, const std::string& overload) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!op) return {};
  std::vector<std::string> out = {shown(op->operator_name()), shown(op->schema().is_mutable())};
  for (const auto& argument : op->schema().arguments())
    out.push_back(argument.type()->str() + " " + argument.name() +
                  (argument.alias_info() && argument.alias_info()->isWrite() ? "!" : ""));
  for (const auto& result : op->schema().returns()) out.push_back("-> " + result.type()->str());
  out.push_back(shown(op->hasKernelForDispatchKey(c10::DispatchKey::CPU)));
  return out;
}

// --- values
// ------------------------------------------------------------------------------------------

std::string values() {
  torch::jit::Stack stack;
  torch::jit::push(stack, int64_t{4}, 2.5, true, std::string("text"), std::vector<int64_t>{1, 2},
                   std::vector<std::string>{"a", "b"}, c10::IValue());
  TORCH_CHECK(stack.back().isNone() && !stack[0].isNone());
  torch::jit::drop(stack, 1);
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  torch::jit::pop(stack, numbers, texts);
  TORCH_CHECK(torch::jit::peek(stack, 0, 2).toBool() && torch::jit::last(stack, 1)[0].isString());
  std::string text;
  torch::jit::pop(stack, text);
  TORCH_CHECK(stack[0].isInt() && !stack[0].isDouble() && stack[1].isDouble() && stack[2].isBool());
  TORCH_CHECK(stack[0].to<int64_t>() == 4 && stack[1].toOptional<double>().value() == 2.5);
  const c10::IValue list = c10::List<int64_t>({3, 4});
  TORCH_CHECK(list.isIntList() && list.isList() && list.toIntList().get(1) == 4);
  const c10::IValue tensors = std::vector<at::Tensor>{at::ones({2})};
  TORCH_CHECK(tensors.isTensorList() && tensors.toTensorList().size() == 1);
  return text + texts.at(1) + std::to_string(numbers.at(1)) + std::to_string(stack.size());
}
int64_t wrong_value() { return c10::IValue("text").toInt(); }
void empty_stack() {
  torch::jit::Stack stack;
  torch::jit::pop(stack);
}
std::vector<int64_t> shared_list(int64_t index) {
  c10::List<int64_t> a({1, 2});
  const c10::List<int64_t> b = a;
  c10::List<int64_t> c = a.copy();
  b.push_back(3);
  c.set(0, 9);
  std::vector<int64_t> out = a.vec();
  out.push_back(a.get(static_cast<size_t>(index)));
  return out;
}

// --- borrowed handles
// --------------------------------------------------------------------------------

std::vector<bool> borrowed(const at::Tensor& t) {
  const c10::MaybeOwned<at::Tensor> rows = t.expect_contiguous();
  const at::OptionalTensorRef some(t), none;
  const std::optional<at::Tensor> absent;
  const c10::MaybeOwned<at::Tensor> empty = at::borrow_from_optional_tensor(absent);
  return {rows.unsafeIsBorrowed(), rows->is_contiguous(),
          some.has_value() && some->dim() == t.dim(), none.has_value(), empty->defined()};
}
void no_tensor() { at::OptionalTensorRef().getTensorRef(); }

// --- threads and settings
// ----------------------------------------------------------------------------

std::vector<int64_t> threads(int64_t count) {
  at::init_num_threads();
  const int before = at::get_num_threads();
  at::set_num_threads(static_cast<int>(count));
  std::vector<int64_t> number(static_cast<size_t>(4 * count), -1);
  std::atomic<int> inside{0};
  at::parallel_for(0, 4 * count, 1, [&](int64_t begin, int64_t end) {
    inside += at::in_parallel_region();
    for (const auto i : c10::irange(begin, end))
      number[static_cast<size_t>(i)] = at::get_thread_num();
  });
  const int now = at::get_num_threads();
  at::set_num_threads(before);
  std::set<int64_t> distinct(number.begin(), number.end());
  return {now,
          *distinct.begin(),
          *distinct.rbegin(),
          static_cast<int64_t>(distinct.size()),
          inside.load() > 0,
          at::in_parallel_region(),
          at::get_thread_num()};
}
int64_t reduced(int64_t n) {
  return at::parallel_reduce(
      0, n, 10, int64_t{0},
      [](int64_t begin, int64_t end, int64_t sum) {
        for (int64_t i = begin; i < end; ++i) sum += i;
        return sum;
      },
      [](int64_t a, int64_t b) { return a + b; });
}
std::vector<bool> context() {
  return {at::globalContext().deterministicAlgorithms(),
          at::globalContext().deterministicAlgorithmsWarnOnly(), at::globalContext().hasOpenMP(),
          at::hasCUDA()};
}
at::Tensor drawn(const c10::optional<at::Generator>& generator) {
  at::Tensor out = at::empty({3}, at::kDouble);
  return out.normal_(0, 1, generator.value_or(at::detail::getDefaultCPUGenerator()));
}
void warned() {
  for (int i = 0; i < 3; ++i) TORCH_WARN_ONCE("once ", i);
  TORCH_WARN("each ", 1);
}
at::ScalarType widened(at::ScalarType type, bool wide) { return wide ? at::kDouble : type; }
std::string types(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float";
    case at::ScalarType::Double:
      return "double";
    default:
      return c10::str("type ", type, " of ", c10::elementSize(type), " bytes");
  }
}
size_t counted(const std::vector<int64_t>& list) {
  size_t total = 0;
  for (const auto i : c10::irange(list.size())) {
    static_assert(std::is_same_v<decltype(i), const size_t>);
    total += i;
  }
  return total;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("keys_of", &keys_of);
  m.def("algebra", &algebra);
  m.def("records", &records);
  m.def("added_below", &added_below);
  m.def("added_with_no_keys", &added_with_no_keys);
  m.def("boxed_add", &boxed_add);
  m.def("wrongly_typed", &wrongly_typed);
  m.def("schema_of", &schema_of);
  m.def("values", &values);
  m.def("wrong_value", &wrong_value);
  m.def("empty_stack", &empty_stack);
  m.def("shared_list", &shared_list);
  m.def("borrowed", &borrowed);
  m.def("no_tensor", &no_tensor);
  m.def("threads", &threads);
  m.def("reduced", &reduced);
  m.def("context", &context);
  m.def("set_deterministic", [](bool on, bool warn_only) {
    at::globalContext().setDeterministicAlgorithms(on, warn_only);
  });
  m.def("alert", [] { at::globalContext().alertNotDeterministic("probe"); });
  m.def("drawn", &drawn);
  m.def("seed", [](uint64_t seed) { at::manual_seed(seed); });
  m.def("warned", &warned);
  m.def("widened", &widened);
  m.def("types", &types);
  m.def("counted", &counted);
}
