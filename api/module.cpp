#include "api/module.h"

#include <cxxabi.h>

#include <iostream>

#include "api/serialize.h"

namespace flambeau::api::nn {

namespace {

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

void print_indented(std::ostream& out, const Module& module, const std::string& indentation) {
  module.pretty_print(out);
  if (module.named_children().is_empty()) return;
  out << "(\n";
  for (const auto& child : module.named_children()) {
    out << indentation << "  (" << child.key() << "): ";
    print_indented(out, *child.value(), indentation + "  ");
    out << '\n';
  }
  out << indentation << ")";
}

}  // namespace

std::string Module::name() const {
  if (!name_.empty()) return name_;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : typeid(*this).name();
}

// --- registration --------------------------------------------------------------------------------

void Module::check_name(const char* what, const std::string& name) const {
  check(!name.empty(), what, ": expected a name, got an empty one");
  check(name.find('.') == std::string::npos, what, ": expected a name without a dot, got '", name,
        "'");
  const bool taken =
      parameters_.contains(name) || buffers_.contains(name) || children_.contains(name);
  check(!taken, what, ": expected a new name, got '", name, "', which is registered already");
}

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("register_parameter", name);
  if (tensor.defined()) tensor.set_requires_grad(requires_grad);
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name("register_buffer", name);
  return buffers_.insert(std::move(name), std::move(tensor));
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name("register_module", name);
  check(module != nullptr, "register_module: expected a module as '", name, "', got nullptr");
  children_.insert(std::move(name), std::move(module));
}

// --- what is registered --------------------------------------------------------------------------

void Module::visit(const std::string& path, const Visit& f) const {
  f(path, *this);
  for (const auto& child : children_) child.value()->visit(joined(path, child.key()), f);
}

namespace {

void collect(OrderedDict<std::string, Tensor>& out, const std::string& path,
             const OrderedDict<std::string, Tensor>& registered) {
  for (const auto& item : registered) {
    const std::string name = joined(path, item.key());
    if (item.value().defined() && !out.contains(name)) out.insert(name, item.value());
  }
}

}  // namespace

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> out;
  const Visit add = [&](const std::string& path, const Module& module) {
    collect(out, path, module.parameters_);
  };
  recurse ? visit("", add) : add("", *this);
  return out;
}
OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> out;
  const Visit add = [&](const std::string& path, const Module& module) {
    collect(out, path, module.buffers_);
  };
  recurse ? visit("", add) : add("", *this);
  return out;
}
std::vector<Tensor> Module::parameters(bool recurse) const {
  return named_parameters(recurse).values();
}
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& prefix,
                                                                        bool include_self) {
  OrderedDict<std::string, std::shared_ptr<Module>> out;
  if (include_self) out.insert(prefix, shared_from_this());
  for (const auto& child : children_) {
    for (auto& below : child.value()->named_modules(joined(prefix, child.key()))) {
      out.insert(below.key(), below.value());
    }
  }
  return out;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) {
  return named_modules("", include_self).values();
}

// --- for all below -------------------------------------------------------------------------------

void Module::apply(const std::function<void(Module&)>& f) {
  for (const auto& child : children_) child.value()->apply(f);
  f(*this);
}
void Module::apply(const std::function<void(const std::string&, Module&)>& f,
                   const std::string& prefix) {
  for (const auto& child : children_) child.value()->apply(f, joined(prefix, child.key()));
  f(prefix, *this);
}

void Module::train(bool on) {
  for (const auto& child : children_) child.value()->train(on);
  is_training_ = on;
}

void Module::convert(const std::function<Tensor(const Tensor&)>& f) {
  apply([&](Module& module) {
    for (OrderedDict<std::string, Tensor>* part : {&module.parameters_, &module.buffers_}) {
      for (auto& item : *part) {
        if (item.value().defined()) autograd::set_data(item.value(), f(item.value().data()));
      }
    }
  });
}
void Module::to(c10::Device device, c10::ScalarType dtype, bool non_blocking) {
  to(dtype, non_blocking);
  to(device, non_blocking);
}
// Integers, such as the counter of a batch norm, keep their dtype.
void Module::to(c10::ScalarType dtype, bool non_blocking) {
  check_type(isFloatingType(dtype) || isComplexType(dtype),
             "Module.to: expected a floating or complex dtype, got ", api::ScalarType(dtype));
  convert([&](const Tensor& t) {
    const bool changes = isFloatingType(t.scalar_type()) || isComplexType(t.scalar_type());
    return changes ? t.to(dtype, non_blocking) : t;
  });
}
void Module::to(c10::Device device, bool non_blocking) {
  convert([&](const Tensor& t) { return t.to(device, non_blocking); });
}

void Module::zero_grad(bool set_to_none) {
  for (const Tensor& parameter : parameters()) clear_grad(parameter, set_to_none);
}

// --- copies --------------------------------------------------------------------------------------

std::shared_ptr<Module> Module::clone(const std::optional<c10::Device>& /*device*/) const {
  fail(ErrorKind::NotImplemented, "Module.clone: expected a class derived from Cloneable, got ",
       name());
}

void Module::forget_registered() {
  parameters_.clear();
  buffers_.clear();
  children_.clear();
}

void Module::copy_into(Module& fresh, const std::optional<c10::Device>& device) const {
  const NoGradGuard no_grad;
  const auto copy = [&](auto Module::* part) {
    check((fresh.*part).size() == (this->*part).size(), "Module.clone: expected reset() of ",
          name(), " to register ", (this->*part).size(), " parameters or buffers, got ",
          (fresh.*part).size());
    for (const auto& item : this->*part) {
      if (!item.value().defined()) continue;
      Tensor& made = (fresh.*part)[item.key()];
      const Tensor value = item.value().data().clone();
      autograd::set_data(made, device ? value.to(*device) : value);
      made.set_requires_grad(item.value().requires_grad());
    }
  };
  copy(&Module::parameters_);
  copy(&Module::buffers_);
  check(fresh.children_.size() == children_.size(), "Module.clone: expected reset() of ", name(),
        " to register ", children_.size(), " submodules, got ", fresh.children_.size());
  for (const auto& child : children_) {
    child.value()->copy_into(*fresh.children_[child.key()], device);
  }
  fresh.is_training_ = is_training_;
}

// --- files ---------------------------------------------------------------------------------------

void Module::save(serialize::OutputArchive& archive) const {
  for (const auto* part : {&parameters_, &buffers_}) {
    for (const auto& item : *part) {
      if (item.value().defined()) archive.write(item.key(), item.value().detach());
    }
  }
  for (const auto& child : children_) {
    serialize::OutputArchive below;
    child.value()->save(below);
    archive.write_below(child.key(), below);
  }
}

namespace {

// Tensors of equal dtype keep their memory; parameters that are one tensor, or views of one, stay
// so.
void load_into(Tensor& target, const Tensor& value, const std::string& key) {
  check(target.sizes() == value.sizes(), "load: expected sizes ", target.sizes(), " for '", key,
        "' (size mismatch), got ", value.sizes());
  const NoGradGuard no_grad;
  if (target.dtype() == value.dtype()) {
    target.copy_(value);
  } else {
    autograd::set_data(target, value.to(target.device()).clone());
  }
}

}  // namespace

void Module::load(serialize::InputArchive& archive) {
  for (auto* part : {&parameters_, &buffers_}) {
    for (auto& item : *part) {
      if (!item.value().defined()) continue;
      Tensor value;
      archive.read(item.key(), value);
      load_into(item.value(), value.detach(), archive.path(item.key()));
    }
  }
  for (const auto& child : children_) {
    serialize::InputArchive below = archive.below(child.key());
    child.value()->load(below);
  }
}

void Module::pretty_print(std::ostream& out) const { out << name(); }

std::ostream& operator<<(std::ostream& out, const Module& module) {
  print_indented(out, module, "");
  return out;
}

}  // namespace flambeau::api::nn
