#include "search/what_if/sensitivities.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/explain.h"
#include "taskgraph/proofs/find_folding.h"
#include "topologies/changes/topology_changes.h"

namespace pipesim {
namespace {

// What a task's duration follows from.
enum class Depends : std::uint8_t { OnDevice, OnLinks, OnHost, OnNothing };

Depends depends(TaskKind kind) {
  if (is_pass(kind) || kind == TaskKind::Update) return Depends::OnDevice;
  if (is_communication(kind) || kind == TaskKind::Interference) return Depends::OnLinks;
  return kind == TaskKind::Host ? Depends::OnHost : Depends::OnNothing;
}

constexpr const char* kHost = "runtime.host";

struct Figure {
  const char* path;
  const char* value;
  Depends of;
  std::optional<Depends> also = std::nullopt;
  [[nodiscard]] bool concerns(Depends what) const { return what == of || what == also; }
  [[nodiscard]] bool meets(const Figure& o) const { return concerns(o.of) || (o.also && concerns(*o.also)); }
};
constexpr std::array<Figure, 8> kFigures{
    {{"device.rate", "x1.1", Depends::OnDevice},
     // What collectives copy on a device passes its memory.
     {"device.memory_bandwidth", "x1.1", Depends::OnDevice, Depends::OnLinks},
     {"device.launch_overhead", "x0.9", Depends::OnDevice},
     {"intra_node.bandwidth", "x1.1", Depends::OnLinks},
     {"intra_node.latency", "x0.9", Depends::OnLinks},
     {"inter_node.bandwidth", "x1.1", Depends::OnLinks},
     {"inter_node.latency", "x0.9", Depends::OnLinks},
     {kHost, "x0.9", Depends::OnHost}}};

Runtime with_faster_host(Runtime runtime) {
  constexpr double kTenthLess = 0.9;
  HostTimes& host = runtime.host;
  for (Seconds* time : {&host.module, &host.backward, &host.kernel, &host.collective, &host.member,
                        &host.step, &host.weight, &host.slice})
    *time = *time * kTenthLess;
  return runtime;
}

bool has(const Figure& figure, const Topology& topology, const Runtime& runtime) {
  if (figure.path == std::string_view(kHost)) return runtime.has_host();
  const std::vector<ChangeableFigure> figures = changeable_figures(topology.parts());
  return std::ranges::any_of(figures, [&](const ChangeableFigure& f) { return f.path == figure.path; });
}

// A topology and runtime with some figures better.
struct Changed {
  Topology topology;
  Runtime runtime;
};
Changed changed(const SensitivityRequest& request, const std::vector<Figure>& figures) {
  TopologyParts parts = request.topology.parts();
  Runtime runtime = request.runtime;
  for (const Figure& figure : figures) {
    if (figure.path == std::string_view(kHost)) {
      runtime = with_faster_host(std::move(runtime));
    } else {
      change_topology(parts, figure.path, figure.value);
    }
  }
  return {Topology(std::move(parts)).with_memory_margin(request.topology.memory_margin()),
          std::move(runtime)};
}

// At most one figure of each kind of task in a group, so that one expansion tells about all of them.
std::vector<std::vector<Figure>> groups_of(const std::vector<Figure>& figures) {
  std::vector<std::vector<Figure>> groups;
  for (const Figure& figure : figures) {
    const auto free = std::ranges::find_if(groups, [&](const std::vector<Figure>& group) {
      return std::ranges::none_of(group, [&](const Figure& other) { return other.meets(figure); });
    });
    if (free == groups.end()) {
      groups.push_back({figure});
    } else {
      free->push_back(figure);
    }
  }
  return groups;
}

// How long the step after it has to wait: for its end, or for a lane that it holds.
Nanoseconds in_the_way(const TaskDag& dag, const CriticalStep& step, const CriticalStep* next) {
  if (!next || next->why.cause != Cause::Lane) return dag.duration(step.task);
  for (const LaneUse use : dag.lanes(step.task)) {
    if (use.lane == next->why.lane) return use.hold;
  }
  return 0;
}

bool same_tasks(const TaskDag& a, const TaskDag& b) {
  return a.num_edges() == b.num_edges() && std::ranges::equal(a.keys(), b.keys());
}

// What a critical path gains where tasks have other durations.
class PathGain {
 public:
  PathGain(const SimulatedPart& part, const CriticalPath& path) : part_(part), path_(path) {}

  // Of tasks that depend on the figure.
  [[nodiscard]] Nanoseconds of(const Figure& figure, const TaskDag& other) const {
    double gain = 0;
    for (std::size_t i = 0; i < path_.steps.size(); ++i) {
      const CriticalStep& step = path_.steps[i];
      if (!figure.concerns(depends(part_.labels()[step.task.index()].kind))) continue;
      const CriticalStep* next = i + 1 < path_.steps.size() ? &path_.steps[i + 1] : nullptr;
      const auto now = static_cast<double>(in_the_way(part_.dag(), step, next));
      if (now == 0) continue;
      const auto then = static_cast<double>(in_the_way(other, step, next));
      const auto spent = static_cast<double>(part_.time_spent(step.from, step.until));
      gain += spent * (now - then) / now;
    }
    return std::llround(gain);
  }

 private:
  const SimulatedPart& part_;
  const CriticalPath& path_;
};

class SensitivityWalk {
 public:
  explicit SensitivityWalk(const SensitivityRequest& request)
      : request_(request),
        costs_(request.topology, request.calibration, request.runtime),
        evaluator_(request.graph, costs_, request.options) {}

  Sensitivities run() {
    Sensitivities found;
    std::vector<DeviceMemory> peaks;
    found.time = evaluator_.score_labelled(evaluator_.contents().bind(request_.strategy), peaks).time;
    std::vector<Figure> figures;
    for (const Figure& figure : kFigures) {
      if (!has(figure, request_.topology, request_.runtime)) continue;
      figures.push_back(figure);
      found.figures.push_back({figure.path, figure.value, std::nullopt, std::nullopt});
    }
    if (!evaluator_.contents().versions().several()) walk(figures, found);
    if (request_.simulate) {
      for (std::size_t i = 0; i < figures.size(); ++i) found.figures[i].simulated = simulated({figures[i]});
    }
    return found;
  }

 private:
  void walk(const std::vector<Figure>& figures, Sensitivities& found) {
    const SimulatedPart part = evaluator_.part();
    const CriticalPath path = critical_path(
        part.dag(), part.timeline, [&](TaskId t) { return is_communication(part.labels()[t.index()].kind); });
    const PathGain gain(part, path);
    for (const std::vector<Figure>& group : groups_of(figures)) {
      const Changed other = changed(request_, group);
      const CostModel costs(other.topology, request_.calibration, other.runtime);
      const PlanContents contents(request_.graph, costs, request_.options);
      const BoundStrategy whole = contents.bind(request_.strategy);
      std::optional<Folding> folding;
      if (part.folding) folding = find_folding(contents, whole);
      if (part.folding && !folding) continue;
      ExpandedStrategy expanded(contents);
      expanded.expand(folding ? folding->strategy() : whole, {.microbatches = part.expanded.microbatches(),
                                                              .folding = folding ? &*folding : nullptr});
      if (!same_tasks(part.dag(), expanded.dag())) continue;
      for (const Figure& figure : group) {
        const auto place = std::ranges::find(found.figures, figure.path, &Sensitivity::figure);
        place->first_order = found.time - gain.of(figure, expanded.dag());
      }
    }
  }

  [[nodiscard]] Nanoseconds simulated(const std::vector<Figure>& figures) const {
    const Changed other = changed(request_, figures);
    const CostModel costs(other.topology, request_.calibration, other.runtime);
    Evaluator evaluator(request_.graph, costs, request_.options);
    return evaluator.score(request_.strategy).time;
  }

  const SensitivityRequest& request_;
  CostModel costs_;
  Evaluator evaluator_;
};

}  // namespace

Sensitivities sensitivities(const SensitivityRequest& request) { return SensitivityWalk(request).run(); }

}  // namespace pipesim
