#include "aten/dispatch/custom_class.h"

#include <map>
#include <mutex>
#include <typeinfo>
#include <unordered_map>

namespace flambeau {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, CustomClass, std::less<>> by_name;  // never removed
  std::unordered_map<std::type_index, CustomClass*> by_type;
};
Table& table() {
  static auto* const made = new Table;
  return *made;
}

}  // namespace

void CustomClass::add(std::string method, std::string schema, bool is_static,
                      std::function<void(Stack& stack)> run) {
  check(find(method) == nullptr, name, ": expected methods of different names, got a second '",
        method, "'");
  CustomMethod& made =
      methods.emplace_back(CustomMethod{std::move(method), std::move(schema), std::move(run)});
  made.is_static = is_static;
  made.entry.name = made.name.c_str();
  made.entry.schema = made.schema.c_str();
}

void CustomClass::add_property(std::string property, std::string getter, std::string setter) {
  for (const CustomProperty& known : properties) {
    check(known.name != property, name, ": expected properties of different names, got a second '",
          property, "'");
  }
  properties.push_back({std::move(property), std::move(getter), std::move(setter)});
}

const CustomMethod* CustomClass::find(std::string_view method) const {
  for (const CustomMethod& known : methods) {
    if (known.name == method) return &known;
  }
  return nullptr;
}

CustomClass& register_custom_class(const std::string& name, std::type_index type) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  check(!all.by_type.contains(type), name,
        ": expected a C++ type that no class is registered for, got that of ",
        all.by_type.contains(type) ? all.by_type.at(type)->name : "");
  const auto [at, is_new] = all.by_name.try_emplace(name, name, type);
  check(is_new, name, ": expected a new name, got that of a class that is already registered");
  all.by_type.emplace(type, &at->second);
  return at->second;
}

const CustomClass* find_custom_class(std::string_view name) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_name.find(name);
  return at == all.by_name.end() ? nullptr : &at->second;
}

const CustomClass* find_custom_class(std::type_index type) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_type.find(type);
  return at == all.by_type.end() ? nullptr : at->second;
}

const CustomClass& custom_class_of(const CustomClassHolder& object) {
  const CustomClass* const found = find_custom_class(std::type_index(typeid(object)));
  check(found != nullptr, "custom class: expected an object of a registered class, got one of ",
        typeid(object).name());
  return *found;
}

}  // namespace flambeau
