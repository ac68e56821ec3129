#include "tools/cli/searching/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "search/baselines/baselines.h"
#include "sim/base/errors.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/base/figures.h"

namespace pipesim {
namespace {

constexpr const char* kTryAuto =
    "--algorithm auto: it tries pipelines too, whose devices hold some layers each";
constexpr const char* kTryOtherPipelines =
    "--algorithm auto: it tries other pipelines, in other numbers of microbatches";

// Returns whether weights, gradients and optimizer state fit: they stay, whatever runs again and however
// small microbatches are.
bool weights_fit(Evaluator& evaluator, const Strategy& strategy) {
  const PlanContents& contents = evaluator.contents();
  const std::vector<WeightMemory> kept = contents.permanent_memory(contents.bind(strategy));
  for (std::size_t d = 0; d < kept.size(); ++d) {
    if (kept[d].weights + kept[d].gradients + kept[d].optimizer_state >
        evaluator.topology().usable_memory(DeviceId(d)))
      return false;
  }
  return true;
}

// Returns options that recompute everything, if nothing is recomputed yet and the model allows it.
std::optional<PlanOptions> with_recompute(const OperatorGraph& graph, const PlanOptions& options) {
  PlanOptions more = options;
  more.recompute = parse_recompute("full");
  if (options.recompute.kind != Recompute::Kind::None || illegal(graph, more.recompute, options.pipeline))
    return std::nullopt;
  return more;
}

bool fits(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
          const Strategy& strategy) {
  return Evaluator(graph, costs, options).evaluate(strategy).feasible();
}

// Returns whether a plan fits with this recomputation. The evaluator keeps most of what it needs for it.
bool fits_with(const Recompute& recompute, Evaluator& evaluator, const Strategy& strategy) {
  return evaluator.with(evaluator.contents().options().pipeline, recompute).evaluate(strategy).feasible();
}

// Returns a hint at the first larger number of microbatches, which are smaller, with which the baseline fits.
std::optional<std::string> with_microbatches(Evaluator& evaluator, const std::string& baseline,
                                             const ModelRun& run, PlanOptions options, const char* beside) {
  constexpr std::array<std::int32_t, 4> kTimes{2, 4, 16, 64};
  const std::int64_t batch = evaluator.graph().batch();
  for (const std::int32_t times : kTimes) {
    const std::int64_t microbatches = std::int64_t{run.microbatches} * times;
    if (batch % times != 0 || microbatches > kMostMicrobatches) continue;
    try {
      const OperatorGraph smaller = open_model(with_batch(run.model, batch / times));
      options.microbatches = static_cast<std::int32_t>(microbatches);
      const Strategy strategy = baseline_strategy(baseline, smaller, evaluator.costs());
      if (fits(smaller, evaluator.costs(), options, strategy))
        return fmt::format("--batch {} --microbatches {}{}: {} fits", batch * run.microbatches, microbatches,
                           beside, baseline);
    } catch (const InputError&) {  // the batch is not to be chosen, or this one can't be split
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> hints_to_fit(Evaluator& evaluator, const Baseline& nearest, const ModelRun& run,
                                      const Algorithm* algorithm) {
  std::vector<std::string> hints;
  const OperatorGraph& graph = evaluator.graph();
  const PlanOptions& options = evaluator.contents().options();
  if (weights_fit(evaluator, nearest.scored->plan)) {
    const std::optional<PlanOptions> again = with_recompute(graph, options);
    if (again && fits_with(again->recompute, evaluator, nearest.scored->plan))
      hints.push_back(fmt::format("--recompute full: {} fits", nearest.name));
    if (auto smaller = with_microbatches(evaluator, nearest.name, run, options, "")) {
      hints.push_back(*std::move(smaller));
    } else if (again && hints.empty()) {
      smaller = with_microbatches(evaluator, nearest.name, run, *again, " --recompute full");
      if (smaller) hints.push_back(*std::move(smaller));
    }
  }
  if (algorithm == nullptr) {
    hints.push_back("search " + std::string(kTryAuto));
  } else if (!algorithm->asks_others) {
    hints.emplace_back(kTryAuto);
  }
  return hints;
}

std::vector<std::string> hints_to_fit(Evaluator& evaluator, const Strategy& plan, const Algorithm* algorithm,
                                      bool by_recipe) {
  const PlanOptions& options = evaluator.contents().options();
  if (const auto missing = missing_room(evaluator.graph(), evaluator.topology(), options))
    return {fmt::format("{} or more such devices: {}", missing->devices, missing->text)};
  std::vector<std::string> hints;
  const std::optional<Pipeline>& pipeline = evaluator.contents().options().pipeline;
  if (weights_fit(evaluator, plan)) {
    const auto again = with_recompute(evaluator.graph(), evaluator.contents().options());
    if (again && fits_with(again->recompute, evaluator, plan))
      hints.emplace_back(by_recipe ? "recompute=full in the recipe: this plan fits"
                                   : "--recompute full: this plan fits");
    // All that go forward before the first comes back are held at once, however small they are.
    if (evaluator.graph().batch() > 1 && pipeline && !schedule_kind(pipeline->schedule).holds_all)
      hints.emplace_back("more --microbatches of fewer samples (with --batch): each holds less");
  }
  const bool has_stages = pipeline && pipeline->num_stages() > 1;
  if (algorithm == nullptr || !algorithm->asks_others)
    hints.push_back((algorithm == nullptr ? "search " : "") +
                    std::string(has_stages ? kTryOtherPipelines : kTryAuto));
  return hints;
}

std::string hints_text(const std::vector<std::string>& hints) {
  std::string text;
  for (const std::string& hint : hints) text += "\n  try " + hint;
  return text;
}

std::string room_above(Nanoseconds bound, Nanoseconds time) {
  constexpr double kSame = 1.0005, kFewPercent = 1.1;
  const double times = static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, bound));
  if (times < kSame) return "so no plan is faster";
  if (times < kFewPercent) return fmt::format("so at most {:.1f} % faster is possible", 100 * (times - 1));
  return fmt::format("so at most {} times as fast is possible", significant(times, 3));
}

std::string far_above(Nanoseconds bound, Nanoseconds time, const Algorithm* algorithm) {
  constexpr double kFar = 3;
  const double times = static_cast<double>(time) / static_cast<double>(std::max<Nanoseconds>(1, bound));
  if (times < kFar) return "";
  const std::string what = algorithm == nullptr ? "search, also with --algorithm auto, or a larger --batch"
                           : algorithm->asks_others
                               ? "a longer search (--seconds), other --microbatches or a larger --batch"
                               : "--algorithm auto, a longer search (--seconds), or a larger --batch";
  return fmt::format("{} times above the lower bound: a much faster plan may exist; try {}",
                     significant(times, 2), what);
}

}  // namespace pipesim
