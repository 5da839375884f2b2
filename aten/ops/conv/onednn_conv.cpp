// Convolution by oneDNN. Between row-major tensors primitives choose their own (blocked) layouts,
// and tensors are reordered at the border; channels-last images are read and written where they
// are, if oneDNN has a fast way to. One plan per geometry, layout and direction, kept per thread;
// that oneDNN has no way at all is remembered as a plan without a primitive.
#include <array>
#include <list>
#include <map>

#include "aten/core/factory.h"
#include "aten/core/shape.h"
#include "aten/cpu/onednn.h"
#include "aten/ops/conv/convolution.h"

namespace flambeau::conv::onednn {

#if FLAMBEAU_ONEDNN
namespace {

using namespace flambeau::onednn;

enum class Direction : int64_t { Forward, BackwardInput, BackwardWeight };

// One tensor of a primitive: the user's layout and the one that the primitive wants.
struct Port {
  MemoryDesc plain;
  const_dnnl_memory_desc_t wanted = nullptr;  // owned by the primitive descriptor
  bool same = false;
};
struct Plan {
  PrimitiveDesc hint, desc;  // desc: none where oneDNN does not take the problem
  Primitive primitive;
  Port source, weights, destination;
};
constexpr size_t kMaxPlans = 256;
using Key = std::array<int64_t, 25>;

Key key_of(const Problem& p, Direction direction, bool bias) {
  Key key{};
  size_t i = 0;
  for (const int64_t v :
       {int64_t(direction), p.batch, p.in_channels, p.out_channels, p.groups, int64_t(p.dtype),
        int64_t{bias}, p.dims(), int64_t{p.channels_last} + 2 * int64_t{p.weight_channels_last}}) {
    key[i++] = v;
  }
  for (const DimVector* list : {&p.in, &p.kernel, &p.stride, &p.padding, &p.dilation}) {
    for (const int64_t v : *list) key[i++] = v;
  }
  return key;
}

struct Shapes {
  DimVector source, weights, destination, bias;
  DimVector source_strides, weight_strides, destination_strides;
  DimVector dilation, padding_end;
  explicit Shapes(const Problem& p) {
    source = {p.batch, p.in_channels};
    destination = {p.batch, p.out_channels};
    if (p.groups > 1) weights.push_back(p.groups);
    weights.push_back(p.out_channels / p.groups);
    weights.push_back(p.in_channels / p.groups);
    bias = {p.out_channels};
    for (size_t d = 0; d < p.in.size(); ++d) {
      source.push_back(p.in[d]);
      destination.push_back(p.out[d]);
      weights.push_back(p.kernel[d]);
      dilation.push_back(p.dilation[d] - 1);
      // The last window may leave input unused: oneDNN wants the padding that makes it fit exactly.
      padding_end.push_back((p.out[d] - 1) * p.stride[d] + (p.kernel[d] - 1) * p.dilation[d] + 1 -
                            p.in[d] - p.padding[d]);
    }
    const auto strides_of = [](IntArrayRef sizes, bool last) {
      return last ? channels_last_strides(sizes) : contiguous_strides(sizes);
    };
    source_strides = strides_of(source, p.channels_last);
    destination_strides = strides_of(destination, p.channels_last);
    DimVector whole = weights;
    if (p.groups > 1) whole.erase(0);
    weight_strides = strides_of(whole, p.weight_channels_last);
    if (p.groups > 1) weight_strides.insert(0, weight_strides[0] * weights[1]);
  }
};

Port port_of(IntArrayRef sizes, IntArrayRef strides, dnnl_data_type_t type,
             const PrimitiveDesc& desc, dnnl_query_t what) {
  Port port;
  port.plain = strided_desc(sizes, strides, type);
  port.wanted = dnnl_primitive_desc_query_md(desc.get(), what, 0);
  port.same = dnnl_memory_desc_equal(port.plain.get(), port.wanted) != 0;
  return port;
}

dnnl_status_t describe_backward(Plan& plan, const Problem& p, Direction direction, const Shapes& s,
                                const MemoryDesc& source, const MemoryDesc& weights,
                                const MemoryDesc& destination) {
  if (direction == Direction::BackwardInput) {
    return dnnl_convolution_backward_data_primitive_desc_create(
        plan.desc.out(), engine(), dnnl_convolution_direct, source.get(), weights.get(),
        destination.get(), p.stride.data(), s.dilation.data(), p.padding.data(),
        s.padding_end.data(), plan.hint.get(), nullptr);
  }
  return dnnl_convolution_backward_weights_primitive_desc_create(
      plan.desc.out(), engine(), dnnl_convolution_direct, source.get(), weights.get(), nullptr,
      destination.get(), p.stride.data(), s.dilation.data(), p.padding.data(), s.padding_end.data(),
      plan.hint.get(), nullptr);
}

// `in_place`: images keep the user's layout.
Plan describe(const Problem& p, Direction direction, const Shapes& s, bool bias,
              dnnl_data_type_t type, bool in_place) {
  const auto image = [&](IntArrayRef sizes, IntArrayRef strides) {
    return in_place ? strided_desc(sizes, strides, type) : any_desc(sizes, type);
  };
  const MemoryDesc source = image(s.source, s.source_strides), weights = any_desc(s.weights, type),
                   destination = image(s.destination, s.destination_strides),
                   bias_desc = strided_desc(s.bias, {1}, type);
  Plan plan;
  const bool forward_only = direction == Direction::Forward;
  PrimitiveDesc& forward = forward_only ? plan.desc : plan.hint;
  // For inference depthwise convolutions want channels last, and reordering costs more than they
  // do.
  const bool depthwise = p.groups == p.in_channels && p.groups == p.out_channels;
  const dnnl_prop_kind_t kind =
      forward_only && !depthwise ? dnnl_forward_inference : dnnl_forward_training;
  const dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
      forward.out(), engine(), kind, dnnl_convolution_direct, source.get(), weights.get(),
      bias ? bias_desc.get() : nullptr, destination.get(), p.stride.data(), s.dilation.data(),
      p.padding.data(), s.padding_end.data(), nullptr);
  if (!is_supported(status, "convolution") || forward_only) return plan;
  is_supported(describe_backward(plan, p, direction, s, source, weights, destination),
               "convolution_backward");
  return plan;
}

bool has_fast_way(const Plan& plan) { return plan.desc && !is_reference(plan.desc); }

Plan make_plan(const Problem& p, Direction direction, bool bias, dnnl_data_type_t type) {
  const Shapes s(p);
  Plan plan = describe(p, direction, s, bias, type, p.channels_last);
  if (p.channels_last && !has_fast_way(plan)) plan = describe(p, direction, s, bias, type, false);
  if (!has_fast_way(plan)) return {};
  check_status(dnnl_primitive_create(plan.primitive.out(), plan.desc.get()), "convolution");
  const bool for_input = direction == Direction::BackwardInput,
             for_weight = direction == Direction::BackwardWeight;
  const bool forward_only = direction == Direction::Forward;
  plan.source = port_of(s.source, s.source_strides, type, plan.desc,
                        for_input ? dnnl_query_diff_src_md : dnnl_query_src_md);
  plan.weights = port_of(s.weights, s.weight_strides, type, plan.desc,
                         for_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
  plan.destination = port_of(s.destination, s.destination_strides, type, plan.desc,
                             forward_only ? dnnl_query_dst_md : dnnl_query_diff_dst_md);
  return plan;
}

bool all_positive(IntArrayRef list) {
  for (const int64_t n : list) {
    if (n <= 0) return false;
  }
  return true;
}

Plan* supported(Plan& plan) { return plan.primitive ? &plan : nullptr; }

Plan* plan_for(const Problem& p, Direction direction, bool bias) {
  dnnl_data_type_t type;
  if (!data_type_of(p.dtype, &type) || is_emulated(type) ||
      !all_positive({p.batch, p.in_channels, p.out_channels}) || !all_positive(p.in) ||
      !all_positive(p.out)) {
    return nullptr;
  }
  static thread_local std::list<std::pair<Key, Plan>> plans;
  static thread_local std::map<Key, std::list<std::pair<Key, Plan>>::iterator> index;
  const Key key = key_of(p, direction, bias);
  if (const auto found = index.find(key); found != index.end()) {
    plans.splice(plans.end(), plans, found->second);
    return supported(found->second->second);
  }
  if (plans.size() >= kMaxPlans) {
    index.erase(plans.front().first);
    plans.pop_front();
  }
  plans.emplace_back(key, make_plan(p, direction, bias, type));
  index[key] = std::prev(plans.end());
  return supported(plans.back().second);
}

// A tensor as the primitive sees it, through a temporary where its layout differs.
class Bound {
 public:
  Bound(const Port& port, const Tensor& tensor, bool is_output)
      : plain_(memory_over(port.plain.get(), tensor.data())) {
    if (port.same) return;
    const auto bytes = static_cast<int64_t>(dnnl_memory_desc_get_size(port.wanted));
    buffer_ = empty_tensor({bytes}, ScalarType::UInt8);
    own_ = memory_over(port.wanted, buffer_.data());
    if (!is_output) reorder(plain_.get(), own_.get());
  }
  dnnl_memory_t get() const { return own_ ? own_.get() : plain_.get(); }
  void write_back() const {
    if (own_) reorder(own_.get(), plain_.get());
  }

 private:
  Memory plain_, own_;
  Tensor buffer_;
};

}  // namespace

bool forward(const Problem& p, const Tensor& input, const Tensor& weight, const Tensor& bias,
             const Tensor& output) {
  const Plan* plan = plan_for(p, Direction::Forward, bias.defined());
  if (!plan) return false;
  const Bound source(plan->source, input, false), weights(plan->weights, weight, false),
      destination(plan->destination, output, true);
  std::vector<dnnl_exec_arg_t> args = {{DNNL_ARG_SRC, source.get()},
                                       {DNNL_ARG_WEIGHTS, weights.get()},
                                       {DNNL_ARG_DST, destination.get()}};
  Memory bias_memory;
  if (bias.defined()) {
    bias_memory = memory_over(
        dnnl_primitive_desc_query_md(plan->desc.get(), dnnl_query_weights_md, 1), bias.data());
    args.push_back({DNNL_ARG_BIAS, bias_memory.get()});
  }
  execute(plan->primitive.get(), args);
  destination.write_back();
  return true;
}

bool backward_input(const Problem& p, const Tensor& grad_output, const Tensor& weight,
                    const Tensor& grad_input) {
  const Plan* plan = plan_for(p, Direction::BackwardInput, false);
  if (!plan) return false;
  const Bound destination(plan->destination, grad_output, false),
      weights(plan->weights, weight, false), source(plan->source, grad_input, true);
  execute(plan->primitive.get(), {{DNNL_ARG_DIFF_DST, destination.get()},
                                  {DNNL_ARG_WEIGHTS, weights.get()},
                                  {DNNL_ARG_DIFF_SRC, source.get()}});
  source.write_back();
  return true;
}

bool backward_weight(const Problem& p, const Tensor& grad_output, const Tensor& input,
                     const Tensor& grad_weight) {
  const Plan* plan = plan_for(p, Direction::BackwardWeight, false);
  if (!plan) return false;
  const Bound destination(plan->destination, grad_output, false),
      source(plan->source, input, false), weights(plan->weights, grad_weight, true);
  execute(plan->primitive.get(), {{DNNL_ARG_DIFF_DST, destination.get()},
                                  {DNNL_ARG_SRC, source.get()},
                                  {DNNL_ARG_DIFF_WEIGHTS, weights.get()}});
  weights.write_back();
  return true;
}

#else

bool forward(const Problem&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return false;
}
bool backward_input(const Problem&, const Tensor&, const Tensor&, const Tensor&) { return false; }
bool backward_weight(const Problem&, const Tensor&, const Tensor&, const Tensor&) { return false; }

#endif

}  // namespace flambeau::conv::onednn
