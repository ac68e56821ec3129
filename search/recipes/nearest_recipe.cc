#include <algorithm>
#include <cmath>

#include "search/recipes/recipe_model.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr double kLostPart = 0.5;  // sp, first, last, schedule
constexpr double kUnevenEnd = 0.25;

std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// More parts may not be on one node.
constexpr double kWiderTensor = 0.5;
// Rather than the other degrees, those of experts change.
constexpr double kOfExperts = 0.9;

// How far one recipe is from another, for the same devices.
double distance(const Recipe& from, const Recipe& to) {
  const auto apart = [](std::int64_t a, std::int64_t b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const double experts = apart(from.expert, to.expert) +
                         (from.expert_tensor > 0 ? apart(from.expert_tensor, to.expert_tensor_degree()) : 0);
  return apart(from.tensor, to.tensor) + (to.tensor > from.tensor ? kWiderTensor : 0) +
         apart(from.context, to.context) + apart(from.pipeline, to.pipeline) + apart(from.chunks, to.chunks) +
         kOfExperts * experts + (from == to ? 0 : 1e-3);
}

Recipe without_extras(Recipe r) {
  r.first.reset(), r.last.reset();
  r.schedule.clear();
  r.ulysses = 1;
  r.ring = false;
  r.state_sharding.group = 0;
  r.sequence_parallel = r.sequence_parallel && r.tensor > 1;
  if (r.recompute.kind == Recompute::Kind::First || r.recompute.kind == Recompute::Kind::Groups)
    r.recompute = {Recompute::Kind::Full};
  if (r.recompute.kind == Recompute::Kind::Every) r.recompute = {};
  if (r.pipeline == 1 && r.recompute.kind == Recompute::Kind::Stage) r.recompute = {Recompute::Kind::Full};
  return r;
}

// Where layers do not fill all groups evenly: with fewer on both ends, which hold embedding and head too, or
// with fewer, or more, on the last group, or on the first. As even as that can be.
std::vector<Recipe> with_uneven_end(const Recipe& recipe, std::int64_t layers) {
  if (recipe.pipeline == 1 || recipe.first || recipe.last) return {};
  std::vector<Recipe> found;
  const std::int64_t of_chunks = (layers / recipe.pipeline / recipe.chunks + 1) * recipe.chunks;
  const std::int64_t missing = of_chunks * recipe.pipeline - layers;
  const std::int64_t at_first = missing / recipe.chunks / 2 * recipe.chunks;
  if (recipe.pipeline > 2 && at_first > 0 && missing % recipe.chunks == 0 && of_chunks > missing - at_first) {
    Recipe both = recipe;
    both.first = of_chunks - at_first, both.last = of_chunks - (missing - at_first);
    found.push_back(both);
  }
  const std::int64_t fewest = layers / recipe.pipeline / recipe.chunks * recipe.chunks;
  const auto rest = [&](std::int64_t inner) { return layers - inner * (recipe.pipeline - 1); };
  const std::int64_t more = fewest + recipe.chunks;
  const bool take_more = rest(more) >= 0 && more - rest(more) < rest(fewest) - fewest;
  const std::int64_t inner = take_more ? more : fewest;
  if (inner == 0) return found;
  Recipe last = recipe, first = recipe;
  last.last = first.first = rest(inner);
  found.insert(found.end(), {last, first});
  return found;
}

// Looks for the legal recipe that is nearest to another one.
class NearestRecipe {
 public:
  NearestRecipe(const Recipe& wanted, const RecipeModel& model) : wanted_(wanted), model_(model) {}

  // Also with all degrees of experts, where they were asked for.
  void consider(Recipe r, const std::vector<std::int64_t>& divisors) {
    const std::vector<std::int64_t> one{1}, as_tensor{0};
    const bool experts = model_.axes().has(AxisRole::Experts);
    r.expert_tensor = 0;
    for (const std::int64_t expert : experts&& wanted_.divides_experts() ? divisors : one) {
      for (const std::int64_t features : experts&& wanted_.expert_tensor > 0 ? divisors : as_tensor) {
        r.expert = expert, r.expert_tensor = features;
        consider(r, 0);
        consider(without_extras(r), kLostPart);
        for (const Recipe& uneven : with_uneven_end(r, model_.num_layers())) consider(uneven, kUnevenEnd);
      }
    }
  }
  [[nodiscard]] const std::optional<Recipe>& found() const { return best_; }

 private:
  void consider(const Recipe& r, double lost) {
    const double far = distance(wanted_, r) + lost;
    if ((best_ && far >= nearest_) || model_.illegal(r)) return;
    best_ = r;
    nearest_ = far;
  }

  const Recipe& wanted_;
  const RecipeModel& model_;
  std::optional<Recipe> best_;
  double nearest_ = 0;
};

}  // namespace

std::optional<Recipe> nearest_legal(const Recipe& recipe, const RecipeModel& model, std::int64_t devices) {
  NearestRecipe nearest(recipe, model);
  const std::vector<std::int64_t> divisors = divisors_of(devices);
  for (const std::int64_t tensor : divisors) {
    for (const std::int64_t context : divisors) {
      for (const std::int64_t pipeline : divisors) {
        if (devices % (tensor * context * pipeline) != 0) continue;
        // Each chunk has a layer, except where embedding and head take the places of two.
        const std::int64_t fitting = std::max<std::int64_t>(2, (model.num_layers() + 2) / pipeline);
        const std::int64_t most = recipe.in_v() ? std::max<std::int64_t>(2, recipe.chunks) : recipe.chunks;
        for (std::int64_t chunks = 1; chunks <= std::min(most, fitting); ++chunks) {
          stop_if_late();
          Recipe r = recipe;
          r.tensor = tensor, r.context = context, r.pipeline = pipeline, r.chunks = chunks;
          r.data = devices / (tensor * context * pipeline);
          nearest.consider(r, divisors);
        }
      }
    }
  }
  return nearest.found();
}

}  // namespace pipesim
