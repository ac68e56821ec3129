#include "search/joint/joint_moves.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "search/move_units.h"

namespace pipesim {
namespace {

std::size_t pick(std::size_t count, Rng& rng) { return static_cast<std::size_t>(rng.below(count)); }

bool has_chunks(const JointPlan& plan) {
  return static_cast<std::size_t>(plan.pipeline.num_stages()) != plan.meshes.size();
}

std::vector<std::int32_t> operators_of(const JointPlan& plan, std::int32_t stage) {
  std::vector<std::int32_t> list;
  for (std::size_t i = 0; i < plan.pipeline.stage_of.size(); ++i) {
    if (plan.pipeline.stage_of[i] == stage) list.push_back(static_cast<std::int32_t>(i));
  }
  return list;
}

// The stage has other devices now, which configs of its operators do not suit any more.
void forget_own(JointPlan& plan, std::int32_t stage) {
  std::erase_if(plan.own, [&](const auto& own) {
    return plan.pipeline.stage_of[static_cast<std::size_t>(own.first)] == stage;
  });
}

// The operator was on a stage with these devices. On as many others it keeps its split.
void move_own(JointPlan& plan, std::int32_t op, const StageGroup& before) {
  const auto own = plan.own.find(op);
  const StageGroup& devices = plan.mesh_of(op).devices;
  if (own == plan.own.end() || devices == before) return;
  const auto was_before = [&](DeviceId d) { return std::ranges::find(before, d) != before.end(); };
  if (devices.size() != before.size() || !std::ranges::all_of(own->second.devices, was_before)) {
    plan.own.erase(own);
    return;
  }
  for (DeviceId& d : own->second.devices)
    d = devices[static_cast<std::size_t>(std::ranges::find(before, d) - before.begin())];
}

// Only so many of a stage's segments run again, the first ones.
Recompute with_fewer_segments(const std::vector<std::int32_t>& segment_of,
                              const std::vector<std::int32_t>& stage_of, std::size_t kept) {
  Recompute recompute{Recompute::Kind::Listed, std::vector<std::int32_t>(segment_of.size(), kNoSegment)};
  std::map<std::int32_t, std::set<std::int32_t>> of_stage;
  std::map<std::int32_t, std::int32_t> number_of;
  for (std::size_t i = 0; i < segment_of.size(); ++i) {
    if (segment_of[i] < 0) continue;
    std::set<std::int32_t>& segments = of_stage[stage_of[i]];
    if (segments.size() < kept) segments.insert(segment_of[i]);
    if (!segments.contains(segment_of[i])) continue;
    recompute.segment_of[i] =
        number_of.try_emplace(segment_of[i], static_cast<std::int32_t>(number_of.size())).first->second;
  }
  return recompute;
}

void set_devices(StageMesh& mesh, StageGroup devices) {
  mesh.devices = std::move(devices);
  if (mesh.devices.size() % static_cast<std::size_t>(mesh.tensor) != 0) mesh.tensor = 1;
}

// Two neighbours, of which the first is drawn; nothing with one stage or stages that share devices.
std::optional<std::int32_t> draw_neighbours(const JointPlan& plan, Rng& rng) {
  const std::int32_t stages = plan.pipeline.num_stages();
  if (stages < 2 || has_chunks(plan)) return std::nullopt;
  return static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(stages) - 1));
}

}  // namespace

std::string_view name_of(JointMoveKind kind) {
  constexpr std::array<std::string_view, kJointMoveKinds> names{
      "boundary",  "merge",        "split",  "replicas", "tensor",  "schedule",
      "recompute", "microbatches", "config", "plain",    "exchange"};
  return names[static_cast<std::size_t>(kind)];
}

JointMoves::JointMoves(const CandidateSet& candidates, std::int32_t most_microbatches)
    : candidates_(candidates), most_microbatches_(most_microbatches), unit_of_(operators().size()) {
  for (const auto& unit : repeated_operators(candidates)) {
    std::vector<std::int32_t> members;
    for (const OperatorId op : unit) members.push_back(op.value);
    for (const OperatorId op : unit) unit_of_[op.index()] = members;
  }
}

JointMoveKind JointMoves::draw(Rng& rng) const {
  constexpr std::array<std::uint64_t, kJointMoveKinds> weights{6, 1, 1, 2, 2, 1, 1, 1, 8, 2, 1};
  constexpr std::uint64_t kAll = 26;
  std::uint64_t at = rng.below(kAll);
  std::size_t kind = 0;
  for (; at >= weights[kind]; ++kind) at -= weights[kind];
  return static_cast<JointMoveKind>(kind);
}

std::optional<JointPlan> JointMoves::propose(const JointPlan& plan, JointMoveKind kind, Rng& rng) const {
  JointPlan changed = plan;
  const auto change = [&] {
    switch (kind) {
      case JointMoveKind::Boundary:
        return move_boundary(changed, rng);
      case JointMoveKind::Merge:
        return merge(changed, rng);
      case JointMoveKind::Split:
        return split(changed, rng);
      case JointMoveKind::Replicas:
        return move_replicas(changed, rng);
      case JointMoveKind::Tensor:
        return change_tensor(changed, rng);
      case JointMoveKind::Schedule:
        return change_schedule(changed, rng);
      case JointMoveKind::Recompute:
        return change_recompute(changed, rng);
      case JointMoveKind::Microbatches:
        return change_microbatches(changed, rng);
      case JointMoveKind::Config:
        return change_config(changed, rng);
      case JointMoveKind::Plain:
        return make_plain(changed, rng);
      case JointMoveKind::Exchange:
        return exchange(changed, rng);
    }
    return false;
  };
  if (!change() || changed == plan) return std::nullopt;
  return changed;
}

bool JointMoves::move_boundary(JointPlan& plan, Rng& rng) const {
  const std::int32_t stages = plan.pipeline.num_stages();
  if (stages < 2) return false;
  const auto first = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(stages) - 1));
  const bool forward = rng.below(2) == 0;  // from the first to the second
  const std::int32_t from = forward ? first : first + 1, to = forward ? first + 1 : first;
  std::vector<std::int32_t> list = operators_of(plan, from);
  if (list.size() < 2) return false;
  constexpr std::uint64_t kHalvings = 8;  // few operators as often as many
  const std::size_t most = std::max<std::size_t>(1, (list.size() - 1) >> rng.below(kHalvings));
  const std::size_t count = 1 + pick(most, rng);
  if (forward) std::ranges::reverse(list);
  for (std::size_t i = 0; i < count; ++i) {
    const StageGroup before = plan.mesh_of(list[i]).devices;
    plan.pipeline.stage_of[static_cast<std::size_t>(list[i])] = to;
    move_own(plan, list[i], before);
  }
  return true;
}

bool JointMoves::merge(JointPlan& plan, Rng& rng) {
  const auto first = draw_neighbours(plan, rng);
  if (!first) return false;
  const auto s = static_cast<std::size_t>(*first);
  forget_own(plan, *first);
  forget_own(plan, *first + 1);
  StageGroup devices = plan.meshes[s].devices;
  devices.insert(devices.end(), plan.meshes[s + 1].devices.begin(), plan.meshes[s + 1].devices.end());
  set_devices(plan.meshes[s], std::move(devices));
  plan.meshes.erase(plan.meshes.begin() + static_cast<std::ptrdiff_t>(s) + 1);
  for (std::int32_t& stage : plan.pipeline.stage_of) stage -= stage > *first ? 1 : 0;
  return true;
}

bool JointMoves::split(JointPlan& plan, Rng& rng) const {
  if (has_chunks(plan)) return false;
  const std::size_t s = pick(plan.meshes.size(), rng);
  const auto stage = static_cast<std::int32_t>(s);
  const std::vector<std::int32_t> list = operators_of(plan, stage);
  const StageGroup devices = plan.meshes[s].devices;
  if (list.size() < 2 || devices.size() < 2) return false;
  // Halves most often.
  const std::size_t left = rng.below(3) > 0 ? devices.size() / 2 : 1 + pick(devices.size() - 1, rng);
  const auto middle = devices.begin() + static_cast<std::ptrdiff_t>(left);
  const std::size_t stay = 1 + pick(list.size() - 1, rng);
  forget_own(plan, stage);
  for (std::int32_t& other : plan.pipeline.stage_of) other += other > stage ? 1 : 0;
  for (std::size_t i = stay; i < list.size(); ++i)
    plan.pipeline.stage_of[static_cast<std::size_t>(list[i])] = stage + 1;
  StageMesh second{{}, plan.meshes[s].tensor};
  set_devices(second, {middle, devices.end()});
  set_devices(plan.meshes[s], {devices.begin(), middle});
  plan.meshes.insert(plan.meshes.begin() + static_cast<std::ptrdiff_t>(s) + 1, std::move(second));
  return true;
}

bool JointMoves::move_replicas(JointPlan& plan, Rng& rng) {
  const auto first = draw_neighbours(plan, rng);
  if (!first) return false;
  const bool forward = rng.below(2) == 0;
  const std::int32_t from = forward ? *first : *first + 1, to = forward ? *first + 1 : *first;
  StageGroup giving = plan.meshes[static_cast<std::size_t>(from)].devices;
  StageGroup taking = plan.meshes[static_cast<std::size_t>(to)].devices;
  if (giving.size() < 2) return false;
  const std::size_t count = 1 + pick(giving.size() - 1, rng);
  for (std::size_t i = 0; i < count; ++i) {
    if (forward) {
      taking.insert(taking.begin(), giving.back());
      giving.pop_back();
    } else {
      taking.push_back(giving.front());
      giving.erase(giving.begin());
    }
  }
  forget_own(plan, from);
  forget_own(plan, to);
  set_devices(plan.meshes[static_cast<std::size_t>(from)], std::move(giving));
  set_devices(plan.meshes[static_cast<std::size_t>(to)], std::move(taking));
  return true;
}

bool JointMoves::change_tensor(JointPlan& plan, Rng& rng) {
  StageMesh& mesh = plan.meshes[pick(plan.meshes.size(), rng)];
  const bool more = rng.below(2) == 0;
  if (!more && mesh.tensor == 1) return false;
  mesh.tensor = more ? mesh.tensor * 2 : mesh.tensor / 2;
  return mesh.devices.size() % static_cast<std::size_t>(mesh.tensor) == 0;
}

bool JointMoves::change_schedule(JointPlan& plan, Rng& rng) {
  const std::vector<std::string> names = plan_schedules();
  const bool in_v = lies_in_v(plan.pipeline.schedule);
  plan.pipeline.schedule = names[pick(names.size(), rng)];
  if (has_chunks(plan) && lies_in_v(plan.pipeline.schedule) != in_v) plan.own.clear();  // stages move
  return plan.pipeline.num_stages() > 1;
}

bool JointMoves::change_recompute(JointPlan& plan, Rng& rng) const {
  using enum Recompute::Kind;
  const std::array kinds{Recompute(), Recompute::selective(), Recompute{Full}, Recompute{Stage}};
  const Recompute whole = kinds[pick(kinds.size(), rng)];
  plan.recompute = whole;
  if ((whole.kind != Modules && whole.kind != Full) || rng.below(2) == 0) return true;
  const auto pipeline = plan.has_pipeline() ? std::optional(plan.pipeline) : std::nullopt;
  const std::vector<std::int32_t> segments = recompute_segments(candidates_.graph(), whole, pipeline);
  const std::set<std::int32_t> all(segments.begin(), segments.end());
  const std::size_t of_stage = all.size() / static_cast<std::size_t>(plan.pipeline.num_stages());
  if (of_stage < 2) return true;
  plan.recompute = with_fewer_segments(segments, plan.pipeline.stage_of, 1 + pick(of_stage - 1, rng));
  return true;
}

bool JointMoves::change_microbatches(JointPlan& plan, Rng& rng) const {
  const bool more = rng.below(2) == 0;
  if (more ? plan.microbatches > most_microbatches_ / 2 : plan.microbatches % 2 != 0) return false;
  plan.microbatches = more ? plan.microbatches * 2 : plan.microbatches / 2;
  return true;
}

// The operator, and every other time its repeats in the same stage.
std::vector<std::int32_t> JointMoves::repeats(const JointPlan& plan, std::int32_t op, Rng& rng) const {
  if (rng.below(2) == 0) return {op};
  std::vector<std::int32_t> list;
  const std::vector<std::int32_t>& stage_of = plan.pipeline.stage_of;
  for (const std::int32_t other : unit_of_[static_cast<std::size_t>(op)]) {
    if (stage_of[static_cast<std::size_t>(other)] == stage_of[static_cast<std::size_t>(op)])
      list.push_back(other);
  }
  return list;
}

bool JointMoves::change_config(JointPlan& plan, Rng& rng) const {
  const std::int64_t groups = plan.sequence.token_groups;
  if (groups > 0 && !with_groups_.contains(groups)) return false;
  const CandidateSet& candidates = groups > 0 ? with_groups_.at(groups) : candidates_;
  const auto op = static_cast<std::int32_t>(pick(operators().size(), rng));
  const StageGroup& devices = plan.mesh_of(op).devices;
  // On all devices of the stage most often, else on an aligned part of them.
  std::size_t used = devices.size();
  while (used > 1 && used % 2 == 0 && rng.below(4) == 0) used /= 2;
  const std::size_t part = pick(devices.size() / used, rng);
  const std::span<const DeviceId> on = std::span(devices).subspan(part * used, used);
  for (std::size_t size = 0; size < candidates.num_sizes(); ++size) {
    if (candidates.list(size, 0).devices.size() != used) continue;
    const std::vector<CandidateSet::Split>& splits = candidates.splits(OperatorId(op), size);
    if (splits.empty()) return false;
    const ParallelConfig config = CandidateSet::place(splits[pick(splits.size(), rng)], on);
    for (const std::int32_t other : repeats(plan, op, rng)) plan.own[other] = config;
    return true;
  }
  return false;
}

bool JointMoves::make_plain(JointPlan& plan, Rng& rng) const {
  if (plan.own.empty()) return false;
  auto drawn = plan.own.begin();
  std::advance(drawn, static_cast<std::ptrdiff_t>(pick(plan.own.size(), rng)));
  for (const std::int32_t other : repeats(plan, drawn->first, rng)) plan.own.erase(other);
  return true;
}

bool JointMoves::exchange(JointPlan& plan, Rng& rng) {
  if (plan.meshes.size() < 2 || has_chunks(plan)) return false;
  const std::size_t a = pick(plan.meshes.size(), rng), b = pick(plan.meshes.size(), rng);
  if (a == b || plan.meshes[a].devices.size() != plan.meshes[b].devices.size()) return false;
  std::swap(plan.meshes[a].devices, plan.meshes[b].devices);
  forget_own(plan, static_cast<std::int32_t>(a));
  forget_own(plan, static_cast<std::int32_t>(b));
  return true;
}

}  // namespace pipesim
