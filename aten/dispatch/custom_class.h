#pragma once
// Classes that programs register by TORCH_LIBRARY: their objects are values of schemas, and Python
// calls their methods by name. They live as long as the process, in a table of their own.
#include <deque>
#include <functional>
#include <string>
#include <typeindex>

#include "aten/dispatch/operator_entry.h"
#include "aten/dispatch/stack.h"

namespace flambeau {

// What the names of such classes begin with in schemas.
inline constexpr std::string_view kCustomClassPrefix = "__torch__.torch.classes.";

// A method takes the object first; a static method and a constructor do not.
struct CustomMethod {
  std::string name;    // "push"
  std::string schema;  // "push(__torch__.torch.classes.ns.Stack self, int x) -> ()"
  std::function<void(Stack& stack)> run;
  bool is_static = false;
  OperatorEntry entry = {};  // the name and the schema, for the conversion of arguments
};

struct CustomProperty {
  std::string name, getter, setter;  // names of methods; the setter may be empty
};

// Definitions may be added while the block of the library runs.
struct CustomClass {
  CustomClass(std::string name, std::type_index type) : name(std::move(name)), type(type) {}

  // RuntimeError for a name that the class has.
  void add(std::string method, std::string schema, bool is_static,
           std::function<void(Stack& stack)> run);
  void add_property(std::string property, std::string getter, std::string setter);
  // nullptr if there is none.
  const CustomMethod* find(std::string_view method) const;

  std::string name;  // "__torch__.torch.classes.ns.Stack"
  std::type_index type;
  std::string doc;
  std::deque<CustomMethod> methods;
  std::vector<CustomProperty> properties;
};

// RuntimeError for a name or a C++ type that is registered already.
CustomClass& register_custom_class(const std::string& name, std::type_index type);
// nullptr if there is none.
const CustomClass* find_custom_class(std::string_view name);
const CustomClass* find_custom_class(std::type_index type);
// The class of an object. RuntimeError if its C++ type is not registered.
const CustomClass& custom_class_of(const CustomClassHolder& object);

}  // namespace flambeau
