#include "search/auto/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

namespace pipesim {
namespace {

std::pair<Bytes, Nanoseconds> rank(const Evaluation& e) { return {e.overflow, e.time}; }

}  // namespace

void Contributions::add(AutoEntry made) {
  Contribution& told = made.contribution;
  const auto before = std::ranges::find(all_, told.name, &Contribution::name);
  if (before == all_.end()) {
    if (made.plan) add_plan(told.name, {*std::move(made.plan), *told.evaluation});
    all_.push_back(std::move(told));
    return;
  }
  told.seconds += before->seconds;
  const bool better =
      made.plan && (!before->evaluation || rank(*told.evaluation) < rank(*before->evaluation));
  if (better) {
    add_plan(told.name, {*std::move(made.plan), *told.evaluation});
  } else {
    told.evaluation = before->evaluation;
    told.devices_used = before->devices_used;
  }
  *before = std::move(told);
}

void Contributions::add_plan(const std::string& name, Scored<JointPlan> plan) {
  const auto before = std::ranges::find(plans_, name, &Plan::name);
  if (before != plans_.end()) {
    before->plan = std::move(plan);
  } else {
    plans_.push_back({name, std::move(plan)});
  }
}

const Scored<JointPlan>* Contributions::best() const {
  const auto found =
      std::ranges::min_element(plans_, {}, [](const Plan& p) { return rank(p.plan.evaluation); });
  return found == plans_.end() ? nullptr : &found->plan;
}

std::pair<Bytes, Nanoseconds> Contributions::best_of(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Contribution::name);
  if (found == all_.end() || !found->evaluation) return {Bytes(std::numeric_limits<std::int64_t>::max()), 0};
  return rank(*found->evaluation);
}

std::vector<Contribution> without_late_repeats(std::span<const Contribution> all) {
  struct LateRow {
    std::size_t index;
    int stands_for;
  };
  std::vector<Contribution> rows;
  std::map<std::string, LateRow> late;  // by algorithm
  for (const Contribution& c : all) {
    const bool is_late = !c.evaluation && c.note == kOutOfTime;
    if (is_late && c.name.find(" microbatch") != std::string::npos) {
      const std::string algorithm = c.name.substr(0, c.name.find(", "));
      const auto [known, is_first] = late.try_emplace(algorithm, LateRow{rows.size(), 1});
      if (!is_first) {
        Contribution& row = rows[known->second.index];
        row.name = fmt::format("{}, {} other numbers of microbatches", algorithm, ++known->second.stands_for);
        row.seconds += c.seconds;
        continue;
      }
    }
    rows.push_back(c);
  }
  return rows;
}

}  // namespace pipesim
