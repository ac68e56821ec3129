#include "taskgraph/expansion/reduction_streams.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "taskgraph/expansion/add_tasks.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

// The operator whose backward makes the last addend.
std::size_t last_maker(const Wiring& wiring) {
  const auto first = std::ranges::min_element(wiring.sources, {}, [](UseRef use) { return use.op.index(); });
  return first->op.index();
}

}  // namespace

void put_on_streams(StrategyExpander& expander, std::span<const std::size_t> syncs) {
  const std::span<const Wiring> wirings = expander.made().wirings();
  std::vector<std::size_t> order(syncs.begin(), syncs.end());
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t w) { return last_maker(wirings[w]); });
  std::map<std::pair<std::int32_t, std::int32_t>, TaskId> last;  // by device and round
  for (const std::size_t number : order) {
    const Wiring& wiring = wirings[number];
    const auto& tasks = wiring.plan->tasks;
    std::vector<std::pair<std::pair<std::int32_t, std::int32_t>, TaskId>> now;
    for (const PlanExpansion::Contribution& c : wiring.plan->expansion.contributions) {
      const TaskId task = task_at(wiring.first_task, c.task);
      const std::pair stream(c.device.value, tasks[static_cast<std::size_t>(c.task)].round);
      now.emplace_back(stream, task);
    }
    std::ranges::sort(now);
    for (const auto& [stream, task] : now) {
      TaskId& before = last[stream];
      if (before.valid() && before != task) expander.dag().add_edge(before, task);
      before = task;
    }
  }
}

}  // namespace pipesim
