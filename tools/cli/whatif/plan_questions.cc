#include "tools/cli/whatif/plan_questions.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "search/what_if/sensitivities.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

struct Answer {
  std::string text;
  Json json;  // an object, whose members are added to the answer
};

// Writes a change such as "-1.20 %".
std::string change_text(Nanoseconds from, Nanoseconds to) {
  constexpr double kPercent = 100;
  return fmt::format("{:+.2f} %", kPercent * (seconds(to) / seconds(from) - 1));
}

// More memory makes no plan faster, only other plans possible.
std::string memory_text(const Sensitivities& found) {
  const double share = static_cast<double>(found.needs.value) / static_cast<double>(found.has.value);
  const std::string of = fmt::format("{} of the {} for plans", pretty(found.needs), pretty(found.has));
  if (share > 1)
    return fmt::format("  memory: the plan needs {}, {:.2f} times as much as there is\n", of, share);
  return fmt::format(
      "  memory: the plan needs {}; more would not make it faster, but may let others fit:\n"
      "  --plans recipes --vary device.memory=x1,x1.1\n",
      of);
}

Answer sensitivity_of(const Subject& s) {
  const Sensitivities found = sensitivities({s.graph, s.topology, pointer_to(s.calibration), s.plan.runtime,
                                             s.plan.options, s.plan.strategy, true});
  Table table({{"figure"}, {"becomes"}, {"critical path", Align::Right}, {"simulated", Align::Right}});
  Json rows = Json::array();
  for (const Sensitivity& f : found.figures) {
    table.add({f.figure, f.value, f.first_order ? change_text(found.time, *f.first_order) : "other tasks",
               f.simulated ? change_text(found.time, *f.simulated) : "-"});
    Json row{{"figure", f.figure}, {"value", f.value}, {"first_order_s", nullptr}, {"simulated_s", nullptr}};
    if (f.first_order) row["first_order_s"] = seconds(*f.first_order);
    if (f.simulated) row["simulated_s"] = seconds(*f.simulated);
    rows.push_back(std::move(row));
  }
  return {fmt::format("what a tenth would bring\n{}{}", table.str(2), memory_text(found)),
          {{"sensitivity", rows},
           {"memory", {{"needs_bytes", found.needs.value}, {"has_bytes", found.has.value}}}}};
}

Answer noise_of(const PlanQuestions& q, const Subject& s, const CostModel& costs) {
  constexpr std::array kShares{0.05, 0.5, 0.9, 0.95, 0.99};
  constexpr double kPercent = 100;
  const NoisyTimes& asked = *q.noise;
  Evaluator evaluator(s.graph, costs, s.plan.options);
  const IterationTimes times = iteration_times(evaluator, evaluator.contents().bind(s.plan.strategy),
                                               {asked.noise, asked.samples, asked.seed, q.threads});
  const Nanoseconds quiet = times.quiet();
  Table table({{"iterations"}, {"take at most", Align::Right}, {"", Align::Right}});
  Json quantiles = Json::object();
  for (const double share : kShares) {
    const Nanoseconds time = times.quantile(share);
    table.add({percent(share), pretty(to_seconds(time)), change_text(quiet, time)});
    quantiles[fmt::format("p{}", kPercent * share)] = seconds(time);
  }
  table.add({"mean", pretty(to_seconds(times.mean())), change_text(quiet, times.mean())});
  return {fmt::format("with noise {} ({} iterations; without {})\n{}", asked.noise.str(), asked.samples,
                      pretty(to_seconds(quiet)), table.str(2)),
          {{"noise",
            {{"noise", asked.noise.str()},
             {"samples", asked.samples},
             {"without_s", seconds(quiet)},
             {"mean_s", seconds(times.mean())},
             {"quantiles_s", quantiles}}}}};
}

Answer goodput_of(const Failures& failures, const Subject& s) {
  const auto devices = static_cast<std::int64_t>(s.topology.num_devices());
  const Goodput found = goodput(failures, devices);
  return {
      fmt::format("with failures\n  one of {} devices fails every {}; a checkpoint every {} is best (Daly)\n"
                  "  {} of the time trains\n",
                  devices, pretty(found.between_failures), pretty(found.interval), percent(found.share)),
      {{"failures",
        {{"between_failures_s", found.between_failures.value},
         {"checkpoint_interval_s", found.interval.value},
         {"goodput", found.share}}}}};
}

}  // namespace

void answer(const PlanQuestions& questions, const Subject& s, Streams& streams) {
  const CostModel costs(s.topology, pointer_to(s.calibration), s.plan.runtime);
  Evaluator evaluator(s.graph, costs, s.plan.options);
  const Evaluation now = evaluator.evaluate(s.plan.strategy);
  Json json{{"model", s.graph.name()},
            {"topology", s.topology.name()},
            {"recipe", s.plan.recipe},
            {"iteration_time_s", seconds(now.time)},
            {"fits", now.feasible()}};
  std::string text = fmt::format("{} on {}, {}: {}{}\n", s.graph.name(), s.topology.name(),
                                 s.plan.recipe.empty() ? s.plan.found_by : s.plan.recipe,
                                 pretty(to_seconds(now.time)), now.feasible() ? "" : ", does not fit");
  const auto add = [&](const Answer& made) {
    text += "\n" + made.text;
    json.update(made.json);
  };
  if (questions.sensitivity) add(sensitivity_of(s));
  if (questions.noise) add(noise_of(questions, s, costs));
  if (questions.failures) add(goodput_of(*questions.failures, s));
  if (const std::string opaque = opaque_operators(evaluator, s.plan.strategy); !opaque.empty())
    add({fmt::format("unknown kinds: {}\n", opaque), {{"opaque_operators", opaque}}});
  if (questions.json) {
    give_document(streams, json);
  } else {
    streams.out << text;
  }
}

}  // namespace pipesim
