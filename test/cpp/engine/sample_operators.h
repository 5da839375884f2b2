#pragma once
// Differentiable operators on doubles, written as the generator writes them, and the ones that the
// engine calls: enough of both to test the engine without generated code.
#include "aten/autograd/engine.h"
#include "aten/autograd/operators.h"
#include "aten/autograd/saved_tensor.h"
#include "aten/autograd/variable.h"
#include "aten/core/factory.h"
#include "harness.h"

namespace flambeau::testing {

// A row-major vector; a leaf if it requires a gradient.
Tensor vector_of(std::initializer_list<double> values, bool requires_grad = false);
std::vector<double> values_of(const Tensor& t);
double value_of(const Tensor& t);

Tensor mul(const Tensor& a, const Tensor& b);  // saves both factors
Tensor exp(const Tensor& t);                   // saves its output
Tensor sum(const Tensor& t);
Tensor& mul_inplace(Tensor& self, const Tensor& other);
Tensor& exp_inplace(Tensor& self);
// Elements [begin, end) of a vector, as a view.
Tensor slice(const Tensor& t, int64_t begin, int64_t end);
// `times` nodes in a row, each the identity.
Tensor identity_chain(Tensor t, int64_t times);

// backward() of one output with a gradient of ones, and grad() of it.
void backward(const Tensor& output, bool retain_graph = false);
Tensor grad(const Tensor& output, const Tensor& input, bool create_graph = false);

}  // namespace flambeau::testing
