#include "python/csrc/call_tree.h"

#include <frameobject.h>

#include <algorithm>

#include "python/csrc/lists.h"

namespace flambeau::python {

// Making frames must not start a collection of garbage: finalizers would run in the middle of an
// allocation.
void read_places(std::vector<Place>& places) {
  const WithoutCollection none;
  Ref frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));  // the frame keeps it
    places.push_back({reinterpret_cast<PyCodeObject*>(code.get()), PyFrame_GetLasti(at)});
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
}

int32_t CallTree::add(const std::vector<Place>& places) {
  int32_t call = kNoCall;
  for (size_t i = places.size(); i-- > 0;)
    call = index_of({call, places[i].code, places[i].instruction});
  return call;
}

int32_t CallTree::index_of(const Call& call) {
  const auto [at, is_new] = indices_.try_emplace(call, static_cast<int32_t>(calls_.size()));
  if (!is_new) return at->second;
  try {
    calls_.push_back(call);
  } catch (...) {
    indices_.erase(at);
    throw;
  }
  Py_INCREF(call.code);
  return at->second;
}

std::vector<Ref> CallTree::keep(const std::vector<int32_t*>& used) {
  std::vector<int32_t> places(calls_.size(), kNoCall);  // the new index of each call
  for (const int32_t* stack : used) {
    for (int32_t i = *stack; i != kNoCall && places[static_cast<size_t>(i)] == kNoCall;
         i = calls_[static_cast<size_t>(i)].parent)
      places[static_cast<size_t>(i)] = 0;  // kept
  }
  const auto renumbered = [&](int32_t i) {
    return i == kNoCall ? kNoCall : places[static_cast<size_t>(i)];
  };
  std::vector<Call> kept;
  std::vector<Ref> dropped;
  decltype(indices_) indices;
  kept.reserve(calls_.size());
  dropped.reserve(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (places[i] == kNoCall) continue;
    const Call& call = calls_[i];
    places[i] = static_cast<int32_t>(kept.size());
    kept.push_back({renumbered(call.parent), call.code, call.instruction});
    indices.emplace(kept.back(), places[i]);
  }
  // Nothing below fails.
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (places[i] == kNoCall) dropped.emplace_back(reinterpret_cast<PyObject*>(calls_[i].code));
  }
  for (int32_t* stack : used) *stack = renumbered(*stack);
  calls_ = std::move(kept);
  indices_ = std::move(indices);
  most_ = std::max(kFewCalls, 2 * calls_.size());
  return dropped;
}

}  // namespace flambeau::python
