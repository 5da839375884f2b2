#pragma once
#include "c10/core/namespace.h"

namespace flambeau {

// The number of the calling thread in its parallel region, from 0; 0 outside of one.
int thread_number();

}  // namespace flambeau
