#include "executor/program/flow.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

// Dimensions after the first that is cut must be whole, those before it of length 1.
std::optional<std::int64_t> stretch_in(const Box& box, const Box& region) {
  std::int64_t offset = 0;
  bool whole_from_here = false;
  for (std::size_t i = 0; i < box.dims(); ++i) {
    offset = offset * box[i].length() + region[i].begin - box[i].begin;
    if (whole_from_here && region[i] != box[i]) return std::nullopt;
    whole_from_here = whole_from_here || region[i].length() > 1;
  }
  return offset;
}

namespace {

std::vector<const BoundOperator*> makers_of(const Wiring& wiring, const ExpandedStrategy& expanded) {
  std::vector<const BoundOperator*> makers;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s)
    makers.push_back(expanded.contents().strategy_of(wiring.microbatch_of(s),
                                                     expanded.strategy())[wiring.sources[s].op.index()]);
  return makers;
}

}  // namespace

Flow::Flow(const Wiring& wiring, const ExpandedStrategy& expanded, BufferList& buffers, HeldView held)
    : wiring_(wiring),
      makers_(makers_of(wiring, expanded)),
      layouts_(expanded.contents().layouts()),
      buffers_(buffers),
      held_(std::move(held)),
      type_(expanded.type_of(wiring)),
      source_category_(wiring.kind == TaskKind::GradientSync ? MemoryCategory::Gradients
                                                             : MemoryCategory::ActivationGradients),
      target_category_(wiring.kind == TaskKind::WeightGather ? MemoryCategory::GatheredWeights
                       : moves_values()                      ? MemoryCategory::Transfers
                                                             : source_category_),
      terms_(expanded.terms_of(wiring)) {
  std::vector<Redistribution> each = expanded.redistributions_of(wiring);
  for (std::size_t i = 0; i < each.size(); ++i) {
    auto part = std::make_unique<Part>();
    std::vector<const Layout*> summed;
    for (std::size_t t = 0; t < terms_.size(); ++t) {
      if (!wiring.plan->term_by_term || t == i) summed.push_back(&layouts_[terms_[t]]);
    }
    part->from = sum_of(summed, &part->merged_into);
    part->redistribution = std::move(each[i]);
    part->movement =
        std::make_unique<DataMovement>(part->from, layouts_[wiring.plan->target], part->redistribution);
    parts_.push_back(std::move(part));
  }
  for (std::size_t s = 0; s < wiring.sources.size() && !moves_values(); ++s) {
    Part& part = *parts_[wiring.plan->term_by_term ? static_cast<std::size_t>(wiring.source_terms[s]) : 0];
    // Each replica makes the gradients of one microbatch of a change of weights.
    const std::int32_t microbatches = wiring.microbatch < 0 ? expanded.contents().options().microbatches : 1;
    for (const DeviceId d : makers_[s]->config.devices) {
      const std::int32_t entry = entry_of(part, s, d);
      if (entry >= 0) part.writers[entry] += microbatches;
    }
  }
}

// The entry of the part's source layout that a source's shard on this device adds to; −1 if it has none.
std::int32_t Flow::entry_of(const Part& part, std::size_t source, DeviceId device) const {
  const auto term = static_cast<std::size_t>(wiring_.source_terms[source]);
  const Layout& layout = layouts_[terms_[term]];
  const auto held = layout.entries_on(device);
  if (held.empty()) return -1;
  const std::int32_t addend =
      part.merged_into[wiring_.plan->term_by_term ? 0 : term][static_cast<std::size_t>(held[0].addend)];
  const auto entries = part.from.entries();
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const LayoutEntry& e) {
    return e.device == device && e.addend == addend && part.from.box(e) == layout.box(held[0]);
  });
  return static_cast<std::int32_t>(at - entries.begin());
}

View Flow::accumulator(Part& part, std::int32_t entry) {
  const auto [it, fresh] = part.accumulated.try_emplace(entry);
  if (fresh) {
    const LayoutEntry& e = part.from.entries()[static_cast<std::size_t>(entry)];
    it->second =
        buffers_.add(e.device, part.from.box(e), type_, Buffer::Life::Uses, source_category_, wiring_.tensor);
  }
  return it->second;
}

Flow::Sink Flow::gradient(std::size_t source, std::int32_t shard) {
  Part& part =
      *parts_[wiring_.plan->term_by_term ? static_cast<std::size_t>(wiring_.source_terms[source]) : 0];
  const BoundOperator& bound = *makers_[source];
  const std::int32_t entry = entry_of(part, source, bound.config.devices[static_cast<std::size_t>(shard)]);
  if (entry < 0) return {};
  return {accumulator(part, entry), part.writers.at(entry)};
}

View Flow::fragment(Part& part, DeviceId device, std::int32_t index) {
  const auto fragments = part.movement->fragments(device);
  const Fragment& f = fragments[static_cast<std::size_t>(index)];
  if (f.step < 0) {
    return moves_values() ? held_(device, f.box) : accumulator(part, f.index);
  }
  const auto step = static_cast<std::size_t>(f.step);
  const auto& group = part.redistribution.steps[step].group;
  const auto rank = static_cast<std::size_t>(std::find(group.begin(), group.end(), device) - group.begin());
  View view = step_member(part, step, rank).work.get;
  for (const Fragment& before : fragments) {
    if (before.step == f.step && before.index < f.index) view.offset += before.box.elements();
  }
  view.box = f.box;
  return view;
}

// Where the assembly's box lies already, in one stretch of one buffer.
std::optional<View> Flow::lies_at(Part& part, DeviceId device, const Assembly& assembly) {
  if (assembly.gaps || assembly.parts.empty()) return std::nullopt;
  std::optional<View> result;
  for (const MovedPart& p : assembly.parts) {
    const View held = fragment(part, device, p.fragment);
    const auto inside = stretch_in(held.box, p.region), wanted = stretch_in(assembly.box, p.region);
    if (buffers_[held.buffer].type != type_ || p.add || !inside || !wanted) return std::nullopt;
    const View whole{held.buffer, held.offset + *inside - *wanted, assembly.box};
    if (result && (result->buffer != whole.buffer || result->offset != whole.offset)) return std::nullopt;
    result = whole;
  }
  return result;
}

void Flow::add_moves(Part& part, DeviceId device, const Assembly& assembly, const View& to, bool add,
                     MoveList& moves) {
  if (assembly.gaps && !add) moves.zeroed.push_back(to);
  for (const MovedPart& p : assembly.parts)
    moves.moves.push_back({fragment(part, device, p.fragment), to, p.region, p.add || add});
}

// The blocks one after the other: as they lie, or copied into a buffer of their own.
View Flow::assembled(Part& part, DeviceId device, const std::vector<Assembly>& blocks, MoveList& moves) {
  std::int64_t elements = 0;
  std::optional<View> whole;
  bool in_place = true;
  for (const Assembly& block : blocks) {
    const auto at = in_place ? lies_at(part, device, block) : std::nullopt;
    in_place = at && (!whole || (at->buffer == whole->buffer && at->offset == whole->offset + elements));
    if (!whole && at) whole = at;
    elements += block.box.elements();
  }
  if (in_place && whole) return *whole;
  View copy{buffers_.add(device, elements, type_, Buffer::Life::Uses, target_category_, wiring_.tensor), 0,
            blocks.front().box};
  View at = copy;
  for (const Assembly& block : blocks) {
    at.box = block.box;
    add_moves(part, device, block, at, false, moves);
    at.offset += block.box.elements();
  }
  return copy;
}

// A gradient that only this step reads may become its result.
bool Flow::may_overwrite(Part& part, DeviceId device, std::size_t step, const Assembly& assembly) {
  if (moves_values() || !assembly.is_fragment(part.movement->fragments(device))) return false;
  const auto& steps = part.redistribution.steps;
  const auto reads = [&](const Assembly& a) {
    return std::any_of(a.parts.begin(), a.parts.end(),
                       [&](const MovedPart& p) { return p.fragment == assembly.parts[0].fragment; });
  };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto member = std::find(steps[s].group.begin(), steps[s].group.end(), device);
    if (s == step || member == steps[s].group.end()) continue;
    const auto given = part.movement->given(s, static_cast<std::size_t>(member - steps[s].group.begin()));
    if (std::any_of(given.begin(), given.end(), reads)) return false;
  }
  const Layout& to = layouts_[wiring_.plan->target];
  const auto wanted = to.entries_on(device);
  return std::none_of(wanted.begin(), wanted.end(),
                      [&](const LayoutEntry& e) { return reads(part.movement->result(device, to.box(e))); });
}

void Flow::give(Part& part, std::size_t step, std::size_t rank, Member& member) {
  const RedistributionStep& s = part.redistribution.steps[step];
  const DeviceId device = s.group[rank];
  const std::vector<Assembly> blocks = part.movement->given(step, rank);
  CommunicationWork& work = member.work;
  if (blocks.empty()) return;
  work.blocks_given = s.kind == Collective::Send ? 1 : static_cast<std::int32_t>(blocks.size());
  if (s.kind != Collective::AllReduce) {
    work.give = assembled(part, device, blocks, member.before);
    return;
  }
  if (may_overwrite(part, device, step, blocks[0])) {
    work.give = work.get = fragment(part, device, blocks[0].parts[0].fragment);
  } else {
    work.give = work.get;
    add_moves(part, device, blocks[0], work.get, false, member.before);
  }
}

Flow::Member& Flow::step_member(Part& part, std::size_t step, std::size_t rank) {
  const auto [it, fresh] = part.members.try_emplace({step, rank});
  Member& member = it->second;
  if (!fresh) return member;
  const RedistributionStep& s = part.redistribution.steps[step];
  const DeviceId device = s.group[rank];
  CommunicationWork& work = member.work;
  work.kind = s.kind;
  work.group = s.group;
  work.rank = static_cast<std::int32_t>(rank);
  work.type = type_;
  const std::vector<Box> got = part.movement->got(step, rank);
  std::int64_t elements = 0;
  for (const Box& b : got) elements += b.elements();
  const bool in_place = s.kind == Collective::AllReduce &&
                        may_overwrite(part, device, step, part.movement->given(step, rank)[0]);
  if (!got.empty() && !in_place) {
    work.get = {buffers_.add(device, elements, type_, Buffer::Life::Uses, target_category_, wiring_.tensor),
                0, got.front()};
    work.blocks_got = s.kind == Collective::Send ? 1 : static_cast<std::int32_t>(got.size());
  }
  give(part, step, rank, member);
  // The destination of a reduction gives zeros: what it holds itself is added when its box is put together.
  if (s.kind == Collective::Reduce && rank == 0) member.before.zeroed.push_back(work.get);
  switch (s.kind) {
    case Collective::ReduceScatter:
    case Collective::AllGather:
      work.block = s.elements / static_cast<std::int64_t>(s.group.size());
      break;
    case Collective::AllToAll:
      work.block = s.elements / static_cast<std::int64_t>(s.group.size() * s.group.size());
      break;
    default:
      work.block = s.elements;
  }
  return member;
}

Flow::Member Flow::member(std::size_t index, std::size_t rank) {
  const CommunicationTask& task = wiring_.plan->tasks[index];
  Part& part = *parts_[task.term < 0 ? 0 : static_cast<std::size_t>(task.term)];
  Member member = step_member(part, static_cast<std::size_t>(task.step), rank);
  const std::int64_t block = member.work.block;
  member.work.part = {block * task.piece / task.pieces, block * (task.piece + 1) / task.pieces};
  return member;
}

const Flow::Target& Flow::target(DeviceId device, const Box& box) {
  const auto [it, fresh] = targets_.try_emplace({device, box});
  Target& target = it->second;
  if (!fresh) return target;
  if (parts_.size() == 1) {
    if (const auto at = lies_at(*parts_[0], device, parts_[0]->movement->result(device, box))) {
      target.view = *at;
      return target;
    }
  }
  target.view = buffers_.add(device, box, type_, Buffer::Life::Uses, target_category_, wiring_.tensor);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    add_moves(*parts_[i], device, parts_[i]->movement->result(device, box), target.view, i > 0, target.moves);
  return target;
}

}  // namespace pipesim
