#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "models/zoo/zoo.h"
#include "taskgraph/plan/plan.h"
#include "tests/seeds.h"
#include "tests/taskgraph/random_strategies.h"
#include "topologies/presets/presets.h"

namespace pipesim {

/// A runtime whose processes take as long as the kernels of small models, and which waits with reductions and
/// hides transfers behind products; collectives slow what runs beside them.
inline Runtime busy_runtime() {
  return parse_runtime(
      "nanotron:module=9us,backward=7us,kernel=2us,collective=9us,member=1us,step=20us,weight=3us,slice=1us,"
      "tensor-overlap=always,interference=0.7");
}

struct RandomPipeline {
  Strategy strategy;
  PlanOptions options;
};

/// A legal pipeline of up to four groups of devices: the operators in order, cut anywhere; random schedule,
/// microbatches, groups and configs inside the groups.
inline RandomPipeline random_pipeline(const OperatorGraph& graph, Rng& rng, const Topology& topology) {
  constexpr std::array<const char*, 6> kSchedules{"gpipe",       "1f1b",  "eager-1f1b",
                                                  "interleaved", "zb-h1", "zb-h2"};
  const std::size_t n = graph.operators().size(), devices = topology.num_devices();
  for (;;) {
    const std::size_t groups = 1 + rng.below(std::min<std::size_t>({4, n, devices}));
    Pipeline pipeline{kSchedules[rng.below(kSchedules.size())], std::vector<std::int32_t>(n, 0)};
    const std::size_t chunks = pipeline.schedule == "interleaved" && n >= 2 * groups ? 2 : 1;
    std::vector<std::size_t> cuts(n - 1);
    std::iota(cuts.begin(), cuts.end(), std::size_t{1});
    for (std::size_t i = 0; i + 1 < groups * chunks; ++i)
      std::swap(cuts[i], cuts[i + rng.below(cuts.size() - i)]);
    for (std::size_t i = 0; i + 1 < groups * chunks; ++i) {
      for (std::size_t op = cuts[i]; op < n; ++op) ++pipeline.stage_of[op];
    }
    const std::vector<DeviceId> order = random_devices(rng, devices, devices);
    RandomPipeline made;
    made.options.microbatches = static_cast<std::int32_t>(1 + rng.below(6));
    // Schedules in a V are not drawn: they are taken where they allow this number of microbatches.
    const auto microbatches = static_cast<std::size_t>(made.options.microbatches);
    if (chunks == 2 && microbatches % groups != 0) pipeline.schedule = "zb-v";
    if (chunks == 2 && (microbatches == 2 * groups || microbatches == 2 * groups + 1))
      pipeline.schedule = "dualpipe-v";
    for (std::size_t op = 0; op < n; ++op) {
      const auto stage = static_cast<std::size_t>(pipeline.stage_of[op]);
      const auto group = static_cast<std::size_t>(device_of_stage(
          static_cast<std::int64_t>(stage), static_cast<std::int64_t>(groups), lies_in_v(pipeline.schedule)));
      const std::size_t first = group * devices / groups, size = (group + 1) * devices / groups - first;
      const Operator& o = graph.operators()[op];
      ParallelConfig config = random_config(o, rng, size, static_cast<std::int64_t>(size));
      const bool begins = op == 0 || pipeline.stage_of[op - 1] != pipeline.stage_of[op];
      if (begins && chunks > 1) {  // all stages of a group have its devices
        config = single_device(o, DeviceId(0));
        config.replicas = static_cast<std::int32_t>(size);
        config.devices.clear();
        for (std::size_t d = 0; d < size; ++d) config.devices.emplace_back(d);
      }
      for (DeviceId& d : config.devices) d = order[first + d.index()];
      made.strategy.push_back(std::move(config));
    }
    // These are not drawn, so that seeds keep their pipelines.
    if (pipeline.schedule == "gpipe" && made.options.microbatches % 2 == 1) pipeline.schedule = "zb-auto:2";
    if (n % 2 == groups % 2) made.options.gradient_reduction = GradientReduction::AfterSteps;
    if (made.options.microbatches % 3 == 0) pipeline.messages = StageMessages::Blocking;
    made.options.pipeline = std::move(pipeline);
    if (!illegal(graph, made.strategy, made.options, topology)) return made;
  }
}

/// Makes a random pipeline whose stages have devices of their own, in up to three replicas that take
/// microbatches in turn, with random configs inside each. Its schedule allows replicas.
inline RandomPipeline random_replicas(const OperatorGraph& graph, Rng& rng, const Topology& topology) {
  constexpr std::array<const char*, 3> kSchedules{"pipedream", "pipedream-vertical-sync", "inference"};
  for (;;) {
    RandomPipeline made = random_pipeline(graph, rng, topology);
    Pipeline& pipeline = *made.options.pipeline;
    pipeline.schedule = kSchedules[rng.below(kSchedules.size())];
    std::vector<std::set<DeviceId>> devices(static_cast<std::size_t>(pipeline.num_stages()));
    for (std::size_t op = 0; op < made.strategy.size(); ++op) {
      const std::vector<DeviceId>& of_operator = made.strategy[op].devices;
      devices[static_cast<std::size_t>(pipeline.stage_of[op])].insert(of_operator.begin(), of_operator.end());
    }
    for (const std::set<DeviceId>& of_stage : devices)
      pipeline.replicas.push_back(
          static_cast<std::int32_t>(1 + rng.below(std::min<std::size_t>(3, of_stage.size()))));
    for (std::size_t op = 0; op < made.strategy.size(); ++op) {
      const std::int32_t stage = pipeline.stage_of[op], replicas = pipeline.replicas_of(stage);
      const std::set<DeviceId>& of_stage = devices[static_cast<std::size_t>(stage)];
      const std::vector<DeviceId> all(of_stage.begin(), of_stage.end());
      const std::size_t each = all.size() / static_cast<std::size_t>(replicas);
      ParallelConfig config =
          random_config(graph.operators()[op], rng, each, static_cast<std::int64_t>(each));
      std::vector<DeviceId> of_replicas;
      for (std::size_t r = 0; r < static_cast<std::size_t>(replicas); ++r) {
        for (const DeviceId d : config.devices) of_replicas.push_back(all[r * each + d.index()]);
      }
      config.replicas *= replicas;
      config.devices = std::move(of_replicas);
      made.strategy[op] = std::move(config);
    }
    if (!illegal(graph, made.strategy, made.options, topology)) return made;
  }
}

/// Small models on small topologies in random pipelines, some without one, some with recomputation, of about
/// twenty microbatches. visit(graph, costs, pipeline, unit): multiples of `unit` are allowed, too.
template <class Visit>
void for_pipelines_of_many_microbatches(int seeds, Visit visit) {
  for (const char* model : small_models) {
    if (model == std::string_view("resnet50:batch=8,image=64")) continue;  // many tasks, nothing new
    const OperatorGraph graph = make_zoo_model(model);
    for (const char* name : {"p100-4x4:2", "levels:2@10GB/s,3@0.1GB/s", "levels:4@1GB/s,2@1GB/s"}) {
      const Topology topology = make_topology(name);
      const CostModel costs(topology), busy(topology, nullptr, busy_runtime());
      for_each_seed(seeds, [&](Rng& rng) {
        RandomPipeline p = random_pipeline(graph, rng, topology);
        if (rng.below(6) == 0) p.options.pipeline.reset();
        if (rng.below(3) == 0) p.options.recompute = parse_recompute("full");
        const std::int32_t unit = p.options.microbatches;
        constexpr std::int32_t kMany = 20;
        p.options.microbatches = unit * (kMany / unit);
        visit(graph, unit % 2 == 0 ? costs : busy, p, unit);  // not drawn: seeds keep their pipelines
      });
    }
  }
}

}  // namespace pipesim
