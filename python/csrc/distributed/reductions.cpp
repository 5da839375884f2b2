#include "python/csrc/distributed/reductions.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace flambeau::distributed {
namespace {

struct Half {
  using Wide = float;
  uint16_t bits;
};

struct BFloat16 {
  using Wide = float;
  uint16_t bits;
};

float widen(Half value) {
  _Float16 number;
  std::memcpy(&number, &value, sizeof number);
  return static_cast<float>(number);
}

float widen(BFloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

void narrow(float number, Half& out) {
  const auto half = static_cast<_Float16>(number);
  std::memcpy(&out, &half, sizeof out);
}

// To nearest, ties to even; NaN stays NaN.
void narrow(float number, BFloat16& out) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  out.bits = static_cast<uint16_t>(number != number ? 0x7fc0 : rounded);
}

float widen(float value) { return value; }
double widen(double value) { return value; }
void narrow(float number, float& out) { out = number; }
void narrow(double number, double& out) { out = number; }

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};

struct Product {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

template <typename T, typename Operation>
void combine(void* in, void* inout, mpi::Count* count, mpi::Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (mpi::Count i = 0; i < *count; ++i) narrow(Operation::apply(widen(a[i]), widen(b[i])), b[i]);
}

template <typename T>
mpi::UserFunction of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return combine<T, Sum>;
    case Reduction::kProduct:
      return combine<T, Product>;
    case Reduction::kMin:
      return combine<T, Min>;
    case Reduction::kMax:
      return combine<T, Max>;
    default:
      return nullptr;
  }
}

// Our own function for the reductions that MPI lacks, or that depend on the order in it.
mpi::UserFunction own(Element element, Reduction reduction) {
  const bool ordered = reduction == Reduction::kMin || reduction == Reduction::kMax;
  if (element == Element::kHalf) return of<Half>(reduction);
  if (element == Element::kBFloat16) return of<BFloat16>(reduction);
  if (element == Element::kFloat && ordered) return of<float>(reduction);
  if (element == Element::kDouble && ordered) return of<double>(reduction);
  return nullptr;
}

// The datatypes of the standard ABI, in the order of Element; half types travel as 16-bit integers,
// a bool as a byte.
constexpr uintptr_t kTypes[] = {0x240, 0x241, 0x248, 0x249, 0x250, 0x251, 0x258, 0x259,
                                0x249, 0x249, 0x210, 0x214, 0x212, 0x216, 0x241};
// In the order of Reduction: of numbers, and of truth values (logical or, and).
constexpr uintptr_t kOps[] = {0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a};
constexpr uintptr_t kBoolOps[] = {0x31, 0x30, 0x30, 0x31, 0x30, 0x31, 0x32};

bool is_floating(Element element) {
  return element >= Element::kHalf && element <= Element::kComplexDouble;
}

bool is_complex(Element element) {
  return element == Element::kComplexFloat || element == Element::kComplexDouble;
}

mpi::Op own_op(Element element, Reduction reduction, mpi::UserFunction function) {
  static std::mutex guard;
  static std::map<std::pair<Element, Reduction>, mpi::Op> made;
  const std::lock_guard<std::mutex> lock(guard);
  auto [place, is_new] = made.try_emplace({element, reduction}, nullptr);
  if (is_new) {
    mpi::check(mpi::library().op_create(function, /*commute=*/1, &place->second), "MPI_Op_create");
  }
  return place->second;
}

}  // namespace

size_t element_size(Element element) {
  constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16, 1};
  return kSizes[static_cast<size_t>(element)];
}

Reducer reducer(Element element, Reduction reduction) {
  const auto type = static_cast<size_t>(element);
  const auto kind = static_cast<size_t>(reduction);
  if (element < Element::kInt8 || element >= Element::kCount || reduction < Reduction::kSum ||
      reduction >= Reduction::kCount) {
    throw std::invalid_argument("expected a type of element and a reduction of the tables");
  }
  if (reduction >= Reduction::kBitAnd && is_floating(element)) {
    throw std::invalid_argument(
        "expected integers or bool for a bitwise reduction, got floating numbers");
  }
  if ((reduction == Reduction::kMin || reduction == Reduction::kMax) && is_complex(element)) {
    throw std::invalid_argument(
        "expected ordered numbers for a minimum or maximum, got complex numbers");
  }
  const auto datatype = mpi::predefined<mpi::Datatype>(kTypes[type]);
  if (element == Element::kBool) return {datatype, mpi::predefined<mpi::Op>(kBoolOps[kind])};
  if (const auto function = own(element, reduction)) {
    return {datatype, own_op(element, reduction, function)};
  }
  return {datatype, mpi::predefined<mpi::Op>(kOps[kind])};
}

}  // namespace flambeau::distributed
