#include "aten/core/messages.h"

#include "aten/core/tensor_text.h"

namespace flambeau {

void append_text(std::string& out, const Tensor& t) {
  out += t.defined() ? text_of(t.dtype(), t.sizes()) : "None";
}
void append_text(std::string& out, const OutOfBounds& m) {
  out +=
      text_of("index ", m.index, " is out of bounds for dimension ", m.dim, " with size ", m.size);
}
void append_text(std::string& out, const TooManyIndices& m) {
  out += text_of("too many indices: got ", m.given, " for ", m.ndim, " dimensions");
}
void append_text(std::string& out, const MissingDimension& m) {
  out += text_of("dim ", m.dim, " was named, but the tensor has none");
}
void append_text(std::string& out, const NoDimension& m) {
  out += text_of(m.op, ": expected at least 1 dimension, got a 0-dim tensor");
}
void append_text(std::string& out, const EmptyReduction& m) {
  out += text_of(m.op, "(): Expected reduction dim of non-zero size, got dim ", m.dim,
                 " without elements");
}
void append_text(std::string& out, const OtherDevice& m) {
  out += text_of(m.op, ": Expected all tensors to be on the same device, got ", m.expected, " and ",
                 m.got);
}
void append_text(std::string& out, const LengthMismatch& m) {
  out += text_of("expected one stride per size, got sizes ", m.sizes, " and strides ", m.strides);
}
void append_text(std::string& out, const WrongOutputShape& m) {
  out +=
      text_of("output of shape ", m.output, " cannot take a result of broadcast shape ", m.result);
}
void append_text(std::string& out, const WrongSliceShape& m) {
  out += text_of("expected src of the slice's shape ", m.slice, ", got ", m.source);
}
void append_text(std::string& out, const WrongIndexDtype& m) {
  out += text_of(m.op, ": expected an index of dtype ", m.wanted, ", got ", m.got);
}
void append_text(std::string& out, const NotOneElement& m) {
  out += text_of("expected one element, got ", m.count, ": they cannot be converted to Scalar");
}
void append_text(std::string& out, const NoTensors& m) {
  out += text_of(m.op, ": expected a non-empty TensorList, got no tensors");
}
void append_text(std::string& out, const WrongRank& m) {
  out += text_of("expected an input of ", m.unbatched, " or ", m.unbatched + 1,
                 " dimensions, got shape ", m.shape);
}
void append_text(std::string& out, const EmptyDimension& m) {
  out += text_of("expected no empty dimension but the batch, got shape ", m.shape);
}

}  // namespace flambeau
