#include "search/recipes/recipe_of_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "search/baselines/heads.h"
#include "search/baselines/placement.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// How an operator divides the axes of a recipe.
struct Degrees {
  std::int64_t data = 1, context = 1, tensor = 1;
  auto operator<=>(const Degrees&) const = default;
  // Attention divides heads where these divide the sequence.
  [[nodiscard]] bool exchanges_heads_with(const Degrees& attention) const {
    return attention.tensor > tensor && attention.tensor * attention.context == tensor * context &&
           attention.tensor % tensor == 0;
  }
};

std::int64_t degree_of(const ParallelConfig& config, FactorIndex factor) {
  return config.degrees[static_cast<std::size_t>(factor)];
}

class RecipeReader {
 public:
  RecipeReader(const Strategy& strategy, const PlanOptions& options, const RecipeModel& model,
               const Topology& topology)
      : strategy_(strategy), options_(options), model_(model), topology_(topology) {}

  RecognisedRecipe read() {
    RecognisedRecipe found;
    Recipe& recipe = found.recipe;
    read_pipeline(found);
    Degrees degrees = usual_degrees(model_.axes().has(AxisRole::Heads));
    if (const Degrees products = usual_degrees(false); products.exchanges_heads_with(degrees)) {
      recipe.ulysses = degrees.tensor / products.tensor;
      degrees = products;
    }
    recipe.ring = std::ranges::any_of(strategy_, &ParallelConfig::ring);
    const auto devices = static_cast<std::int64_t>(topology_.num_devices());
    recipe.tensor = degrees.tensor;
    recipe.context = degrees.context;
    if (devices % (recipe.tensor * recipe.context * recipe.pipeline) != 0) recipe.context = recipe.tensor = 1;
    if (devices % recipe.pipeline != 0) recipe.pipeline = recipe.chunks = 1;
    recipe.data = devices / (recipe.tensor * recipe.context * recipe.pipeline);
    recipe.microbatch = std::max<std::int64_t>(1, model_.graph().batch() / recipe.data);
    recipe.sequence_parallel = recipe.tensor > 1 && divides_sequence(recipe);
    read_recompute(found);
    recipe.state_sharding = options_.state_sharding;
    read_experts(recipe);
    if (recipe.data * recipe.microbatch != model_.graph().batch())
      found.differences.push_back(
          fmt::format("batch {} is not dp{}·mbs{}", model_.graph().batch(), recipe.data, recipe.microbatch));
    if (model_.illegal(recipe)) {  // then the one of the whole devices
      if (recipe.pipeline > 1) found.differences.emplace_back("stages that no recipe has");
      recipe = Recipe();
      recipe.state_sharding = options_.state_sharding;
      recipe.data = devices;
      recipe.microbatch = std::max<std::int64_t>(1, model_.graph().batch() / devices);
    }
    if (recipe.gathered_inputs() != options_.gathered_inputs) recipe.gathered = options_.gathered_inputs;
    if (recipe.gradient_reduction() != options_.gradient_reduction)
      recipe.reduction = options_.gradient_reduction;
    choose_order(recipe);
    compare(found);
    return found;
  }

 private:
  void read_pipeline(RecognisedRecipe& found) const {
    const std::optional<Pipeline>& pipeline = options_.pipeline;
    if (!pipeline) return;
    Recipe& recipe = found.recipe;
    std::set<DeviceId> first_devices;  // of each group of devices
    std::vector<std::int64_t> layers(static_cast<std::size_t>(pipeline->num_stages()), 0);
    std::int32_t last_layer = kNoLayer;
    for (std::size_t i = 0; i < strategy_.size(); ++i) {
      first_devices.insert(*std::ranges::min_element(strategy_[i].devices));
      const std::int32_t layer = model_.layer_of()[i];
      const bool fresh = layer != last_layer && layer >= 0 && layer < model_.num_layers();
      if (fresh) ++layers[static_cast<std::size_t>(pipeline->stage_of[i])];
      last_layer = layer;
    }
    const auto stages = static_cast<std::int64_t>(layers.size());
    std::int64_t groups =
        static_cast<std::int64_t>(std::min<std::size_t>(first_devices.size(), layers.size()));
    while (stages % groups != 0) --groups;
    recipe.pipeline = groups;
    recipe.chunks = stages / groups;
    if (pipeline->schedule != recipe.schedule_name()) recipe.schedule = pipeline->schedule;
    recipe.messages = pipeline->messages;
    if (!pipeline->replicas.empty()) found.differences.emplace_back("replicas take turns");
    if (divide_layers(recipe, model_.num_layers()).layers == layers) return;
    std::int64_t first = 0, last = 0;
    for (std::int64_t chunk = 0; chunk < recipe.chunks; ++chunk) {
      const auto layers_of = [&](std::int64_t group) {
        return layers[static_cast<std::size_t>(stage_of_chunk(group, chunk, groups, recipe.in_v()))];
      };
      first += layers_of(0);
      last += layers_of(groups - 1);
    }
    recipe.first = first;
    recipe.last = last;
    const LayerDivision uneven = divide_layers(recipe, model_.num_layers());
    if (uneven.layers == layers) return;
    recipe.first.reset();
    recipe.last.reset();
    for (std::int64_t group = 0; group < groups; ++group) {
      std::int64_t here = 0;
      for (std::int64_t chunk = 0; chunk < recipe.chunks; ++chunk)
        here += layers[static_cast<std::size_t>(stage_of_chunk(group, chunk, groups, recipe.in_v()))];
      recipe.layers.push_back(here);
    }
    if (divide_layers(recipe, model_.num_layers()).layers == layers) return;
    recipe.layers = layers;
    if (divide_layers(recipe, model_.num_layers()).layers == layers) return;
    recipe.layers.clear();
    found.differences.emplace_back("stages of other layers");
  }

  // Degrees that no recipe has stay away: then the experts differ, not everything.
  void read_experts(Recipe& recipe) const {
    const ModelAxes& axes = model_.axes();
    const auto op = first_of_experts();
    if (!op) return;
    Recipe with = recipe;
    with.expert = degree_of(strategy_[op->index()], axes.factors(*op, AxisRole::Experts).front());
    const std::vector<FactorIndex> features = axes.factors(*op, AxisRole::Features);
    const std::int64_t parts = features.empty() ? 1 : degree_of(strategy_[op->index()], features.front());
    if (parts != recipe.tensor) with.expert_tensor = parts;
    if (!model_.illegal(with)) recipe = with;
  }

  // The first product with weights of experts.
  [[nodiscard]] std::optional<OperatorId> first_of_experts() const {
    for (std::size_t i = 0; i < strategy_.size(); ++i) {
      if (model_.graph().operators()[i].matrix && model_.axes().is_of_experts(OperatorId(i)))
        return OperatorId(i);
    }
    return std::nullopt;
  }

  void read_recompute(RecognisedRecipe& found) const {
    const Recompute& recompute = options_.recompute;
    if (recompute.kind != Recompute::Kind::Listed) {
      found.recipe.recompute = recompute;
      return;
    }
    // Plans of former versions list the first layers of each stage.
    const Recompute first{Recompute::Kind::First, {}, 0, most_again()};
    const bool lists_first = first.count > 0 && recompute_segments(model_.graph(), first,
                                                                   options_.pipeline) == recompute.segment_of;
    if (!lists_first) {
      found.differences.emplace_back("recompute of a list");
      return;
    }
    const std::vector<std::int64_t> stages = divide_layers(found.recipe, model_.num_layers()).layers;
    const bool some = stages.empty() || first.count < *std::ranges::max_element(stages);
    found.recipe.recompute = some ? first : Recompute{Recompute::Kind::Full};
  }

  // Segments of the stage with most of them.
  [[nodiscard]] std::int64_t most_again() const {
    std::map<std::int32_t, std::set<std::int32_t>> segments;  // by stage
    for (std::size_t i = 0; i < options_.recompute.segment_of.size(); ++i) {
      const std::int32_t segment = options_.recompute.segment_of[i];
      if (segment >= 0) segments[options_.pipeline ? options_.pipeline->stage_of[i] : 0].insert(segment);
    }
    std::int64_t most = 0;
    for (const auto& [stage, again] : segments) most = std::max(most, std::ssize(again));
    return most;
  }

  // Returns the degrees of most operators that mix values by attention, or by scans where there is none, or
  // of most other products.
  [[nodiscard]] Degrees usual_degrees(bool mixes) const {
    std::map<Degrees, std::size_t> counts, of_scans;
    for (std::size_t i = 0; i < strategy_.size(); ++i) {
      const Operator& op = model_.graph().operators()[i];
      const bool scans = is_multi_head_scan(op);
      if (op.matrix && !scans && is_multi_head(op) == mixes) ++counts[degrees_of(OperatorId(i))];
      if (scans && mixes) ++of_scans[degrees_of(OperatorId(i))];
    }
    if (counts.empty()) counts = std::move(of_scans);
    if (counts.empty()) return {};
    return std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  }

  [[nodiscard]] Degrees degrees_of(OperatorId id) const {
    const Operator& op = model_.graph().op(id);
    const ParallelConfig& config = strategy_[id.index()];
    Degrees degrees;
    if (const auto samples = sample_factor(op)) degrees.data = degree_of(config, *samples);
    for (const FactorIndex f : model_.axes().factors(id, AxisRole::Sequence))
      degrees.context *= degree_of(config, f);
    for (const AxisRole role : {AxisRole::Heads, AxisRole::Features}) {
      for (const FactorIndex f : model_.axes().factors(id, role)) degrees.tensor *= degree_of(config, f);
    }
    return degrees;
  }

  // Whether most operators that no head and no feature divides divide the sequence.
  [[nodiscard]] bool divides_sequence(const Recipe& recipe) const {
    std::int64_t votes = 0;
    for (std::size_t i = 0; i < strategy_.size(); ++i) {
      const OperatorId id(i);
      const ModelAxes& axes = model_.axes();
      const std::vector<FactorIndex> sequence = axes.factors(id, AxisRole::Sequence);
      if (sequence.empty() || !axes.factors(id, AxisRole::Heads).empty() ||
          !axes.factors(id, AxisRole::Features).empty() || !axes.factors(id, AxisRole::Vocabulary).empty())
        continue;
      votes += degree_of(strategy_[i], sequence.front()) == recipe.context * recipe.tensor ? 1 : -1;
    }
    return votes > 0;
  }

  // The order in which the first operator with most shards, and experts, lie on their devices.
  void choose_order(Recipe& recipe) const {
    const auto look_at =
        std::ranges::max_element(strategy_, {}, [](const ParallelConfig& c) { return c.num_shards(); });
    std::vector<OperatorId> looked_at{OperatorId(static_cast<std::size_t>(look_at - strategy_.begin()))};
    if (const auto experts = first_of_experts(); experts && recipe.divides_experts())
      looked_at.push_back(*experts);
    const auto matches = [&] {
      return std::ranges::all_of(looked_at, [&](OperatorId op) {
        const auto config = config_of_recipe(recipe, model_, topology_, op);
        return config && *config == strategy_[op.index()];
      });
    };
    if (matches()) return;
    const std::array<MeshAxis, kMeshAxes> usual = recipe.order;
    do {
      if (!recipe.divides_experts() && recipe.order[2] != MeshAxis::Expert) continue;  // ep moves nothing
      if (matches()) return;
    } while (std::next_permutation(recipe.order.begin(), recipe.order.end()));
    recipe.order = usual;
  }

  void compare(RecognisedRecipe& found) const {
    const auto samples = model_.graph().batch();
    const Recipe& recipe = found.recipe;
    if (recipe.data * recipe.microbatch != samples || model_.illegal(recipe)) {
      for (std::size_t i = 0; i < strategy_.size(); ++i) found.differing.emplace_back(i);
      return;
    }
    const RecipeStrategy made = expand_recipe(recipe, model_, topology_);
    for (std::size_t i = 0; i < strategy_.size(); ++i) {
      if (strategy_[i] != made.strategy[i]) found.differing.emplace_back(i);
    }
  }

  const Strategy& strategy_;
  const PlanOptions& options_;
  const RecipeModel& model_;
  const Topology& topology_;
};

}  // namespace

std::string RecognisedRecipe::str(const OperatorGraph& graph) const {
  if (exact()) return recipe.str();
  std::vector<std::string> parts = differences;
  if (!differing.empty())
    parts.push_back(fmt::format("{} of {} operators are split or placed otherwise, such as {}",
                                differing.size(), graph.operators().size(),
                                graph.op(differing.front()).name));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return fmt::format("near {}: {}", recipe.str(), text);
}

RecognisedRecipe recipe_of(const Strategy& strategy, const PlanOptions& options, const RecipeModel& model,
                           const Topology& topology) {
  return RecipeReader(strategy, options, model, topology).read();
}

}  // namespace pipesim
