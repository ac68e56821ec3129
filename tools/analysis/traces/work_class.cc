#include "tools/analysis/traces/work_class.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>

namespace pipesim {
namespace {

constexpr std::array<std::string_view, num_work_classes> kWorkClassNames{
    "products",  "attention", "scans",         "norms",       "activations",      "loss",
    "embedding", "optimizer", "gradient sums", "collectives", "copies and fills", "other kernels"};

bool has_one_of(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != text.npos; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return lower;
}

// Compares the whole name behind "aten::", so that "aten::comm" is no product, although it contains "mm".
bool is_operator(std::string_view name, std::initializer_list<std::string_view> allowed) {
  const std::size_t colon = name.rfind("::");
  const std::string_view bare = colon == name.npos ? name : name.substr(colon + 2);
  return std::ranges::any_of(allowed, [&](std::string_view one) { return bare == one; });
}

std::optional<WorkClass> class_of_operator(const std::string& name) {
  using enum WorkClass;
  if (is_operator(name, {"mm", "addmm", "bmm", "baddbmm", "linear", "_scaled_mm", "_grouped_mm", "matmul",
                         "convolution", "cudnn_convolution", "convolution_backward"}))
    return Products;
  // Functions of mamba and flash-linear-attention.
  if (has_one_of(name, {"ChunkScan", "SplitConv1dScan", "SelectiveScan", "DeltaRule", "ChunkKDA"}))
    return Scans;
  if (has_one_of(name, {"attention"}) || is_operator(name, {"_softmax", "_softmax_backward_data"}))
    return Attention;
  if (has_one_of(name, {"layer_norm", "rms_norm", "batch_norm", "group_norm"})) return Norms;
  if (has_one_of(name, {"log_softmax", "nll_loss", "cross_entropy"})) return Loss;
  if (has_one_of(name, {"embedding"})) return Embedding;
  if (has_one_of(name, {"gelu", "silu", "relu", "aten::tanh", "aten::sigmoid"})) return Activations;
  if (has_one_of(name, {"_foreach_", "_fused_adam", "_fused_sgd", "Optimizer.step", "linalg_vector_norm"}))
    return Optimizer;
  if (has_one_of(name, {"AccumulateGrad"})) return GradientSums;
  return std::nullopt;
}

WorkClass class_of_kernel(const std::string& name) {
  using enum WorkClass;
  const std::string kernel = lower_case(name);
  // Kernels of mamba and flash-linear-attention.
  if (has_one_of(kernel, {"selective_scan", "chunk_scan", "chunk_state", "chunk_cumsum", "bmm_chunk",
                          "state_passing", "delta_rule", "_kda_", "chunk_fwd_kernel", "chunk_bwd_kernel",
                          "scaled_dot_kkt", "wy_repr", "recompute_w_u", "chunk_local_cumsum"}))
    return Scans;
  if (has_one_of(kernel, {"flash", "fmha", "attention", "sparse_attn", "mqa_logits"})) return Attention;
  if (has_one_of(kernel, {"gemm", "nvjet", "cutlass", "matmul", "cublas"})) return Products;
  if (has_one_of(kernel, {"layer_norm", "layernorm", "rms_norm", "rmsnorm", "batch_norm"})) return Norms;
  if (has_one_of(kernel, {"cross_entropy", "log_softmax", "nll_loss"})) return Loss;
  if (has_one_of(kernel, {"embedding"})) return Embedding;
  if (has_one_of(kernel, {"gelu", "silu", "relu"})) return Activations;
  if (has_one_of(kernel, {"adam", "multi_tensor_apply"})) return Optimizer;
  return Other;
}

bool is_collective(const std::string& kernel) {
  return has_one_of(kernel, {"ncclKernel", "ncclDevKernel", "nccl_", "rccl"});
}

// An argument that is one tensor of a known type.
struct TracedTensor {
  const std::vector<std::int64_t>* shape = nullptr;
  DataType type = DataType::Float32;
  [[nodiscard]] std::size_t rank() const { return shape->size(); }
  [[nodiscard]] std::int64_t size(std::size_t dim) const { return (*shape)[dim]; }
  [[nodiscard]] double bytes() const {
    return static_cast<double>(elements_of(*shape) * bytes_per_element(type));
  }
};

std::optional<TracedTensor> tensor_at(const TracedCall& call, std::size_t position) {
  if (position >= call.inputs.size()) return std::nullopt;
  const TracedInput& input = call.inputs[position];
  const auto type = traced_type(input.type);
  if (!type || input.shapes.size() != 1 || elements_of(input.shapes.front()) == 0) return std::nullopt;
  return TracedTensor{input.shapes.data(), *type};
}

// Returns the work of rows × inner by inner × columns, behind so many leading dims of a batch.
TracedWork product_work(const std::optional<TracedTensor>& a, const std::optional<TracedTensor>& b,
                        std::size_t leading) {
  if (!a || !b || a->rank() != leading + 2 || b->rank() != leading + 2) return {};
  const std::int64_t batch = leading == 1 ? a->size(0) : 1;
  const MatrixSize size{batch, a->size(leading), b->size(leading + 1), a->size(leading + 1), FusedPass::None};
  if (b->size(leading) != size.inner || (leading == 1 && b->size(0) != batch)) return {};
  const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(size.rows) *
                       static_cast<double>(size.columns) * static_cast<double>(size.inner);
  return {size, a->type, flops, 0};
}

// y = x · Wᵀ: x[…, in], W[out, in].
TracedWork linear_work(const TracedCall& call) {
  const auto x = tensor_at(call, 0), w = tensor_at(call, 1);
  if (!x || !w || x->rank() < 1 || w->rank() != 2 || x->size(x->rank() - 1) != w->size(1)) return {};
  const MatrixSize size{1, elements_of(*x->shape) / std::max<std::int64_t>(1, w->size(1)), w->size(0),
                        w->size(1), FusedPass::None};
  return {size, x->type, 2.0 * static_cast<double>(elements_of(*x->shape)) * static_cast<double>(w->size(0)),
          0};
}

// Where an operator of attention has its query, and its causal mask.
struct AttentionForm {
  std::string_view name;
  std::size_t query, causal;
  bool heads_first;  // [batch, heads, positions, width] instead of [batch, positions, heads, width]
  bool backward;
};

// By the schemas of native_functions.yaml in PyTorch 2.
constexpr std::array<AttentionForm, 10> kAttentionForms{
    {{"_flash_attention_forward", 0, 8, false, false},
     {"_flash_attention_backward", 1, 11, false, true},
     {"_scaled_dot_product_flash_attention", 0, 4, true, false},
     {"_scaled_dot_product_flash_attention_backward", 1, 11, true, true},
     {"_efficient_attention_forward", 0, 9, false, false},
     {"_efficient_attention_backward", 1, 14, false, true},
     {"_scaled_dot_product_efficient_attention", 0, 6, true, false},
     {"_scaled_dot_product_efficient_attention_backward", 1, 11, true, true},
     {"_scaled_dot_product_cudnn_attention", 0, 6, true, false},
     {"_scaled_dot_product_cudnn_attention_backward", 1, 14, true, true}}};

TracedWork attention_work(const AttentionForm& form, const TracedCall& call) {
  const auto q = tensor_at(call, form.query), k = tensor_at(call, form.query + 1),
             v = tensor_at(call, form.query + 2);
  if (!q || !k || !v || q->rank() != 4 || k->rank() != 4 || v->rank() != 4) return {};
  const std::size_t heads = form.heads_first ? 1 : 2, positions = 3 - heads;
  const std::int64_t queries = q->size(positions), keys = k->size(positions), width = q->size(3);
  const double pairs = static_cast<double>(q->size(0) * q->size(heads)) * static_cast<double>(queries) *
                       static_cast<double>(keys);
  double visible = 1;
  if (form.causal < call.values.size()) {
    const std::string& value = call.values[form.causal];
    const bool causal = value == "True" || value == "1" || value == "2";
    if (causal && queries == keys)
      visible = (static_cast<double>(keys) + 1) / (2 * static_cast<double>(keys));
  }
  const double forward = 2 * pairs * visible * static_cast<double>(width + v->size(3));
  MatrixSize size{q->size(0) * q->size(heads), queries, keys, width, FusedPass::Forward};
  if (form.backward) {  // as matrix_size() has it
    size.fused = FusedPass::Backward;
    std::swap(size.columns, size.inner);
  }
  return {size, q->type, form.backward ? 2.5 * forward : forward, 0};
}

// How often an operator bound by memory goes over its first tensors, and its result by the type of the first.
struct MemoryForm {
  std::string_view name;
  std::array<double, 2> passes;  // over the first and the second tensor
  double result;                 // elements that are written, by those of the first
};

constexpr std::array<MemoryForm, 28> kMemoryForms{{{"gelu", {1, 0}, 1},
                                                   {"gelu_backward", {1, 1}, 1},
                                                   {"silu", {1, 0}, 1},
                                                   {"silu_backward", {1, 1}, 1},
                                                   {"relu", {1, 0}, 1},
                                                   {"relu_", {1, 0}, 1},
                                                   {"clamp_min", {1, 0}, 1},
                                                   {"threshold_backward", {1, 1}, 1},
                                                   {"tanh", {1, 0}, 1},
                                                   {"tanh_backward", {1, 1}, 1},
                                                   {"sigmoid", {1, 0}, 1},
                                                   {"neg", {1, 0}, 1},
                                                   {"_softmax", {1, 0}, 1},
                                                   {"_softmax_backward_data", {1, 1}, 1},
                                                   {"_log_softmax", {1, 0}, 1},
                                                   {"_log_softmax_backward_data", {1, 1}, 1},
                                                   {"native_layer_norm", {1, 0}, 1},
                                                   {"_fused_rms_norm", {1, 0}, 1},
                                                   {"add", {1, 1}, 1},
                                                   {"add_", {1, 1}, 1},
                                                   {"sub", {1, 1}, 1},
                                                   {"mul", {1, 1}, 1},
                                                   {"mul_", {1, 1}, 1},
                                                   {"div", {1, 1}, 1},
                                                   {"div_", {1, 1}, 1},
                                                   {"fill_", {0, 0}, 1},
                                                   {"zero_", {0, 0}, 1},
                                                   {"copy_", {0, 1}, 1}}};

TracedWork memory_work(const MemoryForm& form, const TracedCall& call) {
  const auto first = tensor_at(call, 0), second = tensor_at(call, 1);
  if (!first) return {};
  TracedWork work{{}, first->type, 0, (form.passes[0] + form.result) * first->bytes()};
  // A smaller second tensor is repeated; with a larger one, the size of the result is not known.
  if (form.passes[1] > 0) {
    if (second && elements_of(*second->shape) > elements_of(*first->shape)) return {{}, first->type, 0, 0};
    if (second) work.bytes += form.passes[1] * second->bytes();
  }
  return work;
}

// A copy in another type of what a loss reads, or of its gradient.
bool copies_logits(const MeasuredTrace& trace, const TracedOperator& op) {
  if (op.call < 0 || !is_operator(trace.name(op.name), {"copy_"})) return false;
  const auto copied = tensor_at(trace.calls[static_cast<std::size_t>(op.call)], 0);
  return copied && std::ranges::binary_search(trace.loss_sizes, elements_of(*copied->shape));
}

}  // namespace

std::string_view name_of(WorkClass kind) { return kWorkClassNames.at(static_cast<std::size_t>(kind)); }

WorkClass class_of(const MeasuredTrace& trace, const DeviceActivity& activity) {
  const std::string& kernel = trace.name(activity.name);
  if (activity.collective >= 0 || is_collective(kernel)) return WorkClass::Collectives;
  if (activity.work != DeviceWork::Kernel) return WorkClass::Copies;
  const TracedOperator* op = trace.operator_of(activity);
  if (!op) return class_of_kernel(kernel);
  for (const TracedOperator* in = op;; in = &trace.operators[static_cast<std::size_t>(in->parent)]) {
    if (const auto found = class_of_operator(trace.name(in->name))) return *found;
    if (in->parent < 0) return copies_logits(trace, *op) ? WorkClass::Loss : WorkClass::Other;
  }
}

TracedWork work_of(std::string_view name, const TracedCall& call) {
  if (is_operator(name, {"mm", "_scaled_mm"})) return product_work(tensor_at(call, 0), tensor_at(call, 1), 0);
  if (is_operator(name, {"addmm"})) return product_work(tensor_at(call, 1), tensor_at(call, 2), 0);
  if (is_operator(name, {"bmm"})) return product_work(tensor_at(call, 0), tensor_at(call, 1), 1);
  if (is_operator(name, {"baddbmm"})) return product_work(tensor_at(call, 1), tensor_at(call, 2), 1);
  if (is_operator(name, {"linear"})) return linear_work(call);
  for (const AttentionForm& form : kAttentionForms) {
    if (is_operator(name, {form.name})) return attention_work(form, call);
  }
  for (const MemoryForm& form : kMemoryForms) {
    if (is_operator(name, {form.name})) return memory_work(form, call);
  }
  return {};
}

std::optional<DataType> traced_type(std::string_view text) {
  constexpr std::pair<std::string_view, DataType> kTypes[] = {{"c10::BFloat16", DataType::BFloat16},
                                                              {"BFloat16", DataType::BFloat16},
                                                              {"c10::Half", DataType::Float16},
                                                              {"Half", DataType::Float16},
                                                              {"float", DataType::Float32},
                                                              {"Float", DataType::Float32},
                                                              {"double", DataType::Float64},
                                                              {"Double", DataType::Float64},
                                                              {"long int", DataType::Int64},
                                                              {"long", DataType::Int64},
                                                              {"Long", DataType::Int64},
                                                              {"int", DataType::Int32},
                                                              {"Int", DataType::Int32},
                                                              {"unsigned char", DataType::UInt8},
                                                              {"Byte", DataType::UInt8},
                                                              {"bool", DataType::UInt8},
                                                              {"Bool", DataType::UInt8},
                                                              {"signed char", DataType::UInt8},
                                                              {"Char", DataType::UInt8}};
  for (const auto& [name, type] : kTypes) {
    if (text == name) return type;
  }
  if (has_one_of(text, {"Float8_"})) return DataType::Float8;
  return std::nullopt;
}

std::string inputs_text(const TracedCall& call) {
  constexpr std::size_t kMostShown = 3;
  std::string text, last;
  std::size_t shown = 0;
  for (const TracedInput& input : call.inputs) {
    const auto type = traced_type(input.type);
    const bool list = input.shapes.size() > 1 || input.type == "TensorList";
    if (input.shapes.empty() || (!type && !list) ||
        (input.shapes.size() == 1 && input.shapes.front().empty() && !list))
      continue;
    if (++shown > kMostShown) return text + ", …";
    std::string one = list ? fmt::format("list of {}", input.shapes.size())
                           : fmt::format("{}", fmt::join(input.shapes.front(), "x"));
    if (type && name_of(*type) != last) {
      last = name_of(*type);
      one += " " + last;
    }
    text += (text.empty() ? "" : ", ") + one;
  }
  return text;
}

}  // namespace pipesim
