#include "search/intra/prover.h"

#include <algorithm>
#include <cmath>

#include "search/intra/reductions.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr std::size_t kRoundsAtATime = 20;
constexpr std::size_t kChunksAPart = 100;  // then branch, even if the bound still rises

std::size_t strategies_of(const IntraModel& model) {
  std::size_t sum = 0;
  for (const IntraModel::Node& node : model.nodes) sum += node.left ? node.cost.size() : 0;
  return sum;
}

}  // namespace

Prover::Prover(const IntraModel& model) : num_nodes_(model.nodes.size()) {
  open_.push_back({model, model.constant, {}, 0});
  open_.back().model.share_vanished();
}

std::size_t Prover::strategies_left() const { return current_ ? strategies_of(current_->part.model) : 0; }

double Prover::bound() const {
  double least = kNever;
  for (const Open& part : open_) least = std::min(least, part.bound);
  if (current_) least = std::min(least, current_->part.bound);
  return least;
}

void Prover::run(std::uint64_t work, double aim) {
  rounded_.clear();
  const std::uint64_t until = work_ + work;
  while (work_ < until && !is_late()) {
    if (!current_) take_next(aim);
    if (!current_) return;
    ascend(aim);
    if (hopeless(current_->part.bound, aim)) {
      current_.reset();
      continue;
    }
    if (shrink(aim)) continue;
    if (current_->ascent->stalled() || current_->chunks >= kChunksAPart) branch(aim);
  }
}

void Prover::take_next(double aim) {
  std::erase_if(open_, [&](const Open& part) { return hopeless(part.bound, aim); });
  if (open_.empty()) return;
  auto next = std::ranges::min_element(open_, {}, &Open::bound);
  constexpr std::size_t kMostOpen = 200;
  if (open_.size() > kMostOpen) next = std::ranges::max_element(open_, {}, &Open::depth);
  current_ = std::make_unique<Current>();
  current_->part = std::move(*next);
  open_.erase(next);
  ++parts_;
  prepare(*current_);
}

void Prover::prepare(Current& current) const {
  current.core = std::make_shared<IntraCore>(current.part.model);
  current.ascent = std::make_unique<DualAscent>(*current.core);
  std::vector<double> multipliers(current.core->rows(), 0);
  for (std::size_t r = 0; r < multipliers.size(); ++r) {
    const auto known = current.part.multipliers.find(current.core->time[r]);
    if (known != current.part.multipliers.end()) multipliers[r] = known->second;
  }
  const Open& part = current.part;
  current.ascent->start(multipliers, part.core ? current.core->messages_from(*part.core, part.messages)
                                               : std::vector<double>(current.core->messages, 0));
  current.part.core = nullptr;
  current.part.messages = {};
  current.weights.assign(current.core->costs.size(), 0);
  current.chunks = 0;
}

void Prover::ascend(double aim) {
  Current& now = *current_;
  const double aim_here = aim < kNever ? aim - now.core->constant : aim;
  now.ascent->run(kRoundsAtATime, aim_here);
  work_ += 2 * kRoundsAtATime * (2 * now.core->cells + now.core->costs.size() + now.core->rows());
  ++now.chunks;
  MessagePassing& messages = now.ascent->messages();
  constexpr double kNewest = 0.2;
  for (std::size_t s = 0; s < now.weights.size(); ++s)
    now.weights[s] += kNewest * (messages.weights()[s] - now.weights[s]);
  const double bound = now.ascent->bound();
  now.part.bound = std::max(now.part.bound, bound - messages.rounding(bound) + now.core->constant);
  now.part.multipliers.clear();
  const std::vector<double>& multipliers = now.ascent->best_multipliers();
  for (std::size_t r = 0; r < multipliers.size(); ++r) {
    if (multipliers[r] > 0) now.part.multipliers[now.core->time[r]] = multipliers[r];
  }
  if (now.part.depth == 0) first_multipliers_ = now.part.multipliers;
  note_rounded(now.part.depth > 0, aim);
}

// Answers of parts far from the root look alike: only those that are allowed, and better, are of use.
void Prover::note_rounded(bool only_good, double aim) {
  const IntraCore& core = *current_->core;
  std::vector<std::uint32_t> choice;
  current_->ascent->messages().round(choice);
  const double cost = core.cost(choice) + core.constant;
  if (!(cost < kNever)) return;
  std::vector<double> used(core.rows(), 0);
  for (std::uint32_t i = 0; i < choice.size(); ++i) core.add_usage(i, choice[i], 1, used);
  double excess = 0;
  for (std::size_t r = 0; r < used.size(); ++r)
    excess += std::max(0.0, used[r] - core.capacity[r]) / (core.capacity[r] + 1);
  if (only_good && (excess > 0 || cost >= aim)) return;
  RoundedAnswer rounded{IntraAnswer(num_nodes_, 0), cost, excess};
  core.put(choice, rounded.answer);
  current_->part.model.restore(rounded.answer);
  rounded_.push_back(std::move(rounded));
}

// Drops the strategies with which nothing cheaper than the aim is left. Whether these were enough to begin
// again with a smaller core.
bool Prover::shrink(double aim) {
  if (!(aim < kNever)) return false;
  Current& now = *current_;
  const double gap = aim - now.part.bound;
  // Only where the bound has come closer since.
  constexpr double kCloserBy = 0.9;
  if (now.bound_at_shrink > -kNever && gap > kCloserBy * (aim - now.bound_at_shrink)) return false;
  MessagePassing& messages = now.ascent->messages();
  now.ascent->go_back_to_best();
  messages.forward();
  const double before = messages.backward();
  messages.forward();
  const double least = aim - 1 + messages.rounding(before) - now.core->constant;
  std::vector<std::vector<bool>> kept(now.core->nodes.size());
  std::size_t dropped = 0;
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    for (std::uint32_t s = 0; s < now.core->nodes[i].size; ++s) {
      kept[i].push_back(!(before + messages.rise(i, s) > least));
      dropped += kept[i].back() ? 0 : 1;
    }
  }
  now.bound_at_shrink = now.part.bound;
  constexpr double kWorthwhile = 0.02;  // of all strategies
  if (static_cast<double>(dropped) < kWorthwhile * static_cast<double>(now.core->costs.size()) ||
      dropped == 0) {
    now.ascent->go_back_to_best();
    return false;
  }
  now.part.core = now.core;
  now.part.messages = now.ascent->best_messages();
  IntraModel& model = now.part.model;
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    if (std::ranges::count(kept[i], true) == 0)
      model.infeasible = true;
    else
      model.keep(now.core->nodes[i].number, kept[i]);
  }
  if (!model.infeasible) reduce(model);
  if (model.infeasible) {
    current_.reset();
    return true;
  }
  prepare(now);
  return true;
}

void Prover::branch(double aim) {
  Current& now = *current_;
  const IntraCore& core = *now.core;  // the parts keep it
  // Where the trees agree least.
  double most = -1;
  std::uint32_t node = 0;
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < core.nodes.size(); ++i) {
    const double* weights = now.weights.data() + core.nodes[i].first;
    const auto top =
        static_cast<std::size_t>(std::max_element(weights, weights + core.nodes[i].size) - weights);
    const double disagreement = 1 - weights[top];
    if (core.nodes[i].size > 1 && disagreement > most) most = disagreement, node = i, taken = top;
  }
  Open part = std::move(now.part);
  part.core = now.core;
  part.messages = now.ascent->best_messages();
  part.model.share_vanished();
  const std::uint32_t number = core.nodes.empty() ? 0 : core.nodes[node].number;
  const std::size_t size = core.nodes.empty() ? 0 : core.nodes[node].size;
  current_.reset();
  if (most < 0) return;
  for (const bool with : {true, false}) {
    Open child{part.model, part.bound, part.multipliers, part.depth + 1, part.core, part.messages};
    std::vector<bool> kept(size, !with);
    kept[taken] = with;
    child.model.keep(number, kept);
    reduce(child.model);
    if (!child.model.infeasible && !hopeless(child.bound, aim)) open_.push_back(std::move(child));
  }
}

}  // namespace pipesim
