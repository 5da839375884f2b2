// The text of a part: a typed loop in lines, which names arrays and values by number. It says
// nothing of sizes, so that a kernel made from it serves all sizes.
//
//   array float32 unit        reads or writes neighbours; "one": one element for all; "row": one
//   array int64 strided         for each row; "strided": with any stride
//   load 0 float32            value: array 0 as float32
//   number 3 float32          value: of slot 3
//   run add float32 float32 5 0 1   value: formula, operands' dtype, own dtype, params' slot and
//                                   their number, operands
//   convert bfloat16 2        value: of value 2
//   ... store 1               the value before it also goes to array 1
#include "aten/core/messages.h"
#include "aten/cpu/fused_cells.h"
#include "aten/cpu/fused_part.h"

namespace flambeau {

std::string FusedPartMaker::text_of_array(size_t a) const {
  const std::vector<int64_t>& strides = part_.nest.strides[a];
  const char* how = "strided";
  if (part_.nest.is_constant(a)) {
    how = "one";
  } else if (strides[0] == 0) {
    how = "row";
  } else if (strides[0] == static_cast<int64_t>(element_size(part_.arrays[a].dtype))) {
    how = "unit";
  }
  return text_of("array ", part_.arrays[a].dtype, " ", how, "\n");
}

std::string FusedPartMaker::text_of_node(const Node& node) const {
  std::string text;
  switch (node.kind) {
    case Node::Kind::Load:
      return text_of("load ", node.dtype, " ", node.array, "\n");
    case Node::Kind::Number:
      return text_of("number ", node.dtype, " ", node.slot, "\n");
    case Node::Kind::Convert:
      text = text_of("convert ", node.dtype);
      break;
    case Node::Kind::Run:
      text = text_of("run ", node.dtype, " ", cell_of(*node.step->op), " ", node.compute, " ",
                     node.slot, " ", node.step->params.size());
  }
  for (const int32_t o : node.operands) text += text_of(" ", o);
  text += "\n";
  if (node.array >= 0) text += text_of("store ", node.array, "\n");
  return text;
}

// Empty if an operator's formula is not known.
std::string FusedPartMaker::text() const {
  std::string text;
  for (size_t a = 0; a < part_.arrays.size(); ++a) text += text_of_array(a);
  for (const Node& node : nodes_) {
    if (node.kind == Node::Kind::Run && !cell_of(*node.step->op)) return {};
    text += text_of_node(node);
  }
  return text;
}

}  // namespace flambeau
