#pragma once
// Schemas of operators as data. Calls that reach an operator by its name, and calls that Python
// takes over, have no generated parser: they convert arguments and results by what the schema says.
#include <deque>
#include <string>
#include <vector>

#include "aten/dispatch/boxing.h"
#include "python/csrc/arg_parser.h"

namespace flambeau::python {

// Integers that schemas write by name (codegen/model/enumerations.py has the same table).
inline constexpr std::pair<std::string_view, int64_t> kNamedIntegers[] = {{"Mean", 1}, {"Sum", 2}};

struct BoxedSchema {
  std::vector<Param> params;
  std::vector<IValue> defaults;         // as long as `params`; none for parameters without one
  std::vector<bool> is_mutable;         // the operator writes to the argument
  std::vector<std::string> aggregates;  // types of tuples and dictionaries, "" of other parameters
  bool has_aggregates = false;
  Signature signature;
  struct Result {
    ParamKind kind;
    bool is_written;        // it is an argument that the operator writes to
    std::string aggregate;  // the type of a tuple or dictionary
  };
  std::vector<Result> results;
  bool has_mask = false;  // an argument says which results are wanted; the others are undefined
  std::deque<std::string> names;  // what the other members point to
};
// Read on first use and kept. The caller holds the GIL.
const BoxedSchema& boxed_schema(const OperatorEntry& op);

// Values of a schema to Python and back. `wrap_value` returns a new reference or null with an
// error.
PyObject* wrap_value(const IValue& value);
// A value of a type that is no tuple and no dictionary; false if it does not fit.
bool item_from(PyObject* o, std::string_view type, IValue* out);
// The arguments of a call as a stack; false if the schema does not take them.
bool stack_of_call(const BoxedSchema& schema, PyObject* const* values, Py_ssize_t positional,
                   PyObject* names, Stack* stack);
// A call's arguments in Python, a tuple and a dict, as a stack; false if the schema does not take
// them.
bool stack_from(const OperatorEntry& op, PyObject* args, PyObject* kwargs, Stack* stack);
// The stack as arguments of a Python call. Trailing positional arguments and keywords that have
// their default value are left out.
struct PythonArguments {
  Ref positional;  // tuple
  Ref named;       // dict
};
PythonArguments python_arguments(const Stack& stack, const BoxedSchema& schema);
// Results as the caller in Python receives them: None, one value, or a tuple.
Ref python_result(const Stack& stack, const OperatorEntry& op);
// Replaces the arguments on the stack by what Python code (`who`) returned; RuntimeError if it does
// not fit. Results that are arguments to which the operator writes are ignored.
void replace_by_result(PyObject* result, const OperatorEntry& op, Stack& stack, const char* who);

}  // namespace flambeau::python
