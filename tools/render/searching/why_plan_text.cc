#include "tools/render/searching/why_plan_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"
#include "tools/render/plans/plan_difference_text.h"
#include "tools/render/plans/plan_reason_text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

std::string baseline_words(const Baseline& baseline) {
  if (baseline.infeasible.empty()) return baseline.name + ", the fastest baseline";
  return fmt::format("{}, the nearest baseline, which does not fit ({})", baseline.name, baseline.infeasible);
}

std::string difference_text(const WhyPlan& why) {
  if (!why.baseline) return "";
  if (!why.difference && !why.reason)
    return fmt::format("not compared with {}: {}\n", baseline_words(*why.baseline), why.left_out);
  if (!why.difference) return to_text(*why.reason) + "\n";
  constexpr std::size_t kMostChanges = 12;
  return fmt::format("against {}\n", baseline_words(*why.baseline)) +
         to_text(*why.difference, why.candidates.graph(), {why.baseline->name, "this plan"}, kMostChanges) +
         "\n";
}

struct ChangeInWords {
  const Operator& op;
  ParallelConfig to;
  std::string words;
  Nanoseconds saves;
};

ChangeInWords in_words(const SingleChange& change, const WhyPlan& why) {
  const Operator& op = why.candidates.graph().op(change.op);
  ParallelConfig to = why.candidates.config(change.op, change.index);
  std::string words = change_words(op, why.found.plan[change.op.index()], to);
  return {op, std::move(to), std::move(words), why.found.evaluation.time - change.evaluation.time};
}

std::string more_text(const WhyPlan& why) {
  if (!why.left_out.empty()) return fmt::format("one more change was not tried: {}\n", why.left_out);
  const std::string tried = fmt::format("{} of {} tried", why.more.tried, why.more.all);
  if (why.more.best.empty()) return fmt::format("no single change helps ({})\n", tried);
  Table table({{"operator"}, {"saves", Align::Right}, {"", Align::Right}, {"split now -> then"}});
  for (const SingleChange& change : why.more.best) {
    const ChangeInWords c = in_words(change, why);
    table.add({c.op.name, pretty(to_seconds(c.saves)), percent(share(c.saves, why.found.evaluation.time)),
               c.words});
  }
  return fmt::format("one more change would help ({})\n", tried) + table.str(2);
}

Json more_json(const WhyPlan& why) {
  Json changes = Json::array();
  for (const SingleChange& change : why.more.best) {
    const ChangeInWords c = in_words(change, why);
    Json devices = Json::array();
    for (const DeviceId d : c.to.devices) devices.push_back(why.candidates.topology().device(d).name);
    changes.push_back({{"operator", c.op.name},
                       {"from", why.found.plan[change.op.index()].str(c.op)},
                       {"to", c.to.str(c.op)},
                       {"devices", devices},
                       {"iteration_time_s", seconds(change.evaluation.time)},
                       {"saves_s", seconds(c.saves)}});
  }
  if (!why.left_out.empty()) return {{"not_tried", why.left_out}};
  return {{"tried", why.more.tried}, {"of", why.more.all}, {"changes", changes}};
}

Json difference_json(const WhyPlan& why) {
  if (!why.baseline) return nullptr;
  const bool same = why.baseline->scored->plan == why.found.plan;
  Json json{{"baseline", why.baseline->name}, {"same_plan", same}};
  if (!same && !why.difference) json["not_compared"] = why.left_out;
  if (!why.baseline->infeasible.empty()) json["infeasible"] = why.baseline->infeasible;
  if (why.difference) json.update(json_of(*why.difference, why.candidates.graph()));
  return json;
}

}  // namespace

std::string to_text(const WhyPlan& why) { return difference_text(why) + more_text(why); }

nlohmann::ordered_json json_of(const WhyPlan& why) {
  return Json{{"reason", why.reason ? json_of(*why.reason) : Json()},
              {"against_baseline", difference_json(why)},
              {"one_more_change", more_json(why)}};
}

}  // namespace pipesim
