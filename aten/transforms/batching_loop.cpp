// The fallback for operators without a batching rule: one call per entry of the batch.
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "aten/transforms/batching_rules.h"
#include "torchgen_out/aten/factory_ops.h"
#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {

void (*warn_of_loop)(const std::string& message) = nullptr;

namespace {

std::atomic<bool> loop_warnings{true};

void warn_once(const OperatorEntry& op) {
  if (!loop_warnings || !warn_of_loop) return;
  static auto* const mutex = new std::mutex;
  static auto* const told = new std::unordered_set<const OperatorEntry*>;
  {
    const std::lock_guard lock(*mutex);
    if (!told->insert(&op).second) return;
  }
  warn_of_loop(std::string("vmap: performance drop: ") + op.name +
               " has no batching rule and is called once per entry of the batch");
}

// Entry `b` of a batched tensor; of an empty batch zeros of the same shape.
Tensor entry_of(const Wrapper& wrapper, int64_t b, bool exists) {
  if (exists) return ops::select_int::call(wrapper.value, wrapper.batch_dim, b);
  const Tensor front = to_front(wrapper);
  return ops::new_zeros::call(front, front.sizes().slice(1, front.sizes().size() - 1));
}

// Stacks the results of all entries, or for an empty batch makes nothing of one result's shape.
Tensor joined(const std::vector<Tensor>& column, bool exists) {
  if (exists) return ops::stack::call(column, 0);
  return ops::new_zeros::call(column.front(), expanded(column.front(), 0).sizes());
}

using Row = std::vector<std::vector<Tensor>>;  // by result: its tensors, one or those of its list

Row row_of(const BatchedCall& call, Stack& results) {
  Row row(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].is_tensor()) {
      row[i] = {results[i].tensor()};
    } else if (std::holds_alternative<std::vector<Tensor>>(results[i].payload())) {
      row[i] = results[i].get<std::vector<Tensor>>();
    } else {
      check(results[i].is_none(), call.op.name,
            ": vmap: a result that is not a tensor may differ between entries");
    }
  }
  return row;
}

std::vector<Row> run_each(const BatchedCall& call, Stack& last) {
  const bool exists = call.layer.batch_size > 0;
  std::vector<Row> rows;
  const BelowLayer below;
  for (int64_t b = 0; b == 0 || b < call.layer.batch_size; ++b) {
    last = call.stack;
    for (size_t i = 0; i < last.size(); ++i) {
      each_tensor(last[i], [&](Tensor& t) {
        if (const Wrapper* w = call.batched(t)) t = entry_of(*w, b, exists);
      });
    }
    call_operator(call.op, last);
    rows.push_back(row_of(call, last));
  }
  return rows;
}

// What is written keeps its place in the batch: other sizes or other memory would be lost.
void check_places(const BatchedCall& call, const std::vector<Row>& rows, size_t i, int8_t written) {
  const Tensor target = call.stack[static_cast<size_t>(written)].tensor();
  const Wrapper* const wrapper = call.batched(target);
  if (!wrapper) return;
  for (const Row& row : rows) {
    const Tensor& entry = row[i].front();
    const bool exists = call.layer.batch_size > 0;
    const bool same_memory = !exists || entry.storage().get() == wrapper->value.storage().get();
    check(entry.sizes() == target.sizes() && same_memory, call.op.name,
          ": vmap: expected a batched tensor to keep its memory and sizes ", target.sizes(),
          ", got other memory or sizes ", entry.sizes());
  }
}

// Result `i` of all entries.
void join_result(const BatchedCall& call, const std::vector<Row>& rows, size_t i, IValue& result) {
  size_t at = 0;
  for (const Row& row : rows) {
    check(row[i].size() == rows.front()[i].size(), call.op.name, ": vmap: expected ",
          rows.front()[i].size(), " results for each entry, got ", row[i].size());
  }
  each_tensor(result, [&](Tensor& t) {
    std::vector<Tensor> column;
    while (!rows.front()[i][at].defined()) ++at;
    for (const Row& row : rows) column.push_back(row[i][at]);
    Tensor value;
    {
      const BelowLayer below;
      value = joined(column, call.layer.batch_size > 0);
    }
    t = make_batched(value, 0, call.layer.level);
    ++at;
  });
}

}  // namespace

bool set_loop_warnings(bool enabled) { return loop_warnings.exchange(enabled); }

void run_loop(BatchedCall& call) {
  if (call.layer.batch_size > 1) warn_once(call.op);
  require_batched_targets(call);
  const Targets targets(call);
  Stack results;
  const std::vector<Row> rows = run_each(call, results);
  targets.refresh_all();
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultTraits& traits = call.traits.results[i];
    if (traits.is_self) {
      check_places(call, rows, i, traits.alias);
      results[i] = IValue(targets.finished(static_cast<size_t>(traits.alias)));
    } else {
      join_result(call, rows, i, results[i]);
    }
  }
  call.stack = std::move(results);
}

}  // namespace flambeau::transforms
