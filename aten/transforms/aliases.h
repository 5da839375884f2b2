#pragma once
// Which arguments an operator's results share memory with, and which it changes, by its schema.
#include <vector>

#include "aten/dispatch/operator_entry.h"

namespace flambeau::transforms {

struct Aliases {
  std::vector<int> changed;     // positions of the arguments that are written to
  std::vector<int> results_of;  // by result: the argument that it is or is a view of; -1: none
  bool makes_views = false;     // some result is a view of an argument
  bool makes_many = false;      // a list of views
  bool is_random = false;       // takes a generator
};

const Aliases& aliases_of(const OperatorEntry& op);

}  // namespace flambeau::transforms
