#include "tools/cli/whatif/run_points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <sstream>

#include "search/auto/auto.h"
#include "search/evaluator.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/analysis/plans/plan_report.h"
#include "tools/analysis/searching/search_time.h"
#include "tools/analysis/whatif/plan_kind.h"
#include "tools/base/figures.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/plan_options.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/cli/planning/search_run.h"
#include "tools/cli/whatif/known_plans.h"
#include "tools/cli/whatif/varied_arguments.h"
#include "tools/render/plans/plan_report_text.h"
#include "tools/render/whatif/study_json.h"

namespace pipesim {
namespace {

// A search along a row begins with the plan of the point before, except where a new chain of this many points
// begins. So several threads find work, and the answers do not depend on the number of threads.
constexpr std::size_t kPointsOfChain = 8;

PointResult result_of(Evaluator& evaluator, const Strategy& strategy, const Evaluated& scored,
                      const FlopsCounting& counting) {
  PointResult result;
  const Topology& topology = evaluator.topology();
  result.time_s = to_seconds(scored.cost->time).value;
  result.samples_per_s =
      static_cast<double>(samples_per_iteration(evaluator.graph(), evaluator.contents().options())) /
      result.time_s;
  const TrainingRates rates = training_rates(evaluator.contents(), scored.cost->time, counting);
  if (rates.tokens_per_second > 0) {
    result.tokens_per_s = rates.tokens_per_second;
    result.mfu = rates.mfu();
    result.counted = fmt::format("{}; of {}", counting_text(rates), peak_text(rates, topology));
  }
  result.devices = static_cast<std::int64_t>(topology.num_devices());
  result.memory_bytes = std::ranges::max(scored.peaks, {}, &DeviceMemory::peak).peak.value;
  result.fits = scored.cost->feasible();
  if (const double price = topology.parts().price_per_hour; price > 0)
    result.price_per_hour = price * static_cast<double>(result.devices);
  result.opaque = opaque_operators(evaluator, strategy);
  return result;
}

std::vector<std::string> names_of_planners() {
  std::vector<std::string> names;
  for (const Algorithm* planner : planners()) names.emplace_back(planner->name);
  return names;
}

// Observes the search of a point without reporting its progress.
class QuietSearch final : public SearchObserver {
 public:
  explicit QuietSearch(const std::function<bool()>& stop_requested) : stop_requested_(stop_requested) {}
  void expect(const SearchBudget&, std::optional<Nanoseconds>) override {}
  [[nodiscard]] ProgressCallback callback() override {
    return [this](const SearchProgress&) { return !stop_requested_(); };
  }
  void finish(const SearchOutcome& outcome) override { static_cast<void>(outcome); }
  [[nodiscard]] bool interrupted() const override { return stop_requested_(); }
  bool stop_requested() override { return stop_requested_(); }
  [[nodiscard]] std::function<bool()> interruption() const override { return stop_requested_; }

 private:
  const std::function<bool()>& stop_requested_;
};

}  // namespace

PointRunner::PointRunner(PointRequest request)
    : request_(std::move(request)), known_(std::make_unique<KnownPlans>()) {}
PointRunner::~PointRunner() = default;

PointResult PointRunner::run_same(const Arguments& point) const {
  const auto known = known_->of(point);
  const Subject& s = known->subject;
  auto [scored, priced] = known->score(point);
  PointResult result =
      result_of(*priced.evaluator, s.plan.strategy, scored, flops_counting_of(framework_of(point)));
  result.recipe = !s.plan.recipe.empty()    ? s.plan.recipe
                  : s.plan.options.pipeline ? known->kind
                                            : s.plan.found_by;
  result.kind = known->kind;
  if (request_.noise) {
    result.objective_s = seconds(noisy_time(*priced.evaluator, s.plan.strategy));
  } else {
    known->use_again(std::move(priced));
  }
  return result;
}

Nanoseconds PointRunner::noisy_time(Evaluator& evaluator, const Strategy& strategy) const {
  const NoisyTimes& asked = *request_.noise;
  return asked.objective.of(iteration_times(evaluator, evaluator.contents().bind(strategy),
                                            {asked.noise, asked.samples, asked.seed, 1}));
}

Subject PointRunner::planned(const Arguments& point) const {
  std::ostringstream warnings;
  if (asks_for_splits(point))
    throw InputError(fmt::format("algorithm={}: allowed in studies: {}", point.text("algorithm"),
                                 list_names(names_of_planners())));
  const SearchRun run = search_run_of(point);
  std::optional<Calibration> calibration = open_calibration(run.calibration, run.topology, warnings);
  const CostModel costs(run.topology, pointer_to(calibration), run.runtime);
  PlanRequest request = request_of(run, run.settings, costs);
  request.status = [](std::string_view) {};
  QuietSearch quiet(request_.stop_requested);
  request.observer = &quiet;
  const SearchTime time(run.settings.budget.seconds);
  PlannerAnswer answer = plan(request, run.algorithm, time.search());
  if (request_.noise && answer.recipes) choose_by_noise(run, costs, answer);
  Plan made = pipesim::plan_of(run, answer, runtime_of_plan(run, recipe_of_plan(run, answer)));
  PlannedModel& found = answer.plan;
  if (has_recipes(found.graph))
    made.recipe =
        recognised_recipe(made.strategy, made.options, RecipeModel(found.graph), run.topology, made.runtime);
  return {std::move(found.graph), run.topology, std::move(made), std::move(calibration)};
}

// Chooses, among the best recipes (at most ten), the one that is fastest under noise.
void PointRunner::choose_by_noise(const SearchRun& run, const CostModel& costs, PlannerAnswer& answer) const {
  std::optional<Nanoseconds> best;
  std::size_t tried = 0;
  for (const RatedRecipe& rated : answer.recipes->rated) {
    if (!rated.evaluation.feasible() || tried++ == RecipeRanking::kTold) break;
    Recipe recipe = rated.recipe;
    const std::int64_t samples = run.graph.batch() * run.options.microbatches;
    const ModelRun sized = run_of_recipe(run.model, static_cast<std::int64_t>(run.topology.num_devices()),
                                         {.batch = samples, .microbatch = {}, .microbatches = {}}, recipe);
    const std::int64_t groups =
        recipe.shape(run.settings.recipes.rules().local_dispatch).sequence.token_groups;
    OperatorGraph graph = open_model(with_token_groups(sized.model, groups));
    Plan plan;
    plan.options = run.options;
    plan.options.microbatches = sized.microbatches;
    apply_recipe(recipe, RecipeModel(graph), run.topology, plan);
    Evaluator evaluator(graph, costs, plan.options);
    const Nanoseconds time = noisy_time(evaluator, plan.strategy);
    if (best && *best <= time) continue;
    best = time;
    answer.plan = PlannedModel(std::move(graph), std::move(plan.options), std::move(plan.strategy));
  }
}

PointResult PointRunner::run_planned(const Arguments& point) const {
  const Subject s = planned(point);
  const CostModel costs(s.topology, pointer_to(s.calibration), s.plan.runtime);
  Evaluator evaluator(s.graph, costs, s.plan.options);
  PointResult result =
      result_of(evaluator, s.plan.strategy, evaluator.evaluate(s.plan.strategy, {.peaks = true}),
                flops_counting_of(framework_of(point)));
  result.kind = kind_of_plan(s.graph, s.plan.strategy, s.plan.options, s.topology);
  result.recipe = s.plan.recipe.empty() ? result.kind : s.plan.recipe;
  if (request_.noise) result.objective_s = seconds(noisy_time(evaluator, s.plan.strategy));
  return result;
}

Subject PointRunner::plan_of(const Arguments& point) const {
  if (request_.plans != PointPlans::Same) return planned(point);
  std::ostringstream warnings;
  return subject_of("whatif", point, warnings);
}

PointResult PointRunner::run(const Arguments& point) const {
  PointResult failed;
  try {
    return request_.plans == PointPlans::Same ? run_same(point) : run_planned(point);
  } catch (const InputError& error) {
    failed.error = error.what();
  } catch (const UsageError& error) {
    failed.error = error.what();
  } catch (const OutOfTime&) {
    failed.error = "no plan was found in time";
  }
  return failed;
}

namespace {

// The recipe of a plan that a search may begin with.
std::string start_from(const std::optional<PointResult>& before) {
  if (!before || !before->error.empty() || !before->fits) return "";
  try {
    return parse_recipe(before->recipe).str();
  } catch (const InputError&) {  // the nearest recipe to a plan that has none
    return "";
  }
}

Arguments started(const Arguments& point, const std::string& recipe) {
  if (recipe.empty() || point.has("recipe") || framework_of(point) != nullptr) return point;
  const Arguments made = point.with("recipe", recipe);
  try {
    (void)search_run_of(made);
  } catch (const InputError&) {  // it does not fit here
    return point;
  }
  return made;
}

// Divides the points into chains, in which each search may begin with the plan of the point before.
std::vector<std::vector<std::size_t>> chains_of(const Study& study) {
  const std::size_t row = study.axes.back().values.size();
  const bool chained = study.plans == PointPlans::Search;
  std::vector<std::vector<std::size_t>> chains;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const bool begins = !chained || i % row % kPointsOfChain == 0;
    if (begins) chains.emplace_back();
    chains.back().push_back(i);
  }
  return chains;
}

// Runs chains on threads of this process. run() returns the points that were found.
class ChainRunner {
 public:
  ChainRunner(const PointRunner& runner, const Arguments& arguments, Study& study, int threads,
              const std::function<void()>& done)
      : runner_(runner),
        arguments_(arguments),
        study_(study),
        workers_(static_cast<std::size_t>(threads)),
        done_(done) {}

  std::vector<std::size_t> run(const std::vector<std::vector<std::size_t>>& chains, PeerProcesses* peers) {
    std::vector<std::size_t> numbers(chains.size());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    found_.clear();
    workers_.run(numbers, [&](std::size_t chain, std::size_t) { run_chain(chains[chain], peers); });
    std::ranges::sort(found_);
    return found_;
  }

 private:
  void run_chain(const std::vector<std::size_t>& chain, PeerProcesses* peers) {
    for (const std::size_t number : chain) {
      {
        const std::scoped_lock lock(mutex_);
        if (runner_.stop_requested()) return;
        if (study_.points[number]) continue;
        if (peers != nullptr) peers->set_activity(fmt::format("point {}", text_of(number)));
      }
      Arguments point = varied(arguments_, study_.axes, place_of_point(study_.axes, number));
      if (number != chain.front()) point = started(point, start_from(study_.points[number - 1]));
      PointResult result = runner_.run(point);
      const std::scoped_lock lock(mutex_);
      if (runner_.stop_requested()) return;  // what ended early is no answer
      study_.points[number] = std::move(result);
      found_.push_back(number);
      done_();
    }
  }
  [[nodiscard]] std::string text_of(std::size_t number) const {
    std::vector<std::string> values;
    for (std::size_t a = 0; a < study_.axes.size(); ++a)
      values.push_back(fmt::format("{}={}", study_.axes[a].path, study_.value(number, a)));
    return fmt::format("{}", fmt::join(values, " "));
  }

  const PointRunner& runner_;
  const Arguments& arguments_;
  Study& study_;
  WorkerThreads workers_;
  const std::function<void()>& done_;
  std::mutex mutex_;
  std::vector<std::size_t> found_;
};

// Adds what the other processes have found, and returns whether all go on.
bool exchange(PeerProcesses& peers, const std::vector<std::size_t>& found, bool stop, Study& study,
              const std::function<void()>& done) {
  constexpr char kStop = '!', kGoOn = '.';
  const std::vector<std::string> of_all = peers.gather((stop ? kStop : kGoOn) + text_of_points(study, found));
  bool go_on = true;
  for (std::size_t r = 0; r < of_all.size(); ++r) {
    go_on = go_on && of_all[r].front() == kGoOn;
    if (r == static_cast<std::size_t>(peers.rank())) continue;
    const std::size_t before = study.done();
    add_points(study, of_all[r].substr(1));
    for (std::size_t n = study.done() - before; n > 0; --n) done();
  }
  return go_on;
}

}  // namespace

void run_points(const PointRunner& runner, const Arguments& arguments, Study& study, int threads,
                PeerProcesses* peers, const std::function<void()>& done) {
  std::vector<std::vector<std::size_t>> chains = chains_of(study);
  std::erase_if(chains, [&](const std::vector<std::size_t>& chain) {
    return std::ranges::all_of(chain, [&](std::size_t number) { return study.points[number].has_value(); });
  });
  ChainRunner chain_runner(runner, arguments, study, threads, done);
  if (peers == nullptr) {
    chain_runner.run(chains, nullptr);
    return;
  }
  // Rounds are short enough to lose little when a process dies, and long enough for the slowest of their
  // points.
  constexpr std::size_t kRounds = 20, kChainsOfAThread = 4;
  const auto count = static_cast<std::size_t>(peers->count());
  const std::size_t each =
      std::max(kChainsOfAThread * static_cast<std::size_t>(threads), chains.size() / (count * kRounds));
  for (std::size_t begin = 0; begin < chains.size(); begin += each * count) {
    std::vector<std::vector<std::size_t>> own;
    const std::size_t end = std::min(chains.size(), begin + each * count);
    for (std::size_t c = begin + static_cast<std::size_t>(peers->rank()); c < end; c += count)
      own.push_back(chains[c]);
    const std::vector<std::size_t> found = chain_runner.run(own, peers);
    if (!exchange(*peers, found, runner.stop_requested(), study, done)) return;
  }
}

namespace {

constexpr double kCloseEnough = 1.02;  // of the ends of an interval

bool can_halve(const NumberWithUnit& low, const NumberWithUnit& high, bool whole) {
  return whole ? high.number - low.number > 1 : low.number > 0 && high.number / low.number > kCloseEnough;
}

}  // namespace

void find_crossovers(const PointRunner& runner, const Arguments& arguments, Study& study,
                     const std::function<void()>& step) {
  const auto kind = [](const std::optional<PointResult>& p) {
    return p && p->error.empty() ? p->kind : std::string();
  };
  study.crossovers.clear();
  std::size_t stride = study.points.size();
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    const StudyAxis& axis = study.axes[a];
    stride /= axis.values.size();
    for (std::size_t i = 0; i < study.points.size(); ++i) {
      const std::vector<std::size_t> at = place_of_point(study.axes, i);
      if (at[a] + 1 == axis.values.size()) continue;
      const std::string from = kind(study.points[i]), to = kind(study.points[i + stride]);
      NumberWithUnit low, high;
      if (from.empty() || to.empty() || from == to || !read_number(axis.values[at[a]], low) ||
          !read_number(axis.values[at[a] + 1], high) || low.unit != high.unit || low.factor != high.factor)
        continue;
      Crossover found{a, at, axis.values[at[a]], axis.values[at[a] + 1], from, to};
      const bool whole = low.unit.empty() && !low.factor && std::floor(low.number) == low.number &&
                         std::floor(high.number) == high.number;
      // Values may fall along the axis.
      while (can_halve(low.number < high.number ? low : high, low.number < high.number ? high : low, whole)) {
        const double middle =
            whole ? std::floor((low.number + high.number) / 2) : std::sqrt(low.number * high.number);
        StudyAxis only{axis.path, {with_number(low, middle)}};
        std::vector<StudyAxis> axes = study.axes;
        axes[a] = only;
        std::vector<std::size_t> there = at;
        there[a] = 0;
        const PointResult result = runner.run(varied(arguments, axes, there));
        step();
        if (!result.error.empty() || runner.stop_requested()) break;
        (result.kind == from ? low : high).number = middle;
        (result.kind == from ? found.low : found.high) = only.values.front();
        if (result.kind != from) found.to = result.kind;
      }
      study.crossovers.push_back(std::move(found));
    }
  }
}

}  // namespace pipesim
