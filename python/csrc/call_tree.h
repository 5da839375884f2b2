#pragma once
// Stacks of Python functions. They are paths in a tree of calls, so that equal beginnings are kept
// once.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "python/csrc/object.h"

namespace flambeau::python {

constexpr int32_t kNoCall = -1;

struct Place {
  PyCodeObject* code;  // borrowed from a frame
  int instruction;     // an offset in bytes
};

// The calls of this thread, innermost first. The thread has the GIL.
void read_places(std::vector<Place>& places);

// A place in a function, which the call `parent` made.
struct Call {
  int32_t parent;
  PyCodeObject* code;  // owned by the tree
  int instruction;
  bool operator==(const Call&) const = default;
};

// Without a lock. `add`, `keep` and `clear` need the GIL.
class CallTree {
 public:
  // The index of the innermost call of a stack; `places` are innermost first.
  int32_t add(const std::vector<Place>& places);
  // Drops all calls but those of the stacks in `used`, whose indices it changes. The caller
  // releases the code of dropped calls, which may run Python.
  std::vector<Ref> keep(const std::vector<int32_t*>& used);

  const std::vector<Call>& calls() const { return calls_; }
  // Whether enough calls were added for `keep` to be worth its time.
  bool is_due() const { return calls_.size() >= most_; }

 private:
  struct Hash {
    size_t operator()(const Call& c) const {
      const size_t h = std::hash<const void*>()(c.code) * 31 + static_cast<size_t>(c.parent);
      return h * 1000003 + static_cast<size_t>(c.instruction);
    }
  };
  static constexpr size_t kFewCalls = size_t{1} << 14;

  int32_t index_of(const Call& call);

  std::vector<Call> calls_;  // parents come before their children
  std::unordered_map<Call, int32_t, Hash> indices_;
  size_t most_ = kFewCalls;
};

}  // namespace flambeau::python
