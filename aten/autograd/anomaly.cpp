#include "aten/autograd/anomaly.h"

#include <cstdio>

#include "aten/autograd/engine.h"
#include "aten/autograd/operators.h"

namespace flambeau::autograd {

std::string (*creation_trace)() = nullptr;
void (*report_anomaly)(const std::string& message) = nullptr;

namespace {

std::atomic<bool> enabled{false};
std::atomic<bool> checks_nan{true};

void note_trace(Node& node) {
  if (!enabled.load(std::memory_order_relaxed)) return;
  NodeExtras& extras = node.make_extras();
  if (creation_trace) extras.creation_trace = creation_trace();
  if (Node* creator = current_node()) extras.creator = intrusive_ptr<Node>::share(creator);
}

}  // namespace

bool anomaly_mode() { return enabled.load(std::memory_order_relaxed); }
bool anomaly_checks_nan() { return checks_nan.load(std::memory_order_relaxed); }

void set_anomaly_mode(bool on, bool check_nan) {
  if (on) note_creation = note_trace;
  enabled.store(on);
  checks_nan.store(check_nan);
}

void explain_failure(const Node& node) {
  std::string text = text_of("Error detected in ", node.name(), ".");
  for (const Node* n = &node; n && n->extras(); n = n->extras()->creator.get()) {
    text += text_of(
        n == &node ? " Traceback of forward call:\n" : "\nPrevious calculation, induced by ",
        n == &node ? "" : n->name(), "\n", n->extras()->creation_trace);
  }
  if (report_anomaly) {
    report_anomaly(text);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void check_gradients(const Node& node, const Gradients& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    check(!grads[i].defined() || !operators::has_nan(grads[i]), "Function '", node.name(),
          "' returned nan values in its ", i, "th output.");
  }
}

}  // namespace flambeau::autograd
