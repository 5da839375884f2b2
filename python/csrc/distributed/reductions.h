// How the elements of two ranks become one, for each type of element.
#pragma once

#include <cstddef>

#include "python/csrc/distributed/mpi_abi.h"

namespace flambeau::distributed {

// The types of elements that reductions know; python/flambeau/distributed/_elements.py has the same
// order.
enum class Element : int {
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kHalf,
  kBFloat16,
  kFloat,
  kDouble,
  kComplexFloat,
  kComplexDouble,
  kBool,
  kCount
};

// In the order of python/flambeau/distributed/_elements.py.
enum class Reduction : int { kSum, kProduct, kMin, kMax, kBitAnd, kBitOr, kBitXor, kCount };

// Bytes of an element.
size_t element_size(Element element);

struct Reducer {
  mpi::Datatype type;
  mpi::Op op;
};

// The type and the operation of MPI for a reduction. Throws std::invalid_argument where there is
// none, such as the minimum of complex numbers. MPI must be initialised.
//
// Sums and products of half types are rounded after each addition, as MPI's are for other types.
// Minima and maxima of floating types are NaN where one of the numbers is, on every rank: MPI's own
// depend on the order.
Reducer reducer(Element element, Reduction reduction);

}  // namespace flambeau::distributed
