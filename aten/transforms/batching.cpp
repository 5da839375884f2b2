// What has no batching rule runs once per entry of the batch.
#include "aten/transforms/batching.h"

#include "torchgen_out/aten/join_ops.h"
#include "torchgen_out/aten/view_ops.h"

namespace flambeau::transforms {

namespace {

template <typename F>
void each_tensor(Stack& stack, const F& f) {
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].is_tensor()) {
      if (Tensor& t = stack[i].get<Tensor>(); t.defined()) f(t);
    } else if (std::holds_alternative<std::vector<Tensor>>(stack[i].payload())) {
      for (Tensor& t : stack[i].get<std::vector<Tensor>>()) {
        if (t.defined()) f(t);
      }
    }
  }
}

}  // namespace

void run_batched(const OperatorEntry& op, Stack& stack) {
  const Layer layer = *innermost_layer();
  std::vector<Tensor> wrappers;
  each_tensor(stack, [&](const Tensor& t) {
    if (wrapper_at(t, layer.level)) wrappers.push_back(t);
  });
  const Stack arguments = stack;
  std::vector<std::vector<Tensor>> results;
  {
    const BelowLayer below;
    for (int64_t b = 0; b < layer.batch_size; ++b) {
      stack = arguments;
      each_tensor(stack, [&](Tensor& t) {
        if (const Wrapper* w = wrapper_at(t, layer.level))
          t = ops::select_int::call(w->value, w->batch_dim, b);
      });
      call_operator(op, stack);
      std::vector<Tensor> row;
      each_tensor(stack, [&](const Tensor& t) { row.push_back(t); });
      results.push_back(std::move(row));
    }
  }
  size_t place = 0;
  each_tensor(stack, [&](Tensor& t) {
    std::vector<Tensor> column;
    for (const auto& row : results) column.push_back(row[place]);
    {
      const BelowLayer below;
      t = ops::stack::call(column, 0);
    }
    t = make_batched(t, 0, layer.level);
    ++place;
  });
}

}  // namespace flambeau::transforms
