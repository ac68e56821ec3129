#include "tools/analysis/traces/comparing/predicted_step.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "costmodel/shard_kernel.h"
#include "tools/analysis/traces/time_spans.h"

namespace pipesim {
namespace {

WorkClass class_of_kind(std::string_view kind) {
  using enum WorkClass;
  const auto is = [&](std::initializer_list<std::string_view> kinds) {
    return std::ranges::find(kinds, kind) != kinds.end();
  };
  if (kind.starts_with("conv") || is({"linear", "matmul", "expert_linear", "lstm_cell"})) return Products;
  if (kind.find("attention") != kind.npos || is({"softmax", "select_keys"})) return Attention;
  if (is({"selective_scan", "state_space_scan", "gated_delta_rule"})) return Scans;
  if (is({"layer_norm", "rms_norm", "batch_norm", "group_norm"})) return Norms;
  if (is({"gelu", "silu", "relu", "relu2", "sigmoid", "tanh"})) return Activations;
  if (is({"cross_entropy", "linear_cross_entropy"})) return Loss;
  if (is({"embedding"})) return Embedding;
  return Other;
}

Pass pass_of(TaskKind kind) {
  if (kind == TaskKind::BackwardInput) return Pass::BackwardInput;
  return kind == TaskKind::BackwardWeight ? Pass::BackwardWeight : Pass::Forward;
}

class PredictedWork {
 public:
  PredictedWork(const SimulatedPart& part, const Plan& plan, DeviceId device)
      : part_(part), plan_(plan), device_(device), kind_(part.topology().kind(device)) {}

  StepWork find() {
    const TaskGraph& tasks = part_.task_graph();
    const Timeline& timeline = part_.timeline();
    std::vector<TimeSpan> busy;
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      const TimeSpan span{timeline.start[t], timeline.end[t]};
      if (label.kind == TaskKind::Host || label.kind == TaskKind::Barrier || span.begin >= span.end) continue;
      if (label.device != device_ && label.peer != device_) continue;
      busy.push_back(span);
      if (label.kind == TaskKind::Interference) continue;  // its collective is counted
      add(label, to_seconds(span.end - span.begin));
    }
    work_.length = to_seconds(timeline.makespan);
    work_.idle = to_seconds(timeline.makespan - total(united(busy)));
    return std::move(work_);
  }

 private:
  void add(const TaskLabel& label, Seconds time) {
    if (is_communication(label.kind)) return count(WorkClass::Collectives, time);
    if (label.kind == TaskKind::Update) return count(WorkClass::Optimizer, time);
    const Operator& op = part_.graph().op(label.op);
    const WorkClass kind = class_of_kind(op.kind);
    const auto ranges = ranges_of(label);
    if (!ranges || op.measured) return count(kind, time);
    const Pass pass = pass_of(label.kind);
    const KernelWork kernel =
        shard_kernel(part_.graph(), op, pass, *ranges, {}, part_.contents().options().gradient_type).work;
    const bool alone = kind == WorkClass::Products || kind == WorkClass::Attention;
    if (part_.costs().runtime().separate_kernels) {
      if (!kernel.matrix || !part_.costs().runtime().products_sum_gradients)
        time = take(WorkClass::GradientSums, kernel.gradient_bytes + kernel.sum_bytes, time);
      // Here the bytes apart are those of an activation that is part of the product's operator, or, in the
      // pass for the weight, of the sum of the bias's gradient.
      const bool activation = kind == WorkClass::Products && pass != Pass::BackwardWeight;
      if (alone) {
        time = take(activation ? WorkClass::Activations : WorkClass::Other, kernel.bytes_apart, time);
        time = take(WorkClass::Other, kernel.cast_bytes + kernel.weight_cast_bytes + kernel.unpacked_bytes,
                    time);
      }
    }
    if (kind == WorkClass::Products && kernel.matrix) {
      if (const auto key = product_key(*kernel.matrix)) {
        work_.products[*key].time += time;
        ++work_.products[*key].calls;
      }
    }
    count(kind, time);
  }

  // Counts the time of so many bytes, and returns what is left of the task's time.
  Seconds take(WorkClass kind, double bytes, Seconds of) {
    if (bytes <= 0) return of;
    const Seconds time =
        std::min(of, Seconds(bytes / (kind_.memory_bandwidth.value * kind_.memory_efficiency)));
    count(kind, time);
    return of - time;
  }

  void count(WorkClass kind, Seconds time) {
    TimeAndCalls& of = work_.classes[static_cast<std::size_t>(kind)];
    of.time += time;
    ++of.calls;
  }

  // Returns the ranges of the shard that the device holds; nothing where it holds none.
  [[nodiscard]] std::optional<std::vector<Range>> ranges_of(const TaskLabel& label) const {
    const ParallelConfig& config = plan_.strategy[label.op.index()];
    const auto shard = std::ranges::find(config.devices, device_);
    if (shard == config.devices.end()) return std::nullopt;
    std::vector<Range> ranges;
    ShardGrid(part_.graph().op(label.op), config).ranges(shard - config.devices.begin(), ranges);
    return ranges;
  }

  SimulatedPart part_;
  const Plan& plan_;
  DeviceId device_;
  const DeviceKind& kind_;
  StepWork work_;
};

}  // namespace

std::optional<ProductKey> product_key(const MatrixSize& size) {
  if (size.fused != FusedPass::None) return std::nullopt;
  return ProductKey{size.batch, std::min(size.rows, size.columns), std::max(size.rows, size.columns),
                    size.inner};
}

StepWork predicted_work(const SimulatedPart& part, const Plan& plan, DeviceId device) {
  return PredictedWork(part, plan, device).find();
}

PredictedShares predicted_shares(const SimulatedPart& part, DeviceId device) {
  PredictedShares shares;
  const TaskGraph& tasks = part.task_graph();
  const Timeline& timeline = part.timeline();
  for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
    const TaskLabel& label = tasks.labels[t];
    if (label.device != device) continue;
    const Seconds time = to_seconds(timeline.end[t] - timeline.start[t]);
    if (label.kind == TaskKind::Host) shares.host += time;
    if (label.kind == TaskKind::Update) shares.update += time;
  }
  return shares;
}

StepWork measured_work(const MeasuredTrace& trace, const TracedStep& step, const StepTimes& times) {
  StepWork work;
  work.length = times.length;
  work.idle = times.length - times.busy;
  std::set<std::pair<const TracedOperator*, WorkClass>> seen;
  for (const std::size_t a : step.activities) {
    const DeviceActivity& activity = trace.activities[a];
    const WorkClass kind = class_of(trace, activity);
    const TracedOperator* op = trace.operator_of(activity);
    const bool is_new = !op || seen.insert({op, kind}).second;  // a call may have several kernels
    TimeAndCalls& of = work.classes[static_cast<std::size_t>(kind)];
    of.time += to_seconds(activity.duration);
    of.calls += is_new ? 1 : 0;
    if (kind != WorkClass::Products || !op || op->call < 0) continue;
    const TracedWork traced = work_of(trace.name(op->name), trace.calls[static_cast<std::size_t>(op->call)]);
    if (!traced.matrix) continue;
    if (const auto key = product_key(*traced.matrix)) {
      work.products[*key].time += to_seconds(activity.duration);
      work.products[*key].calls += is_new ? 1 : 0;
    }
  }
  return work;
}

}  // namespace pipesim
