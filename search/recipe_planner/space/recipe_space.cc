#include "search/recipe_planner/space/recipe_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <tuple>

#include "search/recipe_planner/measuring/model_parts.h"
#include "search/recipe_planner/space/mixed_divisions.h"
#include "search/recipes/expand_recipe.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "taskgraph/plan/layer_modules.h"
#include "taskgraph/plan/plan.h"

namespace pipesim {
namespace {

constexpr std::array kMeshTraits{
    RecipeTrait::Tensor,     RecipeTrait::Context,          RecipeTrait::Data,
    RecipeTrait::Expert,     RecipeTrait::ExpertTensor,     RecipeTrait::Pipeline,
    RecipeTrait::Microbatch, RecipeTrait::SequenceParallel, RecipeTrait::TensorOverlap};
constexpr std::array kPipelineTraits{RecipeTrait::Chunks, RecipeTrait::Schedule, RecipeTrait::First,
                                     RecipeTrait::Last};
constexpr std::array kReductionTraits{RecipeTrait::Reduction};
constexpr std::array kMessageTraits{RecipeTrait::Messages};
constexpr std::array kShardingTraits{RecipeTrait::Zero, RecipeTrait::Shard, RecipeTrait::Gather};
constexpr std::array kRecomputeTraits{RecipeTrait::Recompute};
constexpr std::int64_t kUneven = 2;  // layers
constexpr std::int64_t kMostSamplesOfACopy = 16;

std::vector<std::int64_t> all_divisors(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  return divisors;
}

std::int64_t devices_in_smallest_node(const Topology& topology) {
  std::int64_t least = static_cast<std::int64_t>(topology.num_devices());
  for (std::size_t n = 0; n < topology.num_nodes(); ++n) {
    const auto here =
        static_cast<std::int64_t>(topology.devices_of_node(static_cast<std::int32_t>(n)).size());
    if (here > 0) least = std::min(least, here);
  }
  return least;
}

// Layers are divided alike under all schedules in a V, so any of them will do.
const std::string& a_schedule_in_v() {
  static const std::string name = [] {
    const std::vector<std::string> all = plan_schedules();
    return *std::ranges::find_if(all, [](const std::string& schedule) { return lies_in_v(schedule); });
  }();
  return name;
}

}  // namespace

void StageDivision::apply_to(Recipe& recipe) const {
  recipe.chunks = chunks, recipe.first = first, recipe.last = last, recipe.layers = of_groups;
}

RecipeSpace::RecipeSpace(const RecipeModel& model, const Topology& topology, std::int64_t samples,
                         RecipeFilter filter)
    : model_(model),
      topology_(topology),
      devices_(static_cast<std::int64_t>(topology.num_devices())),
      in_node_(devices_in_smallest_node(topology)),
      samples_(samples),
      filter_(std::move(filter)) {
  find_recomputes();
  find_meshes();
  for (const Recipe& mesh : meshes_) {
    const std::int64_t groups = mesh.pipeline;
    if (!divisions_.contains(groups)) divisions_[groups] = find_divisions(groups);
    const std::pair shape(groups, microbatches(mesh));
    if (!pipelines_.contains(shape)) pipelines_[shape] = find_pipelines(shape.first, shape.second);
    if (!shardings_.contains(copies_of(mesh))) shardings_[copies_of(mesh)] = find_shardings(mesh);
  }
  count_recipes();
}

// Meshes without recipes are left out.
void RecipeSpace::count_recipes() {
  std::size_t kept = 0;
  for (Recipe& mesh : meshes_) {
    stop_if_late();
    const std::int64_t recipes = count_recipes(mesh);
    if (recipes == 0) continue;
    sizes_.push_back(recipes);
    size_ += recipes;
    if (&meshes_[kept] != &mesh) meshes_[kept] = std::move(mesh);
    ++kept;
  }
  meshes_.resize(kept);
}

std::int64_t RecipeSpace::count_recipes(const Recipe& mesh) const {
  std::int64_t recipes = 0;
  for (const PipelineChoice& pipeline : pipelines(mesh)) {
    for (const StateSharding& sharding : shardings(mesh)) {
      for (const Recompute& recompute : recomputes_)
        recipes += has(mesh, pipeline, recompute, sharding) ? 1 : 0;
    }
  }
  return recipes;
}

bool RecipeSpace::has(const Recipe& mesh, const PipelineChoice& pipeline, const Recompute& recompute,
                      const StateSharding& sharding) const {
  if (pipeline.both_ways && refusal_in_ways(sharding, pipeline.schedule)) return false;
  const bool copies = pipeline.both_ways || mesh.copies_of_weights() > 1;
  if (sharding.any() && !copies) return false;
  const bool reduces_once = copies && !sharding.each_microbatch();
  if (pipeline.repeats && !reduces_once) return false;
  if (!filter_.rules().allows && !filter_.concerns(RecipeTrait::Reduction)) return true;
  const Recipe made = recipe(mesh, pipeline, recompute, sharding);
  return filter_.allows(made, kReductionTraits) && (!filter_.rules().allows || filter_.rules().allows(made));
}

std::string RecipeSpace::description() {
  return "all tp·cp·pp·dp (tp within a node), ep, etp, sp, mbs 1 to 16 (powers of two), vpp, first and last "
         "stage within 2 layers (any where kinds of devices differ), schedules without a limit, recompute "
         "none, selective, full, zero 0 to 3 "
         "over all copies or inside a node";
}

void RecipeSpace::find_recomputes() {
  const auto add = [&](const Recompute& recompute) {
    Recipe recipe;
    recipe.recompute = recompute;
    if (filter_.allows(recipe, kRecomputeTraits) &&
        std::ranges::find(recomputes_, recompute) == recomputes_.end() &&
        !pipesim::illegal(model_.graph(), recompute, std::nullopt))
      recomputes_.push_back(recompute);
  };
  for (const Recompute& recompute : filter_.rules().recomputes)
    add(with_modules_of(model_.graph(), recompute));
  for (const RecipeCondition& condition : filter_.conditions()) {
    if (condition.trait != RecipeTrait::Recompute || condition.excludes) continue;
    for (const std::string& value : condition.values) {
      const Recompute recompute = parse_recompute(value);
      if (const auto why = pipesim::illegal(model_.graph(), recompute, std::nullopt))
        throw InputError(fmt::format("--only recompute={}: {}", value, *why));
      add(recompute);
    }
  }
  if (recomputes_.size() >= kMostRecomputes)
    throw InputError(fmt::format("--only recompute: found {} of them, allowed: up to {}", recomputes_.size(),
                                 kMostRecomputes - 1));
}

void RecipeSpace::find_meshes() {
  const bool any_tensor = !filter_.asked(RecipeTrait::Tensor).empty();
  for (const std::int64_t tensor : all_divisors(devices_)) {
    if (!any_tensor && in_node_ % tensor != 0) continue;
    for (const std::int64_t context : all_divisors(devices_ / tensor)) {
      for (const std::int64_t groups : all_divisors(devices_ / tensor / context)) {
        stop_if_late();
        Recipe degrees;
        degrees.tensor = tensor, degrees.context = context, degrees.pipeline = groups;
        degrees.data = devices_ / (tensor * context * groups);
        add_meshes(degrees);
      }
    }
  }
}

// With all degrees of experts, sp on and off.
void RecipeSpace::add_meshes(const Recipe& degrees) {
  const std::vector<std::int64_t> one{1};
  const bool experts = model_.axes().has(AxisRole::Experts);
  const std::int64_t stage = degrees.tensor * degrees.context * degrees.data;
  for (const std::int64_t expert : experts ? all_divisors(stage) : one) {
    for (const std::int64_t features : experts ? all_divisors(degrees.tensor) : one) {
      if (experts && stage % (expert * features) != 0) continue;
      for (const bool sequence : {false, true}) {
        if (sequence && degrees.tensor == 1) continue;
        Recipe mesh = degrees;
        mesh.expert = expert;
        mesh.expert_tensor = experts && features != degrees.tensor ? features : 0;
        mesh.sequence_parallel = sequence;
        if (filter_.rules().tensor_overlap && sequence) mesh.tensor_overlap = true;
        Recipe unstaged = mesh;  // the division of layers is looked at by itself
        unstaged.pipeline = 1;
        if (!model_.illegal(unstaged)) add_microbatches(mesh);
      }
    }
  }
}

void RecipeSpace::add_microbatches(Recipe mesh) {
  std::vector<std::int64_t> sizes = filter_.asked(RecipeTrait::Microbatch);
  for (std::int64_t size = 1; filter_.asked(RecipeTrait::Microbatch).empty() && size <= kMostSamplesOfACopy;
       size *= 2)
    sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    mesh.microbatch = size;
    if (samples_ % (mesh.data * size) == 0 && microbatches(mesh) <= kMostMicrobatches &&
        filter_.allows(mesh, kMeshTraits))
      meshes_.push_back(mesh);
  }
}

std::vector<StageDivision> RecipeSpace::find_divisions(std::int64_t groups) const {
  const std::int64_t layers = model_.num_layers();
  std::vector<StageDivision> found;
  std::set<std::tuple<std::int64_t, bool, std::vector<std::int64_t>>> seen;
  const auto add_one = [&](StageDivision made, const std::string& schedule) {
    Recipe recipe;
    recipe.pipeline = groups, recipe.schedule = schedule;
    made.apply_to(recipe);
    made.in_v = recipe.in_v();
    LayerDivision division = divide_layers(recipe, layers);
    if (!division.error.empty() || !seen.emplace(made.chunks, made.in_v, division.layers).second) return;
    made.layers = std::move(division.layers);
    found.push_back(std::move(made));
  };
  const auto add = [&](const StageDivision& made) {
    add_one(made, "");
    if (made.chunks == 2) add_one(made, a_schedule_in_v());
  };
  if (groups == 1) {
    add({});
    return found;
  }
  const std::vector<std::vector<std::int64_t>> mixed = mixed_divisions(groups, layers, topology_);
  for (std::int64_t chunks = 1; chunks * groups <= layers + 2; ++chunks) {
    add({.chunks = chunks, .first = {}, .last = {}, .of_groups = {}, .layers = {}});
    for (std::int64_t both = 1; both <= 2 * kUneven; ++both) {  // the least uneven first
      for (std::int64_t more = -kUneven; more <= kUneven; ++more) {
        for (std::int64_t behind = -kUneven; behind <= kUneven; ++behind) {
          if (std::abs(more) + std::abs(behind) != both) continue;
          const std::int64_t left = layers - more - behind;
          if (left <= 0 || left % groups != 0) continue;
          const std::int64_t inner = left / groups;
          // Two groups have none between them to compare with.
          if (inner + more < 0 || inner + behind < 0 || inner % chunks != 0) continue;
          if (groups == 2 && more + behind != 0) continue;
          add({.chunks = chunks,
               .first = more == 0 ? std::nullopt : std::optional(inner + more),
               .last = behind == 0 ? std::nullopt : std::optional(inner + behind),
               .of_groups = {},
               .layers = {}});
        }
      }
    }
    for (const std::vector<std::int64_t>& of_groups : mixed) {
      if (std::ranges::any_of(of_groups, [&](std::int64_t n) { return n % chunks != 0; })) continue;
      StageDivision made{.chunks = chunks, .first = {}, .last = {}, .of_groups = {}, .layers = {}};
      if (groups == 2) {
        made.first = of_groups.front(), made.last = of_groups.back();
      } else {
        made.of_groups = of_groups;
      }
      add(made);
    }
  }
  return found;
}

std::vector<PipelineChoice> RecipeSpace::find_pipelines(std::int64_t groups,
                                                        std::int64_t microbatches) const {
  std::vector<PipelineChoice> found;
  const std::vector<StageDivision>& divisions = divisions_.at(groups);
  for (std::size_t d = 0; d < divisions.size(); ++d) {
    Recipe recipe;
    recipe.pipeline = groups;
    divisions[d].apply_to(recipe);
    const std::string implied = recipe.schedule_name();
    for (const std::string& schedule : recipe_schedules()) {
      const ScheduleKind& kind = plan_schedule(schedule);
      if (kind.takes_chunks != (recipe.chunks > 1) || kind.in_v != divisions[d].in_v) continue;
      if (groups == 1 && schedule != implied) continue;
      const PipelineShape shape{static_cast<std::int32_t>(groups), static_cast<std::int32_t>(microbatches),
                                static_cast<std::int32_t>(recipe.chunks)};
      if (groups > 1 && !kind.refusal(shape).empty()) continue;
      recipe.schedule = schedule == implied ? "" : schedule;
      if (!filter_.allows(recipe, kPipelineTraits)) continue;
      for (const std::optional<StageMessages>& messages : messages_under(recipe)) {
        bool repeats = false;
        for (const std::optional<GradientReduction>& reduction : reductions(groups)) {
          found.push_back({d, recipe.schedule, kind.both_ways, reduction, repeats, messages});
          repeats = true;
        }
      }
    }
  }
  return found;
}

// Returns the messages that the rules imply. Where a condition is on messages, returns those that it leaves;
// they are left unsaid where the rules imply them.
std::vector<std::optional<StageMessages>> RecipeSpace::messages_under(const Recipe& pipeline) const {
  if (!filter_.concerns(RecipeTrait::Messages)) return {std::nullopt};
  std::vector<std::optional<StageMessages>> left;
  if (pipeline.pipeline == 1) {
    if (filter_.allows(pipeline, kMessageTraits)) left.emplace_back();
    return left;
  }
  for (const StageMessages messages : {StageMessages::Beside, StageMessages::Blocking}) {
    Recipe recipe = pipeline;
    recipe.messages = messages;
    if (!filter_.allows(recipe, kMessageTraits)) continue;
    recipe.messages.reset();
    const bool unsaid = usual_messages(filter_.rules().messages, recipe.schedule_name()) == messages &&
                        value_of(recipe, RecipeTrait::Messages) == name_of(messages);
    left.push_back(unsaid ? std::nullopt : std::optional(messages));
  }
  return left;
}

// Returns the reduction of the rules first. Where a condition is on it, a pipeline has the other as well.
// Without a pipeline, what runs the plan reduces all gradients alike.
std::vector<std::optional<GradientReduction>> RecipeSpace::reductions(std::int64_t groups) const {
  const std::optional<GradientReduction> usual = filter_.rules().reduction;
  if (groups == 1 || !filter_.concerns(RecipeTrait::Reduction)) return {usual};
  const bool after = usual.value_or(GradientReduction::AfterSteps) == GradientReduction::AfterSteps;
  return {usual, after ? GradientReduction::Overlapped : GradientReduction::AfterSteps};
}

RecipeSpace::Copies RecipeSpace::copies_of(const Recipe& mesh) {
  return {mesh.tensor, mesh.context, mesh.data, mesh.divides_experts() ? mesh.expert_data() : 1,
          mesh.pipeline > 1};
}

// Returns the kinds of the rules; where a condition is on gathers, with and without gathers in forward.
std::vector<StateSharding> RecipeSpace::kinds_of_sharding(bool pipeline) const {
  std::vector<StateSharding> kinds = filter_.rules().shardings_of(pipeline);
  if (!filter_.concerns(RecipeTrait::Gather)) return kinds;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (!kinds[k].any() || kinds[k].kind == StateSharding::Kind::Weights) continue;
    StateSharding other = kinds[k];
    other.overlaps_gather = !other.overlaps_gather;
    if (std::ranges::find(kinds, other) == kinds.end()) kinds.push_back(other);
  }
  return kinds;
}

// Copies of a weight are tp devices apart.
std::vector<StateSharding> RecipeSpace::find_shardings(const Recipe& mesh) const {
  std::vector<StateSharding> found;
  const std::int64_t dense = mesh.context * mesh.data;
  const std::int64_t inside = in_node_ / mesh.tensor;
  const auto add = [&](const StateSharding& sharding) {
    Recipe recipe = mesh;
    recipe.state_sharding = sharding;
    if (filter_.allows(recipe, kShardingTraits)) found.push_back(sharding);
  };
  for (StateSharding sharding : kinds_of_sharding(mesh.pipeline > 1)) {
    // One copy of a pipeline may still hold weights twice, see has().
    if (sharding.any() && mesh.copies_of_weights() == 1 && mesh.pipeline == 1) continue;
    add(sharding);
    if (!sharding.any() || inside <= 1 || inside >= dense || dense % inside != 0) continue;
    sharding.group = static_cast<std::int32_t>(inside);
    add(sharding);
  }
  return found;
}

std::span<const StageDivision> RecipeSpace::divisions(std::int64_t groups) const {
  return divisions_.at(groups);
}

std::span<const PipelineChoice> RecipeSpace::pipelines(const Recipe& mesh) const {
  return pipelines_.at({mesh.pipeline, microbatches(mesh)});
}

std::span<const StateSharding> RecipeSpace::shardings(const Recipe& mesh) const {
  return shardings_.at(copies_of(mesh));
}

Recipe RecipeSpace::recipe(const Recipe& mesh, const PipelineChoice& pipeline, const Recompute& recompute,
                           const StateSharding& sharding) const {
  Recipe recipe = mesh;
  divisions_.at(mesh.pipeline)[pipeline.division].apply_to(recipe);
  recipe.schedule = pipeline.schedule;
  recipe.messages = pipeline.messages;
  recipe.recompute = recompute;
  recipe.state_sharding = sharding;
  if (recipe.reduces_once()) recipe.reduction = pipeline.reduction;
  return recipe;
}

void RecipeSpace::visit(const std::function<void(const Recipe&)>& each) const {
  for (const Recipe& mesh : meshes_) {
    for (const PipelineChoice& pipeline : pipelines(mesh)) {
      for (const Recompute& recompute : recomputes_) {
        for (const StateSharding& sharding : shardings(mesh))
          if (has(mesh, pipeline, recompute, sharding)) each(recipe(mesh, pipeline, recompute, sharding));
      }
    }
  }
}

}  // namespace pipesim
