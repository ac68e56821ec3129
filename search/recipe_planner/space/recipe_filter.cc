#include "search/recipe_planner/space/recipe_filter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {
namespace {

struct TraitName {
  RecipeTrait trait;
  std::string_view name;
};
constexpr std::array kTraitNames{TraitName{RecipeTrait::Tensor, "tp"},
                                 TraitName{RecipeTrait::Context, "cp"},
                                 TraitName{RecipeTrait::Data, "dp"},
                                 TraitName{RecipeTrait::Expert, "ep"},
                                 TraitName{RecipeTrait::ExpertTensor, "etp"},
                                 TraitName{RecipeTrait::Pipeline, "pp"},
                                 TraitName{RecipeTrait::Chunks, "vpp"},
                                 TraitName{RecipeTrait::Microbatch, "mbs"},
                                 TraitName{RecipeTrait::SequenceParallel, "sp"},
                                 TraitName{RecipeTrait::Zero, "zero"},
                                 TraitName{RecipeTrait::Shard, "shard"},
                                 TraitName{RecipeTrait::Recompute, "recompute"},
                                 TraitName{RecipeTrait::Schedule, "schedule"},
                                 TraitName{RecipeTrait::First, "first"},
                                 TraitName{RecipeTrait::Last, "last"},
                                 TraitName{RecipeTrait::Gather, "overlap"},
                                 TraitName{RecipeTrait::Reduction, "reduce"},
                                 TraitName{RecipeTrait::TensorOverlap, "tp-overlap"},
                                 TraitName{RecipeTrait::Messages, "messages"}};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return number;
}

// Words that a condition on this part may name; numbers from `least` on too, unless that is negative.
struct AllowedValues {
  std::vector<std::string> words;
  std::int64_t least = -1, most = 1 << 20;
};

AllowedValues allowed_values(RecipeTrait trait) {
  switch (trait) {
    case RecipeTrait::SequenceParallel:
      return {{"on", "off"}};
    case RecipeTrait::Zero:
      return {{}, 0, 3};
    case RecipeTrait::Shard:
      return {{"all"}, 1};
    case RecipeTrait::Recompute:
      return {};  // see require_recompute()
    case RecipeTrait::Schedule: {
      AllowedValues allowed{recipe_schedules()};
      allowed.words.emplace_back("none");
      return allowed;
    }
    case RecipeTrait::First:
    case RecipeTrait::Last:
      return {{"even"}, 0};
    case RecipeTrait::Gather:
      return {{"none", "gather"}};
    case RecipeTrait::Reduction:
      return {{"overlapped", "after-steps"}};
    case RecipeTrait::TensorOverlap:
      return {{"always", "never"}};
    case RecipeTrait::Messages:
      return {{"beside", "blocking", "none"}};
    default:
      return {{}, 1};
  }
}

// Bounds hold for what does not count the layers of a stage.
void require_recompute(std::string_view value, const std::string& condition) {
  Recompute recompute;
  try {
    recompute = parse_recompute(value);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", condition, error.what()));
  }
  if (recompute.kind == Recompute::Kind::Stage || (recompute.of_layers() && recompute.count > 0))
    throw InputError(fmt::format(
        "{}: found \"{}\", allowed for recompute: none, selective, full, op, and modules such as mlp or "
        "moe_act+layernorm; the number of layers is tried afterwards",
        condition, value));
}

std::string text_of(const AllowedValues& allowed) {
  std::vector<std::string> parts = allowed.words;
  if (allowed.least >= 0) parts.push_back(fmt::format("{} to {}", allowed.least, allowed.most));
  return list_names(parts);
}

void require_value(RecipeTrait trait, std::string_view value, const std::string& condition) {
  const AllowedValues allowed = allowed_values(trait);
  if (std::ranges::find(allowed.words, value) != allowed.words.end()) return;
  if (trait == RecipeTrait::Recompute) {
    require_recompute(value, condition);
    return;
  }
  const std::optional<std::int64_t> number = whole_number(value);
  if (allowed.least >= 0 && number && allowed.least <= *number && *number <= allowed.most) return;
  throw InputError(fmt::format("{}: found \"{}\", allowed for {}: {}", condition, value, name_of(trait),
                               text_of(allowed)));
}

std::string layers_or_even(const std::optional<std::int64_t>& layers) {
  return layers ? fmt::format("{}", *layers) : "even";
}

}  // namespace

std::vector<std::string> recipe_schedules() {
  std::vector<std::string> names = plan_schedules();
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.both_ways) names.emplace_back(kind.name);
  }
  return names;
}

std::string_view name_of(RecipeTrait trait) {
  return std::ranges::find(kTraitNames, trait, &TraitName::trait)->name;
}

std::string value_of(const Recipe& recipe, RecipeTrait trait) {
  switch (trait) {
    case RecipeTrait::Tensor:
      return fmt::format("{}", recipe.tensor);
    case RecipeTrait::Context:
      return fmt::format("{}", recipe.context);
    case RecipeTrait::Data:
      return fmt::format("{}", recipe.data);
    case RecipeTrait::Expert:
      return fmt::format("{}", recipe.expert);
    case RecipeTrait::ExpertTensor:
      return fmt::format("{}", recipe.expert_tensor_degree());
    case RecipeTrait::Pipeline:
      return fmt::format("{}", recipe.pipeline);
    case RecipeTrait::Chunks:
      return fmt::format("{}", recipe.chunks);
    case RecipeTrait::Microbatch:
      return fmt::format("{}", recipe.microbatch);
    case RecipeTrait::SequenceParallel:
      return recipe.sequence_parallel ? "on" : "off";
    case RecipeTrait::Zero:
      return fmt::format("{}", static_cast<int>(recipe.state_sharding.kind));
    case RecipeTrait::Shard:
      return recipe.state_sharding.group == 0 ? "all" : fmt::format("{}", recipe.state_sharding.group);
    case RecipeTrait::Recompute:
      return recipe.recompute.kind == Recompute::Kind::First ? "full" : recipe.recompute.str();
    case RecipeTrait::Schedule:
      return recipe.pipeline == 1 ? "none" : recipe.schedule_name();
    case RecipeTrait::First:
      return layers_or_even(recipe.layers.empty() ? recipe.first : recipe.layers.front());
    case RecipeTrait::Last:
      return layers_or_even(recipe.layers.empty() ? recipe.last : recipe.layers.back());
    case RecipeTrait::Gather:
      return recipe.state_sharding.overlaps_gather ? "gather" : "none";
    case RecipeTrait::Reduction:
      return std::string(name_of(recipe.state_sharding.each_microbatch() ? GradientReduction::Overlapped
                                                                         : recipe.gradient_reduction()));
    case RecipeTrait::TensorOverlap:
      return recipe.tensor_overlap.value_or(false) ? "always" : "never";
    case RecipeTrait::Messages: {
      const StageMessages usual = usual_messages(MessageOverlap::UnlessPlain, recipe.schedule_name());
      return recipe.pipeline == 1 ? "none" : std::string(name_of(recipe.messages.value_or(usual)));
    }
  }
  throw InternalError("a part of a recipe has no value");
}

bool RecipeCondition::holds(const Recipe& recipe) const {
  const bool listed = std::ranges::find(values, value_of(recipe, trait)) != values.end();
  return listed != excludes;
}

std::string RecipeCondition::str() const {
  return fmt::format("{} {}={}", excludes ? "--not" : "--only", name_of(trait), fmt::join(values, ","));
}

RecipeCondition parse_recipe_condition(std::string_view text, bool excludes) {
  const std::string condition = fmt::format("{} {}", excludes ? "--not" : "--only", text);
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size())
    throw InputError(fmt::format("{}: allowed: a part of recipes and its values, such as tp=4,8", condition));
  const std::string_view name = text.substr(0, equals);
  const auto known = std::ranges::find(kTraitNames, name, &TraitName::name);
  if (known == kTraitNames.end()) {
    std::vector<std::string> names;
    for (const TraitName& t : kTraitNames) names.emplace_back(t.name);
    throw InputError(fmt::format("{}: unknown part \"{}\"{}, allowed: {}", condition, name,
                                 did_you_mean(name, names), list_names(names)));
  }
  RecipeCondition read{known->trait, {}, excludes};
  for (std::string_view left = text.substr(equals + 1);; left.remove_prefix(left.find(',') + 1)) {
    const std::string_view value = left.substr(0, left.find(','));
    require_value(read.trait, value, condition);
    read.values.push_back(read.trait == RecipeTrait::Recompute ? parse_recompute(value).str()
                                                               : std::string(value));
    if (value.size() == left.size()) return read;
  }
}

bool RecipeFilter::concerns(RecipeTrait trait) const {
  return std::ranges::find(conditions_, trait, &RecipeCondition::trait) != conditions_.end();
}

bool RecipeFilter::allows(const Recipe& recipe, std::span<const RecipeTrait> traits) const {
  return std::ranges::all_of(conditions_, [&](const RecipeCondition& condition) {
    const bool concerns = std::ranges::find(traits, condition.trait) != traits.end();
    return !concerns || condition.holds(recipe);
  });
}

std::vector<std::int64_t> RecipeFilter::asked(RecipeTrait trait) const {
  std::vector<std::int64_t> numbers;
  for (const RecipeCondition& condition : conditions_) {
    if (condition.trait != trait || condition.excludes) continue;
    for (const std::string& value : condition.values) {
      if (const auto number = whole_number(value)) numbers.push_back(*number);
    }
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

RecipeFilter RecipeFilter::without(std::size_t condition) const {
  RecipeFilter others = *this;
  others.conditions_.erase(others.conditions_.begin() + static_cast<std::ptrdiff_t>(condition));
  return others;
}

}  // namespace pipesim
