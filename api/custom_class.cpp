#include "api/custom_class.h"

namespace flambeau::api {
namespace {

std::string results_of(const std::vector<std::string>& types) {
  if (types.size() == 1) return types[0];
  std::string text = "(";
  for (const std::string& type : types) text += (text.size() > 1 ? ", " : "") + type;
  return text + ")";
}

}  // namespace

std::string method_schema(const std::string& name, const boxing::Signature& signature,
                          const std::vector<arg>& names, bool is_static) {
  const size_t first = is_static ? 0 : 1, count = signature.arguments.size();
  check(count >= first, name, ": expected a method that takes its object first, got one of no ",
        "parameters");
  check(names.empty() || names.size() == count - first, name, ": expected ", count - first,
        " names (torch::arg) of parameters, or none, got ", names.size());
  std::string text = name + "(";
  for (size_t i = 0; i < count; ++i) {
    const bool is_named = i >= first && !names.empty();
    text += text_of(i ? ", " : "", signature.arguments[i], " ");
    if (is_named) {
      const arg& given = names[i - first];
      text += given.name;
      if (given.preset) text += "=" + *given.preset;
    } else {
      text += i < first ? std::string("self") : text_of("_", i - first);
    }
  }
  return text + ") -> " + results_of(signature.results);
}

}  // namespace flambeau::api
