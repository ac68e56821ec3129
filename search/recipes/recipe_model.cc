#include "search/recipes/recipe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "search/baselines/heads.h"
#include "search/baselines/placement.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

std::int64_t num_heads(const Operator& attention) {
  std::int64_t heads = 1;
  for (const char* factor : {"g", "r"})
    heads *= attention.factors[static_cast<std::size_t>(attention.factor(factor))].size;
  return heads;
}

// Stages on one group of devices share its layers; a remainder is missing in the group's first stages, or in
// its last ones.
void divide_group(std::int64_t layers, std::int64_t group, const Recipe& recipe, bool missing_first,
                  std::vector<std::int64_t>& of_stage) {
  const std::int64_t each = (layers + recipe.chunks - 1) / recipe.chunks;
  const std::int64_t missing = each * recipe.chunks - layers;
  const bool in_v = recipe.in_v();
  for (std::int64_t chunk = 0; chunk < recipe.chunks; ++chunk) {
    const bool short_of_one = missing_first ? chunk < missing : chunk >= recipe.chunks - missing;
    const std::int64_t stage = stage_of_chunk(group, chunk, recipe.pipeline, in_v);
    of_stage[static_cast<std::size_t>(stage)] = each - (short_of_one ? 1 : 0);
  }
}

std::optional<std::string> why_not_listed(const Recipe& recipe, std::int64_t layers) {
  if (recipe.first || recipe.last) return "layers, and first or last, exclude each other";
  const auto listed = static_cast<std::int64_t>(recipe.layers.size());
  if (listed != recipe.pipeline && listed != recipe.pipeline * recipe.chunks)
    return fmt::format("layers lists {} groups, and there are pp{}{}", listed, recipe.pipeline,
                       recipe.chunks > 1 ? fmt::format(" of {} stages", recipe.chunks) : "");
  const std::int64_t sum = std::accumulate(recipe.layers.begin(), recipe.layers.end(), std::int64_t{0});
  if (sum != layers) return fmt::format("layers lists {} layers of {}", sum, layers);
  return std::nullopt;
}

// Embedding and head are always in the first and in the last.
std::optional<std::size_t> empty_stage(std::span<const std::int64_t> layers) {
  for (std::size_t s = 1; s + 1 < layers.size(); ++s) {
    if (layers[s] == 0) return s;
  }
  return std::nullopt;
}

}  // namespace

LayerDivision divide_layers(const Recipe& recipe, std::int64_t layers) {
  const std::int64_t groups = recipe.pipeline, stages = groups * recipe.chunks;
  const auto fail = [&](const std::string& why) { return LayerDivision{{}, why}; };
  constexpr std::int64_t most_stages = 1 << 22;
  if (stages > most_stages)
    return fail(fmt::format("pp{} x vpp{} makes {} stages, allowed: up to {}", groups, recipe.chunks, stages,
                            most_stages));
  LayerDivision division{std::vector<std::int64_t>(static_cast<std::size_t>(stages), 0), ""};
  if (groups == 1) {
    if (recipe.in_v()) return fail(fmt::format("schedule={} needs pp2 or more", recipe.schedule));
    if (recipe.chunks > 1) return fail(fmt::format("vpp{} needs pp2 or more", recipe.chunks));
    if (recipe.first || recipe.last) return fail("first and last need pp2 or more");
    if (!recipe.layers.empty()) return fail("layers needs pp2 or more");
    division.layers = {layers};
    return division;
  }
  if (layers == 0)
    return fail(fmt::format("pp{} divides layers, and the model has none that it repeats", groups));
  if (!recipe.layers.empty()) {
    if (const auto why = why_not_listed(recipe, layers)) return fail(*why);
    if (recipe.layers.size() == division.layers.size()) {
      division.layers = recipe.layers;
    } else {
      for (std::int64_t group = 0; group < groups; ++group)
        divide_group(recipe.layers[static_cast<std::size_t>(group)], group, recipe, false, division.layers);
    }
    if (const auto stage = empty_stage(division.layers))
      return fail(fmt::format("stage {} gets no layer", *stage));
    return division;
  }
  std::int64_t first = 0, last = 0, inner = 0;  // layers of the groups
  if (recipe.first || recipe.last) {
    const std::int64_t open = groups - (recipe.first ? 1 : 0) - (recipe.last ? 1 : 0);
    const std::int64_t left = layers - recipe.first.value_or(0) - recipe.last.value_or(0);
    if (left < 0 || (open == 0 ? left > 0 : left % open != 0))
      return fail(
          fmt::format("{} of {} layers are left for {} of the pp{} groups, which does not come out even",
                      left, layers, open, groups));
    inner = open == 0 ? 0 : left / open;
    first = recipe.first.value_or(inner);
    last = recipe.last.value_or(inner);
  } else {
    // Llama 3 405B: 126 layers in 128 stages, embedding and head take the places of two (arXiv:2407.21783,
    // section 3.3.2).
    const std::int64_t more = (stages - layers % stages) % stages;
    if (more > 2)
      return fail(fmt::format("pp{}{} makes {} stages, which {} layers do not fill evenly", groups,
                              recipe.in_v()       ? fmt::format(",schedule={}", recipe.schedule)
                              : recipe.chunks > 1 ? fmt::format(",vpp{}", recipe.chunks)
                                                  : "",
                              stages, layers));
    inner = (layers + more) / groups;
    first = inner - (recipe.in_v() ? more : more == 2 ? 1 : 0);  // a V also ends on the first group
    last = inner - (more > 0 && !recipe.in_v() ? 1 : 0);
  }
  if (inner % recipe.chunks != 0)
    return fail(fmt::format(
        "{} does not divide the {} layers of a group",
        recipe.in_v() ? fmt::format("schedule={}", recipe.schedule) : fmt::format("vpp{}", recipe.chunks),
        inner));
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t here = group == 0 ? first : group == groups - 1 ? last : inner;
    divide_group(here, group, recipe, group == 0 && !recipe.in_v(), division.layers);
  }
  if (const auto stage = empty_stage(division.layers))
    return fail(fmt::format("stage {} gets no layer", *stage));
  return division;
}

namespace {

// Layers behind the loss that look up words once more predict further tokens: they stand with the loss.
void put_behind(const OperatorGraph& graph, std::vector<std::int32_t>& layer_of) {
  const std::span<const Operator> operators = graph.operators();
  const auto is_loss = [&](const Operator& op) {
    const TensorUse& result = op.uses.back();
    return result.role == Role::Output && result.dims.empty() && graph.consumers(result.tensor).empty();
  };
  const auto loss = std::ranges::find_if(operators, is_loss);
  const auto looks_up_again = [&](const Operator& op) {
    if (op.kind != "embedding") return false;
    const OperatorId first = graph.consumers(op.uses[1].tensor).front().op;
    return graph.op(first).name != op.name;
  };
  if (std::none_of(loss, operators.end(), looks_up_again)) return;
  std::fill(layer_of.begin() + (loss - operators.begin()), layer_of.end(), kNoLayer);
}

}  // namespace

RecipeModel::RecipeModel(const OperatorGraph& graph)
    : graph_(graph), axes_(graph), layer_of_(layers_of(graph)) {
  put_behind(graph, layer_of_);
  num_layers_ = layer_of_.empty() ? 0 : *std::ranges::max_element(layer_of_) + 1;
  const auto behind = std::ranges::find_if(layer_of_.rbegin(), layer_of_.rend(),
                                           [](std::int32_t layer) { return layer != kNoLayer; });
  std::int32_t now = kNoLayer;
  for (auto layer = layer_of_.begin(); layer != layer_of_.end(); ++layer) {
    now = layer >= behind.base() ? static_cast<std::int32_t>(num_layers_) : std::max(now, *layer);
    *layer = now;
  }
  asked_ = find_asked();
}

// The first operator of each kind that degrees ask something of: layers are alike, and a search asks for
// thousands of recipes.
std::vector<OperatorId> RecipeModel::find_asked() const {
  std::vector<OperatorId> asked;
  std::set<std::vector<std::int64_t>> seen;
  for (std::size_t i = 0; i < graph_.operators().size(); ++i) {
    const Operator& op = graph_.operators()[i];
    std::vector<std::int64_t> kind{axes_.is_of_experts(OperatorId(i)) ? 1 : 0,
                                   is_multi_head(op) || is_multi_head_scan(op) ? num_heads(op) : 0,
                                   is_multi_head_scan(op) ? 1 : 0, op.kind == "selective_scan" ? 1 : 0,
                                   op.rotation ? 1 : 0};
    for (const AxisRole role : {AxisRole::Features, AxisRole::Experts, AxisRole::Sequence}) {
      kind.push_back(-1);
      for (const FactorIndex f : axes_.factors(OperatorId(i), role)) {
        const Factor& factor = op.factors[static_cast<std::size_t>(f)];
        kind.insert(kind.end(), {factor.size, factor.granule, factor.max_degree, factor.uneven ? 1 : 0});
      }
    }
    if (seen.insert(std::move(kind)).second) asked.emplace_back(i);
  }
  return asked;
}

std::optional<std::string> RecipeModel::illegal_tensor(const Recipe& recipe) const {
  for (const OperatorId id : asked_) {
    const Operator& op = graph_.op(id);
    if (op.kind == "selective_scan" && recipe.context > 1)
      return fmt::format("cp{} divides positions, all of which \"{}\" needs in turn", recipe.context,
                         op.name);
    if (is_multi_head(op) || is_multi_head_scan(op)) {
      const std::int64_t heads = num_heads(op),
                         exchanged = is_multi_head_scan(op) ? recipe.context : recipe.ulysses;
      const std::string exchange =
          fmt::format(" x {}{}", is_multi_head_scan(op) ? "cp" : "ulysses=", exchanged);
      if (heads % (recipe.tensor * exchanged) != 0)
        return fmt::format("tp{}{} does not divide the {} heads of \"{}\"", recipe.tensor,
                           exchanged > 1 ? exchange : "", heads, op.name);
    }
    if (recipe.divides_experts() && axes_.is_of_experts(id)) continue;
    for (const FactorIndex f : axes_.factors(id, AxisRole::Features)) {
      const Factor& factor = op.factors[static_cast<std::size_t>(f)];
      if (parts_of(factor, recipe.tensor) != recipe.tensor)
        return fmt::format("tp{} does not divide the {} features of \"{}\"", recipe.tensor, factor.size,
                           op.name);
    }
  }
  return std::nullopt;
}

std::optional<std::string> RecipeModel::illegal_ring(const Recipe& recipe) const {
  if (recipe.context == recipe.ulysses)
    return fmt::format("ring passes keys and values round parts of the sequence, which cp{}{} does not make",
                       recipe.context, recipe.ulysses > 1 ? fmt::format(",ulysses={}", recipe.ulysses) : "");
  for (const OperatorId id : asked_) {
    const Operator& op = graph_.op(id);
    if (is_multi_head(op) && !op.rotation)
      return fmt::format(
          "ring needs attention with as many keys as queries that keeps no scores, and \"{}\" ({}) is not "
          "such",
          op.name, op.kind);
  }
  return std::nullopt;
}

namespace {

std::optional<std::string> illegal_both_ways(const Recipe& recipe) {
  if (recipe.ways() == 1) return std::nullopt;
  if (recipe.pipeline % 2 != 0)
    return fmt::format("schedule={} needs an even number of groups, which pp{} is not", recipe.schedule,
                       recipe.pipeline);
  return refusal_in_ways(recipe.state_sharding, recipe.schedule);
}

std::optional<std::string> illegal_recompute(const Recipe& recipe, const std::vector<std::int64_t>& stages) {
  const bool counts = recipe.recompute.of_layers() && recipe.recompute.kind != Recompute::Kind::Full;
  if (!counts) return std::nullopt;
  const std::int64_t most = *std::ranges::max_element(stages);
  const bool all = recipe.recompute.kind == Recompute::Kind::First && recipe.recompute.count == most;
  if (recipe.recompute.count <= most && !all) return std::nullopt;
  return fmt::format("recompute={}: no stage has more than {}; recompute={} computes {} again",
                     recipe.recompute.str(), counted(most, "layer"),
                     recipe.recompute.kind == Recompute::Kind::Every ? "none" : "full",
                     recipe.recompute.kind == Recompute::Kind::Every ? "nothing" : "all");
}

std::optional<std::string> illegal_sharding(const Recipe& recipe) {
  const StateSharding& sharding = recipe.state_sharding;
  const std::int64_t copies = recipe.ways() * recipe.data * recipe.context;
  if (sharding.group > 0 && copies > 0 && copies % sharding.group != 0)
    return fmt::format("shard={} does not divide the {} copies of a weight (dp{}{}{})", sharding.group,
                       copies, recipe.data, recipe.context > 1 ? fmt::format(" x cp{}", recipe.context) : "",
                       recipe.ways() > 1 ? fmt::format(" x {} directions", recipe.ways()) : "");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> RecipeModel::illegal_experts(const Recipe& recipe) const {
  const std::int64_t experts = recipe.expert, features = recipe.expert_tensor_degree();
  if (!axes_.has(AxisRole::Experts)) {
    if (experts > 1) return fmt::format("ep{} divides experts, and the model has none", experts);
    return fmt::format("etp{} divides features of experts, and the model has none", features);
  }
  for (const OperatorId id : asked_) {
    if (!axes_.is_of_experts(id)) continue;
    const Operator& op = graph_.op(id);
    const auto undivided = [&](AxisRole role, std::int64_t parts) {
      std::optional<std::int64_t> size;
      for (const FactorIndex f : axes_.factors(id, role)) {
        const Factor& factor = op.factors[static_cast<std::size_t>(f)];
        if (parts_of(factor, parts) != parts) size = factor.size;
      }
      return size;
    };
    if (const auto size = undivided(AxisRole::Experts, experts))
      return fmt::format("ep{} does not divide the {} experts of \"{}\"", experts, *size, op.name);
    if (const auto size = undivided(AxisRole::Features, features))
      return fmt::format("etp{} does not divide the {} features of \"{}\"", features, *size, op.name);
  }
  const std::int64_t stage = recipe.tensor * recipe.context * recipe.data;
  if (stage % (experts * features) == 0) return std::nullopt;
  return fmt::format("etp{} x ep{} is {}, which do not divide the {} of tp{}{} x dp{}", features, experts,
                     counted(experts * features, "device"), stage, recipe.tensor,
                     recipe.context > 1 ? fmt::format(" x cp{}", recipe.context) : "", recipe.data);
}

std::optional<std::string> RecipeModel::illegal(const Recipe& recipe) const {
  if (recipe.context % recipe.ulysses != 0)
    return fmt::format("ulysses={} does not divide cp{}", recipe.ulysses, recipe.context);
  if (recipe.tensor > 1 && !axes_.has(AxisRole::Heads) && !axes_.has(AxisRole::Features))
    return fmt::format("tp{} divides heads and features, and the model has neither", recipe.tensor);
  if (recipe.tensor * recipe.context > 1) {
    if (auto reason = illegal_tensor(recipe)) return reason;
  }
  if (recipe.expert > 1 || recipe.expert_tensor > 0) {
    if (auto reason = illegal_experts(recipe)) return reason;
  }
  const std::int64_t parts = recipe.context * (recipe.sequence_parallel ? recipe.tensor : 1);
  if (recipe.sequence_parallel && recipe.tensor == 1)
    return "sp divides the sequence over tp, and there is no tp";
  if (parts > 1 && !axes_.has(AxisRole::Sequence))
    return fmt::format("{} divides a sequence, and the model has no attention",
                       recipe.context > 1 ? fmt::format("cp{}", recipe.context) : "sp");
  for (std::size_t i = 0; parts > 1 && i < asked_.size(); ++i) {
    const Operator& op = graph_.op(asked_[i]);
    for (const FactorIndex f : axes_.factors(asked_[i], AxisRole::Sequence)) {
      const std::int64_t length = op.factors[static_cast<std::size_t>(f)].size;
      if (length % parts != 0)
        return fmt::format("{} parts of the sequence do not divide the {} positions of \"{}\"", parts, length,
                           op.name);
    }
  }
  if (recipe.ring) {
    if (auto reason = illegal_ring(recipe)) return reason;
  }
  const LayerDivision division = divide_layers(recipe, num_layers_);
  if (!division.error.empty()) return division.error;
  if (auto reason = illegal_recompute(recipe, division.layers)) return reason;
  if (recipe.recompute.kind == Recompute::Kind::Stage && recipe.pipeline == 1)
    return "recompute=stage needs pp2 or more";
  if (!recipe.schedule.empty() && recipe.pipeline == 1 && !recipe.has_stages())
    return "schedule needs pp2 or more";
  if (recipe.messages && recipe.pipeline == 1) return "messages needs pp2 or more";
  if (auto reason = illegal_both_ways(recipe)) return reason;
  if (recipe.in_v() && recipe.chunks != 2)
    return fmt::format("schedule={} puts two stages on each group, which vpp{} does not", recipe.schedule,
                       recipe.chunks);
  if (recipe.chunks > 1 && !recipe.in_v() && !schedule_kind(recipe.schedule_name()).takes_chunks)
    return fmt::format("vpp{} needs schedule=interleaved", recipe.chunks);
  if (recipe.recompute.kind != Recompute::Kind::Stage) {
    if (const auto reason = pipesim::illegal(graph_, recipe.recompute, std::nullopt))
      return "recompute=" + *reason;
  }
  return illegal_sharding(recipe);
}

namespace {

// Returns the number of devices of one copy of the model.
std::int64_t devices_of(const Recipe& recipe) { return recipe.tensor * recipe.context * recipe.pipeline; }

std::string product_text(const Recipe& recipe) {
  std::string text = fmt::format("tp{}", recipe.tensor);
  if (recipe.pipeline > 1) text += fmt::format(" x pp{}", recipe.pipeline);
  if (recipe.context > 1) text += fmt::format(" x cp{}", recipe.context);
  if (recipe.data > 0) text += fmt::format(" x dp{}", recipe.data);
  return text;
}

}  // namespace

std::string nearest_text(const Recipe& recipe, const RecipeModel& model, std::int64_t devices) {
  const std::optional<Recipe> nearest = nearest_legal(recipe, model, devices);
  return nearest ? "; the nearest that is possible: " + nearest->str() : "";
}

Recipe completed(Recipe recipe, std::int64_t devices, const RecipeModel* model) {
  const std::int64_t needed = devices_of(recipe) * std::max<std::int64_t>(1, recipe.data);
  if (recipe.data > 0 ? needed != devices : devices % needed != 0) {
    throw InputError(
        fmt::format("recipe \"{}\": {} is {} devices, which {} {}{}", recipe.str(), product_text(recipe),
                    needed, recipe.data > 0 ? "are not the" : "do not divide", counted(devices, "device"),
                    model ? nearest_text(recipe, *model, devices) : ""));
  }
  recipe.data = devices / devices_of(recipe);
  if (recipe.microbatch == 0) recipe.microbatch = 1;
  return recipe;
}

}  // namespace pipesim
