#include "search/intra/tree_moves.h"

#include <algorithm>
#include <cmath>

#include "search/intra/min_plus.h"
#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr std::uint32_t kOutside = ~std::uint32_t{0};

}  // namespace

TreeMoves::TreeMoves(const IntraCore& core, Rng rng)
    : core_(core),
      rng_(rng),
      changes_(core.rows() + 1, 0),
      member_of_(core.nodes.size(), kOutside),
      degree_in_(core.nodes.size(), 0) {}

void TreeMoves::set(const std::vector<std::uint32_t>& choice) {
  choice_ = proposed_ = choice;
  cost_ = core_.cost(choice);
  used_.assign(core_.rows(), 0);
  for (std::uint32_t i = 0; i < choice.size(); ++i) core_.add_usage(i, choice[i], 1, used_);
  excess_ = 0;
  rows_over_ = 0;
  for (std::size_t r = 0; r < used_.size(); ++r) {
    excess_ += share(r, used_[r]);
    rows_over_ += used_[r] > core_.capacity[r] ? 1 : 0;
  }
  best_ = choice_;
  best_cost_ = cost_;
  best_excess_ = excess_;
}

void TreeMoves::run(std::uint64_t work, double temperature, double tolerance) {
  const std::uint64_t until = work_ + work;
  while (work_ < until && !is_late()) try_move(temperature, tolerance);
}

void TreeMoves::visit(std::uint32_t node, const IntraCore::Side* parent, std::uint32_t parent_node) {
  member_of_[node] = static_cast<std::uint32_t>(members_.size());
  members_.push_back({node, parent, parent_node, 0});
  for (const IntraCore::Side& side : core_.nodes[node].sides) {
    ++degree_in_[side.other];
    if (member_of_[side.other] == kOutside) frontier_.emplace_back(node, &side);
  }
  work_ += core_.nodes[node].sides.size();
}

// From a random node to neighbours that touch the forest once.
void TreeMoves::grow(std::size_t size) {
  for (const Member& member : members_) {
    member_of_[member.node] = kOutside;
    for (const IntraCore::Side& side : core_.nodes[member.node].sides) degree_in_[side.other] = 0;
  }
  members_.clear();
  frontier_.clear();
  while (members_.size() < size) {
    if (frontier_.empty()) {
      // A second tree where the first can't grow: only if it does not touch it.
      const auto node = static_cast<std::uint32_t>(rng_.below(core_.nodes.size()));
      if (member_of_[node] != kOutside || degree_in_[node] != 0) {
        if (!members_.empty()) return;
        continue;
      }
      visit(node, nullptr, node);
      continue;
    }
    const std::size_t at = rng_.below(frontier_.size());
    const auto [from, side] = frontier_[at];
    frontier_[at] = frontier_.back();
    frontier_.pop_back();
    if (member_of_[side->other] == kOutside && degree_in_[side->other] == 1) visit(side->other, side, from);
  }
}

void TreeMoves::solve(const RowPrices& prices, double temperature) {
  unary_.clear();
  for (Member& member : members_) {
    const IntraCore::Node& node = core_.nodes[member.node];
    member.first = unary_.size();
    unary_.insert(unary_.end(), core_.costs.begin() + static_cast<std::ptrdiff_t>(node.first),
                  core_.costs.begin() + static_cast<std::ptrdiff_t>(node.first + node.size));
    double* unary = unary_.data() + member.first;
    for (const IntraCore::Part& part : node.parts) {
      const double price = prices.between(part.begin, part.end);
      if (price == 0) continue;
      for (std::size_t x = 0; x < node.size; ++x) unary[x] += price * part.usage[x];
    }
    if (temperature > 0) {
      // The minimum under such noise is a sample of the Boltzmann distribution, for one node.
      for (std::size_t x = 0; x < node.size; ++x)
        unary[x] += temperature * std::log(-std::log(rng_.uniform() * 0.999999 + 5e-7));
    }
    for (const IntraCore::Side& side : node.sides) {
      if (member_of_[side.other] != kOutside) continue;
      const double* row = core_.tables.data() + side.table + choice_[side.other] * node.size;
      for (std::size_t x = 0; x < node.size; ++x) unary[x] += row[x];
    }
    work_ += node.size * (node.sides.size() + node.parts.size() + 1);
  }
  for (std::size_t m = members_.size(); m-- > 0;) {
    const Member& member = members_[m];
    if (member.parent == nullptr) continue;
    const std::size_t own = core_.nodes[member.parent_node].size, others = core_.nodes[member.node].size;
    double* to = unary_.data() + members_[member_of_[member.parent_node]].first;
    const double* from = unary_.data() + member.first;
    add_min_plus(core_.tables.data() + member.parent->table, from, others, own, to);
    work_ += own * others;
  }
  for (const Member& member : members_) {
    const IntraCore::Node& node = core_.nodes[member.node];
    const double* unary = unary_.data() + member.first;
    std::size_t best = 0;
    double least = kNever;
    const double* table = nullptr;
    std::size_t stride = 0;
    if (member.parent != nullptr) {
      stride = core_.nodes[member.parent_node].size;
      table = core_.tables.data() + member.parent->table + proposed_[member.parent_node];
    }
    for (std::size_t x = 0; x < node.size; ++x) {
      const double cost = unary[x] + (table == nullptr ? 0 : table[x * stride]);
      if (cost < least) least = cost, best = x;
    }
    proposed_[member.node] = static_cast<std::uint32_t>(best);
  }
}

// Leaves the changes of usage, row by row, in changes_ of the rows between the first and the last part.
TreeMoves::Outcome TreeMoves::outcome() {
  Outcome found{cost_, excess_, 0, rows_over_, 0};
  std::uint32_t begin = static_cast<std::uint32_t>(core_.rows()), end = 0;
  for (const Member& member : members_) {
    const std::uint32_t i = member.node, now = proposed_[i], before = choice_[i];
    if (now == before) continue;
    const IntraCore::Node& node = core_.nodes[i];
    found.cost += core_.costs[node.first + now] - core_.costs[node.first + before];
    for (const IntraCore::Side& side : node.sides) {
      // An edge between two that change counts once.
      const bool both = proposed_[side.other] != choice_[side.other];
      if (both && !side.first) continue;
      found.cost += core_.tables[side.table + proposed_[side.other] * node.size + now] -
                    core_.tables[side.table + choice_[side.other] * node.size + before];
    }
    for (const IntraCore::Part& part : node.parts) {
      const double change = part.usage[now] - part.usage[before];
      if (change == 0) continue;
      changes_[part.begin] += change;
      changes_[part.end] -= change;
      begin = std::min(begin, part.begin);
      end = std::max(end, part.end);
    }
  }
  double change = 0;
  for (std::uint32_t r = begin; r < end; ++r) {
    change += changes_[r];
    changes_[r] = 0;
    if (change == 0) continue;
    const double now = used_[r] + change;
    const double over = now - core_.capacity[r];
    const bool was_over = used_[r] > core_.capacity[r];
    found.rows_over += (over > 0 ? 1 : 0) - (was_over ? 1 : 0);
    if (over > 0 || was_over) {
      const double more = share(r, now);
      found.excess += more - share(r, used_[r]);
      if (more > found.worst) found.worst = more, found.worst_row = r;
    }
  }
  if (begin < end) changes_[end] = 0, work_ += end - begin;
  constexpr double kLeastExcess = 1e-15;  // of a row of 2^53 by 1
  found.excess = found.rows_over == 0 ? 0 : std::max(found.excess, kLeastExcess);
  return found;
}

void TreeMoves::accept(const Outcome& outcome) {
  for (const Member& member : members_) {
    const std::uint32_t i = member.node;
    if (proposed_[i] == choice_[i]) continue;
    core_.add_usage(i, choice_[i], -1, used_);
    core_.add_usage(i, proposed_[i], 1, used_);
    choice_[i] = proposed_[i];
  }
  cost_ = outcome.cost;
  excess_ = outcome.excess;
  rows_over_ = outcome.rows_over;
  if (std::pair(excess_, cost_) < std::pair(best_excess_, best_cost_)) {
    best_ = choice_;
    best_cost_ = cost_;
    best_excess_ = excess_;
  }
}

void TreeMoves::try_move(double temperature, double tolerance) {
  // Sizes from a few nodes to all, each order of magnitude as often.
  const double most = std::log(static_cast<double>(core_.nodes.size()) + 1);
  grow(1 + static_cast<std::size_t>(std::exp(rng_.uniform() * most)));
  RowPrices prices = prices_;
  constexpr int kTries = 4;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    solve(prices, temperature);
    const Outcome found = outcome();
    const bool less_excess = found.excess < excess_;
    const bool as_good = found.excess == excess_ && found.cost <= std::max(best_cost_ + tolerance, cost_);
    if (less_excess || as_good) {
      accept(found);
      return;
    }
    if (found.excess == 0) break;  // it is dearer
    // The row gets so dear that what was gained is lost, or a part of the cost where nothing was gained.
    const double over = found.worst * (core_.capacity[found.worst_row] + 1);
    const double gain = std::max(cost_ - found.cost, std::abs(cost_) * 1e-4 * rng_.uniform());
    prices.add(found.worst_row, (0.5 + rng_.uniform()) * gain / std::max(over, 1e-9));
  }
  for (const Member& member : members_) proposed_[member.node] = choice_[member.node];
}

}  // namespace pipesim
