#include "aten/dispatch/defined_operator.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "aten/dispatch/aggregates.h"
#include "aten/dispatch/custom_class.h"
#include "aten/dispatch/operator_library.h"

namespace flambeau {
namespace {

struct Table {
  std::recursive_mutex mutex;
  std::map<std::string, DefinedOperator*, std::less<>> operators;  // never removed
  std::multimap<std::string, std::function<void(DefinedOperator&)>> waiting;
};
Table& table() {
  static auto* const made = new Table;
  return *made;
}

// --- schemas -------------------------------------------------------------------------------------

[[noreturn]] void refuse(std::string_view schema, const char* expected) {
  fail(ErrorKind::Runtime, "schema: expected ", expected, ", got '", schema, "'");
}

constexpr std::string_view kTypes[] = {"Tensor", "Scalar",       "int",      "float",
                                       "bool",   "str",          "Layout",   "ScalarType",
                                       "Device", "MemoryFormat", "Generator"};

std::string plain_type(std::string_view text, std::string_view schema);

constexpr std::string_view kKeyTypes[] = {"int",    "float", "complex", "Tensor",
                                          "Device", "str",   "bool"};

// "Dict(str, SymInt[2])" as "Dict(str, int[])", and tuples the same way.
std::string plain_aggregate(const AggregateType& type, std::string_view schema) {
  const bool is_dict = type.form == AggregateType::Form::Dict;
  std::string plain = is_dict ? "Dict(" : "(";
  for (size_t i = 0; i < type.members.size(); ++i)
    plain += (i ? ", " : "") + plain_type(type.members[i], schema);
  const bool is_fit =
      !is_dict || std::ranges::find(kKeyTypes, type.members[0]) != std::end(kKeyTypes);
  if (!is_fit) refuse(schema, "keys of type int, float, complex, Tensor, Device, str or bool");
  return plain + (type.is_optional ? ")?" : ")");
}

// "Tensor(a!)[]?" as "Tensor[]?", "SymInt[2]" as "int[]".
std::string plain_type(std::string_view text, std::string_view schema) {
  const AggregateType aggregate = aggregate_type(text);
  if (aggregate.form != AggregateType::Form::Other) return plain_aggregate(aggregate, schema);
  std::string plain;
  bool in_alias = false, in_size = false;
  for (const char c : text) {
    in_alias |= c == '(';
    if (!in_alias && !(in_size && c != ']')) plain.push_back(c);
    in_alias &= c != ')';
    in_size = (in_size && c != ']') || c == '[';
  }
  if (plain.starts_with("SymInt")) plain = "int" + plain.substr(6);
  const std::string base = plain.substr(0, plain.find_first_of("[?"));
  for (const std::string_view known : kTypes) {
    if (base == known) return plain;
  }
  if (base.starts_with(kCustomClassPrefix)) return plain;
  refuse(schema, "types that schemas have");
}

SchemaArgument argument_of(std::string_view text, std::string_view schema) {
  const std::string_view declared = trimmed(text.substr(0, text.find('=')));
  const size_t space = declared.rfind(' ');
  if (space == std::string_view::npos) refuse(schema, "a type and a name per argument");
  const std::string_view type = declared.substr(0, space);
  return {plain_type(type, schema), std::string(declared.substr(space + 1)),
          type.find('!') != std::string_view::npos};
}

// Where the arguments begin and end, and where the results begin.
struct SchemaPlaces {
  size_t open, close, results;
};

SchemaPlaces places_in(std::string_view schema) {
  const size_t open = schema.find('('), arrow = schema.rfind("->");
  if (open == std::string_view::npos || arrow == std::string_view::npos || open == 0)
    refuse(schema, "'name(arguments) -> results'");
  const size_t close = schema.rfind(')', arrow);
  if (close == std::string_view::npos || close < open) refuse(schema, "'name(...) -> ...'");
  return {open, close, arrow + 2};
}

// --- kernels -------------------------------------------------------------------------------------

template <size_t Key>
void run_at(const OperatorEntry& op, DispatchKeySet keys, Stack& stack) {
  static_cast<const DefinedOperator&>(op).run(static_cast<DispatchKey>(Key), keys, stack);
}
template <size_t... Key>
BoxedKernel runner(size_t key, std::index_sequence<Key...>) {
  static constexpr BoxedKernel kRunners[] = {run_at<Key>...};
  return kRunners[key];
}

// In the place of unboxed kernels, which only generated callers use: there are none.
void no_unboxed_call() { fail(ErrorKind::Runtime, "a defined operator has boxed kernels only"); }

constexpr DispatchKey kBackends[] = {DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::Meta,
                                     DispatchKey::PrivateUse1};

}  // namespace

std::vector<SchemaArgument> schema_arguments(std::string_view schema) {
  const SchemaPlaces at = places_in(schema);
  std::vector<SchemaArgument> found;
  for (const std::string_view part :
       schema_parts(schema.substr(at.open + 1, at.close - at.open - 1))) {
    if (part != "*") found.push_back(argument_of(part, schema));
  }
  return found;
}

std::vector<SchemaArgument> schema_results(std::string_view schema) {
  std::string_view text = trimmed(schema.substr(places_in(schema).results));
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  std::vector<SchemaArgument> found;
  for (const std::string_view part : schema_parts(text)) {
    const std::string_view type = part.substr(0, end_of_type(part));
    found.push_back(
        {plain_type(type, schema), std::string(type), type.find('!') != std::string_view::npos});
  }
  return found;
}

void DefinedOperator::set(KernelPlace place, DispatchKey key, StackKernel kernel) {
  const std::lock_guard lock(table().mutex);
  (place == KernelPlace::Composite ? composite_ : at_[index(key)]) = std::move(kernel);
  publish();
}

void DefinedOperator::publish() {
  for (size_t key = 0; key < kNumDispatchKeys; ++key) {
    bool is_there = static_cast<bool>(at_[key]);
    for (const DispatchKey backend : kBackends) is_there |= composite_ && index(backend) == key;
    if (is_there && !boxed_at(static_cast<int>(key))) {
      set_boxed_kernel(*this, static_cast<DispatchKey>(key),
                       runner(key, std::make_index_sequence<kNumDispatchKeys>()));
    }
  }
}

void DefinedOperator::run(DispatchKey key, DispatchKeySet keys, Stack& stack) const {
  const StackKernel& own = at_[index(key)];
  (own ? own : composite_)(keys, stack);
}

void DefinedOperator::make_traits() {
  for (const SchemaArgument& a : parsed_arguments) {
    const bool is_tensor = a.type.starts_with("Tensor");
    const ArgumentKind kind = !is_tensor                              ? ArgumentKind::Other
                              : a.type.find('[') == std::string::npos ? ArgumentKind::Tensor
                                                                      : ArgumentKind::TensorList;
    argument_traits_.push_back({a.name.c_str(), kind, a.is_mutable});
  }
  for (const SchemaArgument& r : parsed_results) {
    ResultTraits traits;
    for (size_t i = 0; i < parsed_arguments.size() && r.is_mutable; ++i) {
      if (!parsed_arguments[i].is_mutable || traits.alias >= 0) continue;
      traits = {static_cast<int8_t>(i), true};
    }
    result_traits_.push_back(traits);
  }
  own_traits_.arguments = argument_traits_;
  own_traits_.results = result_traits_;
  traits = &own_traits_;
}

DefinedOperator* define_operator(std::string_view space, std::string_view schema) {
  schema = trimmed(schema);
  const size_t open = places_in(schema).open;
  std::string_view name = trimmed(schema.substr(0, open));
  if (const size_t colons = name.find("::"); colons != std::string_view::npos) {
    check(name.substr(0, colons) == space, "schema: expected an operator of namespace ", space,
          ", got '", name, "'");
    name = name.substr(colons + 2);
  }
  auto op = std::make_unique<DefinedOperator>();
  op->full_name = text_of(space, "::", name);
  op->full_schema = text_of(space, "::", name, schema.substr(open));
  op->parsed_arguments = schema_arguments(schema);
  op->parsed_results = schema_results(schema);
  op->name = op->full_name.c_str();
  op->schema = op->full_schema.c_str();
  op->boxing_adapter = reinterpret_cast<void*>(&no_unboxed_call);
  op->make_traits();

  check(!find_library_operator(op->full_name), op->full_name,
        ": expected a name and overload that ",
        "are new, got those of an operator of a library that is loaded");
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto [at, is_new] = all.operators.try_emplace(op->full_name, op.get());
  check(is_new, op->full_name, ": expected a name and overload that are new, got those of an ",
        "operator that is defined (registered multiple times): ", op->full_schema);
  DefinedOperator* const made = op.release();
  const auto [first, last] = all.waiting.equal_range(made->full_name);
  for (auto next = first; next != last; ++next) next->second(*made);
  all.waiting.erase(first, last);
  return made;
}

DefinedOperator* find_defined_operator(std::string_view name) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto at = all.operators.find(name);
  return at == all.operators.end() ? nullptr : at->second;
}

std::vector<DefinedOperator*> defined_operators() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::vector<DefinedOperator*> found;
  for (const auto& [name, op] : all.operators) found.push_back(op);
  return found;
}

void when_defined(const std::string& name, std::function<void(DefinedOperator&)> ready) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  if (DefinedOperator* const op = find_defined_operator(name)) {
    ready(*op);
  } else {
    all.waiting.emplace(name, std::move(ready));
  }
}

}  // namespace flambeau
