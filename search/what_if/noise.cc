#include "search/what_if/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "costmodel/calibration.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "sim/simulate.h"

namespace pipesim {
namespace {

constexpr double kPercent = 100;
constexpr const char* kAllowedNoise =
    "operators=2%, links=10%, devices=3%, hosts=10%, stragglers=0.1%x1.5, separated by commas";

// "2%" or "0.02"; at most 1.
std::optional<double> spread_of(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (percent) value /= kPercent;
  return value >= 0 && value <= 1 ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse_noise(std::string_view whole, std::string_view part) {
  throw InputError(fmt::format("noise \"{}\": found \"{}\", allowed: {}", whole, part, kAllowedNoise));
}

// Factors for the tasks of one iteration.
class NoisyIteration {
 public:
  NoisyIteration(const TaskGraph& graph, std::size_t devices, const NoiseRequest& request)
      : graph_(graph), noise_(request.noise), seed_(request.seed), of_device_(devices) {}

  void draw(std::size_t sample, std::vector<double>& factors) {
    // Samples are numbered, so that no thread's order matters.
    std::seed_seq seeds{seed_ & 0xffffffffU, seed_ >> 32U, static_cast<std::uint64_t>(sample)};
    random_.seed(seeds);
    normal_.reset();
    for (double& factor : of_device_) {
      factor = drawn(noise_.devices);
      if (noise_.stragglers > 0 && uniform_(random_) < noise_.stragglers) factor *= noise_.straggler_factor;
    }
    factors.resize(graph_.labels.size());
    for (std::size_t t = 0; t < factors.size(); ++t) factors[t] = factor_of(graph_.labels[t]);
  }

 private:
  double factor_of(const TaskLabel& label) {
    if (is_pass(label.kind) || label.kind == TaskKind::Update)
      return of_device_[label.device.index()] * drawn(noise_.operators);
    if (is_communication(label.kind)) return drawn(noise_.links);
    return label.kind == TaskKind::Host ? drawn(noise_.hosts) : 1;
  }
  double drawn(double spread) {
    return spread == 0 ? 1 : std::exp(spread * normal_(random_) - spread * spread / 2);
  }

  const TaskGraph& graph_;
  Noise noise_;
  std::uint64_t seed_;
  std::vector<double> of_device_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

}  // namespace

std::string Noise::str() const {
  std::string text;
  const auto add = [&](const char* name, double spread, const std::string& behind) {
    if (spread > 0)
      text += fmt::format("{}{}={}%{}", text.empty() ? "" : ",", name, spread * kPercent, behind);
  };
  add("operators", operators, "");
  add("links", links, "");
  add("devices", devices, "");
  add("hosts", hosts, "");
  add("stragglers", stragglers, fmt::format("x{}", straggler_factor));
  return text;
}

Noise parse_noise(std::string_view text) {
  Noise noise;
  for (std::size_t from = 0, end = 0; end != std::string_view::npos; from = end + 1) {
    end = text.find(',', from);
    const std::string_view part = text.substr(from, end - from);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    std::string_view value = equals < part.size() ? part.substr(equals + 1) : "";
    double* const spread = name == "operators"    ? &noise.operators
                           : name == "links"      ? &noise.links
                           : name == "devices"    ? &noise.devices
                           : name == "hosts"      ? &noise.hosts
                           : name == "stragglers" ? &noise.stragglers
                                                  : nullptr;
    if (!spread) refuse_noise(text, part);
    if (spread == &noise.stragglers) {
      const std::size_t times = value.find('x');
      if (times == std::string_view::npos) refuse_noise(text, part);
      const std::string_view factor = value.substr(times + 1);
      const auto [stop, error] =
          std::from_chars(factor.data(), factor.data() + factor.size(), noise.straggler_factor);
      if (error != std::errc() || stop != factor.data() + factor.size() || !(noise.straggler_factor >= 1))
        refuse_noise(text, part);
      value = value.substr(0, times);
    }
    const auto found = spread_of(value);
    if (!found) refuse_noise(text, part);
    *spread = *found;
  }
  return noise;
}

Noise measured_noise(const Calibration& calibration) {
  constexpr std::size_t kLeast = 8;
  constexpr double kBelow = 0.16, kAbove = 0.84;
  std::vector<double> of_operators, of_links;
  for (const auto& [key, measured] : calibration.keys) {
    const Distribution durations = measured.durations();
    if (durations.sorted_seconds().size() < kLeast) continue;
    const double spread = std::log(durations.quantile(kAbove).value / durations.quantile(kBelow).value) / 2;
    (key.subject == CalibrationKey::Subject::Transfer ? of_links : of_operators).push_back(spread);
  }
  if (of_operators.empty() && of_links.empty())
    throw InputError(fmt::format("the calibration tells no noise: no duration has {} samples", kLeast));
  const auto median = [](std::vector<double>& spreads) {
    if (spreads.empty()) return 0.0;
    const auto middle = spreads.begin() + static_cast<std::ptrdiff_t>(spreads.size() / 2);
    std::ranges::nth_element(spreads, middle);
    return *middle;
  };
  Noise noise;
  noise.operators = median(of_operators);
  noise.links = median(of_links);
  return noise;
}

IterationTimes::IterationTimes(std::vector<Nanoseconds> times, Nanoseconds quiet)
    : times_(std::move(times)), quiet_(quiet) {
  std::ranges::sort(times_);
}

Nanoseconds IterationTimes::quantile(double share) const {
  const double place = share * static_cast<double>(times_.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, times_.size() - 1);
  const double part = place - static_cast<double>(below);
  return times_[below] + std::llround(part * static_cast<double>(times_[above] - times_[below]));
}

Nanoseconds IterationTimes::mean() const {
  double sum = 0;
  for (const Nanoseconds time : times_) sum += static_cast<double>(time);
  return std::llround(sum / static_cast<double>(times_.size()));
}

IterationTimes iteration_times(Evaluator& evaluator, const BoundStrategy& strategy,
                               const NoiseRequest& request) {
  if (evaluator.contents().versions().several())
    throw InputError("noise: the schedule has no end, allowed: schedules whose iterations do not overlap");
  const Evaluated quiet = evaluator.evaluate(strategy, {.extent = Extent::All, .part = Labels::Make});
  const TaskGraph& graph = quiet.part->task_graph();
  struct Worker {
    NoisyIteration noisy;
    TaskDag dag;
    std::vector<double> factors = {};
    SimulationScratch scratch = {};
    Timeline timeline = {};
  };
  std::vector<Worker> workers;
  for (int i = 0; i < request.threads; ++i)
    workers.push_back({NoisyIteration(graph, evaluator.topology().num_devices(), request), graph.dag});
  std::vector<Nanoseconds> times(static_cast<std::size_t>(request.samples));
  std::vector<std::size_t> numbers(times.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  WorkerThreads threads(workers.size());
  threads.run(numbers, [&](std::size_t sample, std::size_t number) {
    if (is_late()) return;
    Worker& worker = workers[number];
    worker.noisy.draw(sample, worker.factors);
    worker.dag.retime(graph.dag, worker.factors);
    simulate(worker.dag, worker.scratch, worker.timeline);
    times[sample] = worker.timeline.makespan;
  });
  stop_if_late();
  return {std::move(times), quiet.cost->time};
}

NoiseObjective parse_objective(std::string_view text) {
  if (text == "mean") return {};
  double value = 0;
  const std::string_view number = text.substr(std::min<std::size_t>(1, text.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (!text.starts_with('p') || error != std::errc() || end != number.data() + number.size() ||
      !(value > 0) || !(value < kPercent))
    throw InputError(fmt::format("objective \"{}\", allowed: mean, or p1 to p99, such as p95", text));
  return {value / kPercent};
}

}  // namespace pipesim
