// Rules that call the operator itself on whole tensors: each argument is given its batch dimension
// where the rule says, and each result is told where it has got it.
#include <algorithm>

#include "aten/core/shape.h"
#include "aten/transforms/batching_rules.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {

namespace {

using Sizes = SmallVector<int64_t, 8>;

struct Places {
  BatchedCall& call;
  const BatchRule& rule;
  int64_t batch_size;
  int64_t added = 0;          // dimensions that the result has more than the first placed tensor
  int64_t rank = 0;           // of the first placed tensor, without the batch dimension
  int64_t leading = 0;        // dimensions before the core of Align arguments
  bool has_dims = false;      // dimensions are named: tensors without any are given one
  bool last_is_flat = false;  // the last placed tensor was given one
  bool flattened = false;     // all dimensions were joined because none was named
  Tensor memory{};            // the first placed tensor
  int64_t followed = 0;       // the value of the argument that Follow results read
  bool made = false;          // the batch became a dimension that was absent

  BatchPlace at(size_t i) const {
    return i < rule.arguments.size() ? rule.arguments[i] : BatchPlace();
  }
};

bool holds_tensors(BatchRole role) {
  return role == BatchRole::Operand || role == BatchRole::Front || role == BatchRole::Align ||
         role == BatchRole::Fold;
}

int64_t logical_rank(const BatchedCall& call, const Tensor& t) {
  const Wrapper* wrapper = call.batched(t);
  return wrapper ? wrapper->value.dim() - 1 : t.dim();
}

const std::vector<int64_t>* int_list(const IValue& value) {
  return std::get_if<std::vector<int64_t>>(&value.payload());
}

// Whether an argument lists the sizes in which dimensions are counted.
bool lists_sizes(const Places& places) {
  for (size_t i = 0; i < places.rule.arguments.size(); ++i) {
    if (places.at(i).role == BatchRole::Size && int_list(places.call.stack[i])) return true;
  }
  return false;
}

// Learns what the placement of one argument depends on in the others.
void survey(Places& places) {
  bool found = lists_sizes(places);
  const bool counts_own = !found;
  for (size_t i = 0; i < places.rule.arguments.size(); ++i) {
    const BatchPlace place = places.at(i);
    IValue& value = places.call.stack[i];
    if (place.role == BatchRole::Dim) {
      places.added = place.at == kNewDim || place.at == kNewDims ? 1 : 0;
      places.has_dims = counts_own && places.added == 0 && place.at != kOrder;
    }
    if (place.role == BatchRole::Size && int_list(value)) {
      const auto count = static_cast<int64_t>(int_list(value)->size());
      places.leading = std::max(places.leading, count);
      places.rank = count;
    }
    if (!holds_tensors(place.role)) continue;
    each_tensor(value, [&](const Tensor& t) {
      const int64_t rank = logical_rank(places.call, t);
      if (!found) places.rank = rank;
      found = true;
      if (place.role == BatchRole::Align)
        places.leading = std::max(places.leading, rank - place.at);
    });
  }
}

// --- tensors ------------------------------------------------------------------------------------

// Merges the batch dimension, outermost, into dimension `d` of those behind it.
Tensor folded(const Tensor& front, int64_t d) {
  Sizes order, sizes;
  for (int64_t k = 1; k < front.dim(); ++k) {
    if (k - 1 == d) order.push_back(0);
    order.push_back(k);
    sizes.push_back(front.size(k) * (k - 1 == d ? front.size(0) : 1));
  }
  return ops::reshape::call(ops::permute::call(front, order), sizes);
}

Tensor placed(Places& places, const Tensor& t, BatchPlace place) {
  const Wrapper* wrapper = places.call.batched(t);
  const Tensor front = wrapper ? to_front(*wrapper) : expanded(t, places.batch_size);
  const int64_t rank = front.dim() - 1;
  if (place.role == BatchRole::Align) return padded(front, places.leading + place.at);
  if (place.role == BatchRole::Fold) {
    const int64_t d = place.at < 0 ? place.at + rank : place.at;
    places.made = d < 0;
    return places.made ? front : folded(front, d);
  }
  places.last_is_flat = places.has_dims && rank == 0;
  return places.last_is_flat ? ops::unsqueeze::call(front, 1) : front;
}

// All dimensions of one entry as one.
void flatten(Places& places) {
  places.flattened = true;
  for (size_t i = 0; i < places.rule.arguments.size(); ++i) {
    if (!holds_tensors(places.at(i).role)) continue;
    each_tensor(places.call.stack[i], [&](Tensor& t) {
      int64_t count = 1;
      for (int64_t d = 1; d < t.dim(); ++d) count *= t.size(d);
      t = ops::reshape::call(t, Sizes({places.batch_size, count}));
    });
  }
}

// --- numbers ------------------------------------------------------------------------------------

int64_t moved(const Places& places, int64_t dim) {
  return wrap_dim(dim, places.rank + places.added) + 1;
}

void place_dims(Places& places, IValue& value, int8_t kind) {
  const bool is_one = kind == kOneDim || kind == kNewDim;
  if (value.is_none() && is_one) {
    flatten(places);
    value = IValue(Scalar(int64_t{1}));
  } else if (is_one) {
    value = IValue(Scalar(moved(places, value.get<Scalar>().to<int64_t>())));
  } else {
    std::vector<int64_t> dims;
    if (!value.is_none()) dims = value.get<std::vector<int64_t>>();
    const bool all = kind == kDimsOrAll && dims.empty();
    if (value.is_none() && !all) return;
    for (int64_t& dim : dims) dim = moved(places, dim);
    for (int64_t d = 1; all && d <= std::max<int64_t>(places.rank, 1); ++d) dims.push_back(d);
    if (kind == kOrder) dims.insert(dims.begin(), 0);
    value = IValue(std::move(dims));
  }
}

void place_sizes(const Places& places, IValue& value) {
  if (value.is_none()) return;
  if (std::holds_alternative<std::vector<Tensor>>(value.payload())) {
    auto& list = value.get<std::vector<Tensor>>();
    list.insert(list.begin(), Tensor());
  } else {
    auto& sizes = value.get<std::vector<int64_t>>();
    sizes.insert(sizes.begin(), places.batch_size);
  }
}

// Strides and places count in the memory of the first placed tensor.
void place_memory(const Places& places, IValue& value, BatchRole role) {
  if (role == BatchRole::Stride) {
    auto& strides = value.get<std::vector<int64_t>>();
    strides.insert(strides.begin(), places.memory.stride(0));
  } else if (!value.is_none()) {
    const int64_t offset = value.get<Scalar>().to<int64_t>();
    value = IValue(Scalar(sum_of("as_strided", offset, places.memory.storage_offset())));
  }
}

void place_number(Places& places, IValue& value, BatchPlace place) {
  if (place.role == BatchRole::Stride || place.role == BatchRole::Offset) {
    place_memory(places, value, place.role);
  } else if (place.role == BatchRole::Dim) {
    place_dims(places, value, place.at);
  } else if (place.role == BatchRole::Size) {
    place_sizes(places, value);
  } else if (place.role == BatchRole::Times && int_list(value)) {
    auto& sizes = value.get<std::vector<int64_t>>();
    if (!places.made && !sizes.empty())  // the operator refuses an empty list itself
      sizes[0] = product_of("vmap", sizes[0], places.batch_size);
  } else if (place.role == BatchRole::Times) {
    const auto count = value.get<Scalar>().to<int64_t>();
    value = IValue(Scalar(product_of("vmap", count, places.batch_size)));
  }
}

void place_arguments(Places& places) {
  survey(places);
  for (const BatchPlace& result : places.rule.results) {
    if (result.role == BatchRole::Follow)
      places.followed =
          places.call.stack[static_cast<size_t>(result.at)].get<Scalar>().to<int64_t>();
  }
  for (size_t i = 0; i < places.rule.arguments.size(); ++i) {
    const BatchPlace place = places.at(i);
    if (!holds_tensors(place.role)) continue;
    each_tensor(places.call.stack[i], [&](Tensor& t) {
      t = placed(places, t, place);
      if (!places.memory.defined()) places.memory = t;
    });
  }
  for (size_t i = 0; i < places.rule.arguments.size(); ++i) {
    place_number(places, places.call.stack[i], places.at(i));
  }
}

// --- results ------------------------------------------------------------------------------------

// The value behind a result, and where its batch dimension is.
std::pair<Tensor, int64_t> found(const Places& places, const Tensor& t, BatchPlace place) {
  // A result that was not asked for has no elements, whatever the batch.
  const bool absent = t.numel() == 0 && t.dim() <= 1 &&
                      (t.dim() == 0 || place.at > 0 || t.size(0) != places.batch_size);
  if (absent) return {expanded(t, places.batch_size), 0};
  const bool follows = place.role == BatchRole::Follow;
  if ((place.role == BatchRole::Fold && !places.made) || follows) {
    const int64_t at = follows ? places.followed : place.at;
    const int64_t d = at < 0 ? at + t.dim() : at;
    Sizes sizes;
    for (int64_t k = 0; k < t.dim(); ++k) {
      if (k == d) sizes.push_back(places.batch_size);
      sizes.push_back(k == d ? t.size(k) / places.batch_size : t.size(k));
    }
    return {ops::reshape::call(t, sizes), d};
  }
  if (places.flattened && t.dim() == 2) {
    Sizes sizes({places.batch_size});
    for (int64_t d = 0; d < places.rank; ++d) sizes.push_back(1);
    return {ops::reshape::call(t, sizes), 0};
  }
  const bool was_flat = places.last_is_flat && t.dim() == 2 && t.size(1) == 1;
  return {was_flat ? ops::squeeze_dim::call(t, 1) : t, 0};
}

void take_results(Places& places, const Targets& targets) {
  BatchedCall& call = places.call;
  for (size_t i = 0; i < call.stack.size(); ++i) {
    const ResultTraits traits = call.traits.results[i];
    if (traits.is_self) {
      call.stack[i] = IValue(targets.finished(static_cast<size_t>(traits.alias)));
      continue;
    }
    const BatchPlace place =
        i < places.rule.results.size() ? places.rule.results[i] : BatchPlace{BatchRole::Front, 0};
    each_tensor(call.stack[i], [&](Tensor& t) {
      std::pair<Tensor, int64_t> value;
      {
        const BelowLayer below;
        value = found(places, t, place);
      }
      t = make_batched(value.first, value.second, call.layer.level);
    });
  }
}

}  // namespace

void run_place(BatchedCall& call, const BatchRule& rule) {
  require_batched_targets(call);
  const Targets targets(call);
  Places places{call, rule, call.layer.batch_size};
  {
    const BelowLayer below;
    place_arguments(places);
    call_operator(call.op, call.stack);
  }
  targets.refresh_all();
  take_results(places, targets);
}

}  // namespace flambeau::transforms
