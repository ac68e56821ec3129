#include "search/lower_bound/passes.h"

#include <algorithm>
#include <cmath>

#include "costmodel/matrix_efficiency.h"
#include "models/box.h"

namespace pipesim {
namespace {

// Gaps between windows make a box smaller than its share of the whole: the longest range of which every shard
// with l of the factor's elements has at least l / size. Borders cut most off the first and the last shard.
std::int64_t shared_extent(const IndexExpr& window, const Operator& op) {
  const auto f = static_cast<std::size_t>(window.factors.front());
  std::vector<Range> ranges = whole_ranges(op);
  const std::int64_t size = op.factors[f].size;
  double least = static_cast<double>(window.extent);
  for (std::int64_t l = 1; l <= size; ++l) {
    for (const Range shard : {Range{0, l}, Range{size - l, size}}) {
      ranges[f] = shard;
      const auto length = static_cast<double>(index_range(window, op, ranges).length());
      least = std::min(least, length * static_cast<double>(size) / static_cast<double>(l));
    }
  }
  return static_cast<std::int64_t>(least);
}

bool cut_away(const IndexExpr& dim, const Operator& op) {
  if (dim.kind != IndexExpr::Kind::Axis) return false;
  const std::int64_t size = op.factors[static_cast<std::size_t>(dim.factors.front())].size;
  return dim.offset < 0 || size + dim.offset > dim.extent;
}

bool repeats_factor(const TensorUse& use) {
  std::vector<FactorIndex> seen;
  for (const IndexExpr& dim : use.dims) {
    for (const FactorIndex f : dim.factors) {
      if (std::find(seen.begin(), seen.end(), f) != seen.end()) return true;
      seen.push_back(f);
    }
  }
  return false;
}

enum class Bounds : std::uint8_t { Total, Shard };

// The operator with boxes of which a shard has at least its share (Shard), or all shards together the whole
// (Total).
Operator with_shared_boxes(const Operator& op, Bounds bounds) {
  Operator bounded = op;
  for (TensorUse& use : bounded.uses) {
    if (repeats_factor(use)) use.dims.front() = IndexExpr::whole(0);
    for (IndexExpr& dim : use.dims) {
      if (dim.kind == IndexExpr::Kind::Window) dim = IndexExpr::whole(shared_extent(dim, op));
      if (bounds == Bounds::Shard && cut_away(dim, op)) dim = IndexExpr::whole(0);
    }
  }
  if (bounds == Bounds::Total || !op.causal) return bounded;
  // A shard of early queries and late keys sees nothing at all.
  for (auto* terms :
       {&bounded.flops_forward, &bounded.flops_backward_input, &bounded.flops_backward_weight}) {
    for (ProductTerm& term : *terms) term.coefficient = 0;
  }
  return bounded;
}

double flops_of(const Operator& op, Pass pass, std::span<const Range> ranges) {
  const auto& terms = pass == Pass::Forward         ? op.flops_forward
                      : pass == Pass::BackwardInput ? op.flops_backward_input
                                                    : op.flops_backward_weight;
  return evaluate(terms, ranges);
}

// Log-linear as CostModel reads the curve; the best over all kernels of at most `flops`.
double best_kernel_efficiency(const std::vector<EfficiencyPoint>& curve, double flops) {
  if (curve.empty()) return 1;
  double best = curve.front().fraction;
  for (std::size_t i = 1; i < curve.size() && curve[i - 1].flops.value < flops; ++i) {
    const double from = curve[i - 1].flops.value, to = curve[i].flops.value;
    const double t = std::min(1.0, std::log(flops / from) / std::log(to / from));
    best = std::max(best, curve[i - 1].fraction + t * (curve[i].fraction - curve[i - 1].fraction));
  }
  return best;
}

// Rows and columns that fill tiles of any size, on whichever units; of a shorter inner length a smaller part
// is efficient.
double best_matrix_efficiency(const MatrixShape& shape, Pass pass, std::span<const Range> ranges) {
  constexpr std::int64_t aligned = std::int64_t{1} << 40;
  const MatrixSize best{1, aligned, aligned, matrix_size(shape, pass, ranges).inner};
  return std::max(matrix_efficiency(best, MatrixUnits::Plain), matrix_efficiency(best, MatrixUnits::Matrix));
}

// The rows and columns of scores fill tiles.
double best_fused_efficiency(const DeviceKind& kind, const MatrixShape& shape, Pass pass,
                             std::span<const Range> ranges) {
  constexpr std::int64_t aligned = std::int64_t{1} << 40;
  MatrixSize size = matrix_size(shape, pass, ranges);
  size.rows = aligned;
  (size.fused == FusedPass::Backward ? size.inner : size.columns) = aligned;
  return fused_efficiency(size, DataType::BFloat16, kind).value_or(0);
}

DeviceKind at_best(const DeviceKind& kind, const Operator& op, Pass pass, std::span<const Range> ranges) {
  DeviceKind best = kind;
  best.memory_bandwidth = kind.memory_bandwidth * kind.memory_efficiency;
  if (!op.matrix) return best;
  const double flops = flops_of(op, pass, ranges);
  double efficiency = best_kernel_efficiency(kind.products.efficiency, flops);
  for (const auto& [type, rate] : kind.product_rates)
    efficiency = std::max(efficiency, best_kernel_efficiency(rate.efficiency, flops));
  if (kind.shape_losses) efficiency *= best_matrix_efficiency(*op.matrix, pass, ranges);
  efficiency = std::max(efficiency, best_fused_efficiency(kind, *op.matrix, pass, ranges));
  for (auto& [type, rate] : best.peak) rate = rate * efficiency;
  return best;
}

std::int64_t largest_degree(const Factor& f, std::int64_t devices) {
  const std::int64_t units = f.size / f.granule;
  std::int64_t degree = std::min({units, f.max_degree, devices});
  while (!f.uneven && units % degree != 0) --degree;
  return degree;
}

// Part of the largest degree's even share that the smallest piece of an uneven cut has.
double evenness(const Factor& f, std::int64_t largest) {
  const std::int64_t units = f.size / f.granule;
  double least = 1;
  for (std::int64_t d = 2; f.uneven && d <= largest; ++d) {
    const std::int64_t smallest = units / d;
    least = std::min(least, static_cast<double>(smallest * d) / static_cast<double>(units));
  }
  return least * static_cast<double>(units * f.granule) / static_cast<double>(f.size);
}

}  // namespace

PassBounds::PassBounds(const OperatorGraph& graph, const CostModel& costs) : graph_(graph), costs_(costs) {
  const Topology& topology = costs.topology();
  std::vector<std::size_t> index(topology.parts().kinds.size(), SIZE_MAX);
  for (std::size_t d = 0; d < topology.num_devices(); ++d) {
    std::size_t& i = index[static_cast<std::size_t>(topology.device(DeviceId(d)).kind)];
    if (i == SIZE_MAX) {
      i = kinds_.size();
      kinds_.emplace_back(d);
      devices_of_kind_.push_back(0);
    }
    ++devices_of_kind_[i];
  }
}

PassCost PassBounds::cost(const Operator& bounded, const Operator& op, Pass pass, DeviceId device) const {
  const std::vector<Range> ranges = whole_ranges(op);
  const DeviceKind& kind = costs_.topology().kind(device);
  const bool runs = costs_.operator_time(graph_, op, pass, ranges, device).value > 0;
  if (!runs) return {};
  const DeviceKind best = at_best(kind, op, pass, ranges);
  return {op.measured ? 0.0 : kind.launch_overhead.value,
          costs_.ideal_time(graph_, bounded, pass, ranges, best).value};
}

PassCost PassBounds::total(const Operator& op, Pass pass, DeviceId device) const {
  return cost(with_shared_boxes(op, Bounds::Total), op, pass, device);
}

double PassBounds::shard(const Operator& op, Pass pass, double share) const {
  const Operator bounded = with_shared_boxes(op, Bounds::Shard);
  double least = INFINITY;
  for (const DeviceId device : kinds_) {
    const PassCost pass_cost = cost(bounded, op, pass, device);
    least = std::min(least, pass_cost.overhead + share * pass_cost.work);
  }
  return least;
}

double smallest_share(const Operator& op, std::int64_t devices,
                      const std::function<bool(FactorIndex)>& may_split) {
  double parts = 1, even = 1;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    if (!may_split(static_cast<FactorIndex>(f))) continue;
    const std::int64_t degree = largest_degree(op.factors[f], devices);
    parts = std::min(parts * static_cast<double>(degree), static_cast<double>(devices));
    even *= evenness(op.factors[f], degree);
  }
  return even / parts;
}

double smallest_share(const Operator& op, std::int64_t devices) {
  return smallest_share(op, devices, [](FactorIndex) { return true; });
}

Nanoseconds rounded_down(double seconds) { return to_nanoseconds(Seconds(seconds * (1 - 1e-9))); }

}  // namespace pipesim
