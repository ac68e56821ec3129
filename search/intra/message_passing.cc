#include "search/intra/message_passing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/intra/min_plus.h"

namespace pipesim {
MessagePassing::MessagePassing(const IntraCore& core)
    : core_(core),
      multipliers_(core.rows(), 0),
      priced_(core.costs),
      messages_(core.messages, 0),
      reduced_(core.costs),
      share_(core.nodes.size(), 0),
      least_(core.nodes.size(), 0),
      weight_(core.costs.size(), 0) {}

void MessagePassing::set_multipliers(const std::vector<double>& multipliers) {
  multipliers_ = multipliers;
  std::vector<double> sums(multipliers.size() + 1, 0);
  paid_ = 0;
  for (std::size_t r = 0; r < multipliers.size(); ++r) {
    sums[r + 1] = sums[r] + multipliers[r];
    paid_ += multipliers[r] * core_.capacity[r];
  }
  priced_ = core_.costs;
  for (const IntraCore::Node& node : core_.nodes) {
    for (const IntraCore::Part& part : node.parts) {
      const double price = sums[part.end] - sums[part.begin];
      for (std::size_t x = 0; x < node.size; ++x) priced_[node.first + x] += price * part.usage[x];
    }
  }
}

double MessagePassing::pass(bool ascending) {
  ascending_ = ascending;
  double bound = -paid_;
  const auto size = static_cast<std::uint32_t>(core_.nodes.size());
  for (std::uint32_t k = 0; k < size; ++k) {
    const std::uint32_t i = ascending ? k : size - 1 - k;
    const IntraCore::Node& node = core_.nodes[i];
    double* reduced = reduced_.data() + node.first;
    std::copy_n(priced_.data() + node.first, node.size, reduced);
    std::size_t earlier = 0, later = 0;
    for (const IntraCore::Side& side : node.sides) {
      double* message = messages_.data() + side.own;
      if (before(side.other, i)) {
        ++earlier;
        min_less(core_.tables.data() + side.table, messages_.data() + side.others,
                 core_.nodes[side.other].size, node.size, message);
      } else {
        ++later;
      }
      for (std::size_t x = 0; x < node.size; ++x) reduced[x] += message[x];
    }
    const double least = *std::min_element(reduced, reduced + node.size);
    const double share = 1.0 / static_cast<double>(std::max<std::size_t>({earlier, later, 1}));
    share_[i] = share;
    least_[i] = least;
    bound += least * (1 - share * static_cast<double>(later));
    if (later == 0) continue;
    for (const IntraCore::Side& side : node.sides) {
      if (before(side.other, i)) continue;
      double* message = messages_.data() + side.own;
      for (std::size_t x = 0; x < node.size; ++x) message[x] -= share * reduced[x];
    }
  }
  return bound;
}

double MessagePassing::rounding(double bound) const {
  // Every cost enters through a sum over rows, edges and nodes, and each addition loses half a unit in the
  // last place of at most the largest sum.
  const auto terms = static_cast<double>(core_.rows() + core_.num_edges + core_.nodes.size() + 64);
  return terms * std::numeric_limits<double>::epsilon() * (std::abs(bound) + paid_);
}

void MessagePassing::usage_of_minima(std::vector<double>& used) {
  used.assign(core_.rows() + 1, 0);
  std::ranges::fill(weight_, 0);
  const auto size = static_cast<std::uint32_t>(core_.nodes.size());
  for (std::uint32_t k = 0; k < size; ++k) {
    const std::uint32_t i = ascending_ ? size - 1 - k : k;
    const IntraCore::Node& node = core_.nodes[i];
    const double* reduced = reduced_.data() + node.first;
    double* weight = weight_.data() + node.first;
    std::size_t later = 0;
    for (const IntraCore::Side& side : node.sides) later += before(i, side.other) ? 1 : 0;
    const double own = 1 - share_[i] * static_cast<double>(later);
    weight[std::min_element(reduced, reduced + node.size) - reduced] += own;
    for (std::size_t x = 0; x < node.size; ++x) {
      if (!(weight[x] > 0)) continue;
      for (const IntraCore::Part& part : node.parts) {
        used[part.begin] += weight[x] * part.usage[x];
        used[part.end] -= weight[x] * part.usage[x];
      }
      for (const IntraCore::Side& side : node.sides) {
        if (!before(side.other, i)) continue;
        const IntraCore::Node& other = core_.nodes[side.other];
        std::size_t best = 0;
        double least = kNever;
        for (std::size_t y = 0; y < other.size; ++y) {
          const double cost = core_.tables[side.table + y * node.size + x] - messages_[side.others + y];
          if (cost < least) least = cost, best = y;
        }
        weight_[other.first + best] += weight[x] * share_[side.other];
      }
    }
  }
  for (std::size_t r = 0; r < core_.rows(); ++r) used[r + 1] += used[r];
  used.resize(core_.rows());
}

void MessagePassing::round(std::vector<std::uint32_t>& choice) {
  const auto size = static_cast<std::uint32_t>(core_.nodes.size());
  choice.assign(size, 0);
  std::vector<double> cost;
  for (std::uint32_t k = 0; k < size; ++k) {
    const std::uint32_t i = ascending_ ? size - 1 - k : k;
    const IntraCore::Node& node = core_.nodes[i];
    cost.assign(priced_.begin() + static_cast<std::ptrdiff_t>(node.first),
                priced_.begin() + static_cast<std::ptrdiff_t>(node.first + node.size));
    for (const IntraCore::Side& side : node.sides) {
      const bool known = before(i, side.other);
      const double* table = core_.tables.data() + side.table + choice[side.other] * node.size;
      for (std::size_t x = 0; x < node.size; ++x) cost[x] += known ? table[x] : messages_[side.own + x];
    }
    choice[i] = static_cast<std::uint32_t>(std::ranges::min_element(cost) - cost.begin());
  }
}

}  // namespace pipesim
