#pragma once
// Included by the code that the generator writes for an author's YAML file (docs/extending.md):
// the drivers of pointwise operators and reductions, rules of shapes and dtypes, nodes of autograd,
// traits for transforms. Programs need none of it.
#include "aten/autograd/wrappers.h"
#include "aten/core/factory.h"
#include "aten/core/host_expr.h"
#include "aten/core/messages.h"
#include "aten/core/promotion.h"
#include "aten/core/shape_rules.h"
#include "aten/core/tensor_text.h"
#include "aten/cpu/pointwise.h"
#include "aten/cpu/reduce.h"
#include "aten/dispatch/assign.h"
#include "aten/dispatch/become_view.h"
#include "aten/dispatch/boxing.h"
#include "aten/dispatch/operator_library.h"
#include "aten/dispatch/operator_traits.h"

namespace flambeau::api {

// Registers a library of operators while its shared object is loaded. An exception would end the
// process there, so the message is kept until the loader asks for it (take_library_errors).
struct OperatorsInit {
  explicit OperatorsInit(const OperatorLibrary& library);
};

}  // namespace flambeau::api
