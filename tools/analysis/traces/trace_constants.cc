#include "tools/analysis/traces/trace_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "costmodel/calibration_store.h"
#include "costmodel/cost_model.h"
#include "sim/base/errors.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

constexpr Seconds kShortRun{0.5};
constexpr double kPastCaches = 200e6;  // bytes: several times the caches of the GPUs of today

// Logarithms of predicted by measured time for one constant. For a factor on time, add() gets the measured
// time first.
struct Evidence {
  std::vector<double> logs, weights;  // weights: seconds
  void add(double predicted, double measured, double weight) {
    if (!(predicted > 0) || !(measured > 0) || !(weight > 0)) return;
    logs.push_back(std::log(predicted / measured));
    weights.push_back(weight);
  }
  [[nodiscard]] bool empty() const { return logs.empty(); }
};

// Returns the mean of the evidence, which the prior pulls towards a factor of 1.
TracedConstant estimate(Constant constant, const Evidence& evidence, std::string words) {
  const WeightedMean mean = weighted_mean(evidence.logs, evidence.weights);
  const double prior = prior_deviation(constant.kind);
  const double spread = evidence.logs.size() > 1 ? mean.deviation : prior;
  // Times are known to a few per mille at best.
  constexpr double kLeastDeviation = 0.005;
  const double deviation = std::max(kLeastDeviation, spread / std::sqrt(mean.effective));
  const double precision = 1 / (prior * prior) + 1 / (deviation * deviation);
  constant.log = mean.mean / (deviation * deviation) / precision;
  return {std::move(constant), 1 / std::sqrt(precision), std::move(words)};
}

class ConstantsOfTrace {
 public:
  ConstantsOfTrace(const TraceAnalysis& analysis, const Topology& topology, const Runtime& runtime)
      : analysis_(analysis), topology_(topology), runtime_(runtime), kind_(topology.kind(DeviceId(0))) {
    if (longest_trace() < kShortRun) kind_.products.sustained = 1;
    std::set<std::string> names;
    for (std::size_t d = 0; d < topology.num_devices(); ++d) names.insert(topology.kind(DeviceId(d)).name);
    if (names.size() > 1)
      throw InputError(fmt::format("topology \"{}\" has {} kinds of devices, allowed with --from-trace: one",
                                   topology.name(), names.size()));
  }

  TracedConstants find(const std::optional<PredictedShares>& predicted) {
    for (const DeviceAnalysis& of : analysis_.devices) {
      for (const OperatorTime& time : of.operators) add_operator(time);
    }
    add_rates(ConstantKind::Products, products_);
    add_rates(ConstantKind::Attention, attention_);
    add_rates(ConstantKind::Memory, memory_);
    if (predicted) add_predicted(*predicted);
    add_links();
    return finished();
  }

 private:
  [[nodiscard]] Seconds longest_trace() const {
    Seconds longest;
    for (const DeviceAnalysis& of : analysis_.devices) {
      Seconds all;
      for (const StepTimes& step : of.steps) all += step.length;
      longest = std::max(longest, all);
    }
    return longest;
  }

  void add_operator(const OperatorTime& time) {
    const TracedWork& work = time.work;
    const double weight = time.total.value, measured = time.call.median;
    if (work.matrix && work.type) {
      const bool fused = work.matrix->fused != FusedPass::None;
      if (fused && !kind_.fused_attention) return;
      KernelWork kernel;
      kernel.flops = work.flops;
      kernel.matrix = work.matrix;
      const double compute = seconds_of(kernel, *work.type);
      kernel.bytes = fused ? 0 : bytes_of_product(*work.matrix, *work.type);
      if (seconds_of(kernel, *work.type) > compute) return;  // bound by memory
      (fused ? attention_ : products_).add(compute, measured, weight);
    } else if (work.bytes >= kPastCaches) {
      KernelWork kernel;
      kernel.bytes = work.bytes;
      memory_.add(seconds_of(kernel, DataType::Float32), measured, weight);
    }
  }

  // A profiler times kernels without the overhead of their launch.
  [[nodiscard]] double seconds_of(const KernelWork& kernel, DataType type) const {
    return (analytic_time_of_separate(kernel, type, kind_, runtime_.flash_attention) - kind_.launch_overhead)
        .value;
  }

  static double bytes_of_product(const MatrixSize& size, DataType type) {
    const auto b = static_cast<double>(size.batch), m = static_cast<double>(size.rows),
               n = static_cast<double>(size.columns), k = static_cast<double>(size.inner);
    return b * (m * k + k * n + m * n) * static_cast<double>(bytes_per_element(type));
  }

  void add_rates(ConstantKind kind, const Evidence& evidence) {
    if (evidence.empty()) return;
    Seconds kernels;
    for (const DeviceAnalysis& of : analysis_.devices) {
      for (const OperatorTime& time : of.operators) kernels += time.total;
    }
    double used = 0;
    for (const double weight : evidence.weights) used += weight;
    const std::size_t shapes = evidence.logs.size();
    found_.push_back(estimate({kind, "", 0}, evidence,
                              fmt::format("{} {}, {} of the time of kernels", shapes,
                                          shapes == 1 ? "shape" : "shapes", percent(used / kernels.value))));
  }

  // Adds the factors of the host and of the update. More time than predicted is a factor above 1.
  void add_predicted(const PredictedShares& predicted) {
    const DeviceAnalysis& of = analysis_.devices.front();
    const StepTimes& step = of.steps[of.typical_step()];
    // A few late launches may come from steps that begin, or from the profiler itself.
    constexpr std::size_t least_waits = 20;
    if (of.host.count >= least_waits && predicted.host.value > 0 && runtime_.has_host()) {
      const double measured = of.host.median * static_cast<double>(step.launches);
      Constant host{ConstantKind::Host, runtime_.name.substr(0, runtime_.name.find(':')),
                    std::log(measured / predicted.host.value)};
      // The median's deviation follows from the quartiles, as if logarithms were normally distributed.
      const double spread = std::log(of.host.high / std::max(1e-9, of.host.low)) / 1.349;
      const double deviation =
          std::max(0.005, 1.2533 * spread / std::sqrt(static_cast<double>(of.host.count)));
      const char* left_out = predicted.keep_host ? "" : ", not in the file";
      found_.push_back({host, deviation,
                        fmt::format("{} launches that the device waited for, {} a step{}", of.host.count,
                                    step.launches, left_out),
                        predicted.keep_host});
    }
    const Seconds update = optimizer_time(of);
    if (update.value > 0 && predicted.update.value > 0) {
      Evidence evidence;
      evidence.add(update.value, predicted.update.value, 1);
      found_.push_back(estimate({ConstantKind::Update, "", 0}, evidence, "the optimizer of one step"));
    }
  }

  [[nodiscard]] static Seconds optimizer_time(const DeviceAnalysis& of) {
    Seconds sum;
    for (const OperatorTime& time : of.operators) {
      if (time.kind == WorkClass::Optimizer) sum += time.total;
    }
    return sum * (1.0 / static_cast<double>(of.steps.size()));
  }

  void add_links() {
    const CostModel costs(topology_, nullptr, runtime_);
    Evidence node, network, latency;
    for (const GroupTimes& group : analysis_.groups) {
      const auto devices = devices_of(group);
      if (!group.fit || !group.kind || devices.size() < 2) continue;
      std::vector<CollectivePoint> said = group.points;
      for (CollectivePoint& point : said)
        point.time = costs.collective_time(*group.kind, devices, point.size).duration;
      const auto predicted = fit_line(said);
      if (!predicted) continue;
      const double weight = std::max(1e-9, (group.recorded - group.waited).value);
      const bool inside = std::ranges::all_of(devices, [&](DeviceId d) {
        return topology_.device(d).node == topology_.device(devices.front()).node;
      });
      (inside ? node : network).add(predicted->beta, group.fit->beta, weight);
      latency.add(group.fit->alpha, predicted->alpha, weight);
    }
    add_link_constant(ConstantKind::NodeLinks, node);
    add_link_constant(ConstantKind::NetworkLinks, network);
    add_link_constant(ConstantKind::Latency, latency);
  }

  [[nodiscard]] std::vector<DeviceId> devices_of(const GroupTimes& group) const {
    std::vector<DeviceId> devices;
    for (const std::int64_t rank : group.members) {
      if (rank < 0 || rank >= static_cast<std::int64_t>(topology_.num_devices())) return {};
      devices.emplace_back(static_cast<std::size_t>(rank));
    }
    const bool two_only = group.kind == Collective::Send && devices.size() != 2;
    return std::set<DeviceId>(devices.begin(), devices.end()).size() == devices.size() && !two_only
               ? devices
               : std::vector<DeviceId>();
  }

  void add_link_constant(ConstantKind kind, const Evidence& evidence) {
    if (evidence.empty()) return;
    const std::size_t groups = evidence.logs.size();
    found_.push_back(estimate({kind, "", 0}, evidence,
                              fmt::format("{} {}", groups, groups == 1 ? "collective" : "collectives")));
  }

  [[nodiscard]] TracedConstants finished() {
    TracedConstants result;
    result.constants.device = kind_.name;
    std::vector<double> deviations;
    for (const TracedConstant& found : found_) {
      if (!found.in_file) continue;
      result.constants.constants.push_back(found.constant);
      deviations.push_back(found.deviation);
    }
    const std::size_t count = deviations.size();
    result.constants.covariance.assign(count * count, 0);
    for (std::size_t i = 0; i < count; ++i)
      result.constants.covariance[i * count + i] = deviations[i] * deviations[i];
    result.constants.discrepancy = spread_after_factors();
    result.constants.source.date = date_now();
    result.found = std::move(found_);
    return result;
  }

  // Returns the spread, over shapes, of what the factors leave unexplained.
  [[nodiscard]] double spread_after_factors() const {
    double squares = 0, sum = 0;
    const auto add = [&](const Evidence& evidence, ConstantKind kind) {
      const auto found =
          std::ranges::find_if(found_, [&](const TracedConstant& c) { return c.constant.kind == kind; });
      for (std::size_t i = 0; i < evidence.logs.size(); ++i) {
        squares += evidence.weights[i] * std::pow(evidence.logs[i] - found->constant.log, 2);
        sum += evidence.weights[i];
      }
    };
    if (!products_.empty()) add(products_, ConstantKind::Products);
    if (!attention_.empty()) add(attention_, ConstantKind::Attention);
    if (!memory_.empty()) add(memory_, ConstantKind::Memory);
    return sum > 0 ? std::sqrt(squares / sum) : prior_deviation(ConstantKind::Products);
  }

  const TraceAnalysis& analysis_;
  const Topology& topology_;
  const Runtime& runtime_;
  DeviceKind kind_;
  Evidence products_, attention_, memory_;
  std::vector<TracedConstant> found_;
};

}  // namespace

TracedConstants constants_of(const TraceAnalysis& analysis, std::span<const MeasuredTrace> traces,
                             const Topology& topology, const Runtime& runtime,
                             const std::optional<PredictedShares>& predicted) {
  if (const auto kinds = kinds_of(analysis); kinds.size() > 1) {
    std::string text;
    for (const KindOfDevices& kind : kinds)
      text +=
          fmt::format("{}\"{}\" ({})", text.empty() ? "" : ", ", kind.name, traces[kind.first->trace].file);
    throw InputError(
        fmt::format("the traces are of {} kinds of devices: {}, allowed with --topology: one, as constants "
                    "are those of a kind",
                    kinds.size(), text));
  }
  TracedConstants result = ConstantsOfTrace(analysis, topology, runtime).find(predicted);
  result.constants.source.file = traces.front().file;
  for (const DeviceAnalysis& of : analysis.devices)
    result.constants.source.runs += static_cast<std::int64_t>(of.steps.size());
  return result;
}

}  // namespace pipesim
