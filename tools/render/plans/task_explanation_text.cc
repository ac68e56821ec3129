#include "tools/render/plans/task_explanation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tools/analysis/plans/fold_repeats.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// What chains look like to people.
class ChainText {
 public:
  ChainText(const TaskExplanation& explanation, const SimulatedPart& part, const BoundStrategy& strategy)
      : x_(explanation), part_(part), names_(part, strategy) {}

  [[nodiscard]] std::string text(std::size_t most) const {
    const TaskId task = x_.matches.front();
    const Nanoseconds start = start_of(task);
    std::string text = matches_text() + fmt::format("task {}, {}, runs from {} to {}", task.value,
                                                    names_(task), time(start), time(end_of(task)));
    if (start == 0) return text + ": nothing was in its way\n";
    return text +
           fmt::format(
               ". The chain that held it, back to the start: {} of compute, {} of "
               "communication\n",
               time(x_.compute), time(x_.communication)) +
           chain_table(most);
  }

  [[nodiscard]] std::string name(TaskId task) const { return names_(task); }

 private:
  struct Line {
    Nanoseconds start, end;
    std::string task, why;
  };

  [[nodiscard]] const TaskLabel& label(TaskId t) const { return part_.task_graph().labels[t.index()]; }
  [[nodiscard]] Nanoseconds start_of(TaskId t) const { return part_.timeline().start[t.index()]; }
  [[nodiscard]] Nanoseconds end_of(TaskId t) const { return part_.timeline().end[t.index()]; }
  static std::string time(Nanoseconds t) { return pretty(to_seconds(t)); }

  [[nodiscard]] std::string matches_text() const {
    if (x_.matches.size() == 1) return "";
    constexpr std::size_t kMost = 8;
    Table table({{"task", Align::Right}, {"start", Align::Right}, {"end", Align::Right}, {"name"}});
    const std::size_t shown = std::min(kMost, x_.matches.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const TaskId t = x_.matches[i];
      table.add({std::to_string(t.value), time(start_of(t)), time(end_of(t)), names_(t)});
    }
    const std::string rest = shown == x_.matches.size()
                                 ? ""
                                 : fmt::format("  … and {} that end earlier\n", x_.matches.size() - shown);
    return fmt::format(
               "{} tasks have \"{}\" in their names. Explained is the one that ends last; its number, or "
               "more of a name, chooses another:\n",
               x_.matches.size(), x_.which) +
           table.str(2) + rest + "\n";
  }

  // "the transfer of conv1.out from gpu0 to gpu1", "conv1 forward on gpu0".
  [[nodiscard]] std::string the_task(TaskId t) const {
    if (!is_communication(label(t).kind)) return names_(t);
    return (label(t).collective == Collective::Send ? "the transfer of " : "the ") + names_(t);
  }

  [[nodiscard]] std::string why(const HeldTask& held) const {
    const Explanation& w = held.why;
    if (w.cause == Cause::Nothing) return "nothing was in its way";
    if (held.after_step) return fmt::format("its step of the schedule came after {}", the_task(w.task));
    if (w.cause == Cause::Input) return fmt::format("waited for {}", the_task(w.task));
    const bool device = w.lane.index() < part_.topology().num_devices();
    return fmt::format("was ready at {}; {}{} was busy with {}", time(w.ready), device ? "" : "link ",
                       part_.topology().lane_name(w.lane), the_task(w.task));
  }

  // What tasks do, but for which operator or tensor; all that a device computes alike where `all_passes`.
  [[nodiscard]] std::string work(const TaskLabel& l, bool all_passes) const {
    const bool apart = l.kind == TaskKind::Host || l.kind == TaskKind::Interference;
    if (all_passes && !is_communication(l.kind) && !apart) return "pass of operators";
    switch (l.kind) {
      case TaskKind::Forward:
        return "forward pass";
      case TaskKind::BackwardInput:
      case TaskKind::BackwardWeight:
        return "backward pass";
      case TaskKind::Recompute:
        return "forward pass again";
      case TaskKind::Update:
        return "update of weights";
      case TaskKind::ForwardTransfer:
        return communication(l, "activations");
      case TaskKind::RecomputeTransfer:
        return communication(l, "activations again");
      case TaskKind::BackwardTransfer:
        return communication(l, "gradients of activations");
      case TaskKind::GradientSync:
        return communication(l, "gradients of weights");
      case TaskKind::WeightGather:
        return communication(l, "weights");
      case TaskKind::InnerReduce:
        return communication(l, "statistics");
      case TaskKind::Rotation:
        return communication(l, "blocks of keys");
      case TaskKind::Barrier:
        return "step of the schedule";
      case TaskKind::Host:
        return "launch of kernels";
      case TaskKind::Interference:
        return "loss of compute to a collective";
    }
    return "";
  }
  static std::string communication(const TaskLabel& l, std::string_view what) {
    return l.collective == Collective::Send ? fmt::format("transfer of {}", what)
                                            : fmt::format("{} of {}", name_of(l.collective), what);
  }
  [[nodiscard]] std::string place(const TaskLabel& l) const {
    const std::string& device = part_.topology().device(l.device).name;
    if (!is_communication(l.kind)) return " on " + device;
    if (l.collective == Collective::Send)
      return fmt::format(" from {} to {}", device, part_.topology().device(l.peer).name);
    return fmt::format(" over {} devices", l.group_size);
  }
  static std::string plural(const std::string& work) {
    const std::size_t space = work.find(' ');
    const std::string noun = work.substr(0, space), rest = work.substr(noun.size());
    if (noun == "pass") return "passes" + rest;
    if (noun == "forward" || noun == "backward") return noun + " passes" + rest.substr(5);
    return noun + "s" + rest;
  }

  // Parts of the chain in which one device (or two, or a group) does the same work for one microbatch.
  [[nodiscard]] std::vector<RepeatedPart> same_work(bool all_passes) const {
    std::map<std::tuple<std::string, std::string, std::int32_t>, int> numbers;
    std::vector<int> alike;
    for (const HeldTask& held : x_.chain) {
      const TaskLabel& l = label(held.task);
      const auto size = static_cast<int>(numbers.size());
      alike.push_back(numbers.try_emplace({work(l, all_passes), place(l), l.microbatch}, size).first->second);
    }
    constexpr std::size_t kLeast = 2;  // a line says no more than a task that it stands for
    std::vector<RepeatedPart> parts = fold_repeats(alike, 1, kLeast);
    // The task that is asked for stands alone.
    if (parts.front().end > 1) {
      parts.insert(parts.begin(), {0, 1, 1});
      parts[1].begin = 1;
    }
    return parts;
  }

  // Rounds of such parts, wherever they happen.
  [[nodiscard]] std::vector<RepeatedPart> rounds(const std::vector<RepeatedPart>& parts,
                                                 bool all_passes) const {
    std::map<std::pair<std::string, bool>, int> numbers;
    std::vector<int> alike;
    for (const RepeatedPart& part : parts) {
      const TaskLabel& l = label(x_.chain[part.begin].task);
      const auto size = static_cast<int>(numbers.size());
      alike.push_back(
          numbers.try_emplace({work(l, all_passes), is_communication(l.kind)}, size).first->second);
    }
    constexpr std::size_t kMostPeriod = 8, kLeast = 3;
    return fold_repeats(alike, kMostPeriod, kLeast);
  }

  [[nodiscard]] Nanoseconds accounts(std::size_t begin, std::size_t end) const {
    Nanoseconds sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += x_.chain[i].accounts;
    return sum;
  }

  // For [begin, end) of the chain; the last of these began first.
  [[nodiscard]] Line rest_line(std::size_t begin, std::size_t end, const std::string& what) const {
    const HeldTask& first = x_.chain[end - 1];
    return {start_of(first.task), end_of(x_.chain[begin].task),
            fmt::format("… {}, {}", what, time(accounts(begin, end))),
            fmt::format("first {}: {}", names_(first.task), why(first))};
  }

  void add_part(const RepeatedPart& part, bool all_passes, std::vector<Line>& lines) const {
    const HeldTask& last = x_.chain[part.begin];
    lines.push_back({start_of(last.task), end_of(last.task), names_(last.task), why(last)});
    const std::size_t more = part.end - part.begin - 1;
    if (more == 0) return;
    const TaskLabel& l = label(last.task);
    const std::string one = work(l, all_passes);
    const std::string of = l.microbatch < 0 ? "" : fmt::format(" of microbatch {}", l.microbatch + 1);
    lines.push_back(
        rest_line(part.begin + 1, part.end,
                  fmt::format("{} more {}{}{}", more, more == 1 ? one : plural(one), of, place(l))));
  }

  [[nodiscard]] std::vector<Line> chain_lines(bool all_passes) const {
    const std::vector<RepeatedPart> parts = same_work(all_passes);
    std::vector<Line> lines;
    for (const RepeatedPart& round : rounds(parts, all_passes)) {
      for (std::size_t p = round.begin; p < round.begin + round.period; ++p)
        add_part(parts[p], all_passes, lines);
      if (round.repeats() == 0) continue;
      const std::size_t begin = parts[round.begin + round.period].begin, end = parts[round.end - 1].end;
      const std::string times =
          round.repeats() == 1 ? "once more" : fmt::format("{} more times", round.repeats());
      const std::string rows =
          round.period == 1 ? "the same" : fmt::format("these {} kinds of work", round.period);
      lines.push_back(rest_line(begin, end, fmt::format("{} {} ({} tasks)", rows, times, end - begin)));
    }
    return lines;
  }

  // Forward and backward passes that take turns are told as passes where lines are many.
  [[nodiscard]] std::string chain_table(std::size_t most) const {
    std::vector<Line> lines = chain_lines(false);
    if (lines.size() > most) lines = chain_lines(true);
    Table table({{"start", Align::Right}, {"end", Align::Right}, {"task"}, {"why not earlier"}});
    for (std::size_t i = 0; i < std::min(most, lines.size()); ++i)
      table.add({time(lines[i].start), time(lines[i].end), lines[i].task, lines[i].why});
    return table.str(2) + (lines.size() > most
                               ? fmt::format("  … and {} more lines back to the start (--json has all)\n",
                                             lines.size() - most)
                               : "");
  }

  const TaskExplanation& x_;
  SimulatedPart part_;
  TaskNames names_;
};

std::string_view name_of_cause(Cause cause) {
  switch (cause) {
    case Cause::Nothing:
      return "nothing";
    case Cause::Input:
      return "input";
    case Cause::Lane:
      return "lane";
  }
  return "";
}

}  // namespace

std::string to_text(const TaskExplanation& explanation, const SimulatedPart& part,
                    const BoundStrategy& strategy, std::size_t most) {
  return ChainText(explanation, part, strategy).text(most);
}

nlohmann::ordered_json json_of(const TaskExplanation& explanation, const SimulatedPart& part,
                               const BoundStrategy& strategy) {
  const TaskNames names(part, strategy);
  const Timeline& timeline = part.timeline();
  Json chain = Json::array(), matches = Json::array();
  for (const TaskId t : explanation.matches) matches.push_back(t.value);
  for (const HeldTask& held : explanation.chain) {
    const TaskId t = held.task;
    Json row{{"task", t.value},
             {"name", names(t)},
             {"start_s", seconds(timeline.start[t.index()])},
             {"end_s", seconds(timeline.end[t.index()])},
             {"cause", name_of_cause(held.why.cause)}};
    if (held.why.task.valid()) row["held_by"] = held.why.task.value;
    if (held.why.cause == Cause::Lane) {
      row["lane"] = part.topology().lane_name(held.why.lane);
      row["ready_s"] = seconds(held.why.ready);
    }
    chain.push_back(std::move(row));
  }
  return Json{{"task", explanation.matches.front().value}, {"matches", matches}, {"chain", chain}};
}

}  // namespace pipesim
