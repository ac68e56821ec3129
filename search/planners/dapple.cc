#include "search/planners/dapple.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>

#include "search/pipelines/cuts.h"
#include "sim/base/deadline.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

// Bytes a second, as the published planner has them.
constexpr double kAcrossServers = 3e9, kIntoOneServer = 1e9, kInsideServer = 25e9;
constexpr std::size_t kMostPlacements = 64;  // of a stage, see dapple()

// What two cuts of the layers have between them, for the whole batch on one device.
class DappleLayers {
 public:
  explicit DappleLayers(const DappleProblem& problem) : time_(1, 0.0), parameters_(1, 0.0) {
    const LayerGraph& layers = *problem.layers;
    const auto n = static_cast<std::int32_t>(layers.size());
    const double share = static_cast<double>(problem.batch) / static_cast<double>(problem.layers_batch);
    for (std::int32_t i = 0; i < n; ++i) {
      const Layer& layer = layers[i];
      time_.push_back(time_.back() + (layer.forward + layer.backward).value * share);
      parameters_.push_back(parameters_.back() + static_cast<double>(layer.parameters.value));
    }
    crossing_.push_back(0);
    for (const Cut& cut : cuts_of_order(layers))
      crossing_.push_back(static_cast<double>(cut.augmented.value) * share);
  }

  [[nodiscard]] std::size_t size() const { return time_.size() - 1; }
  [[nodiscard]] double time(std::size_t from, std::size_t to) const { return time_[to] - time_[from]; }
  [[nodiscard]] double all() const { return time_.back(); }
  // With the published fault: one layer more.
  [[nodiscard]] double parameters(std::size_t from, std::size_t to) const {
    return parameters_[std::min(to + 1, size())] - parameters_[from];
  }
  [[nodiscard]] double crossing(std::size_t cut) const { return crossing_[cut]; }

 private:
  std::vector<double> time_, parameters_;  // of the first so many layers
  std::vector<double> crossing_;           // by number of layers before the cut: see Cut::augmented
};

using Counts = std::vector<std::int32_t>;  // by server

double transfer_time(double bytes, const Counts& from, const Counts& to) {
  std::int64_t servers = 0, senders = 0, outside = 0;
  for (std::size_t s = 0; s < to.size(); ++s) {
    servers += to[s] > 0 ? 1 : 0;
    senders += from[s];
    outside += to[s] > 0 ? 0 : from[s];
  }
  if (servers > 1) return bytes / kAcrossServers;
  if (outside == 0) return bytes / kInsideServer;
  return bytes * (static_cast<double>(outside) / static_cast<double>(senders)) / kIntoOneServer;
}

double reduction_time(double bytes, const Counts& on) {
  std::int64_t servers = 0, replicas = 0;
  for (const std::int32_t count : on) {
    servers += count > 0 ? 1 : 0;
    replicas += count;
  }
  const auto n = static_cast<double>(replicas);
  const double moved = 2 * bytes * (n - 1) / n;
  if (servers > 1) return moved / kAcrossServers;
  return moved / kInsideServer / static_cast<double>(std::max<std::int64_t>(1, replicas / 2));
}

// A server: its devices, those in use, and those of the stage before.
struct ServerUse {
  std::int32_t capacity = 0, used = 0, before = 0;
  auto operator<=>(const ServerUse&) const = default;
};

// Sorted, since it does not matter which of two servers is which.
using Occupation = std::vector<ServerUse>;

class DapplePlanner {
 public:
  DapplePlanner(const DappleProblem& problem, const DappleSearch& search)
      : layers_(problem),
        search_(search),
        traffic_(problem.traffic),
        copies_(static_cast<std::int32_t>(search.copies)),
        microbatch_(problem.microbatch),
        microbatches_(static_cast<double>(problem.microbatches(search.copies))),
        constant_(layers_.all() / (static_cast<double>(search.copies) * microbatches_)),
        best_(search.below.value) {
    for (const std::int32_t server : problem.server_of) {
      if (static_cast<std::size_t>(server) >= servers_.size())
        servers_.resize(static_cast<std::size_t>(server) + 1);
      ++servers_[static_cast<std::size_t>(server)].capacity;
    }
    std::ranges::sort(servers_);
    devices_ = static_cast<std::int32_t>(problem.server_of.size());
  }

  // Where a stage ends, and its devices.
  struct Part {
    std::size_t end = 0;
    Counts on;  // by server in the order of the occupation before
  };
  struct Found {
    double latency = 0;
    std::vector<Part> parts;
  };
  // See dapple().
  std::vector<Found> solve() {
    number_of(servers_);
    std::vector<Front> now(1);
    now[0][0].push_back({});
    std::vector<Found> all;
    const auto most =
        std::min({search_.most_stages, devices_ / copies_, static_cast<std::int32_t>(layers_.size())});
    for (std::int32_t s = 0; s < most; ++s) {
      found_.reset();
      if (search_.of_each_number) best_ = search_.below.value;
      now = expand(s, now, s + 1 < most);
      if (found_) all.push_back(*std::move(found_));
    }
    return all;
  }
  [[nodiscard]] bool gave_up() const { return search_.most_steps > 0 && steps_ >= search_.most_steps; }

 private:
  // Stages up to a cut. `reductions`: by stage, the longest reduction of it and of those before it.
  struct Label {
    double block = 0, transfers = 0, bound = 0;
    std::vector<double> reductions;
    std::vector<Part> parts;
  };
  using Labels = std::vector<Label>;
  using Front = std::map<std::size_t, Labels>;  // by number of an occupation; one for each cut

  std::size_t number_of(const Occupation& occupation) {
    const auto [found, is_new] = numbers_.emplace(occupation, occupations_.size());
    if (is_new) occupations_.push_back(occupation);
    return found->second;
  }

  // Adds one more stage to all beginnings. Where it is the last one, found_ is the best pipeline then.
  std::vector<Front> expand(std::int32_t stage, const std::vector<Front>& now, bool more) {
    std::vector<Front> next(layers_.size() + 1);
    for (std::size_t from = 0; from < now.size(); ++from) {
      for (const auto& [number, labels] : now[from]) {
        std::int32_t rest = devices_;
        for (const ServerUse& server : occupations_[number]) rest -= server.used;
        for (std::int32_t replicas = more ? copies_ : rest; replicas <= rest; replicas += copies_) {
          if (search_.dividing && microbatch_ % (replicas / copies_) != 0) continue;
          if (gave_up()) return next;
          for (const Counts& on : placements(occupations_[number], replicas))
            extend(stage, from, number, labels, on, rest - replicas, next);
        }
      }
    }
    return next;
  }

  // All ends of a stage on these devices, with `rest` left for those behind.
  void extend(std::int32_t stage, std::size_t from, std::size_t number, const Labels& labels,
              const Counts& on, std::int32_t rest, std::vector<Front>& next) {
    if (is_large()) ++steps_;  // even where no label is kept
    Occupation after = occupations_[number];
    Counts before;
    double replicas = 0;
    for (std::size_t s = 0; s < on.size(); ++s) {
      before.push_back(after[s].before);
      after[s] = {after[s].capacity, after[s].used + on[s], on[s]};
      replicas += on[s];
    }
    std::ranges::sort(after);
    const bool last = rest == 0;
    const double whole_transfer = stage == 0 ? 0 : transfer_time(layers_.crossing(from), before, on);
    const double transfer = whole_transfer / static_cast<double>(copies_) / microbatches_;
    // What is not the last stage belongs to a pipeline of more than two.
    const int factor = dapple_activation_factor(static_cast<std::size_t>(stage) + (last ? 1 : 2));
    const double in_block = search_.computing_alone ? 0 : whole_transfer * factor;
    const std::size_t next_number = number_of(after);
    for (const Label& label : labels) {
      stop_if_late();
      if (gave_up()) return;
      if (label.bound >= limit(last)) continue;  // a better pipeline was found since
      const double transfers = label.transfers + transfer;
      for (std::size_t to = last ? layers_.size() : from + 1; to < layers_.size() + (last ? 1 : 0); ++to) {
        const double reduction = replicas > 1 ? reduction_time(layers_.parameters(from, to), on) : 0;
        const double block = std::max({label.block, layers_.time(from, to) / replicas, in_block,
                                       microbatches_ * traffic_.each * reduction});
        if (with_block(block) + transfers >= limit(last)) break;
        ++steps_;
        Label longer{block, transfers, 0, label.reductions, label.parts};
        const double largest = stage == 0 ? 0 : label.reductions.back();
        longer.reductions.push_back(std::max(largest, traffic_.once * reduction));
        const double least_block = last ? block : std::max(block, layers_.time(to, layers_.size()) / rest);
        longer.bound = last ? latency_of(longer) : bound(longer, least_block);
        if (longer.bound >= limit(last)) continue;
        longer.parts.push_back({to, on});
        if (last) {
          best_ = longer.bound;
          found_ = Found{best_, std::move(longer.parts)};
        } else {
          keep(std::move(longer), next[to][next_number]);
        }
      }
    }
  }

  // What a pipeline must beat to count, or its beginning to be worth going on with.
  [[nodiscard]] double limit(bool last) const {
    return last || !search_.of_each_number ? best_ : search_.below.value;
  }
  [[nodiscard]] double with_block(double block) const {
    return block * (microbatches_ - 1) / microbatches_ + constant_;
  }
  [[nodiscard]] double hidden(std::size_t stage, double block) const {
    return static_cast<double>(stage) * block / microbatches_;
  }
  [[nodiscard]] double latency_of(const Label& label) const {
    double waiting = 0;
    for (std::size_t s = 0; s < label.reductions.size(); ++s)
      waiting = std::max(waiting, label.reductions[s] - hidden(s, label.block));
    return with_block(label.block) + label.transfers + waiting;
  }
  // No longer block makes up for what it hides of the reductions of stages before the microbatches' number.
  [[nodiscard]] double bound(const Label& label, double block) const {
    double waiting = 0;
    for (std::size_t s = 0; s < label.reductions.size() && static_cast<double>(s) < microbatches_; ++s)
      waiting = std::max(waiting, label.reductions[s] - hidden(s, block));
    return with_block(block) + label.transfers + waiting;
  }

  static bool is_no_worse(const Label& a, const Label& b) {
    return a.block <= b.block && a.transfers <= b.transfers &&
           std::ranges::equal(a.reductions, b.reductions, std::less_equal<>());
  }
  void keep(Label label, Labels& labels) const {
    if (std::ranges::any_of(labels, [&](const Label& l) { return is_no_worse(l, label); })) return;
    std::erase_if(labels, [&](const Label& l) { return is_no_worse(label, l); });
    labels.push_back(std::move(label));
    if (search_.most_kept > 0 && labels.size() > search_.most_kept)
      labels.erase(std::ranges::max_element(labels, {}, &Label::bound));
  }

  // Every way to spread replicas over servers, of alike servers in one order only; nothing when there are
  // more than kMostPlacements.
  static std::vector<Counts> all_placements(const Occupation& servers, std::int32_t replicas) {
    std::vector<Counts> found;
    Counts counts(servers.size(), 0);
    std::vector<std::int32_t> free(servers.size() + 1, 0);  // on the servers from this one on
    for (std::size_t s = servers.size(); s-- > 0;)
      free[s] = free[s + 1] + servers[s].capacity - servers[s].used;
    const std::function<void(std::size_t, std::int32_t)> spread = [&](std::size_t s, std::int32_t left) {
      if (found.size() > kMostPlacements || left > free[s]) return;
      if (s == servers.size()) {
        found.push_back(counts);
        return;
      }
      std::int32_t most = std::min(left, servers[s].capacity - servers[s].used);
      if (s > 0 && servers[s] == servers[s - 1]) most = std::min(most, counts[s - 1]);
      for (std::int32_t count = most; count >= 0; --count) {
        counts[s] = count;
        spread(s + 1, left - count);
      }
    };
    spread(0, replicas);
    if (found.size() > kMostPlacements) found.clear();
    return found;
  }

  // With so many units of devices all placements take minutes.
  [[nodiscard]] bool is_large() const {
    constexpr std::int32_t kMany = 32;
    return search_.most_kept > 0 && devices_ / copies_ > kMany;
  }
  [[nodiscard]] std::vector<Counts> placements(const Occupation& servers, std::int32_t replicas) const {
    if (is_large()) return published_placements(servers, replicas);
    std::vector<Counts> all = all_placements(servers, replicas);
    return all.empty() ? published_placements(servers, replicas) : all;
  }

  // The three placements of the published planner, each once.
  static std::vector<Counts> published_placements(const Occupation& servers, std::int32_t replicas) {
    std::vector<std::size_t> fresh, partly;
    for (std::size_t s = 0; s < servers.size(); ++s) {
      if (servers[s].used == 0) fresh.push_back(s);
      if (servers[s].used > 0 && servers[s].used < servers[s].capacity) partly.push_back(s);
    }
    std::vector<Counts> found;
    const auto add = [&](Counts counts) {
      if (std::ranges::find(found, counts) == found.end()) found.push_back(std::move(counts));
    };
    add(filled({fresh, partly}, servers, replicas));
    add(filled({partly, fresh}, servers, replicas));
    add(scattered({partly, fresh}, servers, replicas));
    return found;
  }

  using ServerGroups = std::array<std::vector<std::size_t>, 2>;  // first ones first

  static Counts filled(const ServerGroups& groups, const Occupation& servers, std::int32_t replicas) {
    Counts counts(servers.size(), 0);
    for (const auto& group : groups) {
      for (const std::size_t s : group) {
        counts[s] = std::min(replicas, servers[s].capacity - servers[s].used);
        replicas -= counts[s];
      }
    }
    return counts;
  }

  static Counts scattered(const ServerGroups& groups, const Occupation& servers, std::int32_t replicas) {
    Counts counts(servers.size(), 0);
    for (const auto& group : groups) {
      for (bool any = true; any && replicas > 0;) {
        any = false;
        for (const std::size_t s : group) {
          if (replicas == 0 || servers[s].used + counts[s] == servers[s].capacity) continue;
          ++counts[s];
          --replicas;
          any = true;
        }
      }
    }
    return counts;
  }

  DappleLayers layers_;
  DappleSearch search_;
  ShardingTraffic traffic_;
  std::int32_t copies_, devices_ = 0;
  std::int64_t microbatch_;
  double microbatches_, constant_;
  Occupation servers_;
  std::map<Occupation, std::size_t> numbers_;
  std::vector<Occupation> occupations_;
  double best_;
  std::int64_t steps_ = 0;
  std::optional<Found> found_;
};

// Returns the stages with their devices on the servers of the problem.
std::vector<DappleStage> stages_of(const DappleProblem& problem,
                                   const std::vector<DapplePlanner::Part>& parts) {
  struct Named {
    ServerUse use;
    std::vector<DeviceId> free;
  };
  std::vector<Named> servers;
  for (std::size_t d = 0; d < problem.server_of.size(); ++d) {
    const auto server = static_cast<std::size_t>(problem.server_of[d]);
    if (server >= servers.size()) servers.resize(server + 1);
    ++servers[server].use.capacity;
    servers[server].free.emplace_back(d);
  }
  std::vector<DappleStage> stages;
  std::int32_t first = 0;
  for (const DapplePlanner::Part& part : parts) {
    std::ranges::stable_sort(servers, {}, &Named::use);
    stages.push_back({first, static_cast<std::int32_t>(part.end) - 1, {}});
    for (std::size_t s = 0; s < servers.size(); ++s) {
      Named& server = servers[s];
      const std::int32_t count = part.on[s];
      stages.back().devices.insert(stages.back().devices.end(), server.free.begin(),
                                   server.free.begin() + count);
      server.free.erase(server.free.begin(), server.free.begin() + count);
      server.use = {server.use.capacity, server.use.used + count, count};
    }
    std::ranges::sort(stages.back().devices);
    first = static_cast<std::int32_t>(part.end);
  }
  return stages;
}

void require_valid(const DappleProblem& problem, std::int64_t copies) {
  const bool sizes = problem.layers && problem.layers->size() > 0 && !problem.server_of.empty() &&
                     copies >= 1 && problem.microbatch >= 1 && problem.layers_batch >= 1;
  if (!sizes || problem.batch % (problem.microbatch * copies) != 0)
    throw InternalError("DAPPLE's planner needs layers, devices, and copies that divide the microbatches");
}

}  // namespace

Seconds time_on_one_device(const DappleProblem& problem) { return Seconds(DappleLayers(problem).all()); }

int dapple_activation_factor(std::size_t stages) { return stages == 2 ? 1 : 2; }

Seconds dapple_latency(const DappleProblem& problem, std::int64_t copies,
                       const std::vector<DappleStage>& stages) {
  require_valid(problem, copies);
  const DappleLayers layers(problem);
  const auto microbatches = static_cast<double>(problem.microbatches(copies));
  const auto passes = static_cast<double>(copies) * microbatches;
  std::vector<Counts> on;
  std::vector<double> reductions;
  double block = 0;
  for (const DappleStage& stage : stages) {
    on.emplace_back(static_cast<std::size_t>(*std::ranges::max_element(problem.server_of)) + 1, 0);
    for (const DeviceId d : stage.devices)
      ++on.back()[static_cast<std::size_t>(problem.server_of[d.index()])];
    block = std::max(
        block, layers.time(static_cast<std::size_t>(stage.first), static_cast<std::size_t>(stage.last) + 1) /
                   static_cast<double>(stage.devices.size()));
    const double bytes =
        layers.parameters(static_cast<std::size_t>(stage.first), static_cast<std::size_t>(stage.last) + 1);
    reductions.push_back(stage.devices.size() == 1 ? 0 : reduction_time(bytes, on.back()));
    block = std::max(block, microbatches * problem.traffic.each * reductions.back());
  }
  const int factor = dapple_activation_factor(stages.size());
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const double crossing = layers.crossing(static_cast<std::size_t>(stages[s].first));
    block = std::max(block, transfer_time(factor * crossing, on[s - 1], on[s]));
  }
  double latency = block * (microbatches - 1) / microbatches + layers.all() / passes, waiting = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto first = static_cast<std::size_t>(stages[s].first);
    if (s > 0) latency += transfer_time(layers.crossing(first) / passes, on[s - 1], on[s]);
    waiting = std::max(waiting,
                       problem.traffic.once * reductions[s] - static_cast<double>(s) * block / microbatches);
  }
  return Seconds(latency + waiting);
}

std::vector<DapplePlan> dapple(const DappleProblem& problem, const DappleSearch& search, bool* complete) {
  require_valid(problem, search.copies);
  if (static_cast<std::int64_t>(problem.server_of.size()) % search.copies != 0)
    throw InternalError("DAPPLE's planner needs copies that divide the devices");
  std::vector<DapplePlan> plans;
  DapplePlanner planner(problem, search);
  for (const DapplePlanner::Found& found : planner.solve())
    plans.push_back({Seconds(found.latency), search.copies, stages_of(problem, found.parts)});
  if (complete) *complete = !planner.gave_up();
  return plans;
}

}  // namespace pipesim
