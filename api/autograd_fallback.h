#pragma once
// Kernels for the key Autograd of operators without a derivative, in the namespace torch::autograd.
// They are for operators of any schema:
//
//   TORCH_LIBRARY_IMPL(ns, Autograd, m) {
//     m.impl("op", torch::autograd::autogradNotImplementedFallback());
//   }
#include "api/library.h"

namespace flambeau::api::of_autograd {

// Results of arguments that require gradients require one, and a backward pass through them raises
// RuntimeError, which names the operator. Arguments that the schema declares as written get the
// history of the call and a new version; results that share memory with an argument are its views.
CppFunction autogradNotImplementedFallback();
// The same without histories: versions of written arguments, and views.
CppFunction autogradNotImplementedInplaceOrViewFallback();
// Results require gradients; a backward pass through them warns and passes none on. Written
// arguments and views keep their histories.
CppFunction basicAutogradNotImplementedFallback();

}  // namespace flambeau::api::of_autograd
