#pragma once
// What the messages of many operators have in common, each worded once. These are parts of a
// check's message, printed only when it fails: `check_index(at < size, OutOfBounds{at, dim,
// size})`.
#include <string>
#include <string_view>

#include "aten/core/tensor.h"

namespace flambeau {

// Several elements of the written tensor share memory.
inline constexpr const char* kWrittenTwice =
    "unsupported operation: several elements of the written tensor share memory; write to its "
    "clone()";
// The written tensor and an input share memory, but not element by element.
inline constexpr const char* kReadAndWritten =
    "unsupported operation: an input shares memory with the written tensor; pass its clone()";

// Two results of one call share memory.
inline constexpr const char* kWrittenByTwo =
    "unsupported operation: two results would be written to the same memory";

struct OutOfBounds {
  int64_t index, dim, size;
};
struct TooManyIndices {
  size_t given;
  int64_t ndim;
};
// A dimension was named, but the tensor is a scalar.
struct MissingDimension {
  int64_t dim;
};
// The operator needs a dimension, and the tensor is a scalar.
struct NoDimension {
  std::string_view op;
};
// A reduction without an identity has no elements to reduce.
struct EmptyReduction {
  std::string_view op;
  int64_t dim;
};
struct OtherDevice {
  std::string_view op;
  Device expected, got;
};
struct LengthMismatch {
  IntArrayRef sizes, strides;
};
struct WrongOutputShape {
  IntArrayRef output, result;
};
struct WrongSliceShape {
  IntArrayRef slice, source;
};
struct WrongIndexDtype {
  std::string_view op;
  std::string_view wanted;
  ScalarType got;
};
struct NotOneElement {
  int64_t count;
};
struct NoTensors {
  std::string_view op;
};
// The shape is that of neither a batch (one dimension more) nor an entry of a batch.
struct WrongRank {
  int64_t unbatched;
  IntArrayRef shape;
};
// A dimension other than the batch is empty.
struct EmptyDimension {
  IntArrayRef shape;
};

void append_text(std::string& out, const OutOfBounds& m);
void append_text(std::string& out, const TooManyIndices& m);
void append_text(std::string& out, const MissingDimension& m);
void append_text(std::string& out, const NoDimension& m);
void append_text(std::string& out, const EmptyReduction& m);
void append_text(std::string& out, const OtherDevice& m);
void append_text(std::string& out, const LengthMismatch& m);
void append_text(std::string& out, const WrongOutputShape& m);
void append_text(std::string& out, const WrongSliceShape& m);
void append_text(std::string& out, const WrongIndexDtype& m);
void append_text(std::string& out, const NotOneElement& m);
void append_text(std::string& out, const NoTensors& m);
void append_text(std::string& out, const WrongRank& m);
void append_text(std::string& out, const EmptyDimension& m);

}  // namespace flambeau
