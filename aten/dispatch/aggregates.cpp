#include "aten/dispatch/aggregates.h"

namespace flambeau {
namespace {

size_t hash_of(const Scalar& number) {
  const auto part = std::hash<double>();
  if (number.is_complex()) {
    const auto value = number.to_complex();
    return part(value.re) ^ (part(value.im) << 1);
  }
  return number.is_floating() ? part(number.to_double())
                              : std::hash<int64_t>()(number.to<int64_t>());
}

[[noreturn]] void refuse_key() {
  fail(ErrorKind::Runtime,
       "Dict: expected a number, str, Device or Tensor as key, got another value");
}

}  // namespace

DictValue::DictValue(const DictValue& other)
    : CustomClassHolder(other), key_type(other.key_type), value_type(other.value_type) {
  for (const auto& [key, value] : other.entries_) insert(key, value);
}

size_t DictValue::Hash::operator()(const IValue& key) const {
  if (const auto* number = std::get_if<Scalar>(&key.payload())) return hash_of(*number);
  if (const auto* text = std::get_if<std::string>(&key.payload()))
    return std::hash<std::string>()(*text);
  if (key.is_tensor()) return std::hash<const void*>()(key.tensor().impl());
  if (const auto* device = std::get_if<Device>(&key.payload()))
    return static_cast<size_t>(device->type) * 1024 + static_cast<size_t>(device->index + 1);
  refuse_key();
}

bool DictValue::Same::operator()(const IValue& a, const IValue& b) const {
  if (a.payload().index() != b.payload().index()) return false;
  if (const auto* number = std::get_if<Scalar>(&a.payload()))
    return number->tag() == b.get<Scalar>().tag() && number->equals(b.get<Scalar>());
  if (const auto* text = std::get_if<std::string>(&a.payload()))
    return *text == b.get<std::string>();
  if (a.is_tensor()) return a.tensor().impl() == b.tensor().impl();
  if (const auto* device = std::get_if<Device>(&a.payload())) return *device == b.get<Device>();
  refuse_key();
}

DictValue::Entries::iterator DictValue::find(const IValue& key) {
  const auto at = places_.find(key);
  return at == places_.end() ? entries_.end() : at->second;
}

std::pair<DictValue::Entries::iterator, bool> DictValue::insert(IValue key, IValue value) {
  if (const auto at = places_.find(key); at != places_.end()) return {at->second, false};
  entries_.emplace_back(key, std::move(value));
  const auto last = std::prev(entries_.end());
  places_.emplace(std::move(key), last);
  return {last, true};
}

void DictValue::erase(Entries::iterator at) {
  places_.erase(at->first);
  entries_.erase(at);
}

void DictValue::clear() {
  places_.clear();
  entries_.clear();
}

TupleValue* tuple_in(const CustomObject& object) { return dynamic_cast<TupleValue*>(object.get()); }
DictValue* dict_in(const CustomObject& object) { return dynamic_cast<DictValue*>(object.get()); }

TupleValue* tuple_in(const IValue& value) {
  const auto* object = std::get_if<CustomObject>(&value.payload());
  return object ? tuple_in(*object) : nullptr;
}
DictValue* dict_in(const IValue& value) {
  const auto* object = std::get_if<CustomObject>(&value.payload());
  return object ? dict_in(*object) : nullptr;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> schema_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '\'' || c == '"') quoted = !quoted;
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c != ',' || (i < text.size() && (depth > 0 || quoted))) continue;
    if (const std::string_view part = trimmed(text.substr(from, i - from)); !part.empty())
      parts.push_back(part);
    from = i + 1;
  }
  return parts;
}

size_t end_of_type(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (text[i] == ' ' && depth == 0) return i;
  }
  return text.size();
}

namespace {

// Types are read by recursion, whose depth the stack limits.
void check_depth(std::string_view text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    check(depth <= kDeepest, "schema: expected types of at most ", kDeepest, " levels, got more");
  }
}

}  // namespace

AggregateType aggregate_type(std::string_view text) {
  check_depth(text);
  AggregateType type;
  std::string_view inside = text;
  if (inside.ends_with('?')) inside.remove_suffix(1);
  const bool is_dict = inside.starts_with("Dict(");
  if (!inside.ends_with(')') || (!is_dict && !inside.starts_with('('))) return type;
  type.form = is_dict ? AggregateType::Form::Dict : AggregateType::Form::Tuple;
  type.is_optional = text.ends_with('?');
  inside.remove_prefix(is_dict ? 5 : 1);
  inside.remove_suffix(1);
  type.members = schema_parts(inside);
  check(!is_dict || type.members.size() == 2,
        "schema: expected the types of keys and of values, got '", text, "'");
  return type;
}

}  // namespace flambeau
