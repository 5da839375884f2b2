#include "aten/cpu/fused_part.h"

#include <algorithm>
#include <utility>

#include "aten/cpu/loop_choice.h"
#include "aten/cpu/nest_order.h"
#include "aten/cpu/wrapping.h"

namespace flambeau {
namespace {

int64_t width_of(ScalarType t) { return static_cast<int64_t>(element_size(t)); }

}  // namespace

// --- the nest ------------------------------------------------------------------------------------

void FusedNest::set_sizes(IntArrayRef row_major) {
  sizes.assign(row_major.begin(), row_major.end());
  std::reverse(sizes.begin(), sizes.end());
  ndim = static_cast<int>(sizes.size());
  sizes.resize(std::max<size_t>(sizes.size(), 1), 1);
}

void FusedNest::add(const Tensor& t) {
  const int own = static_cast<int>(t.dim());
  std::vector<int64_t> steps(sizes.size(), 0);
  for (int d = 0; d < own; ++d) {
    if (t.size(own - 1 - d) == 1) continue;
    steps[static_cast<size_t>(d)] = wrapping_product(t.stride(own - 1 - d), width_of(t.dtype()));
  }
  strides.push_back(std::move(steps));
  ++arrays;
}

void FusedNest::swap_dims(int a, int b) {
  std::swap(sizes[static_cast<size_t>(a)], sizes[static_cast<size_t>(b)]);
  for (std::vector<int64_t>& of : strides)
    std::swap(of[static_cast<size_t>(a)], of[static_cast<size_t>(b)]);
}

bool FusedNest::is_constant(size_t array) const {
  for (size_t d = 0; d < static_cast<size_t>(ndim); ++d) {
    if (strides[array][d] != 0 && sizes[d] != 1) return false;
  }
  return true;
}

// --- values --------------------------------------------------------------------------------------

FusedPartMaker::FusedPartMaker(FusedPlan& plan, const FusedGroup& group,
                               const std::vector<int32_t>& steps)
    : plan_(plan), group_(group), steps_(steps) {}

int32_t FusedPartMaker::add(Node node) {
  const auto at = static_cast<int32_t>(nodes_.size());
  for (const int32_t o : node.operands) nodes_[static_cast<size_t>(o)].last_use = at;
  nodes_.push_back(std::move(node));
  return at;
}

int32_t FusedPartMaker::array_of(FusedArray::Source source, int32_t index, const Tensor& shape) {
  for (size_t a = 0; a < part_.arrays.size(); ++a) {
    if (part_.arrays[a].source == source && part_.arrays[a].index == index)
      return static_cast<int32_t>(a);
  }
  part_.arrays.push_back({source, index, shape.dtype()});
  part_.nest.add(shape);
  return static_cast<int32_t>(part_.arrays.size() - 1);
}

int32_t FusedPartMaker::load_of(int32_t array, ScalarType dtype) {
  const auto [at, is_new] = loads_.try_emplace({array, dtype}, -1);
  if (is_new) at->second = add({.kind = Node::Kind::Load, .dtype = dtype, .array = array});
  return at->second;
}

int32_t FusedPartMaker::converted(int32_t node, ScalarType dtype) {
  if (nodes_[static_cast<size_t>(node)].dtype == dtype) return node;
  const auto [at, is_new] = converted_.try_emplace({node, dtype}, -1);
  if (is_new) at->second = add({.kind = Node::Kind::Convert, .dtype = dtype, .operands = {node}});
  return at->second;
}

int32_t FusedPartMaker::number_of(const Scalar& number, ScalarType dtype) {
  FusedSlot slot{};
  number.store(dtype, slot.bytes);
  const auto [at, is_new] =
      numbers_.try_emplace({std::string(slot.bytes, sizeof(slot.bytes)), dtype}, -1);
  if (is_new) {
    const auto index = static_cast<int32_t>(plan_.slots_.size());
    plan_.slots_.push_back(slot);
    at->second = add({.kind = Node::Kind::Number, .dtype = dtype, .slot = index});
  }
  return at->second;
}

int32_t FusedPartMaker::value_of(const FusedOperand& o, ScalarType dtype) {
  const auto index = static_cast<size_t>(o.index);
  switch (o.kind) {
    case FusedOperand::Kind::Number:
      return number_of(o.number, dtype);
    case FusedOperand::Kind::Input:
      return load_of(array_of(FusedArray::Source::Input, o.index, plan_.inputs_[index]), dtype);
    case FusedOperand::Kind::Constant: {
      const auto at = static_cast<int32_t>(plan_.constants_.size());
      plan_.constants_.push_back(o.constant);
      return load_of(array_of(FusedArray::Source::Constant, at, o.constant), dtype);
    }
    case FusedOperand::Kind::Step:
      break;
  }
  if (const auto own = results_.find(o.index); own != results_.end())
    return converted(own->second, dtype);
  return load_of(array_of(FusedArray::Source::Result, o.index, plan_.results_[index]), dtype);
}

ScalarType FusedPartMaker::dtype_of(const FusedOperand& o) const {
  const auto index = static_cast<size_t>(o.index);
  switch (o.kind) {
    case FusedOperand::Kind::Input:
      return plan_.inputs_[index].dtype();
    case FusedOperand::Kind::Step:
      return plan_.results_[index].dtype();
    case FusedOperand::Kind::Constant:
      return o.constant.dtype();
    default:
      return ScalarType::Undefined;
  }
}

// As an eager call decides it.
bool FusedPartMaker::runs_as_stored(const FusedStep& step) const {
  constexpr ScalarType kStored = ScalarType::BFloat16;
  if (!has_stored_loop(*step.op, kStored)) return false;
  return std::all_of(step.operands.begin(), step.operands.end(), [&](const FusedOperand& o) {
    return o.kind == FusedOperand::Kind::Number ? is_exact_bfloat16(o.number)
                                                : dtype_of(o) == kStored;
  });
}

int32_t FusedPartMaker::params_of(const FusedStep& step, ScalarType dtype) {
  const size_t first = plan_.slots_.size();
  plan_.slots_.resize(first + step.params.size());
  store_params(step.op->name, step.params, dtype, plan_.slots_.data() + first);
  return static_cast<int32_t>(first);
}

void FusedPartMaker::lower(int32_t s) {
  const auto at = static_cast<size_t>(s);
  const FusedStep& step = group_.steps()[at];
  PointwiseDTypes types = plan_.types_[at];
  Node run{.kind = Node::Kind::Run, .dtype = types.loop_out};
  run.slot = params_of(step, types.compute);
  if (runs_as_stored(step)) {
    types.compute = ScalarType::BFloat16;
    run.dtype = types.result;
  }
  run.loop = loop_of(*step.op, types.compute);
  run.step = &step;
  run.compute = types.compute;
  for (const FusedOperand& o : step.operands) run.operands.push_back(value_of(o, types.compute));
  const int32_t node = converted(add(std::move(run)), types.result);
  results_[s] = node;
  if (plan_.is_in_memory_[at]) {
    nodes_[static_cast<size_t>(node)].array =
        array_of(FusedArray::Source::Result, s, plan_.results_[at]);
  }
}

// --- places --------------------------------------------------------------------------------------

bool FusedPartMaker::reads_rows_in_place(size_t a) const {
  return part_.nest.strides[a][0] == width_of(part_.arrays[a].dtype);
}

bool FusedPartMaker::is_in_place(int32_t array) const {
  const FusedNest& nest = part_.nest;
  const auto a = static_cast<size_t>(array);
  if (nest.ndim == 1 && nest.sizes[0] == 1) return true;
  if (!reads_rows_in_place(a)) return false;
  return part_.tile.rows == 1 ||
         (part_.tile.columns == nest.sizes[0] &&
          nest.strides[a][1] == nest.sizes[0] * width_of(part_.arrays[a].dtype));
}

// Whole rows where every array allows it and they are long; else blocks.
TileShape FusedPartMaker::tile_shape(int64_t most) const {
  const FusedNest& nest = part_.nest;
  const int64_t width = nest.sizes[0];
  if (nest.ndim == 1) return {std::min(width, most), 1};
  bool in_place = width >= 128, transposed = false;
  for (size_t a = 0; a < part_.arrays.size(); ++a) {
    in_place &= reads_rows_in_place(a) || nest.is_constant(a);
    const int64_t x = std::abs(nest.strides[a][0]), y = std::abs(nest.strides[a][1]);
    transposed |= y != 0 && x > y;
  }
  if (in_place) return {std::min(width, most), 1};
  if (transposed) {
    const int64_t columns = std::min<int64_t>(width, 32);
    return {columns, std::min(nest.sizes[1], most / columns)};
  }
  const int64_t columns = std::min(width, most);
  return {columns, columns == width ? std::clamp<int64_t>(most / columns, 1, nest.sizes[1]) : 1};
}

int32_t FusedPartMaker::take_buffer(ScalarType dtype) {
  std::vector<int32_t>& unused = free_[width_of(dtype)];
  if (!unused.empty()) {
    const int32_t place = unused.back();
    unused.pop_back();
    return place;
  }
  part_.widths.push_back(width_of(dtype));
  return static_cast<int32_t>(part_.arrays.size() + part_.widths.size() - 1);
}

void FusedPartMaker::free_operands(int32_t at) {
  const std::vector<int32_t>& operands = nodes_[static_cast<size_t>(at)].operands;
  for (const int32_t o : operands) {
    Node& node = nodes_[static_cast<size_t>(o)];
    if (node.last_use != at || !node.is_owned) continue;
    free_[width_of(node.dtype)].push_back(node.place);
    node.is_owned = false;  // an operand may stand twice
  }
}

void FusedPartMaker::splat(Node& node, FusedSplat how) {
  part_.widths.push_back(width_of(node.dtype));
  node.place = static_cast<int32_t>(part_.arrays.size() + part_.widths.size() - 1);
  how.place = node.place;
  how.bytes = width_of(node.dtype);
  part_.splats.push_back(how);
}

void FusedPartMaker::place_load(Node& node) {
  const auto a = static_cast<size_t>(node.array);
  const ScalarType own = part_.arrays[a].dtype;
  if (own == node.dtype && is_in_place(node.array)) {
    node.place = node.array;
    return;
  }
  const CastLoop cast = cast_loop(own, node.dtype);
  if (part_.nest.is_constant(a)) return splat(node, {.array = node.array, .cast = cast});
  FusedCode code{.kind = FusedCode::Kind::Gather, .cast = cast};
  for (int d = 0; d < part_.nest.ndim; ++d)
    code.is_kept |= part_.nest.strides[a][static_cast<size_t>(d)] == 0;
  if (code.is_kept) {
    part_.widths.push_back(width_of(node.dtype));
    node.place = static_cast<int32_t>(part_.arrays.size() + part_.widths.size() - 1);
  } else {
    node.place = take_buffer(node.dtype);
    node.is_owned = true;
  }
  code.places_used = 2;
  code.places[0] = node.place;
  code.places[1] = node.array;
  code.from_bytes = width_of(own);
  code.to_bytes = width_of(node.dtype);
  part_.codes.push_back(code);
}

void FusedPartMaker::place_result(int32_t at, Node& node) {
  const bool is_run = node.kind == Node::Kind::Run;
  FusedCode code{.kind = is_run ? FusedCode::Kind::Run : FusedCode::Kind::Convert};
  code.places_used = static_cast<uint8_t>(node.operands.size() + 1);
  for (size_t i = 0; i < node.operands.size(); ++i)
    code.places[i + 1] = nodes_[static_cast<size_t>(node.operands[i])].place;
  // A loop may write over an operand of its own width, a conversion may not.
  if (is_run) free_operands(at);
  if (node.array >= 0 && is_in_place(node.array)) {
    node.place = node.array;
  } else {
    node.place = take_buffer(node.dtype);
    node.is_owned = true;
  }
  if (!is_run) {
    const ScalarType from = nodes_[static_cast<size_t>(node.operands[0])].dtype;
    code.cast = cast_loop(from, node.dtype);
    code.from_bytes = width_of(from);
    code.to_bytes = width_of(node.dtype);
    free_operands(at);
  }
  code.places[0] = node.place;
  code.loop = node.loop;
  code.params = node.slot;
  part_.codes.push_back(code);
  if (node.array >= 0 && node.place != node.array) store(node);
  if (node.is_owned && node.last_use < 0) {
    free_[width_of(node.dtype)].push_back(node.place);
    node.is_owned = false;
  }
}

void FusedPartMaker::store(const Node& node) {
  FusedCode code{.kind = FusedCode::Kind::Scatter, .places_used = 2};
  code.cast = cast_loop(node.dtype, node.dtype);
  code.places[0] = node.array;
  code.places[1] = node.place;
  code.from_bytes = code.to_bytes = width_of(node.dtype);
  part_.codes.push_back(code);
}

void FusedPartMaker::place_all(int64_t most) {
  part_.tile = tile_shape(most);
  part_.codes.clear();
  part_.splats.clear();
  part_.widths.clear();
  part_.offsets.clear();
  free_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    node.is_owned = false;
    if (node.kind == Node::Kind::Load) {
      place_load(node);
    } else if (node.kind == Node::Kind::Number) {
      splat(node, {.slot = node.slot});
    } else {
      place_result(static_cast<int32_t>(i), node);
    }
  }
  // Buffers that begin at equal places of 4 KiB pages would delay loads that follow stores.
  constexpr int64_t kLine = 64;
  const int64_t elements = part_.tile.columns * part_.tile.rows;
  part_.scratch = 0;
  for (const int64_t width : part_.widths) {
    part_.offsets.push_back(part_.scratch);
    part_.scratch += (elements * width + kLine - 1) / kLine * kLine + kLine;
  }
}

// What one element of a tile occupies in the cache.
int64_t FusedPartMaker::bytes_per_element() const {
  int64_t bytes = 0;
  for (const int64_t width : part_.widths) bytes += width;
  for (const FusedArray& array : part_.arrays) bytes += width_of(array.dtype);
  return bytes;
}

FusedPart FusedPartMaker::make() {
  const Tensor& shape = plan_.results_[static_cast<size_t>(steps_[0])];
  part_.nest.set_sizes(shape.sizes());
  // Written arrays come first: they decide the order of the dimensions.
  for (const int32_t s : steps_) {
    const auto at = static_cast<size_t>(s);
    if (plan_.is_in_memory_[at]) array_of(FusedArray::Source::Result, s, plan_.results_[at]);
  }
  for (const int32_t s : steps_) lower(s);
  if (shape.numel() == 0) return std::move(part_);
  sort_dims(part_.nest);
  coalesce_dims(part_.nest);
  constexpr int64_t kCacheBytes = 24576, kFewest = 256, kMost = 2048;
  place_all(kBlock);
  const int64_t fitting = kCacheBytes / bytes_per_element() / 64 * 64;
  place_all(std::clamp(fitting, kFewest, kMost));
  part_.bytes = bytes_per_element();
  part_.text = text();
  return std::move(part_);
}

}  // namespace flambeau
