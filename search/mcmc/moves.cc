#include "search/mcmc/moves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

namespace pipesim {

std::string_view name_of(MoveKind kind) {
  constexpr std::array<std::string_view, kMoveKinds> names{
      "operator", "operator-split", "operator-place", "operator-factor",
      "group",    "group-split",    "group-place",    "run",
      "alike",    "swap-lists",     "swap-groups",    "uniform"};
  return names[static_cast<std::size_t>(kind)];
}

MoveRates first_rates() { return {{24, 8, 8, 8, 16, 12, 6, 8, 8, 8, 4, 0}}; }

MoveRates repeat_rates() {
  MoveRates rates = first_rates();
  for (const MoveKind kind : {MoveKind::Group, MoveKind::GroupSplit, MoveKind::GroupPlace})
    rates.weight[static_cast<std::size_t>(kind)] = 0;
  return rates;
}

MoveRates flexflow_rates() {
  MoveRates rates{};
  rates.weight[static_cast<std::size_t>(MoveKind::Uniform)] = 1;
  return rates;
}

MoveRates adapted(const MoveRates& first, const MoveCounts& counts) {
  constexpr double kMost = 4, kSteps = 64;  // so that a quarter of the smallest weight is no fraction
  double accepted = 1, proposed = 1;
  for (std::size_t k = 0; k < kMoveKinds; ++k) {
    accepted += static_cast<double>(counts.accepted[k]), proposed += static_cast<double>(counts.proposed[k]);
  }
  MoveRates rates{};
  for (std::size_t k = 0; k < kMoveKinds; ++k) {
    const double own = (static_cast<double>(counts.accepted[k]) + 1) /
                       (static_cast<double>(counts.proposed[k]) + proposed / accepted);
    const double factor = std::clamp(own * proposed / accepted, 1 / kMost, kMost);
    rates.weight[k] = static_cast<std::uint32_t>(std::lround(kSteps * first.weight[k] * factor));
  }
  return rates;
}

Moves::Moves(const ConfigSpace& space) : Moves(space, single_operators(space.candidates())) {}

Moves::Moves(const ConfigSpace& space, MoveUnits units)
    : space_(space), units_(std::move(units)), unit_of_(space.num_operators()), styles_(space.candidates()) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (const OperatorId op : units_[u]) unit_of_[op.index()] = u;
  }
  const OperatorGraph& graph = space.candidates().graph();
  std::map<std::string, std::vector<OperatorId>> repeats;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::string& repeat = graph.operators()[i].repeat;
    if (!repeat.empty()) repeats[repeat].push_back(unit_first(OperatorId(i)));
  }
  std::set<std::vector<OperatorId>> groups;
  const auto add_group = [&](std::vector<OperatorId> members) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    groups.insert(std::move(members));
  };
  for (auto& [label, members] : repeats) add_group(std::move(members));
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    std::vector<OperatorId> users;
    for (const UseRef use : graph.consumers(TensorId(t))) users.push_back(unit_first(use.op));
    add_group(std::move(users));
  }
  for (const std::vector<OperatorId>& members : groups) {
    if (members.size() > 1) groups_.push_back(members);
  }
  neighbours_.resize(graph.operators().size());
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const OperatorId producer = graph.tensors()[t].producer;
    if (!producer.valid()) continue;
    for (const UseRef use : graph.consumers(TensorId(t))) {
      const OperatorId from = unit_first(producer), to = unit_first(use.op);
      if (from == to) continue;
      neighbours_[from.index()].push_back(to);
      neighbours_[to.index()].push_back(from);
    }
  }
}

void Moves::put(OperatorId op, std::size_t config, Proposal& out) const {
  for (const OperatorId member : units_[unit_of_[op.index()]]) out.changes.push_back({member, config});
}

void Moves::change(const State& state, OperatorId op, Part part, std::uint64_t offset, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t now = state[op.index()];
  std::size_t next = now;
  if (part == Part::Config) {
    next = (now + offset % choices(op)) % choices(op);
  } else if (common(state, op)) {
    CandidateSet::Position p = candidates.position(op, now);
    if (part == Part::Split) {
      const std::size_t splits = candidates.num_splits(op, p.size);
      p.split = (p.split + offset % splits) % splits;
    } else {
      const std::size_t lists = candidates.num_lists(p.size);
      p.list = (p.list + offset % lists) % lists;
    }
    next = candidates.index(op, p);
  }
  if (next != now) put(op, next, out);
}

std::optional<std::size_t> Moves::like_neighbour(const State& state, OperatorId op,
                                                 OperatorId neighbour) const {
  if (!common(state, neighbour)) return std::nullopt;
  const CandidateSet::Position p = space_.candidates().position(neighbour, state[neighbour.index()]);
  return styles_.config(op, p.size, p.list, styles_.style(neighbour, p));
}

// The chance that change_operator() gives the operator this config.
double Moves::chance(const State& state, OperatorId op, std::size_t config) const {
  const std::vector<OperatorId>& neighbours = neighbours_[op.index()];
  double like = 0;
  for (const OperatorId n : neighbours) like += like_neighbour(state, op, n) == config ? 1 : 0;
  if (!neighbours.empty()) like /= static_cast<double>(neighbours.size());
  return (like + 1 / static_cast<double>(choices(op))) / 2;
}

void Moves::change_operator(const State& state, Rng& rng, Proposal& out) const {
  const OperatorId op = draw(rng);
  const std::vector<OperatorId>& neighbours = neighbours_[op.index()];
  const std::size_t now = state[op.index()];
  std::size_t next = rng.below(choices(op));
  if (rng.below(2) == 0) {
    if (neighbours.empty()) return;
    next = like_neighbour(state, op, neighbours[rng.below(neighbours.size())]).value_or(now);
  }
  if (next == now) return;
  put(op, next, out);
  out.log_ratio = std::log(chance(state, op, now) / chance(state, op, next));
}

// From one axis to another; the copies are the last axis. Whether copies are fastest is drawn as well: where
// the new split has no choice, only one of the two draws leads there, so the way back is as likely.
void Moves::change_factor(const State& state, Rng& rng, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const OperatorId op = draw(rng);
  const std::size_t axes = candidates.graph().op(op).factors.size() + 1;
  const std::size_t from = rng.below(axes), to = rng.below(axes);
  const auto prime = static_cast<std::int32_t>(2 + rng.below(2));
  const bool fastest = rng.below(2) == 0;
  if (!common(state, op) || from == to) return;
  CandidateSet::Position p = candidates.position(op, state[op.index()]);
  const std::vector<CandidateSet::Split>& splits = candidates.splits(op, p.size);
  CandidateSet::Split split = splits[p.split];
  const auto degree = [&](std::size_t axis) -> std::int32_t& {
    return axis + 1 == axes ? split.replicas : split.degrees[axis];
  };
  if (degree(from) % prime != 0) return;
  degree(from) /= prime;
  degree(to) *= prime;
  split.replicas_fastest = fastest;
  const auto it = std::ranges::find(splits, split);
  if (it == splits.end()) return;
  p.split = static_cast<std::size_t>(it - splits.begin());
  put(op, candidates.index(op, p), out);
}

void Moves::change_group(const State& state, Part part, Rng& rng, Proposal& out) const {
  if (groups_.empty()) return;
  const std::vector<OperatorId>& group = groups_[rng.below(groups_.size())];
  const std::uint64_t offset = rng.next();
  for (const OperatorId op : group) change(state, op, part, offset, out);
}

void Moves::change_run(const State& state, Rng& rng, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t n = units_.size();
  const std::size_t first = rng.below(n), length = 2 + rng.below(std::max<std::uint64_t>(1, n / 2));
  const std::uint64_t offset = rng.next();
  const OperatorId leader = units_[first].front();
  if (!common(state, leader)) return;
  const std::size_t size = candidates.position(leader, state[leader.index()]).size;
  for (std::size_t i = first; i < std::min(n, first + length); ++i) {
    const OperatorId op = units_[i].front();
    if (!common(state, op) || candidates.position(op, state[op.index()]).size != size) continue;
    change(state, op, Part::Place, offset, out);
  }
}

void Moves::change_alike(const State& state, Rng& rng, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t n = units_.size();
  const std::size_t first = rng.below(n), length = 2 + rng.below(std::max<std::uint64_t>(1, n));
  const OperatorId leader = units_[first].front();
  const std::size_t drawn = rng.below(candidates.size(leader));
  if (!common(state, leader) || state[leader.index()] == drawn) return;
  const CandidateSet::Position old_place = candidates.position(leader, state[leader.index()]);
  const CandidateSet::Position new_place = candidates.position(leader, drawn);
  const std::size_t old_style = styles_.style(leader, old_place),
                    new_style = styles_.style(leader, new_place);
  for (std::size_t i = first; i < std::min(n, first + length); ++i) {
    const OperatorId op = units_[i].front();
    const auto from = styles_.config(op, old_place.size, old_place.list, old_style);
    const auto to = styles_.config(op, new_place.size, new_place.list, new_style);
    if (!from || !to) continue;
    if (state[op.index()] == *to) return out.changes.clear();
    if (state[op.index()] == *from) put(op, *to, out);
  }
}

void Moves::swap_lists(const State& state, Rng& rng, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const OperatorId a = draw(rng), b = draw(rng);
  if (!common(state, a) || !common(state, b)) return;
  CandidateSet::Position pa = candidates.position(a, state[a.index()]),
                         pb = candidates.position(b, state[b.index()]);
  if (a == b || pa.size != pb.size || pa.list == pb.list) return;
  std::swap(pa.list, pb.list);
  put(a, candidates.index(a, pa), out);
  put(b, candidates.index(b, pb), out);
}

void Moves::swap_groups(const State& state, Rng& rng, Proposal& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t n = units_.size();
  const std::size_t first = rng.below(n), length = 2 + rng.below(std::max<std::uint64_t>(1, n));
  const std::size_t size = rng.below(candidates.num_sizes());
  const std::size_t one = rng.below(candidates.num_lists(size)),
                    other = rng.below(candidates.num_lists(size));
  if (one == other) return;
  for (std::size_t i = first; i < std::min(n, first + length); ++i) {
    const OperatorId op = units_[i].front();
    if (!common(state, op)) continue;
    CandidateSet::Position p = candidates.position(op, state[op.index()]);
    if (p.size != size || (p.list != one && p.list != other)) continue;
    p.list = p.list == one ? other : one;
    put(op, candidates.index(op, p), out);
  }
}

void Moves::propose(const State& state, const MoveRates& rates, Rng& rng, Proposal& out) const {
  std::uint64_t all = 0;
  for (const std::uint32_t w : rates.weight) all += w;
  std::uint64_t drawn = rng.below(all);
  std::size_t kind = 0;
  while (drawn >= rates.weight[kind]) drawn -= rates.weight[kind++];
  out.kind = static_cast<MoveKind>(kind);
  out.changes.clear();
  out.log_ratio = 0;
  const auto change_one = [&](Part part) {
    const OperatorId op = draw(rng);
    change(state, op, part, rng.next(), out);
  };
  switch (out.kind) {
    case MoveKind::Operator:
      return change_operator(state, rng, out);
    case MoveKind::OperatorSplit:
      return change_one(Part::Split);
    case MoveKind::OperatorPlace:
      return change_one(Part::Place);
    case MoveKind::OperatorFactor:
      return change_factor(state, rng, out);
    case MoveKind::Group:
      return change_group(state, Part::Config, rng, out);
    case MoveKind::GroupSplit:
      return change_group(state, Part::Split, rng, out);
    case MoveKind::GroupPlace:
      return change_group(state, Part::Place, rng, out);
    case MoveKind::Run:
      return change_run(state, rng, out);
    case MoveKind::Alike:
      return change_alike(state, rng, out);
    case MoveKind::SwapLists:
      return swap_lists(state, rng, out);
    case MoveKind::SwapGroups:
      return swap_groups(state, rng, out);
    case MoveKind::Uniform:
      return change_one(Part::Config);
  }
}

}  // namespace pipesim
