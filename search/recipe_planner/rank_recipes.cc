#include "search/recipe_planner/rank_recipes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "search/recipe_planner/estimate_order.h"
#include "search/recipe_planner/mesh_walk.h"
#include "search/recipe_planner/open_recipes.h"
#include "search/recipe_planner/recipe_bounder.h"
#include "search/recipe_planner/recipe_scorer.h"
#include "search/worker_threads.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

class RecipeRanker {
 public:
  RecipeRanker(const RankingRequest& request, const std::function<bool(const RankingProgress&)>& go_on)
      : request_(request),
        go_on_(go_on),
        space_(request.model, request.costs.topology(), request.samples, request.filter),
        threads_(std::min(static_cast<std::size_t>(request.threads), kMostAtATime)),
        bounder_(request, space_, threads_),
        order_(space_,
               [this](std::uint32_t mesh) {
                 return cost_of_simulating(request_.model.graph(),
                                           space_.microbatches(space_.meshes()[mesh]));
               }),
        explored_(space_.meshes().size(), false) {
    for (std::size_t t = 0; t < threads_.count(); ++t) scorers_.emplace_back(request);
    // Simulations take longer on more devices, and bounds of a mesh, which are of one copy, do not.
    constexpr std::size_t kDevices = 2'048;
    walked_at_once_ = std::max<std::size_t>(1, request.costs.topology().num_devices() / kDevices);
  }

  RecipeRanking rank() {
    ranking_.recipes = space_.size();
    ranking_.rated.reserve(kExpectedSimulations);
    try {
      try_likely();
      if (ended_) bound_in_time();
      if (ended_) decide_all();
    } catch (const OutOfTime&) {
      ended_ = false;
    }
    reopen_all();
    note_left();
    ranking_.too_slow += std::ranges::count_if(open_, [&](const OpenRecipe& c) {
      return c.known == OpenRecipe::Known::OfFew && !may_be_best(c.bound);
    });
    std::ranges::stable_sort(ranking_.rated, {}, [](const RatedRecipe& r) {
      return std::tuple(r.evaluation.overflow, r.evaluation.time, r.peak);
    });
    return std::move(ranking_);
  }

 private:
  // Of few microbatches first, and of all only where the bound that these give is still among the least.
  struct Simulation {
    OpenRecipe candidate;
    RatedRecipe rated;
    std::shared_ptr<SizedRecipeModel> sized;
    std::optional<Nanoseconds> limit;
    bool done = false;
    double seconds = 0;  // that it would take with all microbatches, about
    RecipeScorer::Verdict verdict = RecipeScorer::Verdict::Open;
  };

  struct Begun {
    OpenRecipe recipe;
    Nanoseconds expected = 0;  // from few microbatches
    double seconds = 0;        // that simulating all may take
  };

  [[nodiscard]] bool may_be_best(Nanoseconds bound) const {
    return best_ == nullptr || bound < best_->evaluation.time;
  }
  // No bound from here on is of interest: it is no less than the best, or by so little that nobody wants to
  // know.
  [[nodiscard]] Nanoseconds bound_of_interest() const {
    if (best_ == nullptr) return std::numeric_limits<Nanoseconds>::max();
    return static_cast<Nanoseconds>(
        std::ceil(static_cast<double>(best_->evaluation.time) * (1 - request_.within)));
  }
  // What can't be faster than the best by at least so much waits until all is decided by bounds.
  [[nodiscard]] Nanoseconds bound_to_gain() const {
    constexpr double kLeastGain = 0.003;
    return std::min(bound_of_interest(),
                    best_ == nullptr ? std::numeric_limits<Nanoseconds>::max()
                                     : static_cast<Nanoseconds>(estimate_of_interest(1 - kLeastGain)));
  }
  [[nodiscard]] bool may_be_much_better(Nanoseconds bound) const { return bound < bound_of_interest(); }

  [[nodiscard]] bool may_go_on() {
    stop_if_late();
    ended_ = go_on_({ranking_.bounded, ranking_.recipes, ranking_.simulated(),
                     best_ != nullptr ? best_->evaluation.time : 0});
    return ended_;
  }

  // First those that are likely to be fast: on a walk from usual meshes to their neighbours, where that leads
  // to less time, the least estimate first. Once a plan is there, usual ones with large microbatches join. It
  // ends when nothing near is likely to be nearly as fast as the best, then not much slower either; what is
  // left is decided by bounds alone.
  void try_likely() {
    searches_likely_ = true;
    if (seconds_left() < std::numeric_limits<double>::infinity())
      left_for_begun_ = kShareOfBegun * seconds_left();
    std::vector<std::uint32_t> meshes = walk_usual();
    constexpr std::array kLikely{1.05, 1.15, 1.3};
    std::size_t width = 0;
    likely_ = kLikely[width];
    while (true) {
      if (!explore(meshes)) return;
      order_.refresh(one_fits());
      std::vector<Simulation> next = likely_simulations();
      if (!ended_) return;
      meshes = next_to_fast_ones();
      if (one_fits() && !std::exchange(walked_large_, true)) {
        constexpr std::int64_t kLarge = 4;
        for (const std::uint32_t large : walk_->usual(kLarge)) {
          if (std::ranges::find(meshes, large) == meshes.end()) meshes.push_back(large);
        }
      }
      if (next.empty() && meshes.empty()) next = begun_simulations();
      if (!ended_) return;
      if (!next.empty()) {
        simulate(next);
      } else if (meshes.empty() && ++width == kLikely.size()) {
        break;
      } else if (meshes.empty()) {
        likely_ = kLikely[width];
      }
    }
    reopen_all();
  }

  [[nodiscard]] std::vector<std::uint32_t> walk_usual() {
    walk_.emplace(space_);
    return walk_->usual();
  }

  // Meshes that are not explored yet, next to those with the least estimates. Each number of groups in a
  // pipeline has its turn, since the way from a fast mesh with few groups to a faster one with many may lead
  // past slow ones.
  [[nodiscard]] std::vector<std::uint32_t> next_to_fast_ones() {
    constexpr double kNearTheFast = 1.3;
    const double slowest = estimate_of_interest(kNearTheFast);
    std::vector<std::pair<double, std::uint32_t>> from(order_.meshes().begin(), order_.meshes().end());
    // Where no recipe of a mesh fits, those next to the one that lacks least are first.
    from.insert(from.end(), without_fit_.begin(), without_fit_.end());
    std::ranges::sort(from);
    std::map<std::int64_t, std::vector<std::uint32_t>> by_groups;
    std::vector<std::int64_t> turns;  // the number of groups with the fastest mesh first
    for (const auto& [estimate, mesh] : from) {
      if (estimate >= slowest) break;
      if (walked_.contains(mesh)) continue;
      std::vector<std::uint32_t>& of_turn = by_groups[space_.meshes()[mesh].pipeline];
      if (of_turn.empty()) turns.push_back(space_.meshes()[mesh].pipeline);
      of_turn.push_back(mesh);
    }
    std::vector<std::uint32_t> found;
    const std::size_t most = kMeshesATurn * walked_at_once_;
    for (std::size_t n = 0; !turns.empty() && found.size() < most; ++n) {
      std::erase_if(turns, [&](std::int64_t groups) { return by_groups[groups].size() <= n; });
      for (const std::int64_t groups : turns) {
        if (found.size() < most) walk_from(by_groups[groups][n], found);
      }
    }
    return found;
  }

  void walk_from(std::uint32_t mesh, std::vector<std::uint32_t>& found) {
    std::size_t taken = 0, left = 0;
    for (const std::uint32_t other : walk_->near(mesh)) {
      if (explored_[other] || std::ranges::find(found, other) != found.end()) continue;
      if (taken < kMeshesAStep * walked_at_once_) {
        found.push_back(other);
        ++taken;
      } else {
        ++left;
      }
    }
    if (left == 0) walked_.insert(mesh);
  }

  // So many times the time of the best, of those whose time is only expected as well; without one, anything.
  [[nodiscard]] double estimate_of_interest(double times) const {
    double best = best_ == nullptr ? std::numeric_limits<double>::infinity()
                                   : static_cast<double>(best_->evaluation.time);
    for (const Begun& begun : begun_) best = std::min(best, static_cast<double>(begun.expected));
    return times * best;
  }

  // Bounds all recipes of meshes. False: it may not go on.
  bool explore(std::vector<std::uint32_t> meshes) {
    std::erase_if(meshes, [&](std::uint32_t mesh) { return explored_[mesh]; });
    std::ranges::stable_sort(meshes, {}, [&](std::uint32_t mesh) {
      return bounder_.takes_batch_of(mesh) ? bounder_.measured_model(mesh)
                                           : std::pair<std::int64_t, std::int64_t>(0, 0);
    });
    for (std::size_t from = 0; from < meshes.size(); from += kMeshesAtATime) {
      if (!may_go_on()) return false;
      std::vector<std::uint32_t> together;
      for (std::size_t m = from; m < std::min(meshes.size(), from + kMeshesAtATime); ++m) {
        if (bounder_.takes_batch_of(meshes[m])) {
          together.push_back(meshes[m]);
        } else {
          note_impossible(meshes[m]);
        }
      }
      bounder_.measure(together);
      for (const std::uint32_t mesh : together) {
        if (!may_go_on()) return false;
        std::int64_t fit = 0;
        bound_recipes(mesh, [&](const OpenRecipe& c) {
          order_.add(c);
          ++fit;
        });
        note_bounded(mesh);
        if (fit == 0)
          without_fit_.emplace_back(static_cast<double>(bounder_.least_time(mesh)) * least_share_, mesh);
      }
    }
    return true;
  }

  void note_bounded(std::uint32_t mesh) {
    explored_[mesh] = true;
    ranking_.bounded += space_.size_of(mesh);
  }
  void note_impossible(std::uint32_t mesh) {
    ranking_.not_possible += space_.size_of(mesh);
    note_bounded(mesh);
  }

  // Those with the least estimates, when their bounds are close. Few at first: what is learned of them
  // directs what follows.
  std::vector<Simulation> likely_simulations() {
    constexpr std::int64_t kOneByOne = 4, kTwoByTwo = 12;
    const std::int64_t before = ranking_.simulated();
    const std::size_t most = before < kOneByOne ? 1 : before < kTwoByTwo ? 2 : kMostAtATime;
    std::vector<Simulation> next;
    std::vector<OpenRecipe> later;  // what is learned of another tells of these
    try {
      while (next.size() < most && later.size() < kMostLater) {
        if (!may_go_on() || is_time_for_begun()) break;
        std::optional<OpenRecipe> first = order_.take_first(bound_to_gain(), estimate_of_interest(likely_));
        if (!first) break;
        if (first->known < OpenRecipe::Known::OfTraffic) {
          bound_likely(*first);
        } else if (std::ranges::any_of(
                       next, [&](const Simulation& s) { return order_.alike(s.candidate, *first); })) {
          later.push_back(*first);
        } else {
          add_simulation(*first, next);
        }
      }
    } catch (const OutOfTime&) {
      put_back(next);
      for (const OpenRecipe& c : later) order_.add(c);
      throw;
    }
    for (const OpenRecipe& c : later) order_.add(c);
    if (ended_ && !is_time_for_begun()) return next;
    put_back(next);
    return begun_simulations();
  }

  // Simulating all microbatches takes many times as long as simulating few, which tell the time nearly: it
  // waits until nothing else is likely to be faster, or for the end of the time. The first plan is the one
  // that is had soonest.
  std::vector<Simulation> begun_simulations() {
    std::vector<Simulation> next;
    const auto first = next_begun();
    if (first == begun_.end() || !ended_ || !may_go_on()) return next;
    const OpenRecipe recipe = first->recipe;
    begun_.erase(first);
    add_simulation(recipe, next);
    return next;
  }
  [[nodiscard]] std::vector<Begun>::const_iterator next_begun() const {
    if (best_ == nullptr) return std::ranges::min_element(begun_, {}, &Begun::seconds);
    const auto first = std::ranges::min_element(begun_, {}, &Begun::expected);
    return first == begun_.end() || may_be_best(first->expected) ? first : begun_.end();
  }
  [[nodiscard]] bool is_time_for_begun() const {
    const auto first = next_begun();
    if (first == begun_.end() || request_.peers != nullptr) return false;
    constexpr double kSure = 2.5;  // a first plan should be there in time
    return seconds_left() < std::max(left_for_begun_, best_ == nullptr ? kSure * first->seconds : 0);
  }
  [[nodiscard]] static double seconds_left() {
    const Deadline* whole = deadline_kept();
    return whole == nullptr ? std::numeric_limits<double>::infinity() : whole->left();
  }
  [[nodiscard]] bool one_fits() const { return best_ != nullptr || !begun_.empty(); }

  void bound_likely(OpenRecipe c) {
    const OpenRecipe before = c;
    try {
      bound_closer(std::span(&c, 1));
    } catch (const OutOfTime&) {
      order_.add(before);
      throw;
    }
    order_.learn_closer(before, c);
    order_.add(c);
    // Traffic takes long to measure, and tells much of recipes of the same kind.
    if (c.known == OpenRecipe::Known::OfTraffic) order_.refresh(one_fits());
  }

  // Closer bounds of the same kind.
  void bound_closer(std::span<OpenRecipe> recipes) {
    if (bounder_.needs_traffic(recipes.front())) return bounder_.bound_by_traffic(recipes);
    for (OpenRecipe& c : recipes) bounder_.bound_by_steps(c);
  }

  // What is left is decided by bounds alone.
  void reopen_all() {
    searches_likely_ = false;
    order_.take_all([&](const OpenRecipe& c) { open_.add(c); });
    for (const Begun& begun : begun_) open_.add(begun.recipe);
    begun_.clear();
  }

  void put_back(const OpenRecipe& c) {
    if (searches_likely_) {
      order_.add(c);
    } else {
      open_.add(c);
    }
  }
  void put_back(const std::vector<Simulation>& simulations) {
    for (const Simulation& s : simulations) put_back(s.candidate);
  }

  // With a deadline, half of the time is left for what was bounded by then.
  void bound_in_time() {
    const Deadline* whole = deadline_kept();
    if (whole == nullptr || !whole->limited()) return bound_meshes();
    constexpr double kShare = 0.5;
    const Deadline share = whole->within(kShare * whole->left());
    const KeepTo keep(share);
    try {
      bound_meshes();
    } catch (const OutOfTime&) {
      if (whole->passed()) throw;
    }
  }

  void bound_meshes() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::uint32_t>> by_model;
    for (std::uint32_t m = 0; m < space_.meshes().size(); ++m) {
      if (explored_[m]) continue;
      if (bounder_.takes_batch_of(m)) {
        by_model[bounder_.measured_model(m)].push_back(m);
      } else {
        note_impossible(m);
      }
    }
    // Meshes of one model follow one another, of as many models at a time as may be measured together.
    while (!by_model.empty()) {
      if (!may_go_on()) return;
      std::vector<std::uint32_t> next;
      auto of_model = by_model.begin();
      for (std::size_t n = 0; n < kMostAtATime && of_model != by_model.end(); ++n) {
        std::vector<std::uint32_t>& left = of_model->second;
        const std::size_t taken = std::min(left.size(), kMeshesOfAModel);
        next.insert(next.end(), left.end() - static_cast<std::ptrdiff_t>(taken), left.end());
        left.resize(left.size() - taken);
        of_model = left.empty() ? by_model.erase(of_model) : std::next(of_model);
      }
      bounder_.measure_busy(next);
      for (const std::uint32_t number : next) {
        open_meshes_.add({bounder_.least_busy(number), number, false});
        note_bounded(number);
      }
    }
  }

  [[nodiscard]] static float share_of(Bytes memory, Bytes usable) {
    return static_cast<float>(static_cast<double>(memory.value) /
                              static_cast<double>(std::max<std::int64_t>(1, usable.value)));
  }

  // Bounds every recipe of a mesh, and tells of those that may fit.
  template <class Each>
  void bound_recipes(std::uint32_t number, Each each) {
    least_share_ = std::numeric_limits<double>::infinity();
    bounder_.bound_recipes(number, [&](OpenRecipe c, Bytes memory) {
      const Bytes usable = bounder_.usable_of(c);
      c.memory = share_of(memory, usable);
      least_share_ = std::min<double>(least_share_, c.memory);
      if (!ranking_.leanest || memory < ranking_.leanest->bound.memory)
        ranking_.leanest = BoundedRecipe{bounder_.recipe_of(c), {c.bound, memory}, usable};
      if (memory > usable) {
        ++ranking_.too_large;
      } else {
        each(c);
      }
    });
  }

  // The least bound first, of meshes and of recipes, until none is below the best.
  void decide_all() {
    for (std::vector<Simulation> next = next_simulations(); !next.empty(); next = next_simulations())
      simulate(next);
  }

  // As many as may run at the same time: those with the least bounds, when all others have closer ones.
  std::vector<Simulation> next_simulations() {
    std::vector<Simulation> next;
    while (next.size() < kMostAtATime) {
      const bool mesh_first =
          !open_meshes_.empty() && (open_.empty() || open_meshes_.front().bound <= open_.front().bound);
      if (mesh_first ? !may_be_much_better(open_meshes_.front().bound)
                     : open_.empty() || !may_be_much_better(open_.front().bound))
        break;
      try {
        if (!may_go_on()) break;
        if (mesh_first) {
          decide_mesh();
        } else if (open_.front().known < OpenRecipe::Known::OfTraffic) {
          bound_first_closer();
        } else {
          add_simulation(open_.take_first(), next);
        }
      } catch (const OutOfTime&) {
        put_back(next);
        throw;
      }
    }
    if (ended_) return next;
    put_back(next);
    return {};
  }

  // Measures the meshes with the least bounds, or bounds the recipes of the first one by one. Until then they
  // stay among the open ones.
  void decide_mesh() {
    if (!open_meshes_.front().measured) return measure_meshes();
    bound_recipes(open_meshes_.take_first().number, [&](const OpenRecipe& c) { open_.add(c); });
  }

  void measure_meshes() {
    std::vector<OpenMesh> taken;
    std::vector<std::uint32_t> numbers;
    const Nanoseconds least = open_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_.front().bound;
    while (taken.size() < kMeshesAtATime && !open_meshes_.empty()) {
      const OpenMesh& next = open_meshes_.front();
      if (next.measured || (!taken.empty() && (next.bound > least || !may_be_best(next.bound)))) break;
      taken.push_back(next);
      numbers.push_back(next.number);
      open_meshes_.take_first();
    }
    try {
      bounder_.measure(numbers);
    } catch (const OutOfTime&) {
      for (const OpenMesh& mesh : taken) open_meshes_.add(mesh);
      throw;
    }
    for (const std::uint32_t number : numbers) open_meshes_.add({bounder_.least_time(number), number, true});
  }

  // Closer bounds take the place of the least, of as many at a time as are measured together.
  void bound_first_closer() {
    std::vector<OpenRecipe> taken{open_.take_first()};
    const bool by_traffic = bounder_.needs_traffic(taken.front());
    const Nanoseconds least =
        open_meshes_.empty() ? std::numeric_limits<Nanoseconds>::max() : open_meshes_.front().bound;
    const std::size_t most = by_traffic ? traffic_at_a_time() : 1;
    while (taken.size() < most && !open_.empty()) {
      const OpenRecipe& next = open_.front();
      if (next.known > OpenRecipe::Known::OfSteps || !bounder_.needs_traffic(next) || next.bound >= least ||
          !may_be_best(next.bound))
        break;
      taken.push_back(open_.take_first());
    }
    try {
      bound_closer(taken);
    } catch (const OutOfTime&) {
      for (const OpenRecipe& c : taken) open_.add(c);
      throw;
    }
    for (const OpenRecipe& c : taken) open_.add(c);
  }

  // What is measured before the next look at the bounds.
  [[nodiscard]] std::size_t traffic_at_a_time() const {
    constexpr std::size_t kDevices = 16'384;
    return std::clamp(kDevices / request_.costs.topology().num_devices(), std::size_t{1}, kMeshesAtATime);
  }

  void add_simulation(const OpenRecipe& c, std::vector<Simulation>& to) {
    Simulation made{c, {bounder_.recipe_of(c), bounder_.bound_of(c), {}, {}, {}}, nullptr, {}, false, {}};
    try {
      made.sized = bounder_.sized(c);
    } catch (const InputError&) {  // its tensors would be too large
      ++ranking_.not_possible;
      return;
    } catch (const OutOfTime&) {
      put_back(c);
      throw;
    }
    if (c.known == OpenRecipe::Known::OfFew)
      made.limit = best_ != nullptr ? best_->evaluation.time : std::numeric_limits<Nanoseconds>::max();
    made.verdict = RecipeScorer::Verdict::Open;
    to.push_back(std::move(made));
  }

  // At the same time. Without an answer for lack of time they stay among the open ones.
  void simulate(std::vector<Simulation>& all) {
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (is_own(number)) numbers.push_back(number);
    }
    try {
      threads_.run(numbers, [&](std::size_t number, std::size_t worker) {
        Simulation& s = all[number];
        const std::int64_t microbatches = space_.microbatches(space_.meshes()[s.candidate.mesh]);
        RecipeScorer& scorer = scorers_[worker];
        const std::int64_t passes =
            passes_to_simulate(s.sized->graph, s.rated.recipe, microbatches, !s.limit);
        const SimulationMemory::Room room(memory_, passes);
        const double left = seconds_left();
        s.verdict = scorer.score(s.rated, s.sized, microbatches, s.limit);
        if (s.verdict == RecipeScorer::Verdict::Open && seconds_left() < left)
          s.seconds =
              (left - seconds_left()) * static_cast<double>(microbatches) / static_cast<double>(scorer.few());
        memory_.learn(passes, scorer.bytes());
        // The next large one may be another thread's.
        if (threads_.count() > 1 && SimulationMemory::is_much(scorer.bytes())) scorer.forget();
        s.done = true;
      });
    } catch (const OutOfTime&) {
      for (Simulation& s : all) {
        if (s.done) {
          conclude(s);
        } else {
          put_back(s.candidate);
        }
      }
      throw;
    }
    if (request_.peers != nullptr) share(all);
    for (Simulation& s : all) conclude(s);
  }

  // Processes take turns.
  [[nodiscard]] bool is_own(std::size_t number) const {
    return request_.peers == nullptr || number % static_cast<std::size_t>(request_.peers->count()) ==
                                            static_cast<std::size_t>(request_.peers->rank());
  }
  // What the others have simulated.
  void share(std::vector<Simulation>& all) {
    std::ostringstream own;
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (is_own(number)) write_verdict(own << number << ' ', all[number].verdict, all[number].rated);
    }
    for (const std::string& text : request_.peers->gather(own.str())) {
      std::istringstream lines(text);
      for (std::size_t number = 0; lines >> number;)
        all.at(number).verdict = read_verdict(lines, all.at(number).rated);
    }
  }

  void conclude(Simulation& s) {
    if (searches_likely_) learn(s);
    if (s.verdict == RecipeScorer::Verdict::Open) {
      s.candidate.known = OpenRecipe::Known::OfFew;
      s.candidate.bound = s.rated.bound.time;
      s.candidate.memory = static_cast<float>(s.rated.share);
      if (searches_likely_ && s.candidate.memory <= 1) {
        begun_.push_back({s.candidate, s.rated.evaluation.time, s.seconds});
      } else {
        put_back(s.candidate);
      }
    }
    if (s.verdict == RecipeScorer::Verdict::TooLarge) unsimulated_.push_back(s.candidate);
    if (s.verdict == RecipeScorer::Verdict::NotPossible) ++ranking_.not_possible;
    if (s.verdict == RecipeScorer::Verdict::TooSlow) ++ranking_.too_slow;
    if (s.verdict != RecipeScorer::Verdict::Rated) return;
    const bool better = s.rated.evaluation.feasible() &&
                        (best_ == nullptr || s.rated.evaluation.time < best_->evaluation.time);
    best_number_ = better ? ranking_.rated.size() : best_number_;
    ranking_.rated.push_back(std::move(s.rated));
    if (best_ != nullptr || better) best_ = &ranking_.rated[best_number_];
  }

  // From the times of all microbatches, or what few of them let expect.
  void learn(const Simulation& s) {
    if (s.verdict == RecipeScorer::Verdict::TooSlow && s.limit) order_.learn_time(s.candidate, *s.limit);
    if (s.verdict != RecipeScorer::Verdict::Rated && s.verdict != RecipeScorer::Verdict::Open) return;
    order_.learn_time(s.candidate, s.rated.evaluation.time);
    order_.learn_memory(s.candidate, share_of(s.rated.bound.memory, bounder_.usable_of(s.candidate)),
                        s.rated.share);
    if (s.verdict != RecipeScorer::Verdict::Open) return;
    OpenRecipe after = s.candidate;
    after.known = OpenRecipe::Known::OfFew, after.bound = s.rated.bound.time;
    order_.learn_time(after, s.rated.evaluation.time);
  }

  // What might still be better.
  void note_left() {
    const bool all_bounded = ranking_.bounded == ranking_.recipes;
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    ranking_.left = ranking_.recipes - ranking_.bounded;
    const auto note = [&](Nanoseconds bound, std::int64_t recipes) {
      if (!may_be_best(bound)) return;
      ranking_.left += recipes;
      least = std::min(least, bound);
    };
    for (const OpenMesh& mesh : open_meshes_) note(mesh.bound, space_.size_of(mesh.number));
    for (const OpenRecipe& c : open_) note(c.bound, 1);
    const std::int64_t open = ranking_.left;
    for (const OpenRecipe& c : unsimulated_) note(c.bound, 1);
    ranking_.too_large_to_simulate = ranking_.left - open;
    ranking_.least_left = all_bounded && ranking_.left > 0 ? least : 0;
  }

  static constexpr std::size_t kExpectedSimulations = 256, kMostAtATime = 4, kMeshesAtATime = 16,
                               kMeshesOfAModel = 16, kMeshesATurn = 16, kMeshesAStep = 6, kMostLater = 256;
  static constexpr double kShareOfBegun = 0.4;
  const RankingRequest& request_;
  const std::function<bool(const RankingProgress&)>& go_on_;
  RecipeSpace space_;
  WorkerThreads threads_;
  RecipeBounder bounder_;
  std::vector<RecipeScorer> scorers_;  // by thread; refer to these
  SimulationMemory memory_;
  EstimateOrder order_;  // while those that are likely are searched
  bool searches_likely_ = false;
  double likely_ = 1;           // so many times the best, estimates are of interest
  std::vector<Begun> begun_;    // those likely to fit that are not simulated in full yet
  double left_for_begun_ = -1;  // seconds: with less time left they are simulated before all else
  std::optional<MeshWalk> walk_;
  std::size_t walked_at_once_ = 1;  // times as many meshes as where simulations are short
  bool walked_large_ = false;       // usual meshes with large microbatches
  std::vector<bool> explored_;      // by mesh: its recipes, or all of them together, are bounded
  std::set<std::uint32_t> walked_;  // of which all neighbours are explored
  std::vector<std::pair<double, std::uint32_t>> without_fit_;  // meshes, by time and by what they lack
  double least_share_ = 0;                                     // of memory, of recipes that were bounded last
  OpenBounds<OpenMesh> open_meshes_;
  OpenBounds<OpenRecipe> open_;
  std::vector<OpenRecipe> unsimulated_;  // their task graphs are too large for this machine
  RecipeRanking ranking_;
  const RatedRecipe* best_ = nullptr;
  std::size_t best_number_ = 0;
  bool ended_ = true;  // not by time or request
};

}  // namespace

RecipeRanking rank_recipes(const RankingRequest& request,
                           const std::function<bool(const RankingProgress&)>& go_on) {
  try {
    return RecipeRanker(request, go_on).rank();
  } catch (const OutOfTime&) {  // before they were counted
    RecipeRanking none;
    none.left = 1;
    return none;
  }
}

}  // namespace pipesim
