#include "aten/dispatch/stack.h"

namespace flambeau {

// Out of line: inlined they are most of the code of each signature of boxing.
IValue::IValue(const IValue&) = default;
IValue::IValue(IValue&&) noexcept = default;
IValue& IValue::operator=(const IValue&) = default;
IValue& IValue::operator=(IValue&&) noexcept = default;
IValue::~IValue() = default;

Stack::Stack() { values_.reserve(kFirstValues); }
Stack::Stack(const Stack&) = default;
Stack::Stack(Stack&&) noexcept = default;
Stack& Stack::operator=(const Stack&) = default;
Stack& Stack::operator=(Stack&&) noexcept = default;
Stack::~Stack() = default;

void Stack::push(IValue value) { values_.push_back(std::move(value)); }
void Stack::clear() { values_.clear(); }

}  // namespace flambeau
