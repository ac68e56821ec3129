#include "tools/analysis/plans/breakdown/exposed_communication.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// Goes through the tasks in the order of time, and adds up what each device does between two changes.
class CommunicationSweep {
 public:
  CommunicationSweep(const SimulatedPart& part, const BoundStrategy& strategy, const DeviceGroups& groups,
                     const ModelAxes& axes)
      : part_(part), devices_(part.topology().num_devices()) {
    causes_ = causes_of_tasks(part, strategy, groups, axes);
    list_members(groups);
  }

  std::vector<CommunicationTime> times() {
    const std::vector<std::pair<Nanoseconds, std::uint32_t>> starts = tasks_by_start();
    std::priority_queue<End, std::vector<End>, std::greater<>> running;
    constexpr std::size_t kBetweenLooks = 4096;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (i % kBetweenLooks == 0) stop_if_late();
      const auto [start, task] = starts[i];
      while (!running.empty() && running.top().first <= start) end(running);
      change(start, task, 1);
      running.emplace(part_.timeline().end[task], task);
    }
    while (!running.empty()) end(running);
    std::vector<CommunicationTime> times;
    for (Device& d : devices_) times.push_back(d.times);
    return part_.folding() ? part_.folding()->unfolded(times) : times;
  }

 private:
  using End = std::pair<Nanoseconds, std::uint32_t>;
  struct Device {
    Nanoseconds since = 0;  // what follows holds from then on
    std::int32_t computing = 0;
    ByCause<std::int32_t> communicating{};  // tasks
    CommunicationTime times;
  };

  [[nodiscard]] bool counts(std::uint32_t task) const {
    const TaskKind kind = part_.labels()[task].kind;
    return kind != TaskKind::Barrier && part_.timeline().end[task] > part_.timeline().start[task];
  }

  // Groups are spans of the same few plans, in every microbatch.
  void list_members(const DeviceGroups& groups) {
    std::unordered_map<const DeviceId*, std::uint32_t> numbers;
    members_of_.assign(groups.size(), 0);
    members_.emplace_back();  // of tasks that do not communicate
    for (std::size_t t = 0; t < groups.size(); ++t) {
      if (groups[t].empty()) continue;
      const auto [at, fresh] =
          numbers.try_emplace(groups[t].data(), static_cast<std::uint32_t>(members_.size()));
      members_of_[t] = at->second;
      if (!fresh) continue;
      std::vector<std::uint32_t>& members = members_.emplace_back();
      for (const DeviceId d : groups[t])
        members.push_back(static_cast<std::uint32_t>(part_.stands_for(d).index()));
      std::ranges::sort(members);
      members.erase(std::unique(members.begin(), members.end()), members.end());
    }
  }

  [[nodiscard]] std::vector<std::pair<Nanoseconds, std::uint32_t>> tasks_by_start() const {
    std::vector<std::pair<Nanoseconds, std::uint32_t>> starts;
    starts.reserve(part_.labels().size());
    for (std::uint32_t t = 0; t < part_.labels().size(); ++t) {
      if (counts(t)) starts.emplace_back(part_.timeline().start[t], t);
    }
    std::sort(starts.begin(), starts.end());
    return starts;
  }

  void end(std::priority_queue<End, std::vector<End>, std::greater<>>& running) {
    const auto [time, task] = running.top();
    running.pop();
    change(time, task, -1);
  }

  void change(Nanoseconds now, std::uint32_t task, std::int32_t by) {
    const TaskLabel& label = part_.labels()[task];
    if (!is_communication(label.kind)) {
      Device& d = devices_[label.device.index()];
      add_up(d, now);
      d.computing += by;
      return;
    }
    for (const std::uint32_t member : members_[members_of_[task]]) {
      Device& d = devices_[member];
      add_up(d, now);
      d.communicating[static_cast<std::size_t>(causes_[task])] += by;
    }
  }

  void add_up(Device& d, Nanoseconds now) const {
    const Nanoseconds since = std::exchange(d.since, now);
    const std::int64_t causes = std::ranges::count_if(d.communicating, [](std::int32_t n) { return n > 0; });
    if (causes == 0 || since == now) return;
    const std::int64_t each = part_.time_spent(since, now) * (CommunicationTime::kParts / causes);
    ByCause<std::int64_t>& times = d.computing > 0 ? d.times.hidden : d.times.exposed;
    for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
      if (d.communicating[c] > 0) times[c] += each;
    }
  }

  SimulatedPart part_;
  std::vector<CommunicationCause> causes_;           // by task
  std::vector<std::uint32_t> members_of_;            // by task: number of its list in members_
  std::vector<std::vector<std::uint32_t>> members_;  // devices that were simulated
  std::vector<Device> devices_;
};

double all_of(const ByCause<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

}  // namespace

std::int64_t CommunicationTime::all_exposed() const {
  return std::accumulate(exposed.begin(), exposed.end(), std::int64_t{0});
}
std::int64_t CommunicationTime::all_hidden() const {
  return std::accumulate(hidden.begin(), hidden.end(), std::int64_t{0});
}

std::vector<CommunicationTime> communication_times(const SimulatedPart& part, const BoundStrategy& strategy,
                                                   const DeviceGroups& groups, const ModelAxes& axes) {
  return CommunicationSweep(part, strategy, groups, axes).times();
}

CommunicationSummary summary_of(const std::vector<CommunicationTime>& times,
                                const std::vector<Nanoseconds>& compute) {
  CommunicationSummary summary;
  ByCause<double> exposed{}, hidden{};
  double devices = 0;
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d].all_exposed() > times[summary.most_exposed].all_exposed()) summary.most_exposed = d;
    if (compute[d] <= 0) continue;
    ++devices;
    for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
      exposed[c] += static_cast<double>(times[d].exposed[c]);
      hidden[c] += static_cast<double>(times[d].hidden[c]);
    }
  }
  if (devices == 0) return summary;
  for (std::size_t c = 0; c < kCommunicationCauses; ++c) {
    summary.exposed[c] = seconds_of_parts(exposed[c] / devices);
    summary.hidden[c] = seconds_of_parts(hidden[c] / devices);
  }
  summary.all_exposed = all_of(summary.exposed);
  summary.all_hidden = all_of(summary.hidden);
  return summary;
}

}  // namespace pipesim
