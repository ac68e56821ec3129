#include "tools/interop/framework/recipe_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search/recipes/changed_degrees.h"

namespace pipesim {
namespace {

// Collects recipes near one.
class Neighbours {
 public:
  Neighbours(const Framework& framework, const Recipe& recipe, std::int64_t layers)
      : framework_(framework), recipe_(recipe), layers_(layers) {}

  std::vector<Recipe> all() {
    change_recompute();
    change_sharding();
    change_overlap();
    change_microbatch();
    change_chunks();
    change_degrees();
    change_context();
    change_experts();
    return std::move(found_);
  }

 private:
  void add(const Recipe& recipe) {
    if (recipe != recipe_ && std::ranges::find(found_, recipe) == found_.end()) found_.push_back(recipe);
  }
  template <class Change>
  void change(Change change) {
    Recipe recipe = recipe_;
    change(recipe);
    add(recipe);
  }

  void change_recompute() {
    for (const Recompute& recompute : framework_.usual.recomputes)
      change([&](Recipe& r) { r.recompute = recompute; });
    // Half and a quarter of the layers of the largest stage are recomputed, too.
    const std::vector<std::int64_t> stages = divide_layers(recipe_, layers_).layers;
    const std::int64_t most = stages.empty() ? 0 : *std::ranges::max_element(stages);
    for (const std::int64_t layers : {most / 2, most / 4}) {
      if (layers > 0)
        change([&](Recipe& r) { r.recompute = Recompute{Recompute::Kind::First, {}, 0, layers}; });
    }
  }
  void change_sharding() {
    for (const StateSharding& usual : framework_.usual.shardings_of(recipe_.pipeline > 1)) {
      if (usual.kind == recipe_.state_sharding.kind) continue;
      change([&](Recipe& r) { r.state_sharding = usual; });
    }
  }
  void change_overlap() {
    change([](Recipe& r) {
      if (r.reduces_once()) r.reduction = GradientReduction::Overlapped;
    });
    change([](Recipe& r) {
      if (r.reduces_once() && r.state_sharding.any() &&
          r.state_sharding.kind != StateSharding::Kind::Weights) {
        r.state_sharding.overlaps_gather = true;
        r.reduction = GradientReduction::Overlapped;
      }
    });
    change([](Recipe& r) {
      if (r.sequence_parallel) r.tensor_overlap = true;
    });
    change([](Recipe& r) { r.messages.reset(); });
    if (recipe_.tensor > 1) change([](Recipe& r) { r.sequence_parallel = !r.sequence_parallel; });
  }
  void change_microbatch() {
    change([](Recipe& r) { r.microbatch *= 2; });
    if (recipe_.microbatch % 2 == 0) change([](Recipe& r) { r.microbatch /= 2; });
  }
  void change_chunks() {
    if (recipe_.pipeline == 1) return;
    constexpr std::int64_t kMostChunks = 16;
    for (std::int64_t chunks = 1; chunks <= kMostChunks; ++chunks)
      change([&](Recipe& r) { r.chunks = chunks, r.schedule.clear(); });
    change([](Recipe& r) { r.first.reset(), r.last.reset(), r.layers.clear(); });
  }
  void change_degrees() {
    const Recipe& now = recipe_;
    if (now.data % 2 == 0) {
      change([](Recipe& r) { r.data /= 2, set_tensor(r, r.tensor * 2); });
      change([](Recipe& r) { r.data /= 2, set_pipeline(r, r.pipeline * 2); });
      change([](Recipe& r) { r.data /= 2, r.context *= 2; });
    }
    if (now.tensor % 2 == 0) {
      change([](Recipe& r) { r.data *= 2, set_tensor(r, r.tensor / 2); });
      change([](Recipe& r) { set_pipeline(r, r.pipeline * 2), set_tensor(r, r.tensor / 2); });
    }
    if (now.pipeline % 2 == 0) {
      change([](Recipe& r) { r.data *= 2, set_pipeline(r, r.pipeline / 2); });
      change([](Recipe& r) { set_pipeline(r, r.pipeline / 2), set_tensor(r, r.tensor * 2); });
    }
    if (now.context % 2 == 0) {
      change([](Recipe& r) {
        r.data *= 2, r.context /= 2;
        r.ulysses = std::min(r.ulysses, r.context);
        r.ring = r.ring && r.context > 1;
      });
    }
  }
  void change_context() {
    if (recipe_.context == 1) return;
    change([](Recipe& r) { r.ring = false, r.ulysses = 1; });
    change([](Recipe& r) { r.ring = true, r.ulysses = 1; });
    change([](Recipe& r) { r.ring = false, r.ulysses = r.context; });
  }
  void change_experts() {
    change([](Recipe& r) { r.expert *= 2; });
    if (recipe_.expert % 2 == 0) change([](Recipe& r) { r.expert /= 2; });
    if (recipe_.expert > 1) change([](Recipe& r) { r.expert_tensor = r.tensor == 1 ? 0 : 1; });
  }

  const Framework& framework_;
  const Recipe& recipe_;
  std::int64_t layers_;  // of the model
  std::vector<Recipe> found_;
};

}  // namespace

std::vector<RecipeChange> recipe_changes(const Framework& framework, const FrameworkPlan& plan,
                                         const RecipeModel& model) {
  std::vector<RecipeChange> changes;
  for (Recipe& recipe : Neighbours(framework, plan.recipe, plan.sizes.layers).all()) {
    if (model.illegal(recipe) || plan.samples % (recipe.data * recipe.microbatch) != 0) continue;
    FrameworkPlan changed = plan;
    changed.recipe = std::move(recipe);
    changed.layers = divide_layers(changed.recipe, changed.sizes.layers).layers;
    if (!framework.runs_recipe(changed)) continue;
    std::string text = settings_difference(framework, plan, changed);
    if (!text.empty()) changes.push_back({std::move(changed.recipe), std::move(text)});
  }
  return changes;
}

std::string settings_difference(const Framework& framework, const FrameworkPlan& before,
                                const FrameworkPlan& after) {
  const std::vector<FrameworkSetting> was = framework.settings(before), is = framework.settings(after);
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const FrameworkSetting& setting : is) {
    const auto old = std::ranges::find(was, setting.name, &FrameworkSetting::name);
    const std::string now = setting.value.empty() ? setting.name : setting.name + " " + setting.value;
    if (old == was.end()) add(now);
    if (old != was.end() && old->value != setting.value)
      add(fmt::format("{} instead of {}", now, old->value));
  }
  for (const FrameworkSetting& setting : was) {
    if (std::ranges::find(is, setting.name, &FrameworkSetting::name) == is.end())
      add("without " + setting.name);
  }
  return text;
}

}  // namespace pipesim
