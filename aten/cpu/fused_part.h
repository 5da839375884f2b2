#pragma once
// Makes the codes of one part of a fused group: which values there are, and where they live.
#include <map>

#include "aten/cpu/fused_plan.h"

namespace flambeau {

class FusedPartMaker {
 public:
  FusedPartMaker(FusedPlan& plan, const FusedGroup& group, const std::vector<int32_t>& steps);
  FusedPart make();

 private:
  struct Node {
    enum class Kind : uint8_t { Load, Number, Run, Convert };
    Kind kind;
    ScalarType dtype;
    int32_t array = -1;  // Load: read; Run and Convert: written, -1 if none
    int32_t slot = -1;   // Number: its value; Run: its params
    PointwiseLoop loop = nullptr;
    const FusedStep* step = nullptr;             // of Run
    ScalarType compute = ScalarType::Undefined;  // of Run: the operands' dtype
    std::vector<int32_t> operands = {};          // nodes; of Convert the one
    int32_t last_use = -1;
    int32_t place = -1;
    bool is_owned = false;  // of a buffer that is free after the last use
  };

  int32_t add(Node node);
  int32_t array_of(FusedArray::Source source, int32_t index, const Tensor& shape);
  int32_t value_of(const FusedOperand& operand, ScalarType dtype);
  int32_t number_of(const Scalar& number, ScalarType dtype);
  int32_t load_of(int32_t array, ScalarType dtype);
  int32_t converted(int32_t node, ScalarType dtype);
  bool runs_as_stored(const FusedStep& step) const;
  ScalarType dtype_of(const FusedOperand& operand) const;
  int32_t params_of(const FusedStep& step, ScalarType dtype);
  void lower(int32_t step);

  bool reads_rows_in_place(size_t array) const;
  bool is_in_place(int32_t array) const;
  TileShape tile_shape(int64_t most) const;
  void place_all(int64_t most);
  void place(int32_t node);
  void place_load(Node& node);
  void place_result(int32_t at, Node& node);
  void splat(Node& node, FusedSplat how);
  void store(const Node& node);
  int32_t take_buffer(ScalarType dtype);
  void free_operands(int32_t at);
  int64_t bytes_per_element() const;
  std::string text_of_array(size_t array) const;
  std::string text_of_node(const Node& node) const;
  std::string text() const;

  FusedPlan& plan_;
  const FusedGroup& group_;
  const std::vector<int32_t>& steps_;
  FusedPart part_;
  std::vector<Node> nodes_;
  std::map<int32_t, int32_t> results_;  // node by step
  std::map<std::pair<int32_t, ScalarType>, int32_t> loads_, converted_;
  std::map<std::pair<std::string, ScalarType>, int32_t> numbers_;
  std::map<int64_t, std::vector<int32_t>> free_;  // buffers by width
};

}  // namespace flambeau
