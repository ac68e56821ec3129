#include "search/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/errors.h"

namespace pipesim {

ConfigSpace::ConfigSpace(const CandidateSet& candidates, const std::vector<Strategy>& starts)
    : candidates_(candidates), extra_(candidates.graph().operators().size()) {
  for (const Strategy& start : starts) {
    for (std::size_t i = 0; i < extra_.size(); ++i) {
      std::vector<ParallelConfig>& extra = extra_[i];
      if (candidates.find(OperatorId(i), start[i])) continue;
      if (std::find(extra.begin(), extra.end(), start[i]) == extra.end()) extra.push_back(start[i]);
    }
  }
}

ParallelConfig ConfigSpace::config(OperatorId op, std::size_t i) const {
  const std::size_t common = candidates_.size(op);
  return i < common ? candidates_.config(op, i) : extra_[op.index()][i - common];
}

std::size_t ConfigSpace::index(OperatorId op, const ParallelConfig& config) const {
  if (const auto i = candidates_.find(op, config)) return *i;
  const std::vector<ParallelConfig>& extra = extra_[op.index()];
  const auto it = std::find(extra.begin(), extra.end(), config);
  if (it == extra.end())
    throw InternalError(fmt::format("operator {} has a config outside the search space", op.value));
  return candidates_.size(op) + static_cast<std::size_t>(it - extra.begin());
}

std::vector<std::size_t> ConfigSpace::indices(const Strategy& strategy) const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < strategy.size(); ++i) result.push_back(index(OperatorId(i), strategy[i]));
  return result;
}

Strategy ConfigSpace::strategy(const std::vector<std::size_t>& indices) const {
  Strategy result;
  for (std::size_t i = 0; i < indices.size(); ++i) result.push_back(config(OperatorId(i), indices[i]));
  return result;
}

Moves::Moves(const ConfigSpace& space) : space_(space), styles_(space.candidates()) {
  const OperatorGraph& graph = space.candidates().graph();
  std::map<std::string, std::vector<OperatorId>> repeats;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::string& repeat = graph.operators()[i].repeat;
    if (!repeat.empty()) repeats[repeat].emplace_back(i);
  }
  std::set<std::vector<OperatorId>> groups;
  for (auto& [label, members] : repeats) groups.insert(std::move(members));
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensors()[t].kind != TensorKind::Weight) continue;
    std::vector<OperatorId> users;
    for (const UseRef use : graph.consumers(TensorId(t))) users.push_back(use.op);
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    groups.insert(std::move(users));
  }
  for (const std::vector<OperatorId>& members : groups) {
    if (members.size() > 1) groups_.push_back(members);
  }
}

void Moves::change(const std::vector<std::size_t>& state, OperatorId op, Part part, std::uint64_t offset,
                   std::vector<ConfigChange>& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t now = state[op.index()];
  std::size_t next = now;
  if (part == Part::Config) {
    next = (now + offset % space_.size(op)) % space_.size(op);
  } else if (now < candidates.size(op)) {
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
  if (next != now) out.push_back({op, next});
}

void Moves::change_run(const std::vector<std::size_t>& state, Rng& rng,
                       std::vector<ConfigChange>& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t n = space_.num_operators();
  const std::size_t first = rng.below(n), length = 2 + rng.below(std::max<std::uint64_t>(1, n / 2));
  const std::uint64_t offset = rng.next();
  if (state[first] >= candidates.size(OperatorId(first))) return;
  const std::size_t size = candidates.position(OperatorId(first), state[first]).size;
  for (std::size_t i = first; i < std::min(n, first + length); ++i) {
    const OperatorId op(i);
    if (state[i] >= candidates.size(op) || candidates.position(op, state[i]).size != size) continue;
    change(state, op, Part::Place, offset, out);
  }
}

void Moves::change_alike(const std::vector<std::size_t>& state, Rng& rng,
                         std::vector<ConfigChange>& out) const {
  const CandidateSet& candidates = space_.candidates();
  const std::size_t n = space_.num_operators();
  const std::size_t first = rng.below(n), length = 2 + rng.below(std::max<std::uint64_t>(1, n));
  const OperatorId leader(first);
  const std::size_t drawn = rng.below(candidates.size(leader));
  if (state[first] >= candidates.size(leader) || state[first] == drawn) return;
  const CandidateSet::Position old_place = candidates.position(leader, state[first]);
  const CandidateSet::Position new_place = candidates.position(leader, drawn);
  const std::size_t old_style = styles_.style(leader, old_place),
                    new_style = styles_.style(leader, new_place);
  for (std::size_t i = first; i < std::min(n, first + length); ++i) {
    const OperatorId op(i);
    const auto from = styles_.config(op, old_place.size, old_place.list, old_style);
    const auto to = styles_.config(op, new_place.size, new_place.list, new_style);
    if (!from || !to) continue;
    if (state[i] == *to) return out.clear();
    if (state[i] == *from) out.push_back({op, *to});
  }
}

void Moves::swap_lists(const std::vector<std::size_t>& state, Rng& rng,
                       std::vector<ConfigChange>& out) const {
  const CandidateSet& candidates = space_.candidates();
  const OperatorId a(rng.below(space_.num_operators())), b(rng.below(space_.num_operators()));
  if (state[a.index()] >= candidates.size(a) || state[b.index()] >= candidates.size(b)) return;
  CandidateSet::Position pa = candidates.position(a, state[a.index()]),
                         pb = candidates.position(b, state[b.index()]);
  if (a == b || pa.size != pb.size || pa.list == pb.list) return;
  std::swap(pa.list, pb.list);
  out.push_back({a, candidates.index(a, pa)});
  out.push_back({b, candidates.index(b, pb)});
}

void Moves::propose(const std::vector<std::size_t>& state, Rng& rng, std::vector<ConfigChange>& out) const {
  out.clear();
  constexpr std::uint64_t kKinds = 12;
  const std::uint64_t kind = rng.below(kKinds);
  if (kind == 8) return change_run(state, rng, out);
  if (kind == 9) return swap_lists(state, rng, out);
  if (kind > 9) return change_alike(state, rng, out);
  const Part part = kind % 4 < 2 ? Part::Config : kind % 4 == 2 ? Part::Split : Part::Place;
  if (kind < 4 || groups_.empty()) {
    const OperatorId op(rng.below(space_.num_operators()));
    return change(state, op, part, rng.next(), out);
  }
  const std::vector<OperatorId>& group = groups_[rng.below(groups_.size())];
  const std::uint64_t offset = rng.next();
  for (const OperatorId op : group) change(state, op, part, offset, out);
}

}  // namespace pipesim
