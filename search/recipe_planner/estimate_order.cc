#include "search/recipe_planner/estimate_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

namespace pipesim {
namespace {

std::uint64_t key_of(const EstimateClass& of, OpenRecipe::Known known, bool tight) {
  std::uint64_t key = of.mesh;
  constexpr int kByte = 8;
  for (const std::uint64_t part :
       {std::uint64_t{of.sharding}, std::uint64_t{of.schedule}, std::uint64_t{of.recompute},
        2 * static_cast<std::uint64_t>(known) + (tight ? 1 : 0)})
    key = (key << kByte) | part;
  return key;
}

// One more for each doubling of the samples of a microbatch over the devices that divide them. Links between
// nodes bring all weights to a node, whether tp divides them there or not.
std::uint8_t samples_class(const Recipe& mesh, bool between_nodes) {
  constexpr int kOfOne = 16, kMost = 24;
  const double share = static_cast<double>(mesh.microbatch) /
                       static_cast<double>(mesh.context * (between_nodes ? mesh.tensor : 1));
  return static_cast<std::uint8_t>(
      std::clamp(kOfOne + static_cast<int>(std::floor(std::log2(share))), 1, kMost));
}

// What hardly fits by its estimate may still do so; the less likely, the later it is tried. `known`: a recipe
// like it took that much.
double slowed_by_memory(double share, bool known, bool one_fits) {
  constexpr double kKnown = 0.2, kWithoutPlan = 3, kElse = 5;
  if (share <= 1) return 1;
  return 1 + (known ? kKnown : 0) + (known || !one_fits ? kWithoutPlan : kElse) * (share - 1);
}

}  // namespace

EstimateOrder::EstimateOrder(const RecipeSpace& space, std::function<double(std::uint32_t)> cost)
    : space_(space), cost_(std::move(cost)), works_(works_of(space)) {
  std::uint8_t number = 0;
  for (const std::string& name : recipe_schedules()) schedules_.emplace(name, ++number);
}

// The same degrees, and the same share of a sample or as many of them.
std::vector<std::uint32_t> EstimateOrder::works_of(const RecipeSpace& space) {
  using Work = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t, std::int64_t, double>;
  std::map<Work, std::uint32_t> numbers;
  std::vector<std::uint32_t> works;
  for (const Recipe& mesh : space.meshes()) {
    const Work work{mesh.tensor,
                    mesh.sequence_parallel,
                    mesh.pipeline,
                    mesh.expert,
                    mesh.expert_tensor_degree(),
                    static_cast<double>(mesh.microbatch) / static_cast<double>(mesh.context)};
    works.push_back(numbers.try_emplace(work, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return works;
}

namespace {

// Returns EstimateClass::zero.
std::uint8_t zero_class(const StateSharding& sharding) {
  if (sharding.gathers_to_use())
    return sharding.keeps_gathered() ? EstimateClass::kKeepsGathered : EstimateClass::kGathersEach;
  if (sharding.each_microbatch()) return EstimateClass::kReducesEach;
  return sharding.any() ? 1 : 0;
}

}  // namespace

EstimateClass EstimateOrder::class_of(const OpenRecipe& c) const {
  const Recipe& mesh = space_.meshes()[c.mesh];
  EstimateClass of;
  of.mesh = c.mesh, of.work = works_[c.mesh], of.sharding = c.sharding, of.recompute = c.recompute;
  const StateSharding& sharding = space_.shardings(mesh)[c.sharding];
  of.zero = zero_class(sharding);
  of.pipelined = mesh.pipeline > 1;
  const std::int64_t node = space_.devices_in_node();
  if (sharding.each_microbatch()) {
    const std::int64_t stage = mesh.tensor * mesh.context * mesh.data;
    const std::int64_t copies =
        mesh.expert > 1 ? stage / (mesh.expert * mesh.expert_tensor_degree()) : mesh.context * mesh.data;
    using enum EstimateClass::Copies;
    of.copies = copies == 1 ? None : stage > node ? BetweenNodes : InNode;
    of.samples = samples_class(mesh, of.copies == BetweenNodes);
  }
  of.far_experts = mesh.expert * mesh.expert_tensor_degree() > node && mesh.expert > 1;
  const std::string& schedule = space_.pipelines(mesh)[c.pipeline].schedule;
  // An implied one is 1f1b or interleaved, which differ enough in how they are bounded.
  const bool chunks = space_.divisions(mesh.pipeline)[space_.pipelines(mesh)[c.pipeline].division].chunks > 1;
  of.schedule = schedule.empty() ? (chunks ? schedules_.at("interleaved") : schedules_.at("1f1b"))
                                 : schedules_.at(schedule);
  return of;
}

EstimateOrder::Group& EstimateOrder::group_of(const OpenRecipe& c, bool tight) {
  const EstimateClass of = class_of(c);
  const auto [at, is_new] = number_of_.try_emplace(key_of(of, c.known, tight), groups_.size());
  if (is_new) {
    groups_.push_back({of, c.known, tight, {}, cost_(c.mesh), 1, 1, false, 0});
    update(groups_.back());
  }
  return groups_[at->second];
}

void EstimateOrder::update(Group& group) {
  // The first plan should come soon. Until then, what one bound tells counts for recipes with any number of
  // samples.
  group.time_ratio = estimate_.time_over_bound(group.of, group.known, one_fits_);
  // Few microbatches have told the memory of all.
  const bool of_few = group.known == OpenRecipe::Known::OfFew;
  group.memory_ratio = of_few ? 1 : estimate_.memory_over_bound(group.of);
  group.memory_known = of_few || estimate_.knows_memory(group.of);
}

// A group is found by the estimate of its first recipe.
void EstimateOrder::place(std::size_t number) {
  Group& group = groups_[number];
  if (group.recipes.empty()) return;
  const OpenRecipe& first = group.recipes.front();
  constexpr double kSafe = 1.1;  // the first plan should fit
  group.estimate = static_cast<double>(first.bound) * group.time_ratio *
                   slowed_by_memory(first.memory * group.memory_ratio * (one_fits_ ? 1 : kSafe),
                                    group.memory_known, one_fits_);
  constexpr double kDear = 1.1, kAllOfCost = 0.05, kFirst = 0.3, kMost = 2;
  group.estimate *= group.cost > 1 ? kDear : 1 + kAllOfCost * group.cost;
  if (!one_fits_) group.estimate *= 1 + kFirst * std::min(kMost, group.cost);
  places_.emplace_back(group.estimate, number);
  std::ranges::push_heap(places_, std::greater<>());
}

void EstimateOrder::add(const OpenRecipe& c) {
  Group* group = &group_of(c, false);
  if (c.memory * group->memory_ratio > 1) group = &group_of(c, true);
  const bool was_empty = group->recipes.empty();
  const Nanoseconds before = was_empty ? 0 : group->recipes.front().bound;
  group->recipes.add(c);
  if (was_empty || group->recipes.front().bound < before)
    place(static_cast<std::size_t>(group - groups_.data()));
}

std::optional<OpenRecipe> EstimateOrder::take_first(Nanoseconds bound, double estimate) {
  while (!places_.empty() && places_.front().first < estimate) {
    const Place place_of_first = places_.front();
    std::ranges::pop_heap(places_, std::greater<>());
    places_.pop_back();
    const auto number = place_of_first.second;
    Group& group = groups_[number];
    if (group.recipes.empty() || group.estimate != place_of_first.first) continue;  // out of date
    if (group.recipes.front().bound >= bound) continue;  // nor is any other of the group
    const OpenRecipe first = group.recipes.take_first();
    const bool tight = group.tight || first.memory * group.memory_ratio <= 1;
    place(number);
    if (tight) return first;
    add(first);
  }
  return std::nullopt;
}

void EstimateOrder::refresh(bool one_fits) {
  one_fits_ = one_fits;
  for (Group& group : groups_) update(group);
  // Where less memory is expected than before, more are expected to fit.
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    if (!groups_[number].tight || groups_[number].recipes.empty()) continue;
    const double ratio = groups_[number].memory_ratio;
    std::vector<OpenRecipe> fit;
    OpenBounds<OpenRecipe> others;
    for (const OpenRecipe& c : groups_[number].recipes) {
      if (c.memory * ratio <= 1) {
        fit.push_back(c);
      } else {
        others.add(c);
      }
    }
    if (fit.empty()) continue;
    groups_[number].recipes = std::move(others);
    for (const OpenRecipe& c : fit) group_of(c, false).recipes.add(c);
  }
  places_.clear();
  std::unordered_map<std::uint32_t, double> least;
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    if (groups_[number].recipes.empty()) continue;
    place(number);
    const auto [at, is_new] = least.try_emplace(groups_[number].of.mesh, groups_[number].estimate);
    if (!is_new) at->second = std::min(at->second, groups_[number].estimate);
  }
  meshes_.clear();
  for (const auto& [mesh, estimate] : least) meshes_.emplace_back(estimate, mesh);
  std::ranges::sort(meshes_);
}

void EstimateOrder::take_all(const std::function<void(const OpenRecipe&)>& each) {
  for (const Group& group : groups_) {
    for (const OpenRecipe& c : group.recipes) each(c);
  }
  groups_.clear(), number_of_.clear(), places_.clear(), meshes_.clear();
}

void EstimateOrder::learn_closer(const OpenRecipe& before, const OpenRecipe& after) {
  estimate_.learn_closer(class_of(before), before.known, after.known, before.bound, after.bound);
}

void EstimateOrder::learn_time(const OpenRecipe& c, Nanoseconds time) {
  estimate_.learn_time(class_of(c), c.known, c.bound, time);
}

void EstimateOrder::learn_memory(const OpenRecipe& c, double bound, double share) {
  estimate_.learn_memory(class_of(c), bound, share);
}

bool EstimateOrder::alike(const OpenRecipe& a, const OpenRecipe& b) const {
  EstimateClass other = class_of(b);
  other.recompute = a.recompute;
  return class_of(a) == other;
}

}  // namespace pipesim
