#pragma once
// Kernels written in Python, which take the place of an operator's own kernels for a dispatch key
// until they are removed.
#include "python/csrc/object.h"

namespace flambeau {
struct OperatorEntry;
}

namespace flambeau::python {

// Within the scope, the next call of the operator is one that a kernel for Autograd passes on: it
// does not come to a Python kernel for Autograd again. Null: no effect.
class Redispatched {
 public:
  explicit Redispatched(const OperatorEntry* op);
  ~Redispatched();
  Redispatched(const Redispatched&) = delete;
  Redispatched& operator=(const Redispatched&) = delete;

 private:
  const OperatorEntry* outer_;
};

// _C functions: add and remove kernels and fallbacks, call single ones, ask for them.
void add_python_kernels(PyObject* module);

}  // namespace flambeau::python
