#include "aten/transforms/aliases.h"

#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace flambeau::transforms {

namespace {

struct Annotation {
  std::string_view set;  // "a" of "Tensor(a!)"; empty: shares nothing
  bool changed = false;
  bool is_list = false;
};

// "Tensor(a!)[] self" and the like.
Annotation annotation_of(std::string_view declaration) {
  Annotation found;
  if (!declaration.starts_with("Tensor(")) return found;
  const size_t close = declaration.find(')');
  found.set = declaration.substr(7, close - 7);
  found.is_list = declaration.substr(close).starts_with(")[");
  if (found.set.ends_with("!")) {
    found.changed = true;
    found.set.remove_suffix(1);
  }
  return found;
}

// Splits at commas outside of brackets and quotes; the mark of keyword-only arguments is none.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '\'' || c == '"') quoted = !quoted;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || (i < text.size() && (depth > 0 || quoted))) continue;
    std::string_view part = text.substr(start, i - start);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (!part.empty() && part != "*") parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

Aliases read(std::string_view schema) {
  Aliases aliases;
  const size_t open = schema.find('(');
  const size_t arrow = schema.rfind(" -> ");
  std::vector<Annotation> arguments;
  for (std::string_view part : split_list(schema.substr(open + 1, arrow - open - 2))) {
    aliases.is_random = aliases.is_random || part.starts_with("Generator");
    arguments.push_back(annotation_of(part));
    if (arguments.back().changed) aliases.changed.push_back(static_cast<int>(arguments.size()) - 1);
  }
  std::string_view results = schema.substr(arrow + 4);
  if (results.starts_with('(')) results = results.substr(1, results.size() - 2);
  for (std::string_view part : split_list(results)) {
    const Annotation result = annotation_of(part);
    int origin = -1;
    for (size_t i = 0; i < arguments.size() && !result.set.empty(); ++i) {
      if (arguments[i].set == result.set) origin = static_cast<int>(i);
    }
    aliases.results_of.push_back(origin);
    aliases.makes_views = aliases.makes_views || (origin >= 0 && !result.changed);
    aliases.makes_many = aliases.makes_many || result.is_list;
  }
  return aliases;
}

}  // namespace

const Aliases& aliases_of(const OperatorEntry& op) {
  static auto* const known = new std::unordered_map<const OperatorEntry*, std::unique_ptr<Aliases>>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Aliases>& aliases = (*known)[&op];
  if (!aliases) aliases = std::make_unique<Aliases>(read(op.schema));
  return *aliases;
}

}  // namespace flambeau::transforms
