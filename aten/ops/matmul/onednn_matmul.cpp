// Matrix products by oneDNN, one primitive per shape, kept per thread. That oneDNN has none for a
// shape is remembered in the same way.
#include "aten/ops/matmul/onednn_matmul.h"

#include <array>
#include <list>
#include <map>

#include "aten/cpu/onednn.h"
#include "c10/core/interrupt.h"

namespace flambeau::gemm::onednn {

#if FLAMBEAU_ONEDNN
namespace {

using namespace flambeau::onednn;

using Key = std::array<int64_t, 16>;
struct Plan {
  Primitive primitive;  // none where oneDNN does not take the operands
  Memory a, b, out, bias;
  bool has_run = false;
};
constexpr size_t kMaxPlans = 512;

bool has_unit_stride(const Matrix& m) {
  const bool row_major = m.col_stride == 1 && m.row_stride >= m.cols;
  const bool col_major = m.row_stride == 1 && m.col_stride >= m.rows;
  return row_major || col_major;
}

MemoryDesc operand(int64_t count, const Matrix& m, int64_t step, dnnl_data_type_t type) {
  if (count == 1) return strided_desc({m.rows, m.cols}, {m.row_stride, m.col_stride}, type);
  const int64_t batch = step == 0 ? 1 : count;
  return strided_desc({batch, m.rows, m.cols},
                      {step == 0 ? m.rows * m.cols : step, m.row_stride, m.col_stride}, type);
}

Plan make_plan(dnnl_data_type_t type, int64_t count, const Matrix& a, int64_t a_step,
               const Matrix& b, int64_t b_step, const Matrix& c, int64_t c_step, bool accumulate,
               bool has_bias) {
  const MemoryDesc da = operand(count, a, a_step, type);
  const MemoryDesc db = operand(count, b, b_step, type);
  const MemoryDesc dc = operand(count, c, c_step, type);
  MemoryDesc row;
  if (has_bias) row = strided_desc({1, c.cols}, {c.cols, 1}, type);
  Attributes attributes;
  check_status(dnnl_primitive_attr_create(attributes.out()), "matmul");
  dnnl_post_ops_t sum = nullptr;
  if (accumulate) {
    check_status(dnnl_post_ops_create(&sum), "matmul");
    check_status(dnnl_post_ops_append_sum(sum, 1.0F, 0, type), "matmul");
    check_status(dnnl_primitive_attr_set_post_ops(attributes.get(), sum), "matmul");
    dnnl_post_ops_destroy(sum);
  }
  PrimitiveDesc desc;
  Plan plan;
  const dnnl_status_t status = dnnl_matmul_primitive_desc_create(
      desc.out(), engine(), da.get(), db.get(), row.get(), dc.get(), attributes.get());
  if (!is_supported(status, "matmul") || is_reference(desc)) return plan;
  check_status(dnnl_primitive_create(plan.primitive.out(), desc.get()), "matmul");
  plan.a = memory_over(da.get(), nullptr);
  plan.b = memory_over(db.get(), nullptr);
  plan.out = memory_over(dc.get(), nullptr);
  if (has_bias) plan.bias = memory_over(row.get(), nullptr);
  return plan;
}

Plan& plan_for(const Key& key, dnnl_data_type_t type, int64_t count, const Matrix& a,
               int64_t a_step, const Matrix& b, int64_t b_step, const Matrix& c, int64_t c_step,
               bool accumulate, bool has_bias) {
  // Least recently used first; a plan is found by its key.
  static thread_local std::list<std::pair<Key, Plan>> plans;
  static thread_local std::map<Key, std::list<std::pair<Key, Plan>>::iterator> index;
  if (const auto found = index.find(key); found != index.end()) {
    plans.splice(plans.end(), plans, found->second);
    return found->second->second;
  }
  if (plans.size() >= kMaxPlans) {
    index.erase(plans.front().first);
    plans.pop_front();
  }
  plans.emplace_back(key,
                     make_plan(type, count, a, a_step, b, b_step, c, c_step, accumulate, has_bias));
  index[key] = std::prev(plans.end());
  return plans.back().second;
}

void set_data(const Memory& memory, const void* data) {
  check_status(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)), "matmul");
}

void run(Plan& plan, const void* a, const void* b, void* out, const void* bias) {
  set_data(plan.a, a);
  set_data(plan.b, b);
  set_data(plan.out, out);
  if (bias) set_data(plan.bias, bias);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, plan.a.get()},
                                  {DNNL_ARG_WEIGHTS, plan.b.get()},
                                  {DNNL_ARG_DST, plan.out.get()},
                                  {DNNL_ARG_BIAS, plan.bias.get()}};
  const int given = bias ? 4 : 3;
  check_status(dnnl_primitive_execute(plan.primitive.get(), stream(), given, args), "matmul");
  if (!plan.has_run) {
    plan.has_run = true;
    if (const c10::LibraryNote note = c10::note_library_use.load(std::memory_order_relaxed)) note();
  }
}

}  // namespace

bool multiply(ScalarType dtype, int64_t count, const Matrix& a, int64_t a_step, const Matrix& b,
              int64_t b_step, void* out, int64_t out_step, int64_t ldc, bool accumulate,
              const void* bias) {
  dnnl_data_type_t type;
  if (!data_type_of(dtype, &type) || is_emulated(type) || !has_unit_stride(a) ||
      !has_unit_stride(b))
    return false;
  const Matrix c{out, a.rows, b.cols, std::max(ldc, b.cols), 1};
  const Key key = {int64_t{type},
                   count,
                   a.rows,
                   a.cols,
                   b.cols,
                   a.row_stride,
                   a.col_stride,
                   a_step,
                   b.row_stride,
                   b.col_stride,
                   b_step,
                   c.row_stride,
                   out_step,
                   int64_t{accumulate},
                   int64_t{bias != nullptr},
                   0};
  Plan& plan =
      plan_for(key, type, count, a, a_step, b, b_step, c, out_step, accumulate, bias != nullptr);
  if (!plan.primitive) return false;
  run(plan, a.data, b.data, out, bias);
  return true;
}

#else

bool multiply(ScalarType, int64_t, const Matrix&, int64_t, const Matrix&, int64_t, void*, int64_t,
              int64_t, bool, const void*) {
  return false;
}

#endif

}  // namespace flambeau::gemm::onednn
