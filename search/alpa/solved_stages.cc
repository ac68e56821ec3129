#include "search/alpa/solved_stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "search/alpa/submeshes.h"
#include "search/baselines/placement.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

// Configs of an operator on a submesh, the most promising ones; Alpa has about as many.
constexpr std::size_t kMostChoices = 12;
constexpr std::int64_t kAnySuccessors = 1 << 20;
constexpr std::int64_t kWithoutLimit = -1;
constexpr Bytes kAnyBytes(std::numeric_limits<std::int64_t>::max() / 4);
// Transfers are planned for answers alone: there are many submeshes and runs of clusters.
constexpr int kMostAnswers = 40;
// For a stage within memory: its gap is small by then.
constexpr std::uint64_t kRoundsOfStage = 4;
// Where the best splits leave too little memory for the stages behind, so many others are looked for.
constexpr std::int64_t kOtherPlaces = 4;

}  // namespace

SolvedStages::SolvedStages(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& plan,
                           std::int32_t clusters, std::string schedule)
    : graph_(graph),
      costs_(costs),
      plan_(plan),
      schedule_(std::move(schedule)),
      clusters_(graph, costs, clusters, schedule_) {
  plan_.pipeline.reset();
}

// Rows of data- and tensor-parallel devices are among the choices.
std::unique_ptr<IntraCosts> SolvedStages::costs_on(std::int64_t devices) const {
  StageMesh mesh;
  for (std::int64_t d = 0; d < devices; ++d) mesh.devices.emplace_back(static_cast<std::size_t>(d));
  const Pipeline one_stage{"1f1b", std::vector<std::int32_t>(graph_.operators().size(), 0)};
  std::vector<Strategy> starts;
  for (mesh.tensor = 1; mesh.tensor <= std::min(devices, smallest_node(topology())); mesh.tensor *= 2) {
    if (devices % mesh.tensor != 0) continue;
    Strategy rows = staged_strategy(graph_, topology(), one_stage, {mesh}).strategy;
    if (!illegal(graph_, rows, topology())) starts.push_back(std::move(rows));
  }
  return std::make_unique<IntraCosts>(graph_, costs_, plan_, mesh.devices, std::move(starts), kMostChoices);
}

SolvedStages::Answer SolvedStages::judged(Submesh& mesh, const AdditiveCounts& part,
                                          IntraSolution solution) const {
  Answer answer{std::move(solution)};
  if (!answer.solution.found) return answer;
  const Bytes always = mesh.costs->held(answer.solution.answer, part, 0),
              each = mesh.costs->held(answer.solution.answer, part, 1) - always;
  const Bytes room = mesh.usable - always;
  answer.most_successors = room.value < 0    ? -1
                           : each.value == 0 ? kAnySuccessors
                                             : std::min(kAnySuccessors, room.value / each.value - 1);
  return answer;
}

const SolvedStages::Answer& SolvedStages::solved(Submesh& mesh, const AdditiveCounts& part,
                                                 std::int64_t successors) {
  const auto [it, is_new] = mesh.answers.try_emplace({part, successors});
  if (is_new) {
    PlannedSolving how;
    how.settings.rounds = kRoundsOfStage;
    how.at_once = 0;
    how.most_answers = kMostAnswers;
    how.plans_before_proof = false;
    const std::int64_t in_flight = successors + 1;
    it->second = judged(mesh, part,
                        mesh.costs->solve_planned(
                            part, in_flight, successors == kWithoutLimit ? kAnyBytes : mesh.usable, how));
  }
  return it->second;
}

void SolvedStages::add_option(Submesh& mesh, std::size_t first, std::size_t last, const Answer& answer) {
  StageOption& option = problem_.options.emplace_back();
  option.first = static_cast<std::int32_t>(first);
  option.last = static_cast<std::int32_t>(last);
  option.submesh = static_cast<std::int32_t>(&mesh - meshes_.data());
  option.config = static_cast<std::int32_t>(choices_.size());
  option.devices = mesh.devices;
  option.time = Seconds(IntraCosts::seconds_of(answer.solution.cost)) +
                clusters_.transfer_time(mesh.devices, last, NextStage::InNode);
  option.most_successors =
      answer.most_successors >= most_behind(mesh, last) ? kAnySuccessors : answer.most_successors;
  choices_.push_back({&mesh, &answer.solution});
}

// Returns how many stages may be behind such a stage in any pipeline.
std::int64_t SolvedStages::most_behind(const Submesh& mesh, std::size_t last) const {
  const auto clusters = static_cast<std::int64_t>(clusters_.size() - 1 - last),
             others = static_cast<std::int64_t>(topology().num_devices()) - mesh.devices;
  return std::min<std::int64_t>({clusters, others, plan_.microbatches - 1});
}

void SolvedStages::solve_without_limit(Submesh& mesh, std::size_t first, std::size_t last) {
  const Answer& answer = solved(mesh, part_of(mesh, first, last), kWithoutLimit);
  if (answer.solution.found && answer.most_successors >= 0) add_option(mesh, first, last, answer);
}

// Looks for other splits, which leave more memory for the stages behind where the best ones leave too little.
void SolvedStages::solve_within_limits(Submesh& mesh, std::size_t first, std::size_t last, Seconds most) {
  const AdditiveCounts part = part_of(mesh, first, last);
  const std::int64_t behind = most_behind(mesh, last);
  const Answer* answer = &solved(mesh, part, kWithoutLimit);
  if (plan_.microbatches * IntraCosts::seconds_of(answer->solution.cost) > most.value) return;
  while (answer->most_successors < behind) {
    const std::int64_t missing = behind - answer->most_successors;
    const std::int64_t wanted = answer->most_successors + (missing + kOtherPlaces - 1) / kOtherPlaces;
    answer = &solved(mesh, part, wanted);
    if (!answer->solution.found || answer->most_successors < wanted) return;
    add_option(mesh, first, last, *answer);
  }
}

AdditiveCounts SolvedStages::part_of(const Submesh& mesh, std::size_t first, std::size_t last) const {
  std::vector<bool> inside;
  for (const std::int32_t c : clusters_.cluster_of())
    inside.push_back(static_cast<std::size_t>(c) >= first && static_cast<std::size_t>(c) <= last);
  return mesh.costs->counts_of(inside);
}

template <class Visit>
void SolvedStages::for_each_run(const std::function<void(std::int64_t)>& looked_at, Visit visit) {
  for (Submesh& mesh : meshes_) {
    if (looked_at) looked_at(mesh.devices);
    for (std::size_t first = 0; first < clusters_.size(); ++first) {
      for (std::size_t last = first; last < clusters_.size(); ++last) {
        stop_if_late();
        visit(mesh, first, last);
      }
    }
    mesh.costs->forget_plans();
  }
}

std::vector<AlpaPlan> SolvedStages::plans(Bytes spare, const std::function<void(std::int64_t)>& looked_at) {
  problem_ = {static_cast<std::int32_t>(clusters_.size()),
              static_cast<std::int64_t>(topology().num_devices()),
              plan_.microbatches,
              {}};
  choices_.clear();
  if (meshes_.empty()) {
    for (const std::int64_t devices : submesh_sizes(topology())) meshes_.emplace_back().devices = devices;
  }
  for (Submesh& mesh : meshes_) {
    if (!mesh.costs) mesh.costs = costs_on(mesh.devices);
    const std::int64_t tensor = std::min<std::int64_t>(2, mesh.devices);
    mesh.usable =
        topology().usable_memory(DeviceId(0), clusters_.communicators(mesh.devices, tensor)) - spare;
    std::erase_if(mesh.answers, [](const auto& entry) { return entry.first.second != kWithoutLimit; });
    for (auto& [key, answer] : mesh.answers) answer = judged(mesh, key.first, std::move(answer.solution));
  }
  for_each_run(looked_at, [&](Submesh& mesh, std::size_t first, std::size_t last) {
    solve_without_limit(mesh, first, last);
  });
  // Stages that alone take longer than these in all microbatches are in no better pipeline.
  Seconds most(std::numeric_limits<double>::infinity());
  if (const auto known = partitions_of(problem_, clusters_, schedule_); !known.empty())
    most = std::ranges::max_element(known, {}, [](const AlpaPlan& p) {
             return p.partition.total;
           })->partition.total;
  for_each_run(looked_at, [&](Submesh& mesh, std::size_t first, std::size_t last) {
    solve_within_limits(mesh, first, last, most);
  });
  std::vector<AlpaPlan> plans = partitions_of(problem_, clusters_, schedule_);
  for (AlpaPlan& plan : plans) {
    plan.proven = true;
    for (const std::size_t number : plan.partition.stages) {
      const Choice& choice = choices_[static_cast<std::size_t>(plan.options[number].config)];
      plan.splits.push_back(choice.mesh->costs->strategy(choice.solution->answer));
      plan.proven = plan.proven && choice.solution->proven;
    }
  }
  return plans;
}

}  // namespace pipesim
