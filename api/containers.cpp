#include "api/containers.h"

namespace flambeau::api::nn {

namespace {

using Children = OrderedDict<std::string, std::shared_ptr<Module>>;

const std::shared_ptr<Module>& child_at(const char* who, const Children& children, size_t i) {
  check_index(i < children.size(), who, ": expected an index below ", children.size(), ", got ", i);
  return children[i].value();
}

void replace_by_clones(Children& children, const std::optional<c10::Device>& device) {
  for (auto& child : children) child.value() = child.value()->clone(device);
}

}  // namespace

Tensor SequentialImpl::forward(const Tensor& input) const {
  check(!is_empty(), "Sequential: expected a module at least, got none");
  Tensor x = input;
  for (size_t i = 0; i < steps_.size(); ++i) x = steps_[i](*children_[i].value(), x);
  return x;
}
std::shared_ptr<Module> SequentialImpl::ptr(size_t i) const {
  return child_at("Sequential", children_, i);
}
std::shared_ptr<Module> SequentialImpl::clone(const std::optional<c10::Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>(std::as_const(*this));
  replace_by_clones(copy->children_, device);
  return copy;
}

std::shared_ptr<Module> ModuleListImpl::ptr(size_t i) const {
  return child_at("ModuleList", children_, i);
}
std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<c10::Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>(std::as_const(*this));
  replace_by_clones(copy->children_, device);
  return copy;
}

}  // namespace flambeau::api::nn
