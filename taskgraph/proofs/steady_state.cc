#include "taskgraph/proofs/steady_state.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr Nanoseconds kEver = std::numeric_limits<Nanoseconds>::max();

/// What microbatches of one kind of task do between two moments.
enum class Progress : std::uint8_t { Rises, Falls, NotBegun, Done, Other };

/// How much larger numbers are in the iteration of many microbatches: of microbatches, and of a device's
/// steps, by those that it does in so many first and second windows.
struct Shift {
  std::int32_t microbatches = 0, windows = 0, second_windows = 0;
};

/// A part of the iteration of many: the few's timeline from begin to end, `times` times, the n-th time (from
/// 0) shifted by first + n · next.
struct Stretch {
  Nanoseconds begin, end;
  Shift first = {};
  std::int32_t times = 1;
  Shift next = {};
};

class SteadyStateFinder {
 public:
  explicit SteadyStateFinder(FewMicrobatches few)
      : from_(std::move(few)),
        dag_(from_.dag),
        timeline_(from_.timeline),
        few_(from_.few),
        added_(from_.many - few_),
        of_one_(from_.tasks_of_one) {
    if (few_ < 2 || added_ < 1) return;
    for (const std::vector<TaskId>& of_device : from_.barriers) {
      std::vector<Nanoseconds>& times = barriers_.emplace_back();
      for (const TaskId barrier : of_device) times.push_back(timeline_.end[barrier.index()]);
    }
    devices_ = devices_unlike_others(from_);
    for (const std::size_t d : devices_) {
      few_begins_.push_back(begins_of(from_.few_order, d));
      many_begins_.push_back(begins_of(from_.many_order, d));
    }
    find_ready_times();
    barriers_decide_ = all_have_as_many_barriers() || have_barriers_before_no_time();
  }

  std::optional<SteadyState> find() {
    if (few_ < 2 || added_ < 1 || !waits_for_steps()) return std::nullopt;
    constexpr std::int32_t kLongest = 4;  // periods, in units that the schedule repeats
    const auto groups = static_cast<std::int32_t>(from_.few_order.steps.size());
    std::vector<std::int32_t> periods;
    for (std::int32_t n = 1; n <= kLongest; ++n) periods.insert(periods.end(), {n, n * groups});
    if (from_.rhythm > 0) periods.push_back(from_.rhythm);
    std::ranges::sort(periods);
    periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
    for (const std::int32_t period : periods) {
      if (added_ % period != 0 || period >= few_) continue;
      if (auto found = one_window(period)) return found;
      if (auto found = two_windows(period)) return found;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::size_t id(std::int32_t microbatch, std::size_t task) const {
    return static_cast<std::size_t>(microbatch) * of_one_ + task;
  }

  void find_ready_times() {
    ready_.assign(dag_.num_tasks(), 0);
    for (std::size_t t = 0; t < ready_.size(); ++t) {
      for (const TaskId next : dag_.successors(TaskId(t)))
        ready_[next.index()] = std::max(ready_[next.index()], timeline_.end[t]);
    }
  }

  // No task of a later microbatch can begin before the steps that come before its own.
  [[nodiscard]] bool waits_for_steps() const {
    for (std::size_t x = 0; x < of_one_; ++x) {
      if (dag_.num_predecessors(TaskId(id(few_ - 1, x))) == 0) return false;
    }
    return true;
  }

  // By device, in the order of devices_: barriers that it reaches in the window. Empty where one reaches
  // none, or some more than others, so that their keys change places, and these might decide.
  [[nodiscard]] std::vector<std::ptrdiff_t> steps_in(const SteadyWindow& w) const {
    std::vector<std::ptrdiff_t> steps;
    for (const std::size_t d : devices_) steps.push_back(reached(d, w.end) - reached(d, w.begin));
    const auto [least, most] = std::ranges::minmax(steps);
    if (least < 1 || (least < most && barriers_decide_)) steps.clear();
    return steps;
  }

  // Then windows in which they differ would end soon.
  [[nodiscard]] bool all_have_as_many_barriers() const {
    return std::ranges::all_of(
        devices_, [&](std::size_t d) { return barriers_[d].size() == barriers_[devices_.front()].size(); });
  }

  // Among barriers at one time, the first one taken releases its device first. Work that follows it at the
  // same time could then meet work that the other barriers release.
  [[nodiscard]] bool have_barriers_before_no_time() const {
    for (std::size_t t = from_.first_barrier; t < dag_.num_tasks(); ++t) {
      for (const TaskId next : dag_.successors(TaskId(t))) {
        if (dag_.duration(next) == 0 && !dag_.lanes(next).empty()) return true;
      }
    }
    return false;
  }

  // By lane: how much longer it is busy.
  [[nodiscard]] std::vector<Nanoseconds> busy_lanes(Nanoseconds at) const {
    std::vector<Nanoseconds> busy(dag_.num_lanes(), 0);
    for (std::size_t t = 0; t < id(few_, 0); ++t) {
      if (!popped(t, at) || ended(t, at)) continue;
      for (const LaneUse use : dag_.lanes(TaskId(t)))
        busy[use.lane.index()] = std::max(busy[use.lane.index()], timeline_.start[t] + use.hold - at);
    }
    return busy;
  }

  // When a microbatch may begin its way, and its way back.
  [[nodiscard]] Nanoseconds forward_ready(std::int32_t microbatch) const {
    return ready_[id(microbatch, from_.forward.index())];
  }
  [[nodiscard]] Nanoseconds backward_ready(std::int32_t microbatch) const {
    return from_.backward.valid() ? ready_[id(microbatch, from_.backward.index())] : 0;
  }

  /// By device, see steps_in().
  struct WindowSteps {
    std::span<const std::ptrdiff_t> first, second;
    [[nodiscard]] std::ptrdiff_t in(std::size_t device, std::int32_t windows,
                                    std::int32_t second_windows) const {
      return windows * first[device] + (second_windows > 0 ? second_windows * second[device] : 0);
    }
  };

  // The steps of every device in the stretch, and the one that is not yet over, are those of the iteration of
  // many.
  [[nodiscard]] bool has_steps(const Stretch& stretch, const WindowSteps& steps) const {
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      const std::size_t d = devices_[device];
      const std::span<const PipelineStep> few = steps_of(from_.few_order, d),
                                          many = steps_of(from_.many_order, d);
      const auto &few_begin = few_begins_[device], &many_begin = many_begins_[device];  // by barriers before
      const std::ptrdiff_t of_few = std::ssize(few_begin) - 1, of_many = std::ssize(many_begin) - 1;
      const std::ptrdiff_t begin = reached(d, stretch.begin),
                           end = std::min(of_few, reached(d, stretch.end) + 1);
      for (std::int32_t n = 0; n < stretch.times; ++n) {
        const std::ptrdiff_t more = steps.in(device, stretch.first.windows + n * stretch.next.windows,
                                             stretch.first.second_windows + n * stretch.next.second_windows);
        if (end + more > of_many || (end == of_few) != (end + more == of_many)) return false;
        const std::size_t first = few_begin[static_cast<std::size_t>(begin)],
                          last = few_begin[static_cast<std::size_t>(end)],
                          there = many_begin[static_cast<std::size_t>(begin + more)];
        if (many_begin[static_cast<std::size_t>(end + more)] - there != last - first) return false;
        const std::int32_t add =
            (stretch.first.microbatches + n * stretch.next.microbatches) * from_.of_block;
        for (std::size_t i = first; i < last; ++i) {
          PipelineStep step = few[i];
          if (add != 0 && step.microbatch < from_.first_regular) return false;
          step.microbatch += add;
          if (many[there + i - first] != step) return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] static std::span<const PipelineStep> steps_of(const PipelineOrder& order,
                                                              std::size_t device) {
    return order.steps[static_cast<std::size_t>(order.group_of[device])];
  }
  [[nodiscard]] static std::vector<std::size_t> begins_of(const PipelineOrder& order, std::size_t device) {
    return begins_between_barriers(steps_of(order, device), order.together);
  }
  // Returns the number of barriers that the device reaches before this time.
  [[nodiscard]] std::ptrdiff_t reached(std::size_t device, Nanoseconds time) const {
    return std::ranges::lower_bound(barriers_[device], time) - barriers_[device].begin();
  }

  [[nodiscard]] bool have_steps(const std::vector<Stretch>& stretches, const WindowSteps& steps) const {
    return std::ranges::all_of(stretches, [&](const Stretch& s) { return has_steps(s, steps); });
  }

  [[nodiscard]] bool popped(std::size_t task, Nanoseconds by) const { return ready_[task] < by; }
  [[nodiscard]] bool ended(std::size_t task, Nanoseconds by) const {
    return popped(task, by) && timeline_.end[task] <= by;
  }
  // How much longer it runs.
  [[nodiscard]] Nanoseconds left(std::size_t task, Nanoseconds at) const {
    return std::max<Nanoseconds>(0, timeline_.end[task] - at);
  }

  // Task x of microbatch m at the begin is where that of m + u is at the end.
  [[nodiscard]] bool moves(std::size_t x, const SteadyWindow& w, std::int32_t u) const {
    const std::int32_t first = std::max(0, -u), last = few_ - std::max(0, u);
    for (std::int32_t m = first; m < last; ++m) {
      const std::size_t before = id(m, x), after = id(m + u, x);
      if (popped(before, w.begin) != popped(after, w.end)) return false;
      if (popped(before, w.begin) && left(before, w.begin) != left(after, w.end)) return false;
    }
    return true;
  }

  [[nodiscard]] bool all_ended(std::size_t x, std::int32_t first, std::int32_t end, Nanoseconds by) const {
    for (std::int32_t m = first; m < end; ++m) {
      if (!ended(id(m, x), by)) return false;
    }
    return true;
  }
  [[nodiscard]] bool none_popped(std::size_t x, std::int32_t first, std::int32_t end, Nanoseconds by) const {
    for (std::int32_t m = first; m < end; ++m) {
      if (popped(id(m, x), by)) return false;
    }
    return true;
  }

  [[nodiscard]] Progress progress(std::size_t x, const SteadyWindow& w) const {
    if (none_popped(x, 0, few_, w.end)) return Progress::NotBegun;
    if (all_ended(x, 0, few_, w.begin)) return Progress::Done;
    const std::int32_t u = w.microbatches;
    if (all_ended(x, 0, u, w.end) && none_popped(x, few_ - u, few_, w.begin) && moves(x, w, u))
      return Progress::Rises;
    if (all_ended(x, few_ - u, few_, w.end) && none_popped(x, 0, u, w.begin) && moves(x, w, -u))
      return Progress::Falls;
    return Progress::Other;
  }

  // Lanes are as busy at both ends, and what belongs to no microbatch is over or comes later.
  [[nodiscard]] bool same_lanes(const SteadyWindow& w) const {
    for (std::size_t t = id(few_, 0); t < from_.first_barrier; ++t) {
      if (popped(t, w.end) && !ended(t, w.begin)) return false;
    }
    return busy_lanes(w.begin) == busy_lanes(w.end);
  }

  [[nodiscard]] bool all_rise(const SteadyWindow& w) const {
    for (std::size_t x = 0; x < of_one_; ++x) {
      if (progress(x, w) != Progress::Rises) return false;
    }
    return same_lanes(w);
  }

  // Looks for the latest window that the steps allow: what is not steady by then has not been before.
  [[nodiscard]] std::optional<SteadyState> one_window(std::int32_t period) const {
    const std::int32_t repeats = added_ / period;
    for (std::int32_t last = few_ - 1; last > period; --last) {
      const SteadyWindow w{forward_ready(last - period), forward_ready(last), period};
      if (w.begin >= w.end) continue;
      const std::vector<std::ptrdiff_t> steps = steps_in(w);
      stop_if_late();
      if (steps.empty()) continue;
      if (!have_steps({{0, w.end, {}},
                       {w.begin, kEver, {added_, repeats}},
                       {w.begin, w.end, {period, 1}, repeats - 1, {period, 1}}},
                      {steps, {}})) {
        continue;
      }
      return all_rise(w) ? std::optional(SteadyState{repeats, {w}}) : std::nullopt;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool rise_then_fall(const SteadyWindow& up, const SteadyWindow& down) const {
    for (std::size_t x = 0; x < of_one_; ++x) {
      const Progress on_the_way = progress(x, up), back = progress(x, down);
      const bool forward = on_the_way == Progress::Rises && back == Progress::Done;
      if (!forward && !(on_the_way == Progress::NotBegun && back == Progress::Falls)) return false;
    }
    return same_lanes(up) && same_lanes(down);
  }

  [[nodiscard]] std::optional<SteadyState> two_windows(std::int32_t period) const {
    const std::int32_t repeats = added_ / period;
    const SteadyWindow up{forward_ready(few_ - 1 - period), forward_ready(few_ - 1), period};
    const SteadyWindow down{backward_ready(period), backward_ready(0), period};
    if (up.begin >= up.end || up.end > down.begin || down.begin >= down.end) return std::nullopt;
    const std::vector<std::ptrdiff_t> ups = steps_in(up), downs = steps_in(down);
    if (ups.empty() || downs.empty()) return std::nullopt;
    if (!have_steps({{0, up.end, {}},
                     {up.begin, up.end, {period, 1}, repeats - 1, {period, 1}},
                     {up.begin, down.end, {added_, repeats}},
                     {down.begin, down.end, {added_ - period, repeats, 1}, repeats - 1, {-period, 0, 1}},
                     {down.begin, kEver, {0, repeats, repeats}}},
                    {ups, downs})) {
      return std::nullopt;
    }
    return rise_then_fall(up, down) ? std::optional(SteadyState{repeats, {up, down}}) : std::nullopt;
  }

  FewMicrobatches from_;
  const TaskDag& dag_;
  const Timeline& timeline_;
  std::int32_t few_, added_;
  std::size_t of_one_;
  std::vector<std::vector<Nanoseconds>> barriers_;  // by device: when it reaches them
  std::vector<std::size_t> devices_;
  std::vector<std::vector<std::size_t>> few_begins_, many_begins_;  // in the order of devices_: of steps
  std::vector<Nanoseconds> ready_;                                  // by task
  bool barriers_decide_ = false;                                    // by their keys, what is taken first
};

// Returns after how many blocks of microbatches the loss begins at the same distances again, in the middle of
// the iteration, where the pipeline neither fills nor drains; 0 where there is no such number.
std::int32_t rhythm_of_loss(const ExpandedStrategy& expanded, const Timeline& timeline) {
  const OperatorId loss(expanded.contents().graph().operators().size() - 1);
  const std::int32_t every = expanded.block().microbatches;
  std::vector<Nanoseconds> times;
  for (std::int32_t m = 0; m < expanded.microbatches(); m += every)
    times.push_back(timeline.start[expanded.tasks_of(loss, m).forward.index()]);
  std::ranges::sort(times);
  std::adjacent_difference(times.begin(), times.end(), times.begin());
  const auto from = times.begin() + std::ssize(times) / 2, to = times.begin() + 7 * std::ssize(times) / 8;
  for (std::ptrdiff_t period = 1; 2 * period <= to - from; ++period) {
    if (std::equal(from, to, from - period)) return static_cast<std::int32_t>(period);
  }
  return 0;
}

}  // namespace

Nanoseconds SteadyState::time_of(Nanoseconds of_few) const {
  Nanoseconds time = of_few;
  for (const SteadyWindow& w : windows) {
    if (of_few >= w.end) time += repeats * w.length();
  }
  return time;
}

std::vector<std::size_t> devices_unlike_others(const FewMicrobatches& few) {
  const auto end_of = [&](TaskId barrier) { return few.timeline.end[barrier.index()]; };
  std::vector<std::size_t> devices;
  for (std::size_t d = 0; d < few.barriers.size(); ++d) {
    if (few.barriers[d].empty()) continue;
    const bool fresh = std::ranges::none_of(devices, [&](std::size_t other) {
      return few.few_order.group_of[other] == few.few_order.group_of[d] &&
             std::ranges::equal(few.barriers[other], few.barriers[d], {}, end_of, end_of);
    });
    if (fresh) devices.push_back(d);
  }
  return devices;
}

FewMicrobatches few_microbatches_of(const ExpandedStrategy& expanded, const Timeline& timeline,
                                    std::int32_t many) {
  const PlanContents& contents = expanded.contents();
  const TaskDag& dag = expanded.dag();
  const TaskBlock block = expanded.block();
  FewMicrobatches few{dag,
                      timeline,
                      expanded.microbatches() / block.microbatches,
                      many / block.microbatches,
                      block.tasks,
                      dag.num_tasks() - expanded.barriers().size(),
                      expanded.tasks_of(OperatorId(0)).forward,
                      first_backward_task(expanded),
                      {},
                      contents.order_of(expanded.strategy(), expanded.microbatches()),
                      contents.order_of(expanded.strategy(), many),
                      block.microbatches,
                      contents.versions().first_regular(),
                      rhythm_of_loss(expanded, timeline)};
  few.barriers.resize(few.few_order.group_of.size());
  for (const StepBarrier& b : expanded.barriers()) few.barriers[b.device.index()].push_back(b.task);
  return few;
}

std::optional<SteadyState> find_steady_state(const ExpandedStrategy& few, const Timeline& timeline) {
  return find_steady_state(few_microbatches_of(few, timeline, few.contents().options().microbatches));
}

std::optional<SteadyWindow> find_steady_stream(const ExpandedStrategy& few, const Timeline& timeline) {
  // So many more that every period that is looked for divides them.
  const auto groups = static_cast<std::int32_t>(few.contents().order_of(few.strategy(), 1).steps.size());
  const std::int32_t more = 12 * groups * few.block().microbatches;
  const auto steady = find_steady_state(few_microbatches_of(few, timeline, few.microbatches() + more));
  if (!steady || steady->windows.size() != 1) return std::nullopt;
  return steady->windows.front();
}

std::optional<SteadyState> find_steady_state(FewMicrobatches few) {
  return SteadyStateFinder(std::move(few)).find();
}

TaskId first_backward_task(const ExpandedStrategy& expanded) {
  for (std::size_t op = expanded.contents().graph().operators().size(); op-- > 0;) {
    const OperatorTasks& tasks = expanded.tasks_of(OperatorId(op));
    for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
      if (first.valid()) return first;
    }
  }
  return {};
}

namespace {

// Most microbatches that a group of devices has begun and not done with, in the order of its steps.
std::int32_t most_at_hand(const PipelineOrder& order, std::int32_t microbatches) {
  std::int32_t most = 0;
  for (const std::vector<PipelineStep>& steps : order.steps) {
    std::vector<std::size_t> left(static_cast<std::size_t>(microbatches), 0);
    for (const PipelineStep& step : steps) ++left[static_cast<std::size_t>(step.microbatch)];
    const std::vector<std::size_t> all = left;
    std::int32_t now = 0;
    for (const PipelineStep& step : steps) {
      const auto m = static_cast<std::size_t>(step.microbatch);
      if (left[m] == all[m]) most = std::max(most, ++now);
      if (--left[m] == 0) --now;
    }
  }
  return most;
}

constexpr std::int32_t kPeriods = 12;  // of these units, is divided by all periods that are looked for

// Returns the unit of microbatches: few microbatches differ from the plan's number by a multiple of it.
std::int32_t unit_of_microbatches(const PlanContents& contents, std::size_t groups) {
  const auto& pipeline = contents.options().pipeline;
  const bool in_rounds =
      pipeline && schedule_kind(pipeline->schedule).takes_chunks && !lies_in_v(pipeline->schedule);
  if (!in_rounds) return contents.ways();
  const std::int32_t together = schedule_number(pipeline->schedule);
  return together > 0 ? together : static_cast<std::int32_t>(groups);
}

// Returns the least number from n on that differs from `all` by a multiple of the divisor.
std::int32_t at_least(std::int32_t n, std::int32_t all, std::int32_t divisor) {
  return n + (all - n) % divisor;
}

}  // namespace

std::int32_t few_microbatches_from(std::int32_t n, const PlanContents& contents,
                                   const BoundStrategy& strategy) {
  const std::int32_t all = contents.options().microbatches;
  const std::int32_t unit = unit_of_microbatches(contents, contents.order_of(strategy, all).steps.size());
  return at_least(std::max(n, unit), all, unit);
}

std::vector<std::int32_t> few_microbatches(const PlanContents& contents, const BoundStrategy& strategy) {
  constexpr std::int32_t kMore = 4;
  // Most plans are steady when their devices have filled up and worked off as many; plans that do not put off
  // weight gradients, as soon as devices have filled up. Otherwise more microbatches may help, or a period of
  // several, which must divide the number that is left out.
  const std::int32_t all = contents.options().microbatches;
  if (all < 2 * kMore) return {};
  const PipelineOrder order = contents.order_of(strategy, all);
  const auto groups = static_cast<std::int32_t>(order.steps.size());
  const auto& pipeline = contents.options().pipeline;
  const std::int32_t unit = unit_of_microbatches(contents, order.steps.size());
  if (all % unit != 0) return {};
  const std::int32_t at_hand = most_at_hand(order, all);
  // Where all go forward first, they drift apart in stages that are not alike, however long one looks.
  const bool may_drift = pipeline && at_hand == all;
  // Most pairs are steady when microbatches of the far end have passed all devices, and many of them again.
  const bool pairs = order.has_pairs();
  const std::int32_t filled = may_drift ? groups : pairs ? std::max(at_hand, 2 * groups) : at_hand;
  const std::int32_t early = at_least(filled + (pairs ? groups : std::max(kMore, 2 * unit)), all, unit);
  const std::int32_t usual = at_least(2 * filled + kMore, all, unit);
  const std::int32_t late = at_least(2 * (2 * filled + kMore), all, kPeriods * unit);
  std::vector<std::int32_t> few;
  const bool puts_off_weights = std::ranges::any_of(
      order.steps.front(), [](const PipelineStep& step) { return step.kind == StepKind::BackwardWeight; });
  const bool soon = !may_drift && (pairs ? 2 * usual <= all : !puts_off_weights && contents.ways() == 1);
  if (soon && 2 * early <= all && (4 * early <= 3 * usual || 2 * usual > all)) few.push_back(early);
  if (2 * usual <= all) few.push_back(usual);
  if (2 * late <= all && !may_drift) few.push_back(late);
  return few;
}

std::int32_t few_microbatches_in_rhythm(const ExpandedStrategy& few, const Timeline& timeline) {
  const PlanContents& contents = few.contents();
  const std::int32_t all = contents.options().microbatches;
  const std::int32_t unit =
      unit_of_microbatches(contents, contents.order_of(few.strategy(), all).steps.size());
  const std::int32_t rhythm = rhythm_of_loss(few, timeline);
  if (rhythm == 0 || kPeriods * unit % rhythm == 0) return 0;
  const std::int32_t more = at_least(few.microbatches() + 1, all, std::lcm(rhythm, unit));
  return 2 * more <= all ? more : 0;
}

std::vector<std::int32_t> stream_lengths(const PlanContents& contents, const BoundStrategy& strategy) {
  constexpr std::int32_t kMore = 4, kMost = 1024, kMostPeriods = 4;
  const WeightVersions& versions = contents.versions();
  const auto groups = static_cast<std::int32_t>(contents.order_of(strategy, 1).steps.size());
  std::vector<std::int32_t> lengths;
  // Replicas that take turns may be steady only over several turns of all.
  const std::int32_t period = versions.period(), turns = contents.ways() > 1 ? 2 * period : 0;
  std::int32_t microbatches = versions.first_regular() + 2 * groups + std::max(kMore, turns);
  for (int tries = 0; tries < 3; ++tries, microbatches *= 2) {
    const std::int32_t whole = (microbatches + period - 1) / period * period;
    lengths.push_back(std::min(whole, std::max(kMost / period, kMostPeriods) * period));
  }
  return lengths;
}

}  // namespace pipesim
