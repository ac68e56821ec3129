#include "executor/gpu/activity/activity.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipesim {
namespace {

struct CallOwner {
  std::uint64_t correlation = 0, external = 0;
  bool ambiguous = false;
};

// By ascending correlation, each once.
std::vector<CallOwner> call_owners(std::span<const ExternalCorrelation> correlations) {
  std::vector<ExternalCorrelation> sorted(correlations.begin(), correlations.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<CallOwner> owners;
  for (const ExternalCorrelation& c : sorted) {
    if (c.correlation == 0) continue;
    if (owners.empty() || owners.back().correlation != c.correlation) {
      owners.push_back({c.correlation, c.external, false});
    } else if (owners.back().external != c.external) {
      owners.back().ambiguous = true;
    }
  }
  return owners;
}

// In the order in which they are added up: by task, untimed ones first, by start.
struct TaskPiece {
  std::uint64_t external = 0;
  bool timed = false;
  Nanoseconds start = 0, end = 0;
  auto operator<=>(const TaskPiece&) const = default;
};

std::vector<TaskActivity> add_up(std::vector<TaskPiece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<TaskActivity> tasks;
  for (const TaskPiece& piece : pieces) {
    if (tasks.empty() || tasks.back().external != piece.external) {
      tasks.emplace_back();
      tasks.back().external = piece.external;
    }
    TaskActivity& task = tasks.back();
    if (!piece.timed) {
      ++task.untimed;
      continue;
    }
    if (task.records == 0) task.begin = task.end = piece.start;
    ++task.records;
    task.busy += std::max<Nanoseconds>(0, piece.end - std::max(piece.start, task.end));
    task.end = std::max(task.end, piece.end);
  }
  return tasks;
}

// What had not ended when it was asked for has a start and no end.
bool is_timed(const ActivityRecord& r) { return r.start != 0 && r.end >= r.start; }

}  // namespace

Attribution attribute(std::span<const ActivityRecord> records,
                      std::span<const ExternalCorrelation> correlations, std::uint64_t dropped) {
  const std::vector<CallOwner> owners = call_owners(correlations);
  std::vector<ActivityRecord> sorted(records.begin(), records.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());

  Attribution result;
  result.records = sorted.size();
  result.duplicates = records.size() - sorted.size();
  result.dropped = dropped;
  result.ambiguous = static_cast<std::size_t>(
      std::count_if(owners.begin(), owners.end(), [](const CallOwner& o) { return o.ambiguous; }));
  std::vector<TaskPiece> pieces;
  auto owner = owners.begin();
  for (const ActivityRecord& r : sorted) {
    const bool timed = is_timed(r);
    if (!timed) ++result.untimed;
    while (owner != owners.end() && owner->correlation < r.correlation) ++owner;
    if (owner != owners.end() && owner->correlation == r.correlation && !owner->ambiguous) {
      pieces.push_back({owner->external, timed, r.start, r.end});
    } else {
      ++result.unattributed;
      if (timed) result.unattributed_time += r.end - r.start;
    }
  }
  result.tasks = add_up(std::move(pieces));
  return result;
}

std::string Attribution::gaps() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (unattributed > 0)
    add(fmt::format("{} of {} records belong to no task ({})", unattributed, records,
                    pretty(to_seconds(unattributed_time))));
  if (untimed > 0) add(fmt::format("{} have no times", untimed));
  if (dropped > 0) add(fmt::format("{} were dropped", dropped));
  return text;
}

}  // namespace pipesim
