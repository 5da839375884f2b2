#pragma once
// Anomaly mode: shows where the forward pass created a backward node that fails or produces NaN.
#include "aten/autograd/node.h"

namespace flambeau::autograd {

bool anomaly_mode();
bool anomaly_checks_nan();
void set_anomaly_mode(bool enabled, bool check_nan);

// Set by the binding: text of the current Python stack, and where warnings go.
extern std::string (*creation_trace)();
extern void (*report_anomaly)(const std::string& message);

void explain_failure(const Node& node);
void check_gradients(const Node& node, const Gradients& grads);

// Runs a node's function; in anomaly mode a failure is explained and the result checked.
template <typename F>
Gradients call_watched(Node& node, const F& function) {
  if (!anomaly_mode()) return function();
  try {
    Gradients grads = function();
    if (anomaly_checks_nan()) check_gradients(node, grads);
    return grads;
  } catch (...) {
    explain_failure(node);
    throw;
  }
}

}  // namespace flambeau::autograd
