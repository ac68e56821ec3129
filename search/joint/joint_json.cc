#include "search/joint/joint_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "search/annealing/annealing_json.h"
#include "search/search_json.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

using JointJson = nlohmann::ordered_json;

JointJson numbers_of(const std::vector<DeviceId>& devices) {
  JointJson list = JointJson::array();
  for (const DeviceId d : devices) list.push_back(d.value);
  return list;
}

JointJson json_of(const Scored<JointPlan>& scored) {
  return {{"plan", json_of(scored.plan)}, {"cost", json_of(scored.evaluation)}};
}

class JointReader {
 public:
  JointReader(const DividedGraphs& graphs, const Topology& topology) : graphs_(graphs), topology_(topology) {}

  [[nodiscard]] JointPlan plan(const JsonValue& value) const {
    JointPlan plan;
    plan.microbatches = static_cast<std::int32_t>(value.at("microbatches").integer(1, kMostMicrobatches));
    if (const auto parts = value.find("parts")) plan.sequence.parts = parts->integer(1, INT32_MAX);
    if (const auto groups = value.find("token_groups"))
      plan.sequence.token_groups = groups->integer(1, INT32_MAX);
    const OperatorGraph* graph = graphs_(plan.sequence);
    if (graph == nullptr)
      value.fail(fmt::format("the model can't have its sequence in {} parts and {} groups of tokens",
                             plan.sequence.parts, plan.sequence.token_groups));
    const std::size_t operators = graph->operators().size();
    plan.recompute = recompute(value, operators);
    read_policies(value, plan);
    plan.pipeline.schedule = value.at("schedule").string();
    if (const auto messages = value.find("messages"))
      plan.pipeline.messages = parse_stage_messages(messages->string());
    plan.pipeline.stage_of = stages(value.at("stage_of"), operators);
    if (const auto scheduled = value.find("scheduled")) plan.scheduled = scheduled->boolean();
    const JsonValue meshes = value.at("meshes");
    std::set<DeviceId> seen;
    for (const JsonValue& mesh : meshes.items()) plan.meshes.push_back(this->mesh(mesh, seen));
    const auto num_meshes = static_cast<std::int32_t>(plan.meshes.size());
    if (num_meshes == 0 || plan.pipeline.num_stages() % num_meshes != 0)
      meshes.fail(
          fmt::format("found {} meshes for {} stages", plan.meshes.size(), plan.pipeline.num_stages()));
    for (const JsonValue& own : value.at("own").items()) {
      const auto op =
          static_cast<std::size_t>(own.at("operator").integer(0, static_cast<std::int64_t>(operators) - 1));
      plan.own[static_cast<std::int32_t>(op)] = config(own, graph->operators()[op]);
    }
    return plan;
  }

  [[nodiscard]] JointState state(const JsonValue& value, std::size_t starts) const {
    JointState state;
    read(value, state);
    constexpr std::int64_t kMostRounds = 50;
    state.round = value.at("round").integer(0, kMostRounds);
    state.length = value.at("length").integer(1, kMostInSearches);
    state.done = value.at("done").integer(0, state.length);
    state.least = value.at("least").number(0);
    for (const JsonValue& chain : chains_of(value))
      state.chains.push_back({start(chain, starts), scored(chain.at("now")), scored(chain.at("best")),
                              parse_rng(chain.at("random"))});
    state.best = scored(value.at("best"));
    state.start = start(value, starts);
    std::ranges::copy(parse_counts(value.at("improved_by_kind"), kJointMoveKinds), state.improved.begin());
    return state;
  }

 private:
  static std::size_t start(const JsonValue& value, std::size_t starts) {
    return static_cast<std::size_t>(value.at("start").integer(0, static_cast<std::int64_t>(starts) - 1));
  }

  // By name, or by the segment of every operator.
  static Recompute recompute(const JsonValue& value, std::size_t in_model) {
    const auto listed = value.find("segments");
    if (!listed) return parse_recompute(value.at("recompute").string());
    const auto operators = static_cast<std::int64_t>(in_model);
    Recompute recompute{Recompute::Kind::Listed, {}};
    for (const std::int64_t segment : listed->integers(kNoSegment, operators - 1))
      recompute.segment_of.push_back(static_cast<std::int32_t>(segment));
    if (std::ssize(recompute.segment_of) != operators)
      listed->fail(fmt::format("found {} segments, the model has {} operators", recompute.segment_of.size(),
                               operators));
    return recompute;
  }

  [[nodiscard]] Scored<JointPlan> scored(const JsonValue& value) const {
    return {plan(value.at("plan")), parse_evaluation(value.at("cost"))};
  }

  static std::vector<std::int32_t> stages(const JsonValue& value, std::size_t operators) {
    const std::vector<std::int64_t> found = value.integers(0, static_cast<std::int64_t>(operators) - 1);
    if (found.size() != operators)
      value.fail(fmt::format("found {} stages, the model has {} operators", found.size(), operators));
    std::vector<std::int32_t> stages;
    for (const std::int64_t stage : found) stages.push_back(static_cast<std::int32_t>(stage));
    return stages;
  }

  [[nodiscard]] std::vector<DeviceId> devices(const JsonValue& value) const {
    std::vector<DeviceId> devices;
    for (const std::int64_t d : value.integers(0, static_cast<std::int64_t>(topology_.num_devices()) - 1))
      devices.emplace_back(static_cast<std::size_t>(d));
    if (devices.empty()) value.fail("found no device, at least one is needed");
    return devices;
  }

  // No device has two.
  [[nodiscard]] StageMesh mesh(const JsonValue& value, std::set<DeviceId>& seen) const {
    StageMesh mesh{devices(value.at("devices")), 1};
    for (const DeviceId d : mesh.devices) {
      if (!seen.insert(d).second)
        value.at("devices").fail(fmt::format("device {} stands here twice", d.value));
    }
    const auto size = static_cast<std::int64_t>(mesh.devices.size());
    mesh.tensor = value.at("tensor").integer(1, size);
    if (size % mesh.tensor != 0)
      value.at("tensor").fail(fmt::format("found {}, which does not divide {} devices", mesh.tensor, size));
    return mesh;
  }

  [[nodiscard]] ParallelConfig config(const JsonValue& value, const Operator& op) const {
    ParallelConfig config;
    config.degrees.clear();
    for (const std::int64_t degree : value.at("degrees").integers(1, INT32_MAX))
      config.degrees.push_back(static_cast<std::int32_t>(degree));
    if (config.degrees.size() != op.factors.size())
      value.at("degrees").fail(fmt::format("found {} degrees, the operator has {} factors",
                                           config.degrees.size(), op.factors.size()));
    config.replicas = static_cast<std::int32_t>(value.at("replicas").integer(1, INT32_MAX));
    config.devices = devices(value.at("devices"));
    if (const auto ring = value.find("ring")) config.ring = ring->boolean();
    return config;
  }

  const DividedGraphs& graphs_;
  const Topology& topology_;
};

}  // namespace

JointJson json_of(const JointPlan& plan) {
  JointJson json{{"microbatches", plan.microbatches},
                 {"schedule", plan.pipeline.schedule},
                 {"stage_of", plan.pipeline.stage_of},
                 {"meshes", JointJson::array()},
                 {"own", JointJson::array()}};
  if (plan.recompute.kind == Recompute::Kind::Listed) {
    json["segments"] = plan.recompute.segment_of;
  } else {
    json["recompute"] = plan.recompute.str();
  }
  write_policies(plan, json);
  if (plan.pipeline.messages) json["messages"] = name_of(*plan.pipeline.messages);
  if (plan.sequence.parts > 1) json["parts"] = plan.sequence.parts;
  if (plan.sequence.token_groups > 0) json["token_groups"] = plan.sequence.token_groups;
  if (plan.scheduled) json["scheduled"] = true;
  for (const StageMesh& mesh : plan.meshes)
    json["meshes"].push_back({{"devices", numbers_of(mesh.devices)}, {"tensor", mesh.tensor}});
  for (const auto& [op, config] : plan.own) {
    json["own"].push_back(
        {{"operator", op},
         {"degrees", std::vector<std::int32_t>(config.degrees.begin(), config.degrees.end())},
         {"replicas", config.replicas},
         {"devices", numbers_of(config.devices)}});
    if (config.ring) json["own"].back()["ring"] = true;
  }
  return json;
}

JointPlan parse_joint_plan(const JsonValue& value, const DividedGraphs& graphs, const Topology& topology) {
  return JointReader(graphs, topology).plan(value);
}

JointJson json_of(const JointState& state) {
  const AnnealingState& common = state;
  JointJson json = json_of(common);
  json.update({{"round", state.round},
               {"length", state.length},
               {"done", state.done},
               {"least", state.least},
               {"start", state.start},
               {"best", json_of(state.best)},
               {"improved_by_kind", state.improved},
               {"chains", JointJson::array()}});
  for (const JointChain& chain : state.chains) {
    json["chains"].push_back({{"start", chain.start},
                              {"now", json_of(chain.now)},
                              {"best", json_of(chain.best)},
                              {"random", json_of(chain.rng)}});
  }
  return json;
}

JointState parse_joint_state(const JsonValue& value, const DividedGraphs& graphs, const Topology& topology,
                             std::size_t starts) {
  return JointReader(graphs, topology).state(value, starts);
}

}  // namespace pipesim
