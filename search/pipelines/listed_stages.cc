#include "search/pipelines/listed_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>

#include "search/baselines/layer_wise.h"
#include "search/pipelines/layer_graph.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

// 0 where it is none.
std::int64_t count_in(std::string_view text) {
  constexpr std::int64_t kMost = 100'000;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && count >= 1 && count <= kMost ? count : 0;
}

// Parts between commas that stand neither in quotes nor in brackets, which names may have: "node7 LSTM(2048,
// 1024)".
std::vector<std::string_view> split_stages(std::string_view text) {
  constexpr std::string_view kOpening = "([{", kClosing = ")]}";
  std::vector<std::string_view> parts;
  std::size_t begin = 0, deep = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    const bool in_name = text.substr(begin, i - begin).find('@') != std::string_view::npos;
    if (c == '"') quoted = !quoted;
    if (!quoted && in_name && kOpening.find(c) != std::string_view::npos) ++deep;
    if (!quoted && deep > 0 && kClosing.find(c) != std::string_view::npos) --deep;
    if (i < text.size() && (c != ',' || quoted || deep > 0)) continue;
    if (quoted || deep > 0)
      throw InputError(fmt::format(
          "found \"{}\", in which a {} is not closed; allowed: names with closed brackets, or in quotes",
          text, quoted ? "quote" : "bracket"));
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::string_view without_quotes(std::string_view name) {
  const bool quoted = name.size() >= 2 && name.front() == '"' && name.back() == '"';
  return quoted ? name.substr(1, name.size() - 2) : name;
}

ListedStage parse_stage(std::string_view text, std::string_view all) {
  const std::size_t at = text.find('@');
  const std::string_view devices = text.substr(0, at);
  const std::size_t times = devices.find('x');
  ListedStage stage;
  if (times != std::string_view::npos) stage.replicas = count_in(devices.substr(0, times));
  const std::int64_t each = count_in(devices.substr(times == std::string_view::npos ? 0 : times + 1));
  stage.devices = stage.replicas * each;
  if (at != std::string_view::npos) stage.last = without_quotes(text.substr(at + 1));
  if (stage.devices < 1 || (at != std::string_view::npos && stage.last.empty())) {
    throw InputError(fmt::format(
        "found \"{}\" in \"{}\", allowed: DEVICES or DEVICES@LAST_OPERATOR of each stage, such as "
        "8@layer12.ffn_add,8, or REPLICASxDEVICES, such as 4x2, for replicas that take microbatches in turn",
        text, all));
  }
  return stage;
}

// Ends of stages none of which takes longer than the limit; nothing where there are none. `until`: seconds of
// the first so many operators.
std::vector<std::int32_t> ends_within(const std::vector<double>& until, std::span<const ListedStage> stages,
                                      double limit) {
  const std::size_t all = until.size() - 1;
  const auto fits = [&](std::size_t stage, std::size_t from, std::size_t to) {
    return until[to] - until[from] <= limit * static_cast<double>(stages[stage].devices);
  };
  std::vector<std::vector<bool>> reached(stages.size() + 1, std::vector<bool>(all + 1, false));
  reached[0][0] = true;  // by number of stages: with so many operators
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::size_t far = 0;  // all that was reached before goes no further
    for (std::size_t from = 0; from < all; ++from) {
      if (!reached[s][from]) continue;
      for (far = std::max(far, from); far < all && fits(s, from, far + 1);) reached[s + 1][++far] = true;
    }
  }
  if (!reached[stages.size()][all]) return {};
  std::vector<std::int32_t> ends(stages.size());
  for (std::size_t s = stages.size(), to = all; s-- > 0;) {
    ends[s] = static_cast<std::int32_t>(to) - 1;
    std::size_t from = to - 1;
    while (!reached[s][from] || !fits(s, from, to)) --from;
    to = from;
  }
  return ends;
}

// Ends of a run of stages over all of these operators, whose longest stage takes the least time.
std::vector<std::int32_t> balanced_ends(std::span<const double> seconds,
                                        std::span<const ListedStage> stages) {
  std::vector<double> until{0};
  for (const double s : seconds) until.push_back(until.back() + s);
  double low = 0, high = until.back();
  constexpr int kSteps = 60;
  for (int step = 0; step < kSteps; ++step) {
    const double middle = low + (high - low) / 2;
    (ends_within(until, stages, middle).empty() ? low : high) = middle;
  }
  return ends_within(until, stages, high);
}

std::int32_t end_named(const OperatorGraph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Operator& op : graph.operators()) names.push_back(op.name);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw InputError(
        fmt::format("model \"{}\" has no operator \"{}\"{}", graph.name(), name, did_you_mean(name, names)));
  }
  return static_cast<std::int32_t>(found - names.begin());
}

struct Ends {
  std::int32_t first = 0, last = 0;
};

struct StageRun {
  std::size_t first = 0, last = 0;
};

// An operator for each stage of a run.
void require_room(const OperatorGraph& graph, const std::vector<ListedStage>& stages, StageRun run,
                  Ends operators) {
  const auto name = [&](std::int32_t op) { return graph.operators()[static_cast<std::size_t>(op)].name; };
  const std::int32_t there = operators.last - operators.first + 1;
  const auto needed = static_cast<std::int32_t>(run.last - run.first) + 1;
  if (there >= needed) return;
  if (there <= 0 && !stages[run.last].last.empty()) {
    throw InputError(
        fmt::format("stage {} ends with \"{}\", which does not come behind \"{}\", the end of stage {}",
                    run.last, name(operators.last), name(operators.first - 1), run.first - 1));
  }
  if (there <= 0) {
    throw InputError(fmt::format("nothing is left for stage {}: \"{}\" is the model's last operator",
                                 run.first, name(operators.last)));
  }
  throw InputError(fmt::format("stages {} to {} have {} operator{} to share, {} are needed", run.first,
                               run.last, there, there == 1 ? "" : "s", needed));
}

}  // namespace

std::vector<ListedStage> parse_stage_list(std::string_view text) {
  std::vector<ListedStage> stages;
  for (const std::string_view part : split_stages(text)) stages.push_back(parse_stage(part, text));
  if (!stages.back().last.empty()) {
    throw InputError(
        fmt::format("found \"@{}\" at the last stage of \"{}\", which ends with the model: "
                    "leave it out",
                    stages.back().last, text));
  }
  return stages;
}

std::vector<std::int32_t> last_operators(const OperatorGraph& graph, const std::vector<double>& seconds,
                                         const std::vector<ListedStage>& stages) {
  const std::int32_t inputs = leading_inputs(graph);  // of a profile: reading data is no stage
  std::vector<std::int32_t> ends;
  const auto num_operators = static_cast<std::int32_t>(graph.operators().size());
  std::size_t begin = 0;  // of a run of stages whose last one's end is known
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].last.empty() && s + 1 < stages.size()) continue;
    const std::int32_t last = stages[s].last.empty() ? num_operators - 1 : end_named(graph, stages[s].last);
    const std::int32_t before = last < inputs ? 0 : inputs;  // of the first stage, which begins at 0
    const std::int32_t first = ends.empty() ? before : ends.back() + 1;
    require_room(graph, stages, {begin, s}, {first, last});
    const std::span run = std::span(stages).subspan(begin, s + 1 - begin);
    const std::span costs(seconds.begin() + first, static_cast<std::size_t>(last - first + 1));
    for (const std::int32_t end : balanced_ends(costs, run)) ends.push_back(first + end);
    begin = s + 1;
  }
  return ends;
}

std::vector<StageGroup> stage_devices(const Topology& topology, const std::vector<ListedStage>& stages) {
  std::int64_t wanted = 0;
  for (const ListedStage& stage : stages) wanted += stage.devices;
  if (wanted > static_cast<std::int64_t>(topology.num_devices())) {
    throw InputError(fmt::format("stages of {} devices together, topology \"{}\" has {}", wanted,
                                 topology.name(), topology.num_devices()));
  }
  std::vector<StageGroup> groups;
  std::int64_t next = 0;
  for (const ListedStage& stage : stages) {
    groups.emplace_back();
    for (std::int64_t d = 0; d < stage.devices; ++d)
      groups.back().emplace_back(static_cast<std::size_t>(next++));
  }
  return groups;
}

PipelinedStrategy listed_stages(const OperatorGraph& graph, const CostModel& costs,
                                const std::vector<ListedStage>& stages, const std::string& schedule) {
  const std::vector<StageGroup> groups = stage_devices(costs.topology(), stages);
  std::vector<double> seconds;
  std::vector<std::int32_t> operators(graph.operators().size());
  std::iota(operators.begin(), operators.end(), 0);
  for (const Operator& op : graph.operators())
    seconds.push_back(compute_time(graph, op, costs, DeviceId(0)).value);
  const Pipeline pipeline{schedule, stages_of_layers(operators, last_operators(graph, seconds, stages))};
  std::vector<StageMesh> meshes;
  for (std::size_t s = 0; s < stages.size(); ++s) meshes.push_back({groups[s], 1, stages[s].replicas});
  return staged_strategy(graph, costs.topology(), pipeline, meshes);
}

}  // namespace pipesim
