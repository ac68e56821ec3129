#include "search/recipes/expand_recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/baselines/heads.h"
#include "search/baselines/placement.h"
#include "search/recipes/recipe_mesh.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {

void RecipeStrategy::apply_to(PlanOptions& options) const {
  options.pipeline = pipeline;
  options.set_policies(*this);
}

namespace {

// Gives every operator its config.
class RecipeExpander {
 public:
  RecipeExpander(const Recipe& recipe, const RecipeModel& model, const Topology& topology)
      : recipe_(recipe), model_(model), mesh_(recipe, topology) {}

  RecipeStrategy expand() {
    RecipeStrategy made;
    made.set_policies(recipe_.policies());
    const std::vector<std::int32_t> stage_of = stages();
    if (recipe_.has_stages())
      made.pipeline = Pipeline{recipe_.schedule_name(), stage_of, {}, recipe_.messages};
    for (std::size_t i = 0; i < model_.graph().operators().size(); ++i) {
      stop_if_late();
      made.strategy.push_back(config_of(OperatorId(i), mesh_.group(group_of(stage_of[i]))));
    }
    return made;
  }

  [[nodiscard]] ParallelConfig config_of(OperatorId id) const {
    return config_of(id, mesh_.group(group_of(stages()[id.index()])));
  }
  [[nodiscard]] ParallelConfig config_on_group(OperatorId id, std::int64_t group) const {
    return config_of(id, mesh_.group(group));
  }

 private:
  [[nodiscard]] std::int64_t group_of(std::int32_t stage) const {
    return device_of_stage(stage, recipe_.pipeline, recipe_.in_v());
  }

  // The layers of each stage follow one another.
  [[nodiscard]] std::vector<std::int32_t> stages() const {
    const std::vector<std::int64_t> layers = divide_layers(recipe_, model_.num_layers()).layers;
    std::vector<std::int32_t> stage_of_layer;
    for (std::size_t s = 0; s < layers.size(); ++s)
      stage_of_layer.insert(stage_of_layer.end(), static_cast<std::size_t>(layers[s]),
                            static_cast<std::int32_t>(s));
    std::vector<std::int32_t> stage_of;
    for (const std::int32_t layer : model_.layer_of()) {
      const bool behind = layer == static_cast<std::int32_t>(model_.num_layers());
      stage_of.push_back(layer == kNoLayer ? 0
                         : behind          ? static_cast<std::int32_t>(layers.size()) - 1
                                           : stage_of_layer[static_cast<std::size_t>(layer)]);
    }
    return stage_of;
  }

  [[nodiscard]] ParallelConfig config_of(OperatorId id, std::span<const DeviceId> devices) const {
    const Operator& op = model_.graph().op(id);
    const bool of_experts = recipe_.divides_experts() && model_.axes().is_of_experts(id);
    const std::vector<FactorSplit> splits = of_experts ? expert_splits(id) : dense_splits(id);
    if (!can_split(op, splits))
      throw InputError(
          fmt::format("recipe \"{}\": operator \"{}\" can't be split so", recipe_.str(), op.name));
    ParallelConfig config = exchanged_parts(id) > 1
                                ? arranged(op, splits, exchanging(exchanged_parts(id), devices))
                                : arranged(op, splits, devices);
    config.ring = recipe_.ring && is_multi_head(op);
    return config;
  }

  // Into how many parts of its heads an operator exchanges the sequence. A scan needs all of the sequence.
  [[nodiscard]] std::int64_t exchanged_parts(OperatorId id) const {
    const Operator& op = model_.graph().op(id);
    if (is_multi_head_scan(op)) return recipe_.context;
    return is_multi_head(op) ? recipe_.ulysses : 1;
  }

  // Returns the devices in such an order that those which exchange `parts` of the heads follow one another.
  // They differ along cp, behind which other axes may change first; the finest cut of the heads is the last
  // split.
  [[nodiscard]] std::vector<DeviceId> exchanging(std::int64_t parts,
                                                 std::span<const DeviceId> devices) const {
    std::int64_t faster = 1;
    for (const MeshAxis axis : mesh_.slowest_first()) {
      if (axis == MeshAxis::Context) faster = 1;
      if (axis == MeshAxis::Data) faster *= recipe_.data;
      if (axis == MeshAxis::Tensor) faster *= recipe_.tensor;
    }
    return with_last(parts, faster, devices);
  }

  // `devices` in the order in which an axis of `degree`, behind which `faster` devices change first, changes
  // first itself.
  static std::vector<DeviceId> with_last(std::int64_t degree, std::int64_t faster,
                                         std::span<const DeviceId> devices) {
    std::vector<DeviceId> order;
    const auto count = static_cast<std::int64_t>(devices.size());
    for (std::int64_t begin = 0; begin < count; begin += degree * faster) {
      for (std::int64_t f = 0; f < faster; ++f) {
        for (std::int64_t d = 0; d < degree; ++d)
          order.push_back(devices[static_cast<std::size_t>(begin + d * faster + f)]);
      }
    }
    return order;
  }

  [[nodiscard]] std::vector<FactorSplit> dense_splits(OperatorId id) const {
    std::vector<FactorSplit> splits;
    const std::int64_t parts = exchanged_parts(id);
    for (const MeshAxis axis : mesh_.slowest_first()) {
      if (axis == MeshAxis::Data) splits.push_back(sample_split(model_.graph().op(id), recipe_.data));
      if (axis == MeshAxis::Context) add_sequence(id, recipe_.context / parts, splits);
      if (axis == MeshAxis::Tensor) add_tensor(id, splits);
    }
    if (parts > 1) splits.push_back({ShardGrid::replica_axis, add_heads(id, parts, splits)});
    return splits;
  }

  [[nodiscard]] std::vector<FactorSplit> expert_splits(OperatorId id) const {
    std::vector<FactorSplit> splits;
    for (const ExpertMeshPart& part : mesh_.experts_slowest_first()) {
      if (part.axis == MeshAxis::Expert) add_role(id, AxisRole::Experts, part.degree, splits);
      if (part.axis == MeshAxis::Tensor) add_role(id, AxisRole::Features, part.degree, splits);
      if (part.axis == MeshAxis::Data) splits.push_back(split_of_tokens(id, part));
    }
    return splits;
  }

  void add_role(OperatorId id, AxisRole role, std::int64_t parts, std::vector<FactorSplit>& splits) const {
    const std::vector<FactorIndex> factors = model_.axes().factors(id, role);
    splits.push_back({factors.empty() ? ShardGrid::replica_axis : factors.front(), parts});
  }

  // Experts' copies work on the tokens that their devices have: samples, groups of tokens, or the same ones.
  [[nodiscard]] FactorSplit split_of_tokens(OperatorId id, const ExpertMeshPart& part) const {
    if (part.along == MeshAxis::Data) return sample_split(model_.graph().op(id), part.degree);
    const bool sequence =
        part.along == MeshAxis::Context || (part.along == MeshAxis::Tensor && recipe_.sequence_parallel);
    return {sequence ? sequence_of(id) : ShardGrid::replica_axis, part.degree};
  }

  // What follows the sequence: positions, or groups of them where each device has whole groups.
  [[nodiscard]] FactorIndex sequence_of(OperatorId id) const {
    const std::int64_t parts = recipe_.context * (recipe_.sequence_parallel ? recipe_.tensor : 1);
    for (const AxisRole role : {AxisRole::Sequence, AxisRole::TokenGroups}) {
      for (const FactorIndex f : model_.axes().factors(id, role)) {
        const Factor& factor = model_.graph().op(id).factors[static_cast<std::size_t>(f)];
        if (parts_of(factor, parts) == parts) return f;
      }
    }
    return ShardGrid::replica_axis;
  }

  void add_sequence(OperatorId id, std::int64_t parts, std::vector<FactorSplit>& splits) const {
    splits.push_back({sequence_of(id), parts});
  }

  // Groups of heads are divided first, then the heads of a group, finer than by the splits before. Returns
  // how often the result is copied: what has no heads within a group is.
  std::int64_t add_heads(OperatorId id, std::int64_t parts, std::vector<FactorSplit>& splits) const {
    for (const FactorIndex f : model_.axes().factors(id, AxisRole::Heads)) {
      std::int64_t before = 1;
      for (const FactorSplit& split : splits) before *= split.factor == f ? split.degree : 1;
      const Factor& factor = model_.graph().op(id).factors[static_cast<std::size_t>(f)];
      const std::int64_t degree = parts_of(factor, before * parts) / before;
      splits.push_back({f, degree});
      parts /= degree;
    }
    return parts;
  }

  void add_tensor(OperatorId id, std::vector<FactorSplit>& splits) const {
    std::int64_t rest = add_heads(id, recipe_.tensor, splits);
    if (model_.axes().factors(id, AxisRole::Heads).empty()) {
      const std::vector<FactorIndex> features = features_of(id);
      if (!features.empty()) {
        splits.push_back({features.front(), rest});
        rest = 1;
      } else if (recipe_.sequence_parallel) {
        return add_sequence(id, rest, splits);
      }
    }
    splits.push_back({ShardGrid::replica_axis, rest});
  }

  // What a product contracts is divided already; what it makes is not divided as well.
  [[nodiscard]] std::vector<FactorIndex> features_of(OperatorId id) const {
    const Operator& op = model_.graph().op(id);
    std::vector<FactorIndex> features = model_.axes().factors(id, AxisRole::Features);
    std::stable_partition(features.begin(), features.end(), [&](FactorIndex f) {
      return op.factors[static_cast<std::size_t>(f)].kind == FactorKind::Reduction;
    });
    if (!features.empty()) return features;
    return model_.axes().factors(id, AxisRole::Vocabulary);
  }

  const Recipe& recipe_;
  const RecipeModel& model_;
  RecipeMesh mesh_;
};

}  // namespace

RecipeStrategy expand_recipe(const Recipe& recipe, const RecipeModel& model, const Topology& topology) {
  const auto devices = static_cast<std::int64_t>(topology.num_devices());
  if (recipe.devices() != devices || recipe.microbatch < 1)
    throw InternalError("a recipe is expanded that is not complete");
  if (recipe.data * recipe.microbatch != model.graph().batch())
    throw InternalError("the samples of a microbatch are not those of the recipe");
  if (const auto reason = model.illegal(recipe)) {
    throw InputError(
        fmt::format("recipe \"{}\": {}{}", recipe.str(), *reason, nearest_text(recipe, model, devices)));
  }
  return RecipeExpander(recipe, model, topology).expand();
}

std::optional<ParallelConfig> config_of_recipe(const Recipe& recipe, const RecipeModel& model,
                                               const Topology& topology, OperatorId op) {
  if (recipe.data * recipe.microbatch != model.graph().batch() || model.illegal(recipe)) return std::nullopt;
  return RecipeExpander(recipe, model, topology).config_of(op);
}

std::vector<ParallelConfig> configs_on_group(const Recipe& recipe, const RecipeModel& model,
                                             const Topology& topology, std::span<const OperatorId> operators,
                                             std::int64_t group) {
  const RecipeExpander expander(recipe, model, topology);
  std::vector<ParallelConfig> configs;
  for (const OperatorId op : operators) configs.push_back(expander.config_on_group(op, group));
  return configs;
}

}  // namespace pipesim
