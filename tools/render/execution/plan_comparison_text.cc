#include "tools/render/execution/plan_comparison_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

std::string range_text(Nanoseconds low, Nanoseconds high) {
  return fmt::format("{} to {}", pretty(to_seconds(low)), pretty(to_seconds(high)));
}

nlohmann::ordered_json row_of(const ComparedPlan& plan) {
  const ExecutionReport& r = plan.report;
  nlohmann::ordered_json row{{"name", plan.name}, {"predicted_s", seconds(r.predicted)}};
  if (r.interval.iterations > 0) {
    row["predicted_interval_s"] = {{"low", seconds(r.interval.low)}, {"high", seconds(r.interval.high)}};
  }
  row["measured_s"] = {{"median", seconds(r.measured.median)},
                       {"low", seconds(r.measured.low)},
                       {"high", seconds(r.measured.high)}};
  row["measured_interval_s"] = {{"low", seconds(r.measured.fast)}, {"high", seconds(r.measured.slow)}};
  row["iterations"] = {{"measured", r.measured.steps}, {"interrupted", r.measured.preempted}};
  row["error"] = r.error();
  if (!r.not_quiet.empty()) row["not_quiet"] = r.not_quiet;
  if (r.links_emulated) row["links_emulated"] = true;
  if (!plan.idle.empty()) row["idle_devices"] = plan.idle;
  return row;
}

std::string agreement_text(const RankAgreement& a) {
  std::string text = fmt::format("  predicted order       {}\n",
                                 a.same_order ? "is the measured order" : "is not the measured order");
  if (a.spearman) text += fmt::format("  rank correlation      {:.3f} (Spearman)\n", *a.spearman);
  text += fmt::format("  predicted best plan   takes {} longer than the best one\n", percent(a.top1_regret));
  if (a.clear_pairs > 0)
    text += fmt::format("  15 % apart or more    {} of {} pairs measured in the predicted order\n",
                        a.clear_pairs - a.wrong_clear_pairs, a.clear_pairs);
  return text;
}

}  // namespace

std::string to_text(const PlanComparison& c) {
  Table table({{"plan"},
               {"predicted", Align::Right},
               {"90 % of iterations", Align::Right},
               {"measured", Align::Right},
               {"90 % of iterations", Align::Right},
               {"error", Align::Right}});
  std::string notes;
  for (const auto& [name, r, idle] : c.plans) {
    table.add({name, pretty(to_seconds(r.predicted)),
               r.interval.iterations > 0 ? range_text(r.interval.low, r.interval.high) : "",
               pretty(to_seconds(r.measured.median)), range_text(r.measured.fast, r.measured.slow),
               fmt::format("{:+.1f} %{}", 100 * r.error(), r.not_quiet.empty() ? "" : " ?")});
    if (!r.not_quiet.empty()) notes += fmt::format("  ? {}: {}\n", name, r.not_quiet);
    if (!idle.empty()) notes += fmt::format("  {}: {}\n", name, idle);
  }
  const bool emulated =
      std::ranges::any_of(c.plans, [](const ComparedPlan& p) { return p.report.links_emulated; });
  const std::string links =
      emulated ? "  links between the devices were emulated, as the topology has them\n" : "";
  return table.str(2) + notes + links + "\n" + agreement_text(c.agreement);
}

nlohmann::ordered_json json_of(const PlanComparison& c) {
  nlohmann::ordered_json json;
  json["plans"] = nlohmann::ordered_json::array();
  for (const ComparedPlan& plan : c.plans) json["plans"].push_back(row_of(plan));
  json["spearman"] = nullptr;
  if (c.agreement.spearman) json["spearman"] = *c.agreement.spearman;
  json["top1_regret"] = c.agreement.top1_regret;
  json["same_order"] = c.agreement.same_order;
  json["clear_pairs"] = c.agreement.clear_pairs;
  json["wrong_clear_pairs"] = c.agreement.wrong_clear_pairs;
  return json;
}

}  // namespace pipesim
