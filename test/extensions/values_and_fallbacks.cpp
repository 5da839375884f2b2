// Tuples and dictionaries as values of operators, and kernels for operators without a derivative.
// test_values_and_fallbacks.py compiles it for flambeau and for PyTorch, and compares the answers.
#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <cmath>
#include <sstream>

namespace {

using at::Tensor;
using c10::IValue;
using Counts = c10::Dict<std::string, int64_t>;
using Named = c10::Dict<std::string, Tensor>;
using Texts = std::vector<std::string>;

std::string shown(const auto& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
template <typename F>
std::string failure(F f) {
  try {
    f();
  } catch (const std::exception&) {
    return "an exception";
  }
  return "none";
}
Counts counts_of(const std::vector<std::pair<std::string, int64_t>>& items) {
  Counts counts;
  for (const auto& [key, value] : items) counts.insert(key, value);
  return counts;
}

// --- values --------------------------------------------------------------------------------------

Texts dictionaries() {
  Counts d;
  const auto first = d.insert("b", 2), second = d.insert("b", 3);
  Texts out = {shown(first.second), shown(second.second), shown(second.first->value())};
  d.insert_or_assign("a", 7);
  d.insert_or_assign("b", 5);
  for (const auto& entry : d) out.push_back(entry.key() + shown(entry.value()));
  out.push_back(shown(d.contains("a")) + shown(d.size()) + shown(d.erase("none")) +
                shown(d.erase("a")) + shown(d.size()) + shown(d.find("none") == d.end()));
  out.push_back(failure([&] { d.at("none"); }));
  const Counts same = d, copy = d.copy();
  same.insert("q", 1);
  out.push_back(shown(d.size()) + shown(copy.size()) + shown(d.is(same)) + shown(d.is(copy)) +
                shown(d == same) + shown(d == copy));
  out.push_back(shown(counts_of({{"a", 1}, {"b", 2}}) == counts_of({{"b", 2}, {"a", 1}})));
  const auto place = d.find("b");
  place->setValue(9);
  out.push_back(shown(d.at("b")));
  d.erase(place);
  out.push_back(d.begin()->key());
  d.clear();
  out.push_back(shown(d.empty()));
  const Tensor x = at::ones({2});
  c10::Dict<Tensor, int64_t> by_identity;
  by_identity.insert(x, 1);
  out.push_back(shown(by_identity.contains(x)) + shown(by_identity.contains(at::ones({2}))));
  return out;
}

Texts generic_dictionaries() {
  const Counts d = counts_of({{"b", 5}});
  const IValue value(d);
  c10::impl::GenericDict generic = value.toGenericDict();
  generic.insert("w", 4);
  Texts out = {shown(d.size()), value.tagKind(), shown(value.isGenericDict()),
               generic.keyType()->str(), generic.valueType()->str()};
  out.push_back(failure([&] { c10::impl::toTypedDict<std::string, double>(generic); }));
  out.push_back(shown(c10::impl::toTypedDict<std::string, int64_t>(generic).at("w")));
  out.push_back(shown(IValue(c10::impl::toGenericDict(d)).is(value)));
  out.push_back(shown(value.to<Counts>().size()));
  c10::impl::GenericDict made(c10::StringType::get(), c10::TensorType::get());
  made.insert("x", at::ones({2}));
  out.push_back(shown(made.size()) + shown(made.contains("x")) + made.valueType()->str());
  out.push_back(shown(*value.type()));
  return out;
}

Texts tuples() {
  const IValue value(std::make_tuple(int64_t(1), 2.5, std::string("x"), true));
  Texts out = {value.tagKind(),
               shown(value.isTuple()),
               shown(value.isObject()),
               shown(value.toTuple()->elements().size()),
               shown(value.toTupleRef().elements()[1]),
               shown(*value.type())};
  const auto [a, b, c, d] = value.to<std::tuple<int64_t, double, std::string, bool>>();
  out.push_back(shown(a) + shown(b) + c + shown(d));
  out.push_back(failure([&] { value.to<std::tuple<int64_t, double>>(); }));
  out.push_back(failure([&] { value.toGenericDict(); }));
  out.push_back(failure([&] { IValue(3).toTuple(); }));
  out.push_back(failure([&] { IValue(counts_of({})).toTuple(); }));
  return out;
}

Texts equality() {
  const auto pair = [](Tensor t) { return IValue(std::make_tuple(t, int64_t(1))); };
  const Tensor x = at::ones({2});
  const Counts d = counts_of({{"a", 1}});
  const auto answer = [](bool same) { return shown(same); };
  return {answer(IValue(std::make_tuple(1.0, true)) == IValue(std::make_tuple(1.0, true))),
          answer(IValue(std::make_tuple(1.0, true)) == IValue(std::make_tuple(1.0))),
          answer(IValue(std::make_tuple(1.0)) != IValue(d)),
          answer(IValue(d) == IValue(d.copy())),
          answer(IValue(d).is(IValue(d.copy()))),
          answer(IValue(d).is(IValue(Counts(d)))),
          answer(IValue(1) == IValue(1.0)),
          answer(IValue(1) == IValue(true)),
          answer(IValue() == IValue()),
          answer(IValue("a") == IValue("a")),
          answer(IValue("a") == IValue("b")),
          answer(IValue(std::vector<int64_t>{1}) == IValue(std::vector<int64_t>{1})),
          answer(IValue(at::ones({})) == IValue(at::ones({}))),
          answer(IValue(x).is(IValue(x))),
          answer(IValue(x).is(IValue(at::ones({2})))),
          answer(pair(x) == pair(x)),
          answer(pair(at::ones({})) == pair(at::zeros({}))),
          failure([&] { shown(IValue(x) == IValue(at::ones({2}))); }),
          failure([&] { shown(pair(x) == pair(at::ones({2}))); })};
}

Texts texts() {
  c10::Dict<int64_t, std::vector<int64_t>> lists;
  lists.insert(4, std::vector<int64_t>{1, 2});
  lists.insert(3, std::vector<int64_t>{});
  c10::Dict<bool, Counts> nested;
  nested.insert(true, counts_of({{"a", 1}, {"b", 2}}));
  c10::Dict<double, bool> flags;
  flags.insert(1.0, true);
  Texts out = {shown(IValue(lists)),
               shown(IValue(nested)),
               shown(IValue(flags)),
               shown(IValue(c10::ivalue::Tuple::create({IValue(1)}))),
               shown(IValue(c10::ivalue::Tuple::create(std::vector<IValue>{}))),
               shown(IValue(std::make_tuple(std::string("q\"'"), std::vector<double>{1, 2.5},
                                            Texts{"a", "b"}, std::vector<bool>{true, false}))),
               shown(IValue()),
               shown(IValue(true)),
               shown(IValue(c10::Device("cpu"))),
               shown(IValue(c10::complex<double>(1, -2)))};
  for (const double number : {1.0, 1e20, 0.1, -0.0, 1e-7, 123456789.0, 1.5e15, 1e16,
                              -std::numeric_limits<double>::infinity()})
    out.push_back(shown(IValue(number)));
  return out;
}

// --- operators -----------------------------------------------------------------------------------

Tensor total(const Named& items) {
  Tensor sum = at::zeros({});
  for (const auto& entry : items) sum = sum + entry.value().sum();
  return sum;
}
Named scaled(Named items, double by) {
  Named out;
  for (const auto& entry : items) out.insert(entry.key(), entry.value() * by);
  return out;
}
int64_t grown(Counts counts) {
  counts.insert("new", 1);
  return static_cast<int64_t>(counts.size());
}
int64_t size_or(const std::optional<Named>& items) {
  return items ? static_cast<int64_t>(items->size()) : -1;
}
c10::Dict<int64_t, std::vector<double>> echoed(c10::Dict<int64_t, std::vector<double>> items) {
  return items;
}
void times(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const IValue pair = torch::jit::pop(*stack);
  const auto& items = pair.toTupleRef().elements();
  torch::jit::push(*stack, items[0].toTensor() * items[1].toInt());
}
void swapped(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const auto items = torch::jit::pop(*stack).toTuple();
  torch::jit::push(*stack, c10::ivalue::Tuple::create(
                               std::vector<IValue>{items->elements()[1], items->elements()[0]}));
}
void second_of(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const auto items = torch::jit::pop(*stack).toGenericDict();
  torch::jit::push(*stack, items.at("k").toTupleRef().elements()[1].toInt());
}
int64_t called_from_here(const Tensor& x) {
  Named items;
  items.insert("x", x);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("composed::scaled", "");
  return static_cast<int64_t>(op.typed<Named(Named, double)>().call(items, 3).at("x").numel());
}

// --- operators without a derivative --------------------------------------------------------------

Tensor doubled(const Tensor& x) { return x.detach() * 2; }
Tensor& doubled_(Tensor& x) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return x.mul_(2);
}
Tensor& filled_(Tensor& x) {
  x.data_ptr<float>()[0] = 7;
  return x;
}
Tensor flat(const Tensor& x) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return x.view({-1});
}
std::tuple<Tensor, Tensor> both(const Tensor& x, const Tensor& y) { return {x.clone(), y.clone()}; }
Tensor rounded(const Tensor& x) { return x.to(at::kLong); }
std::vector<Tensor> cloned(const std::vector<Tensor>& list) {
  std::vector<Tensor> out;
  for (const Tensor& t : list) out.push_back(t.clone());
  return out;
}

}  // namespace

TORCH_LIBRARY(composed, m) {
  m.def("dictionaries", &dictionaries);
  m.def("generic_dictionaries", &generic_dictionaries);
  m.def("tuples", &tuples);
  m.def("equality", &equality);
  m.def("texts", &texts);
  m.def("total(Dict(str, Tensor) items) -> Tensor", &total);
  m.def("scaled(Dict(str, Tensor) items, float by) -> Dict(str, Tensor)", &scaled);
  m.def("grown(Dict(str, int) counts) -> int", &grown);
  m.def("size_or(Dict(str, Tensor)? items=None) -> int", &size_or);
  m.def("echoed(Dict(int, float[]) items) -> Dict(int, float[])", &echoed);
  m.def("times((Tensor, int) pair) -> Tensor", torch::CppFunction::makeFromBoxedFunction<&times>());
  m.def("swapped((Tensor, int) pair) -> ((int, Tensor))",
        torch::CppFunction::makeFromBoxedFunction<&swapped>());
  m.def("second_of(Dict(str, (Tensor, int)) items) -> int",
        torch::CppFunction::makeFromBoxedFunction<&second_of>());
  m.def("called_from_here(Tensor x) -> int", &called_from_here);
  m.def("inferred",
        [](c10::Dict<std::string, Tensor>, c10::optional<Counts>) { return int64_t(1); });
}

TORCH_LIBRARY(underived, m) {
  m.def("doubled(Tensor x) -> Tensor");
  m.def("doubled_(Tensor(a!) x) -> Tensor(a!)");
  m.def("filled_(Tensor(a!) x) -> Tensor(a!)");
  m.def("flat(Tensor(a) x) -> Tensor(a)");
  m.def("both(Tensor x, Tensor y) -> (Tensor, Tensor)");
  m.def("rounded(Tensor x) -> Tensor");
  m.def("cloned(Tensor[] list) -> Tensor[]");
  m.def("basic(Tensor x) -> Tensor");
  m.def("basic_(Tensor(a!) x) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(underived, CPU, m) {
  m.impl("doubled", &doubled);
  m.impl("doubled_", &doubled_);
  m.impl("filled_", &filled_);
  m.impl("flat", &flat);
  m.impl("both", &both);
  m.impl("rounded", &rounded);
  m.impl("cloned", &cloned);
  m.impl("basic", &doubled);
  m.impl("basic_", &doubled_);
}
TORCH_LIBRARY_IMPL(underived, Autograd, m) {
  for (const char* op : {"doubled", "doubled_", "filled_", "flat", "both", "rounded", "cloned"})
    m.impl(op, torch::autograd::autogradNotImplementedFallback());
  m.impl("basic", torch::autograd::basicAutogradNotImplementedFallback());
  m.impl("basic_", torch::autograd::basicAutogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(underived, ADInplaceOrView, m) {
  for (const char* op : {"doubled_", "filled_", "flat"})
    m.impl(op, torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}
