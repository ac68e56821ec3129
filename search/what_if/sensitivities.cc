#include "search/what_if/sensitivities.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "sim/explain.h"
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
  runtime.host = runtime.host.scaled(kTenthLess);
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
  PathGain(const SimulatedPart& part, const CriticalPath& path) : dag_(part.dag()) {
    for (std::size_t i = 0; i < path.steps.size(); ++i) {
      const CriticalStep& step = path.steps[i];
      Step made{step,
                {},
                depends(part.labels()[step.task.index()].kind),
                static_cast<double>(part.time_spent(step.from, step.until))};
      if (i + 1 < path.steps.size()) made.next = path.steps[i + 1];
      steps_.push_back(made);
    }
  }

  // Nothing where the tasks are others.
  [[nodiscard]] std::optional<Nanoseconds> of(const Figure& figure, const TaskDag& other) const {
    if (!same_tasks(dag_, other)) return std::nullopt;
    double gain = 0;
    for (const Step& s : steps_) {
      if (!figure.concerns(s.depends)) continue;
      const CriticalStep* next = s.next ? &*s.next : nullptr;
      const auto now = static_cast<double>(in_the_way(dag_, s.step, next));
      if (now == 0) continue;
      gain += s.spent * (now - static_cast<double>(in_the_way(other, s.step, next))) / now;
    }
    return std::llround(gain);
  }

 private:
  struct Step {
    CriticalStep step;
    std::optional<CriticalStep> next;
    Depends depends;
    double spent;  // by all that it stands for
  };
  TaskDag dag_;
  std::vector<Step> steps_;
};

class SensitivityWalk {
 public:
  explicit SensitivityWalk(const SensitivityRequest& request) : request_(request) {}

  Sensitivities run() {
    Sensitivities found;
    std::optional<Evaluated> now = score({});
    found.time = now->cost->time;
    tell_memory(now->peaks, found);
    std::vector<Figure> figures;
    for (const Figure& figure : kFigures) {
      if (!has(figure, request_.topology, request_.runtime)) continue;
      figures.push_back(figure);
      found.figures.push_back({figure.path, figure.value, std::nullopt, std::nullopt});
    }
    if (!evaluator_->contents().versions().several()) {
      const PathGain gain(*now->part, critical_path(now->part->dag(), now->part->timeline(), [&](TaskId t) {
        return is_communication(now->part->labels()[t.index()].kind);
      }));
      now.reset();  // its tasks are given other times
      walk(gain, figures, found);
    }
    now.reset();
    if (request_.simulate) {
      for (std::size_t i = 0; i < figures.size(); ++i)
        found.figures[i].simulated = score({figures[i]}).cost->time;
    }
    return found;
  }

 private:
  struct Prices {
    Prices(const SensitivityRequest& request, const std::vector<Figure>& figures)
        : figures_of(changed(request, figures)),
          costs(figures_of.topology, request.calibration, figures_of.runtime) {}
    Changed figures_of;
    CostModel costs;
  };

  void tell_memory(const std::vector<DeviceMemory>& peaks, Sensitivities& found) const {
    double fullest = -1;
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      const Bytes needs = peaks[d].peak,
                  has = request_.topology.usable_memory(DeviceId(d), peaks[d].communicators);
      const double share =
          static_cast<double>(needs.value) / static_cast<double>(std::max<std::int64_t>(1, has.value));
      if (share > fullest) fullest = share, found.needs = needs, found.has = has;
    }
  }

  // With these figures better.
  Evaluated score(const std::vector<Figure>& figures) {
    auto prices = std::make_unique<Prices>(request_, figures);
    if (evaluator_) {
      evaluator_ = std::move(*evaluator_).with(prices->costs);
    } else {
      evaluator_.emplace(request_.graph, prices->costs, request_.options);
    }
    prices_ = std::move(prices);
    return evaluator_->evaluate(request_.strategy, {.peaks = true, .part = Labels::Make});
  }

  void walk(const PathGain& gain, const std::vector<Figure>& figures, Sensitivities& found) {
    for (const std::vector<Figure>& group : groups_of(figures)) {
      const Evaluated better = score(group);
      for (const Figure& figure : group) {
        const auto place = std::ranges::find(found.figures, figure.path, &Sensitivity::figure);
        if (const auto gained = gain.of(figure, better.part->dag()))
          place->first_order = found.time - *gained;
      }
    }
  }

  const SensitivityRequest& request_;
  std::unique_ptr<Prices> prices_;  // of the evaluator
  std::optional<Evaluator> evaluator_;
};

}  // namespace

Sensitivities sensitivities(const SensitivityRequest& request) { return SensitivityWalk(request).run(); }

}  // namespace pipesim
