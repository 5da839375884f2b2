// The states of optimizers in files, as Python's Optimizer.state_dict() has them:
// {"state": {0: {"step": ..., "exp_avg": ...}}, "param_groups": [{"lr": ..., "params": [0, 1]}]}.
#include "api/archive/document.h"
#include "api/optim.h"
#include "api/serialize.h"

namespace flambeau::api::optim {

namespace {

using archive::DictValue;
using archive::Document;
using archive::ListValue;
using archive::TensorValue;
using archive::ValueId;
using serialize::InputArchive;

void add_entry(Document& document, DictValue& dict, const std::string& key, ValueId value) {
  dict.entries.emplace_back(document.add(key), value);
}

class OptionWriter final : public OptionVisitor {
 public:
  OptionWriter(Document& document, DictValue& dict) : document_(document), dict_(dict) {}
  void visit(const char* name, double& value) override { add(name, document_.add(value)); }
  void visit(const char* name, bool& value) override { add(name, document_.add(value)); }
  void visit(const char* name, Betas& value) override {
    const ValueId first = document_.add(std::get<0>(value));
    const ValueId second = document_.add(std::get<1>(value));
    add(name, document_.add(ListValue{{first, second}, true}));
  }

 private:
  void add(const char* name, ValueId value) { add_entry(document_, dict_, name, value); }
  Document& document_;
  DictValue& dict_;
};

double number_of(const InputArchive& archive, ValueId id, const char* name) {
  const Document& document = archive.document();
  if (const auto* real = document.find<double>(id)) return *real;
  if (const auto* integer = document.find<int64_t>(id)) return static_cast<double>(*integer);
  check(document.find<TensorValue>(id) != nullptr, "Optimizer.load: expected a number as '", name,
        "', got ", document.kind(id));
  return archive.tensor(id, name).item<double>();  // RuntimeError for more elements than one
}

// Options that the file lacks keep their values.
class OptionReader final : public OptionVisitor {
 public:
  OptionReader(const InputArchive& archive, ValueId group) : archive_(archive), group_(group) {}
  void visit(const char* name, double& value) override {
    if (const ValueId* id = find(name)) value = number_of(archive_, *id, name);
  }
  void visit(const char* name, bool& value) override {
    const ValueId* const id = find(name);
    if (id == nullptr) return;
    const bool* const flag = archive_.document().find<bool>(*id);
    check(flag != nullptr, "Optimizer.load: expected a bool as '", name, "', got ",
          archive_.document().kind(*id));
    value = *flag;
  }
  void visit(const char* name, Betas& value) override {
    const ValueId* const id = find(name);
    if (id == nullptr) return;
    const auto* const list = archive_.document().find<ListValue>(*id);
    check(list != nullptr && list->items.size() == 2, "Optimizer.load: expected two numbers as '",
          name, "', got ", archive_.document().kind(*id));
    value = {number_of(archive_, list->items[0], name), number_of(archive_, list->items[1], name)};
  }

 private:
  const ValueId* find(const std::string& name) const {
    return archive_.document().entry(group_, name);
  }
  const InputArchive& archive_;
  ValueId group_;
};

// Python's option that C++ does not have.
void check_not_maximized(const Document& document, ValueId group) {
  const ValueId* const id = document.entry(group, std::string("maximize"));
  const bool* const flag = id != nullptr ? document.find<bool>(*id) : nullptr;
  check(flag == nullptr || !*flag, "Optimizer.load: expected maximize=False, got True");
}

const ListValue& list_at(const Document& document, ValueId dict, const std::string& key) {
  const ValueId* const id = document.entry(dict, key);
  const auto* const list = id != nullptr ? document.find<ListValue>(*id) : nullptr;
  check(list != nullptr, "Optimizer.load: expected a list as '", key, "', got ",
        id != nullptr ? document.kind(*id) : "a file without it");
  return *list;
}

// Values of floating point take the dtype of their parameter; the count of steps keeps its own.
ParameterState state_of(const InputArchive& archive, ValueId values, const Tensor& parameter) {
  const Document& document = archive.document();
  const auto* const dict = document.find<DictValue>(values);
  check(dict != nullptr, "Optimizer.load: expected a dict as the state of a parameter, got ",
        document.kind(values));
  ParameterState out;
  for (const auto& [key, value] : dict->entries) {
    const auto* const name = document.find<std::string>(key);
    check(name != nullptr, "Optimizer.load: expected text as the name of a state, got ",
          document.kind(key));
    if (*name == "step") {
      const double steps = number_of(archive, value, "step");
      check_value(steps >= 0 && steps < 9e15, "Optimizer.load: expected a count of steps, got ",
                  steps);
      out.step = static_cast<int64_t>(steps);
    } else if (document.find<std::monostate>(value) == nullptr) {  // an unused buffer of SGD
      const Tensor tensor = archive.tensor(value, *name).detach();
      check(tensor.sizes() == parameter.sizes(), "Optimizer.load: expected sizes ",
            parameter.sizes(), " for '", *name, "', got ", tensor.sizes());
      const bool changes = parameter.is_floating_point() || parameter.is_complex();
      const auto dtype = changes ? parameter.dtype() : tensor.dtype();
      out.tensors[*name] = tensor.to(parameter.device(), dtype).clone();
    }
  }
  return out;
}

DictValue saved(Document& document, const ParameterState& state, bool counts_steps) {
  DictValue values;
  if (counts_steps && (state.step > 0 || !state.tensors.empty())) {
    const Tensor step = scalar_tensor(state.step, kFloat);
    add_entry(document, values, "step", document.add(TensorValue{step, false}));
  }
  for (const auto& [name, tensor] : state.tensors) {
    add_entry(document, values, name, document.add(TensorValue{tensor.cpu(), false}));
  }
  return values;
}

}  // namespace

void fail_visit() {
  fail(ErrorKind::NotImplemented,
       "Optimizer: expected options with visit_options for save and load, got options without it");
}

void Optimizer::save(serialize::OutputArchive& archive) const {
  const NoGradGuard no_grad;
  Document& document = archive.document();
  DictValue states;
  ListValue groups;
  int64_t place = 0;
  for (const OptimizerParamGroup& group : groups_) {
    const std::unique_ptr<OptimizerOptions> options = group.options().clone();
    DictValue dict;
    OptionWriter writer(document, dict);
    options->visit(writer);
    ListValue places;
    for (const Tensor& parameter : group.params()) {
      const ValueId key = document.add(place++);
      places.items.push_back(key);
      const auto known = state_.find(parameter.impl());
      ParameterState state = known == state_.end() ? ParameterState{} : known->second;
      begin(parameter, state, *options);
      DictValue values = saved(document, state, counts_steps());
      if (!values.entries.empty()) {
        states.entries.emplace_back(key, document.add(std::move(values)));
      }
    }
    add_entry(document, dict, "params", document.add(std::move(places)));
    groups.items.push_back(document.add(std::move(dict)));
  }
  archive.add("state", document.add(std::move(states)));
  archive.add("param_groups", document.add(std::move(groups)));
}

std::unique_ptr<OptimizerOptions> Optimizer::loaded_options(const InputArchive& archive,
                                                            uint32_t group, size_t i) const {
  const Document& document = archive.document();
  const size_t count = list_at(document, group, "params").items.size();
  check_value(count == groups_[i].params().size(), "Optimizer.load: expected ",
              groups_[i].params().size(), " parameters in group ", i, ", got ", count);
  check_not_maximized(document, group);
  std::unique_ptr<OptimizerOptions> options = groups_[i].options().clone();
  OptionReader reader(archive, group);
  options->visit(reader);
  check_group(*options);
  return options;
}

void Optimizer::load(InputArchive& archive) {
  const NoGradGuard no_grad;
  const Document& document = archive.document();
  const uint32_t* const listed = archive.find("param_groups");
  const uint32_t* const states = archive.find("state");
  const auto* const groups = listed != nullptr ? document.find<ListValue>(*listed) : nullptr;
  check(groups != nullptr && states != nullptr && document.find<DictValue>(*states) != nullptr,
        "Optimizer.load: expected the file of an optimizer, with 'state' and 'param_groups', got "
        "another file");
  check_value(groups->items.size() == groups_.size(), "Optimizer.load: expected ", groups_.size(),
              " parameter groups, got ", groups->items.size());
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  std::map<const c10::TensorImpl*, ParameterState> loaded;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ValueId group = groups->items[i];
    options.push_back(loaded_options(archive, group, i));
    const std::vector<ValueId>& places = list_at(document, group, "params").items;
    for (size_t k = 0; k < places.size(); ++k) {
      const auto* const place = document.find<int64_t>(places[k]);
      check(place != nullptr, "Optimizer.load: expected numbers of parameters, got ",
            document.kind(places[k]));
      const ValueId* const values = document.entry(*states, *place);
      const Tensor& parameter = groups_[i].params()[k];
      if (values != nullptr) loaded[parameter.impl()] = state_of(archive, *values, parameter);
    }
  }
  state_ = std::move(loaded);
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].set_options(std::move(options[i]));
}

}  // namespace flambeau::api::optim
