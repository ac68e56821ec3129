#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "costmodel/calibrated_times.h"
#include "costmodel/cost_model.h"
#include "costmodel/links/hops.h"
#include "costmodel/shard_kernel.h"
#include "sim/base/errors.h"

namespace pipesim {

namespace {

std::optional<DataType> first_known(const DeviceKind& kind, std::initializer_list<DataType> types) {
  for (DataType type : types) {
    if (kind.peak.contains(type)) return type;
  }
  return std::nullopt;
}

std::string refusal_of_type(const DeviceKind& kind, DataType type) {
  std::string known;
  for (const auto& [other, rate] : kind.peak) {
    if (is_narrow(other)) known += fmt::format("{}products={}", known.empty() ? "" : ", ", name_of(other));
  }
  return fmt::format(
      "device kind \"{}\" has no rate of {}; allowed: {}products=own, which keeps products in the "
      "model's own type",
      kind.name, name_of(type), known.empty() ? "" : known + ", or ");
}

}  // namespace

DataType rate_type(const DeviceKind& kind, DataType type) {
  using enum DataType;
  std::optional<DataType> known;
  if (type == BFloat16) known = first_known(kind, {BFloat16, Float16, Float32});
  if (is_narrow(type) && !kind.peak.contains(type)) throw InputError(refusal_of_type(kind, type));
  if (type == Float16) known = first_known(kind, {Float16, BFloat16, Float32});
  if (!known) known = first_known(kind, {type, Float32});
  if (known) return *known;
  if (kind.peak.empty()) throw InternalError("device kind \"" + kind.name + "\" has no peak rate");
  auto slower = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(kind.peak.begin(), kind.peak.end(), slower)->first;
}

FlopsPerSecond peak_rate(const DeviceKind& kind, DataType type) {
  return kind.peak.at(rate_type(kind, type));
}

CostModel::CostModel(const Topology& topology, const Calibration* calibration, Runtime runtime)
    : with_constants_(
          calibration && calibration->constants
              ? std::make_shared<const Topology>(pipesim::with_constants(topology, *calibration->constants))
              : nullptr),
      topology_(with_constants_ ? *with_constants_ : topology),
      runtime_(std::move(runtime)),
      bundles_(std::make_shared<const LinkBundles>(topology_)) {
  if (!calibration) return;
  if (calibration->constants) {
    runtime_ = pipesim::with_constants(std::move(runtime_), *calibration->constants);
    latency_factor_ = latency_factor(*calibration->constants);
  }
  if (calibration->has_durations()) times_ = std::make_shared<const CalibratedTimes>(*calibration, topology_);
}

// What a backend spends on a pass for which no kernel is needed, where that was measured.
Seconds CostModel::idle_pass_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                  std::span<const Range> ranges, DeviceId device) const {
  const CalibrationKey key =
      operator_key(graph, op, pass, ranges, times_->place(device), busy_neighbours(device));
  const Estimate estimate = times_->operator_time(key, device, Seconds(0));
  return estimate.source == DurationSource::Measured ? estimate.time : Seconds(0);
}

Seconds CostModel::analytic_time(const ShardKernel& kernel, DeviceId device) const {
  const DeviceKind& kind = topology_.kind(device);
  KernelWork work = kernel.work;
  if (runtime_.casts_weights_once) work.weight_cast_bytes = 0;
  if (work.sorts && !runtime_.sorts_tokens()) work.bytes_apart = 0;
  if (work.norm_backward) work.bytes /= runtime_.norm_backward;
  if (runtime_.products_sum_gradients && work.matrix) work = with_sums(work);
  return runtime_.separate_kernels
             ? analytic_time_of_separate(work, kernel.type, kind, runtime_.flash_attention)
             : pipesim::analytic_time(work, kernel.type, kind, runtime_.flash_attention);
}

Estimate CostModel::operator_estimate(const OperatorGraph& graph, const Operator& op, Pass pass,
                                      std::span<const Range> ranges, DeviceId device, DataType sums) const {
  const ShardKernel kernel = shard_kernel(graph, op, pass, ranges, {}, sums);
  if (!kernel.runs)
    return {times_ ? idle_pass_time(graph, op, pass, ranges, device) : Seconds(0), DurationSource::Measured};
  if (kernel.measured) return {Seconds(*kernel.measured), DurationSource::Measured};
  const Seconds analytic = analytic_time(kernel, device);
  if (!times_) return {analytic, DurationSource::Analytic};
  const CalibrationKey key =
      operator_key(graph, op, pass, ranges, times_->place(device), busy_neighbours(device));
  Estimate estimate = times_->operator_time(key, device, analytic);
  if (estimate.source != DurationSource::Measured)
    estimate.time = times_->correction(correction_class(pass))(estimate.time);
  return estimate;
}

Seconds CostModel::operator_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                                 std::span<const Range> ranges, DeviceId device, const TokenLoad& load,
                                 DataType sums) const {
  const Seconds even = operator_estimate(graph, op, pass, ranges, device, sums).time;
  if (load.is_even()) return even;
  const ShardKernel kernel = shard_kernel(graph, op, pass, ranges, {}, sums),
                    loaded = shard_kernel(graph, op, pass, ranges, load, sums);
  if (!kernel.runs) return even;
  if (kernel.measured) return even * load.times;
  return even * (analytic_time(loaded, device) / analytic_time(kernel, device));
}

Estimate CostModel::update_estimate(const UpdatedWeights& weights, DeviceId device) const {
  const Seconds analytic = analytic_update_time(weights, topology_.kind(device)) * runtime_.update;
  if (!times_ || weights.elements == 0) return {analytic, DurationSource::Analytic};
  const CalibrationKey key = update_key(weights.optimizer, weights.elements, weights.type,
                                        times_->place(device), busy_neighbours(device));
  Estimate estimate = times_->update_time(key, device, analytic);
  if (estimate.source != DurationSource::Measured)
    estimate.time = times_->correction(correction_class(Pass::Update))(estimate.time);
  return estimate;
}

Seconds CostModel::update_time(const UpdatedWeights& weights, DeviceId device) const {
  return update_estimate(weights, device).time;
}

std::string_view CostModel::calibrated_place(DeviceId device) const {
  return times_ ? std::string_view(times_->place(device)) : std::string_view();
}

std::int32_t CostModel::busy_neighbours(DeviceId device) const {
  return static_cast<std::int32_t>(topology_.devices_of_node(topology_.device(device).node).size()) - 1;
}

std::vector<std::string> CostModel::calibration_warnings() const {
  return times_ ? times_->warnings() : std::vector<std::string>();
}

Seconds CostModel::ideal_time(const OperatorGraph& graph, const Operator& op, Pass pass,
                              std::span<const Range> ranges, const DeviceKind& kind) const {
  const ShardKernel kernel = shard_kernel(graph, op, pass, ranges);
  if (!kernel.runs) return Seconds(0);
  if (kernel.measured) return Seconds(*kernel.measured);
  return pipesim::ideal_time(kernel.work, kernel.type, kind);
}

}  // namespace pipesim
