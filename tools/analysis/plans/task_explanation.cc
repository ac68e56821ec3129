#include "tools/analysis/plans/task_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <tuple>

#include "sim/base/errors.h"
#include "tools/analysis/plans/task_names.h"

namespace pipesim {
namespace {

std::optional<std::size_t> number_in(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// How well a name is meant by `which`: more is better, 0 not at all.
int match(const std::string& name, const std::string& which) {
  if (name == which) return 3;
  const auto in_word = [&](std::size_t at) {
    return at < name.size() && (std::isalnum(static_cast<unsigned char>(name[at])) != 0 || name[at] == '_');
  };
  int best = 0;
  for (std::size_t at = name.find(which); at != std::string::npos; at = name.find(which, at + 1))
    best = std::max(best, in_word(at - 1) || in_word(at + which.size()) ? 1 : 2);
  return best;
}

// Whole names go before whole words of names ("layer1" is not "layer12"), those before parts of words.
std::vector<TaskId> find_tasks(const SimulatedPart& part, const TaskNames& names, const std::string& which) {
  const std::size_t tasks = part.task_graph().dag.num_tasks();
  if (const auto id = number_in(which)) {
    if (*id < tasks) return {TaskId(*id)};
    throw InputError(fmt::format("there is no task {}; the plan has tasks 0 to {}", which, tasks - 1));
  }
  std::vector<TaskId> found;
  int best = 1;
  for (std::size_t t = 0; t < tasks; ++t) {
    const int fit = match(names(TaskId(t)), which);
    if (fit < best) continue;
    if (fit > best) found.clear();
    best = fit;
    found.emplace_back(t);
  }
  if (found.empty())
    throw InputError(
        fmt::format("no task of the plan is called \"{}\"; tasks read like \"{}\"", which, names(TaskId(0))));
  const Timeline& timeline = part.timeline();
  const auto last_first = [&](TaskId t) {
    return std::tuple(-timeline.end[t.index()], -timeline.start[t.index()], t);
  };
  std::ranges::sort(found, {}, last_first);
  return found;
}

}  // namespace

TaskExplanation explain_task(const SimulatedPart& part, const BoundStrategy& strategy,
                             const std::string& which) {
  const TaskGraph& tasks = part.task_graph();
  const Timeline& timeline = part.timeline();
  TaskExplanation explanation;
  explanation.which = which;
  explanation.matches = find_tasks(part, TaskNames(part, strategy), which);
  const Explainer explainer(tasks.dag, timeline);
  Nanoseconds until = timeline.start[explanation.matches.front().index()];
  for (TaskId task = explanation.matches.front(); task.valid();) {
    HeldTask held{task, explainer.explain(task), false, 0};
    // Ends of a schedule's steps take no time: what they waited for is what counts.
    while (held.why.task.valid() && tasks.labels[held.why.task.index()].kind == TaskKind::Barrier) {
      const Explanation before = explainer.explain(held.why.task);
      if (!before.task.valid()) break;
      held.why = before;
      held.after_step = true;
    }
    held.accounts = until - std::min(until, timeline.start[task.index()]);
    until = std::min(until, timeline.start[task.index()]);
    (is_communication(tasks.labels[task.index()].kind) ? explanation.communication : explanation.compute) +=
        held.accounts;
    explanation.chain.push_back(held);
    task = held.why.task;
  }
  return explanation;
}

}  // namespace pipesim
