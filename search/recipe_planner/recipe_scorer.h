#pragma once

#include <condition_variable>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>

#include "search/evaluator.h"
#include "search/recipe_planner/measuring/mesh_costs.h"
#include "search/recipe_planner/ranking_request.h"
#include "search/recipe_planner/recipe_ranking.h"

namespace pipesim {

/// The model with the batch and the order of positions that recipes need.
struct SizedRecipeModel {
  OperatorGraph graph;
  ModelShape shape;
  RecipeModel model;
  MeshMeter meter;

  SizedRecipeModel(OperatorGraph made, const ModelShape& of_recipe, const ModelParts& of_model,
                   const RankingRequest& request);
};

/// Simulates recipes. The evaluator of the last setting is kept. For one thread at a time.
class RecipeScorer {
 public:
  explicit RecipeScorer(const RankingRequest& request) : request_(request) {}

  enum class Verdict : std::uint8_t { Rated, NotPossible, TooSlow, Open, TooLarge };
  /// Rates the recipe. It is not possible where a rule that looks at operators refuses it. It is too slow
  /// when it was found to take as long as `limit` (ns). Without a limit it stays open where few microbatches
  /// do not prove its time: its bound is then what they prove, and its time and peak are estimates at their
  /// rate. It is too large where its task graph does not fit into memory, or would take more than one search
  /// may.
  Verdict score(RatedRecipe& rated, const std::shared_ptr<const SizedRecipeModel>& sized,
                std::int64_t microbatches, std::optional<Nanoseconds> limit);
  /// Returns the number of microbatches from which the last estimate was made.
  [[nodiscard]] std::int32_t few() const { return few_; }
  /// bytes() is the memory of the evaluator that is kept; forget() frees it.
  [[nodiscard]] Bytes bytes() const { return evaluator_ == nullptr ? Bytes() : evaluator_->bytes(); }
  void forget() { evaluator_.reset(); }

 private:
  void estimate_from_few(RatedRecipe& rated, const SimulatedPart& part);
  Evaluator& evaluator_for(const std::shared_ptr<const SizedRecipeModel>& sized, const PlanOptions& options);

  const RankingRequest& request_;
  std::shared_ptr<const SizedRecipeModel> sized_;
  PlanOptions options_;
  std::unique_ptr<Evaluator> evaluator_;  // of these
  std::int32_t few_ = 1;
};

/// Returns the cost of simulating so many microbatches, as a share of the most that is simulated: tasks that
/// take about a gigabyte.
double cost_of_simulating(const OperatorGraph& graph, std::int64_t microbatches);
/// Returns how many passes are simulated for so many microbatches of a recipe, or for `few` of them, which
/// mostly suffice to know its time.
std::int64_t passes_to_simulate(const OperatorGraph& graph, const Recipe& recipe, std::int64_t microbatches,
                                bool few);

/// Lets simulations run beside one another as long as they take little memory together. How much a pass takes
/// differs by topology and recipe: the most that was seen is expected of all.
class SimulationMemory {
 public:
  static bool is_much(Bytes bytes) { return bytes > Bytes(200'000'000); }
  /// Reserves the memory that a simulation of so many passes is expected to take. Waits until there is
  /// enough, or until nothing else runs.
  class Room {
   public:
    Room(SimulationMemory& memory, std::int64_t passes);
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    SimulationMemory& memory_;
    Bytes expected_;
  };
  void learn(std::int64_t passes, Bytes taken);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  Bytes taken_;
  double bytes_per_pass_ = 400;
};

/// A verdict with the figures of the recipe, as a line that another process reads.
void write_verdict(std::ostream& out, RecipeScorer::Verdict verdict, const RatedRecipe& rated);
RecipeScorer::Verdict read_verdict(std::istream& in, RatedRecipe& rated);

}  // namespace pipesim
