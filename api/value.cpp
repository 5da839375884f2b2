// Kinds, comparison and text of IValue.
#include "api/value.h"

#include <cmath>
#include <iomanip>
#include <limits>
#include <ostream>

#include "api/dict.h"
#include "api/operators.h"
#include "aten/dispatch/custom_class.h"

namespace flambeau::api {
namespace {

const char* kind_of(const c10::Scalar& number) {
  return number.is_bool()       ? "Bool"
         : number.is_floating() ? "Double"
         : number.is_complex()  ? "ComplexDouble"
                                : "Int";
}
const char* type_of(const c10::Scalar& number) {
  return number.is_bool()       ? "bool"
         : number.is_floating() ? "float"
         : number.is_complex()  ? "complex"
                                : "int";
}

// Of the alternatives of the payload after numbers, in their order.
struct Name {
  const char *kind, *type;
};
constexpr Name kNames[] = {{"None", "NoneType"},
                           {"Tensor", "Tensor"},
                           {"Scalar", "Scalar"},
                           {"String", "str"},
                           {"TensorList", "Tensor[]"},
                           {"IntList", "int[]"},
                           {"DoubleList", "float[]"},
                           {"BoolList", "bool[]"},
                           {"GenericList", "Scalar[]"},
                           {"Int", "int"},
                           {"Device", "Device"},
                           {"Int", "int"},
                           {"Int", "int"},
                           {"Generator", "Generator"},
                           {"GenericList", "str[]"},
                           {"Object", "Any"}};
static_assert(std::size(kNames) == std::variant_size_v<flambeau::IValue::Payload>);

// --- comparison ----------------------------------------------------------------------------------

bool same_item(const flambeau::IValue& a, const flambeau::IValue& b) {
  return IValue(a).is(b) || IValue(a) == IValue(b);
}

bool same_tensors(const flambeau::Tensor& a, const flambeau::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor equal = eq(a, b);
  check(equal.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous: ",
        "expected tensors of one element to compare, got ", equal.numel(), " elements");
  return equal.item().toBool();
}

bool same_dicts(const DictValue& a, DictValue& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const auto found = b.find(key);
    if (found == b.entries().end() || !same_item(value, found->second)) return false;
  }
  return true;
}

bool same_objects(const IValue& a, const IValue& b) {
  const TupleValue *const left = tuple_in(a), *const right = tuple_in(b);
  if (left && right) return std::ranges::equal(left->items, right->items, same_item);
  if (dict_in(a) && dict_in(b)) return same_dicts(*dict_in(a), *dict_in(b));
  return a.is(b);
}

struct IsEqual {
  const IValue &a, &b;
  bool operator()(const flambeau::Tensor& x) const { return same_tensors(x, b.tensor()); }
  bool operator()(const c10::Scalar& x) const {
    const auto& y = b.get<c10::Scalar>();
    return x.tag() == y.tag() && x.equals(y);
  }
  bool operator()(const std::vector<flambeau::Tensor>& x) const {
    return std::ranges::equal(x, b.get<std::vector<flambeau::Tensor>>(), [](auto& s, auto& t) {
      return s.impl() == t.impl() || same_tensors(s, t);
    });
  }
  bool operator()(const std::vector<c10::Scalar>& x) const {
    return std::ranges::equal(x, b.get<std::vector<c10::Scalar>>(),
                              [](auto& s, auto& t) { return s.tag() == t.tag() && s.equals(t); });
  }
  bool operator()(const CustomObject&) const { return same_objects(a, b); }
  bool operator()(const Generator& x) const { return x.get() == b.get<Generator>().get(); }
  template <typename T>
  bool operator()(const T& x) const {
    return x == b.get<T>();
  }
};

// --- text ----------------------------------------------------------------------------------------

// All digits, and a point after whole numbers.
void print_number(std::ostream& out, double value) {
  const auto digits = out.precision(std::numeric_limits<double>::max_digits10);
  constexpr double kLimit = 9223372036854775808.0;
  if (value > -kLimit && value < kLimit && value == std::trunc(value)) {
    out << static_cast<int64_t>(value) << '.';
  } else {
    out << value;
  }
  out.precision(digits);
}

struct Printer {
  std::ostream& out;

  template <typename Items>
  void list(const Items& items, const char* open = "[", const char* close = "]") const {
    out << open;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out << ", ";
      is_first = false;
      (*this)(item);
    }
    out << close;
  }
  void dict(const DictValue& found) const {
    out << '{';
    bool is_first = true;
    for (const auto& [key, value] : found.entries()) {
      out << (is_first ? "" : ", ") << IValue(key) << ": " << IValue(value);
      is_first = false;
    }
    out << '}';
  }

  void operator()(std::monostate) const { out << "None"; }
  void operator()(const flambeau::IValue& value) const { std::visit(*this, value.payload()); }
  void operator()(const flambeau::Tensor& t) const { out << Tensor(t); }
  void operator()(bool value) const { out << (value ? "True" : "False"); }
  void operator()(double value) const { print_number(out, value); }
  void operator()(const c10::Scalar& value) const {
    if (value.is_bool()) return (*this)(value.to_bool());
    if (value.is_integral(false)) {
      out << c10::text_of(value);
      return;
    }
    const auto number = value.to_complex();
    print_number(out, number.re);
    if (!value.is_complex()) return;
    if (!(number.im < 0)) out << '+';
    print_number(out, number.im);
    out << 'j';
  }
  void operator()(const CustomObject& object) const {
    if (const TupleValue* const found = tuple_in(object)) {
      list(found->items, "(", found->size() == 1 ? ",)" : ")");
    } else if (const DictValue* const items = dict_in(object)) {
      dict(*items);
    } else {
      out << '<' << custom_class_of(*object).name << " object at " << object.get() << '>';
    }
  }
  void operator()(const Generator& generator) const { out << "Generator at " << generator.get(); }
  template <typename T>
  void operator()(const std::vector<T>& items) const {
    list(items);
  }
  void operator()(const std::vector<bool>& items) const { list(items); }
  template <typename T>
  void operator()(const T& value) const {
    append(value);
  }

 private:
  template <typename T>
  void append(const T& value) const {
    std::string text;
    if constexpr (requires { append_text(text, value); }) {
      append_text(text, value);
      out << text;
    } else if constexpr (std::is_enum_v<T>) {
      out << static_cast<int>(value);
    } else {
      out << value;
    }
  }
};

TypePtr type_of_aggregate(const IValue& value) {
  if (const DictValue* const found = dict_in(value))
    return std::make_shared<Type>("Dict(" + found->key_type + ", " + found->value_type + ")");
  if (const TupleValue* const found = tuple_in(value)) {
    std::vector<TypePtr> items;
    for (const IValue& item : found->elements()) items.push_back(item.type());
    return TupleType::create(items);
  }
  return std::make_shared<Type>(custom_class_of(*value.get<CustomObject>()).name);
}

}  // namespace

const char* IValue::tagKind() const {
  if (is_number()) return kind_of(get<c10::Scalar>());
  return isTuple() ? "Tuple" : isGenericDict() ? "GenericDict" : kNames[payload().index()].kind;
}

TypePtr IValue::type() const {
  if (holds<CustomObject>()) return type_of_aggregate(*this);
  return std::make_shared<Type>(is_number() ? type_of(get<c10::Scalar>())
                                            : kNames[payload().index()].type);
}

intrusive_ptr<ivalue::Tuple> IValue::toTuple() const {
  TupleValue* const found = tuple_in(*this);
  check(found != nullptr, "IValue: expected Tuple, got ", tagKind());
  return intrusive_ptr<ivalue::Tuple>::share(found);
}

bool IValue::is(const IValue& other) const {
  if (payload().index() != other.payload().index()) return false;
  if (is_tensor()) return tensor().impl() == other.tensor().impl();
  if (holds<CustomObject>()) return get<CustomObject>().get() == other.get<CustomObject>().get();
  return *this == other;
}

bool operator==(const IValue& a, const IValue& b) {
  if (a.payload().index() != b.payload().index()) return false;
  return std::visit(IsEqual{a, b}, a.payload());
}

std::ostream& operator<<(std::ostream& out, const IValue& value) {
  Printer{out}(static_cast<const flambeau::IValue&>(value));
  return out;
}

}  // namespace flambeau::api

namespace flambeau {

c10::intrusive_ptr<TupleValue> TupleValue::create(const std::vector<api::IValue>& items) {
  std::vector<IValue> kept;
  for (const IValue& item : items) kept.push_back(item);
  return c10::make_intrusive<TupleValue>(std::move(kept));
}

const std::vector<api::IValue>& TupleValue::elements() const {
  std::call_once(made_elements_, [&] {
    elements_ = std::make_shared<const std::vector<api::IValue>>(items.begin(), items.end());
  });
  return *elements_;
}

}  // namespace flambeau
