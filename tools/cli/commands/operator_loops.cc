#include "tools/cli/commands/operator_loops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "models/box.h"
#include "taskgraph/drawing/loop_nest.h"
#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

using LoopsJson = nlohmann::ordered_json;

std::string_view when_of(SplitTraffic::When when) {
  return when == SplitTraffic::When::Forward    ? "forward"
         : when == SplitTraffic::When::Backward ? "backward"
                                                : "update";
}

std::string_view key_of(SplitTraffic::What what) {
  switch (what) {
    case SplitTraffic::What::Copies:
      return "copies";
    case SplitTraffic::What::Addends:
      return "addends";
    case SplitTraffic::What::Statistic:
      return "statistic";
    case SplitTraffic::What::Blocks:
      break;
  }
  return "blocks";
}

std::string meaning_of(const SplitTraffic& t) {
  switch (t.what) {
    case SplitTraffic::What::Copies:
      return fmt::format("{} have the same part", t.members);
    case SplitTraffic::What::Addends:
      return fmt::format("{} make an addend each of the same part", t.members);
    case SplitTraffic::What::Statistic:
      return fmt::format("{} reduce a statistic inside the pass", t.members);
    case SplitTraffic::What::Blocks:
      break;
  }
  return fmt::format("{} pass their blocks round a ring", t.members);
}

std::string tensor_of(const SplitTraffic& t) {
  const bool gradient = t.when != SplitTraffic::When::Forward && t.what == SplitTraffic::What::Addends;
  return gradient ? "gradient of " + t.tensor : t.tensor;
}

Flops flops_of_shard(const Operator& op, const ParallelConfig& config) {
  std::vector<Range> ranges;
  ShardGrid(op, config).ranges(0, ranges);
  return Flops(evaluate(op.flops_forward, ranges));
}

}  // namespace

std::string loops_text(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config) {
  const LoopNest nest = loop_nest(graph, op, config);
  const std::int64_t shards = config.num_shards();
  const std::string shard =
      shards == 1 ? "" : fmt::format("one shard of {}, {}", shards, pretty(flops_of_shard(op, config)));
  std::string text =
      fmt::format("{} ({}), {}\n\n{}", op.name, op.kind, config.split_str(op), text_of(nest, shard));
  if (nest.traffic.empty())
    return text + (shards == 1 ? "" : "\nno shard needs what another has, or adds to what another makes\n");
  Table table({{}, {}, {"each", Align::Right}, {"over"}, {"groups", Align::Right}, {"of which"}});
  for (const SplitTraffic& t : nest.traffic)
    table.add({std::string(when_of(t.when)), tensor_of(t), pretty(t.size),
               fmt::format("{}", fmt::join(t.over, " ")), std::to_string(t.groups), meaning_of(t)});
  return text + "\nwhat devices share\n" + table.str(2);
}

LoopsJson loops_json(const OperatorGraph& graph, const Operator& op, const ParallelConfig& config) {
  const LoopNest nest = loop_nest(graph, op, config);
  LoopsJson loops = LoopsJson::array(), traffic = LoopsJson::array();
  for (const FactorLoop& loop : nest.loops)
    loops.push_back({{"variable", loop.variable},
                     {"extents", loop.extents},
                     {"parallel", loop.parallel},
                     {"reduces", loop.reduces}});
  for (const SplitTraffic& t : nest.traffic)
    traffic.push_back({{"pass", when_of(t.when)},
                       {"what", key_of(t.what)},
                       {"tensor", t.tensor},
                       {"over", t.over},
                       {"devices", t.members},
                       {"groups", t.groups},
                       {"bytes", t.size.value}});
  return {{"operator", op.name},
          {"kind", op.kind},
          {"split", config.split_str(op)},
          {"shards", config.num_shards()},
          {"loops", loops},
          {"device", nest.device},
          {"indices", nest.indices},
          {"reduced_indices", nest.reduced_indices},
          {"after", nest.after},
          {"body", nest.body},
          {"shared", traffic}};
}

}  // namespace pipesim
