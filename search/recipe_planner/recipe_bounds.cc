#include "search/recipe_planner/recipe_bounds.h"

#include <algorithm>
#include <span>

#include "sim/bounds/one_machine.h"
#include "taskgraph/schedules/schedule.h"

namespace pipesim {

PermanentBytes permanent_bytes(const RecipeMeshCosts& costs, std::int64_t times,
                               const StateSharding& sharding, DataType gradient_type,
                               const Optimizer& optimizer) {
  const auto of = [&](const PartCosts& part) {
    return least_permanent(part, times, sharding, gradient_type, optimizer);
  };
  PermanentBytes bytes{of(costs.front), of(costs.behind), {}, {}};
  for (const PartCosts& part : costs.of_class) {
    bytes.of_class.push_back(of(part));
    bytes.gathered.push_back(least_gathered(part, times, sharding));
  }
  return bytes;
}

std::int32_t least_communicators(const Recipe& mesh, const StageDivision& division) {
  const std::int32_t sends = mesh.pipeline > 1 ? 1 : 0;
  if (std::ranges::find(division.layers, 0) != division.layers.end()) return sends;
  const bool copies = mesh.context * mesh.data > 1;
  const bool parts = mesh.context > 1 && mesh.data > 1;  // else they are the copies
  const bool norms = mesh.sequence_parallel && mesh.tensor > 1 && copies;
  return sends + (copies ? 1 : 0) + (mesh.tensor > 1 ? 1 : 0) + (parts ? 1 : 0) + (norms ? 1 : 0);
}

DividedCosts::DividedCosts(const CopyCosts& copy, const ModelParts& parts, const StageDivision& division,
                           std::int64_t groups, const Recompute& recompute, bool both_ways)
    : parts_(parts), groups_(groups), kind_(parts.number_of(recompute)) {
  const std::size_t stages = division.layers.size();
  const auto add_stages = [&](std::vector<Stage>& made, bool mirrored) {
    std::int64_t from = 0;
    for (std::size_t s = 0; s < stages; ++s) {
      const auto group =
          static_cast<std::size_t>(device_of_stage(static_cast<std::int64_t>(s), groups, division.in_v));
      const std::size_t here = copy.size() == 1 ? 0 : mirrored ? copy.size() - 1 - group : group;
      made.push_back(stage_of(*copy[here], s, stages, from, division.layers[s]));
      from += division.layers[s];
    }
  };
  add_stages(stages_, false);
  if (both_ways && copy.size() > 1) add_stages(mirrored_, true);
}

DividedCosts::Stage DividedCosts::stage_of(const RecipeMeshCosts& costs, std::size_t number,
                                           std::size_t stages, std::int64_t from, std::int64_t count) const {
  Stage stage;
  stage.first = number == 0;
  stage.last = number + 1 == stages;
  stage.layers.assign(costs.of_class.size(), 0);
  Nanoseconds busy_forward = 0, chain = 0;
  bool any = false;  // parts so far
  const auto add = [&](const PartCosts& part) {
    busy_forward += part.busy_forward;
    stage.busy_input += part.busy_input + part.busy_again[kind_];
    stage.busy_weight += part.busy_weight;
    stage.host_forward += part.host_forward;
    stage.host_input += part.host_input + part.host_again[kind_];
    stage.host_weight += part.host_weight;
    stage.again_of_last = part.busy_again[kind_];
    stage.kept += part.kept[kind_] + (any ? part.kept_entry[kind_] : Bytes(0));
    stage.kept_for_weights += part.kept_for_weights;
    chain += any ? part.forward : part.forward_first;
    any = true;
  };
  const auto has = [&](bool here, const ModelPart& part) { return here && !part.operators.empty(); };
  const bool behind = has(stage.last, parts_.behind);
  if (has(stage.first, parts_.front)) add(costs.front);
  const auto layers = static_cast<std::int64_t>(parts_.class_of.size());
  for (std::int64_t l = from; l < from + count; ++l) {
    const std::size_t number_of_class = parts_.class_of[static_cast<std::size_t>(l)];
    const PartCosts& part = costs.of_class[number_of_class];
    ++stage.layers[number_of_class];
    stage.while_again = stage.kept + part.made_again[kind_];
    add(part);
    const bool last_of_model = l + 1 == layers;
    // What the layer makes may be read again behind it, or not, if that is in another stage.
    if (last_of_model && !behind && !parts_.behind.operators.empty())
      stage.busy_input -= part.busy_again[kind_], stage.host_input -= part.host_again[kind_],
          stage.again_of_last = 0;
  }
  if (behind) {
    const Nanoseconds again_before = stage.again_of_last;
    add(costs.behind);
    stage.again_of_last = std::max(stage.again_of_last, again_before);
  }
  stage.input = backward_of(costs, stage, from, count, &PartCosts::backward);
  stage.whole = backward_of(costs, stage, from, count, &PartCosts::whole_backward);
  stage.forward_chain = chain;
  stage.host_forward += costs.host_step;
  stage.host_input += costs.host_step;
  stage.forward = std::max({chain, busy_forward, stage.host_forward});
  stage.busy_forward = busy_forward;
  return stage;
}

DividedCosts::Stage::Backward DividedCosts::backward_of(const RecipeMeshCosts& costs, const Stage& stage,
                                                        std::int64_t from, std::int64_t count,
                                                        BackwardChains PartCosts::*chains) const {
  const bool full = parts_.recomputes[kind_].kind == Recompute::Kind::Full;
  const bool front = stage.first && !parts_.front.operators.empty();
  const bool behind = stage.last && !parts_.behind.operators.empty();
  const auto layers = static_cast<std::int64_t>(parts_.class_of.size());
  bool any = false;  // parts so far
  Stage::Backward made;
  const auto add = [&](const BackwardChains& part, std::size_t kind) {
    made.chain += any ? part.all[kind] : part.first[kind];
    any = true;
  };
  if (front && !full) add(costs.front.*chains, kind_);
  for (std::int64_t l = from; l < from + count; ++l) {
    const BackwardChains& part = costs.of_class[parts_.class_of[static_cast<std::size_t>(l)]].*chains;
    if (!full) {
      add(part, kind_);
      continue;
    }
    const bool last_of_model = l + 1 == layers;
    made.drain = made.chain + part.first[last_of_model ? 0 : kind_];
    made.chain += last_of_model ? part.first[0] : part.all[kind_];
  }
  any |= front || count > 0;
  if (behind) add(costs.behind.*chains, full ? 0 : kind_);
  if (!full || behind) made.drain = made.chain;
  return made;
}

Nanoseconds DividedCosts::time(const ScheduleShape& shape, std::int64_t microbatches) const {
  if (groups_ == 1) {
    const Stage& s = stages_.front();
    return microbatches *
           std::max({s.forward_chain + s.whole.chain, s.busy_forward + s.busy_input + s.busy_weight,
                     s.host_forward + s.host_input + s.host_weight});
  }
  struct Before {
    std::vector<Nanoseconds> fill{0}, drain{0};  // by stage: of those before it
  };
  const auto before = [&](const std::vector<Stage>& stages) {
    Before made;
    for (const Stage& stage : stages) {
      const Nanoseconds busy =
          stage.busy_input - stage.again_of_last + (shape.splits_backward ? 0 : stage.busy_weight);
      made.fill.push_back(made.fill.back() + stage.forward_chain);
      made.drain.push_back(made.drain.back() +
                           std::max((shape.splits_backward ? stage.input : stage.whole).drain, busy));
    }
    return made;
  };
  const Before in_order = before(stages_), mirrored = before(mirrored_);
  Nanoseconds longest = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const ScheduleShape::Group& group = shape.groups[g];
    const auto first = static_cast<std::size_t>(group.first_stage),
               last = static_cast<std::size_t>(group.last_stage);
    const Nanoseconds fill = (is_mirrored(first, g) ? mirrored : in_order).fill[first],
                      drain = (is_mirrored(last, g) ? mirrored : in_order).drain[last];
    Nanoseconds behind = 0;
    for (const ScheduleShape::Steps& steps : group.steps)
      behind += steps.weight_behind * stage(steps, g).least_weight();
    longest = std::max(longest, fill + work_of(group, g) - behind + std::max(behind, drain));
  }
  return longest;
}

// Steps beside each other share the devices, and each has its chain.
Nanoseconds DividedCosts::work_of(const ScheduleShape::Group& group, std::size_t number) const {
  Nanoseconds work = 0;
  for (const ScheduleShape::Steps& steps : group.steps) {
    const Stage& s = stage(steps, number);
    work += steps.forward * s.forward + steps.backward * std::max(s.whole.chain, s.least_whole()) +
            steps.input * std::max(s.input.chain, s.least_input()) + steps.weight * s.least_weight();
  }
  for (const ScheduleShape::Pairs& pairs : group.pairs) {
    const Stage &f = stage(group.steps[pairs.forward], number),
                &b = stage(group.steps[pairs.backward], number);
    work += pairs.times * std::max({f.forward, b.whole.chain, f.busy_forward + b.busy_input + b.busy_weight,
                                    b.host_input + b.host_weight});
  }
  return work;
}

Nanoseconds DividedCosts::held(const Stage& stage, const MeshTraffic& traffic,
                               Nanoseconds PartTraffic::*by) const {
  Nanoseconds sum = (stage.first ? traffic.front.*by : 0) + (stage.last ? traffic.behind.*by : 0);
  for (std::size_t k = 0; k < stage.layers.size(); ++k) sum += stage.layers[k] * traffic.of_class[k].*by;
  return sum;
}

Nanoseconds DividedCosts::time(const MeshTraffic& traffic, const ScheduleShape& shape) const {
  Nanoseconds longest = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    Nanoseconds on_links = 0, computing = 0;
    for (const ScheduleShape::Steps& steps : shape.groups[g].steps) {
      const Stage& s = stage(steps, g);
      on_links +=
          steps.microbatches * held(s, traffic, &PartTraffic::each) + held(s, traffic, &PartTraffic::once);
      computing += steps.microbatches * (s.busy_forward + s.busy_input + s.busy_weight +
                                         held(s, traffic, &PartTraffic::lost_each)) +
                   held(s, traffic, &PartTraffic::lost_once);
    }
    longest = std::max({longest, on_links, computing});
  }
  return longest;
}

// When the last backward of a stage begins.
struct DividedCosts::LastBackward {
  const Stage* stage = nullptr;
  std::int32_t group = 0;
  Nanoseconds begin = 0;
};

// The earliest times of the steps of a sequence.
class DividedCosts::FollowedSteps {
 public:
  /// `stage_transfers`: see MeshTraffic; empty: as if there were none.
  FollowedSteps(const DividedCosts& costs, const StepSequence& sequence,
                std::span<const StageTransfer> stage_transfers)
      : costs_(costs),
        stage_transfers_(stage_transfers),
        microbatches_(static_cast<std::size_t>(sequence.microbatches)),
        forward_(costs.stages_.size() * microbatches_),
        backward_(forward_),
        groups_(static_cast<std::size_t>(sequence.groups)),
        last_backward_(costs.stages_.size()) {
    for (const StepSequence::Step& step : sequence.steps) follow(step);
  }

  [[nodiscard]] Nanoseconds end() const {
    Nanoseconds last = 0;
    for (const Group& group : groups_) last = std::max(last, group.free);
    return last;
  }
  [[nodiscard]] Nanoseconds end_of(std::size_t group) const { return groups_[group].free; }
  [[nodiscard]] const std::vector<LastBackward>& last_backward() const { return last_backward_; }

 private:
  struct Group {
    Nanoseconds free = 0;  // all steps so far have ended
    // The last forward step: when its input is there, where its end is noted, and its stage.
    Nanoseconds input = 0;
    std::size_t forward = 0;
    const Stage* of_forward = nullptr;
  };

  // What a stage has made, at the earliest, and on which group.
  struct HandedOn {
    Nanoseconds made = 0;
    std::int32_t group = 0;
  };
  [[nodiscard]] Nanoseconds arrival(HandedOn from, std::int32_t to, Nanoseconds StageTransfer::*way) const {
    if (stage_transfers_.empty() || from.group == to) return from.made;
    const auto groups = static_cast<std::int32_t>(groups_.size());
    const std::int32_t front = (from.group + 1) % groups == to ? from.group : to;
    return from.made + stage_transfers_[static_cast<std::size_t>(front)].*way;
  }

  void follow(const StepSequence::Step& step) {
    const auto number = static_cast<std::size_t>(step.what.stage);
    const Stage& stage = costs_.stage(number, static_cast<std::size_t>(step.group));
    Group& group = groups_[static_cast<std::size_t>(step.group)];
    const std::size_t at = number * microbatches_ + static_cast<std::size_t>(step.what.microbatch);
    if (step.what.kind == StepKind::Forward) {
      group.input =
          number == 0 ? 0 : arrival(forward_[at - microbatches_], step.group, &StageTransfer::forward);
      group.forward = at;
      group.of_forward = &stage;
      if (step.leads_pair) return;
      const Nanoseconds begin = std::max(group.free, group.input);
      forward_[at] = {begin + stage.forward_chain, step.group};
      group.free = begin + stage.forward;
    } else if (step.what.kind == StepKind::BackwardWeight) {
      group.free += stage.least_weight();
    } else {
      const Nanoseconds gradient =
          number + 1 == last_backward_.size()
              ? 0
              : arrival(backward_[at + microbatches_], step.group, &StageTransfer::backward);
      const bool whole = step.what.kind == StepKind::Backward;
      const Stage::Backward& back = whole ? stage.whole : stage.input;
      const Nanoseconds busy = stage.busy_input + (whole ? stage.busy_weight : 0),
                        least = whole ? stage.least_whole() : stage.least_input();
      if (step.what.beside) {
        // One call: it begins with what both wait for, and both results leave at its end.
        const Nanoseconds begin = std::max({group.free, group.input, gradient});
        last_backward_[number] = {&stage, step.group, begin};
        group.free = begin + std::max({group.of_forward->forward, back.chain, least,
                                       group.of_forward->busy_forward + busy});
        backward_[at] = forward_[group.forward] = {group.free, step.group};
        return;
      }
      backward_[at] = {std::max(group.free + back.chain, gradient + back.drain), step.group};
      last_backward_[number] = {&stage, step.group, std::max(group.free, gradient)};
      group.free = std::max(group.free + std::max(back.chain, least),
                            gradient + std::max(back.drain, busy - stage.again_of_last));
    }
  }

  const DividedCosts& costs_;
  std::span<const StageTransfer> stage_transfers_;
  std::size_t microbatches_;
  std::vector<HandedOn> forward_, backward_;  // by stage and microbatch
  std::vector<Group> groups_;
  std::vector<LastBackward> last_backward_;
};

Nanoseconds DividedCosts::time_of_steps(const StepSequence& steps) const {
  return FollowedSteps(*this, steps, {}).end();
}

Nanoseconds DividedCosts::time_of_steps(const StepSequence& steps, const MeshTraffic& traffic,
                                        GradientReduction reduction) const {
  const FollowedSteps followed(*this, steps, traffic.stage_transfers);
  if (reduction == GradientReduction::AfterSteps) return end_of_reductions(followed, steps, traffic);
  Nanoseconds end = followed.end();
  if (steps.both_ways) return end;
  std::vector<std::vector<LaneJob>> of_group(static_cast<std::size_t>(steps.groups));
  for (const LastBackward& last : followed.last_backward())
    of_group[static_cast<std::size_t>(last.group)].push_back(
        {last.begin, held(*last.stage, traffic, &PartTraffic::at_end), 0});
  for (std::vector<LaneJob>& transfers : of_group) end = end_of_work(transfers, end);
  return end;
}

// They begin when all groups that hold the stages have done their steps.
Nanoseconds DividedCosts::end_of_reductions(const FollowedSteps& followed, const StepSequence& steps,
                                            const MeshTraffic& traffic) const {
  const auto groups = static_cast<std::size_t>(steps.groups);
  const auto mirrored = [&](std::size_t group) { return steps.both_ways ? groups - 1 - group : group; };
  std::vector<Nanoseconds> reductions(groups, 0);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const Nanoseconds reduction = held(stages_[s], traffic, &PartTraffic::at_end);
    const auto group = static_cast<std::size_t>(followed.last_backward()[s].group);
    reductions[group] += reduction;
    if (mirrored(group) != group) reductions[mirrored(group)] += reduction;
  }
  Nanoseconds end = 0;
  for (std::size_t g = 0; g < groups; ++g)
    end = std::max(end, std::max(followed.end_of(g), followed.end_of(mirrored(g))) + reductions[g]);
  return end;
}

Bytes DividedCosts::memory(const ScheduleShape& shape, const PermanentBytes& permanent) const {
  Bytes most;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const ScheduleShape::Group& group = shape.groups[g];
    Bytes always;
    for (const ScheduleShape::Steps& steps : group.steps) {
      const Stage& here = stage(steps, g);
      if (here.first) always += permanent.front;
      if (here.last) always += permanent.behind;
      for (std::size_t k = 0; k < here.layers.size(); ++k) always += here.layers[k] * permanent.of_class[k];
    }
    for (const ScheduleShape::Moment& moment : group.moments) {
      Bytes sum = always, again;
      for (std::size_t c = 0; c < moment.before_input.size(); ++c) {
        const Stage& here = stage(group.steps[c], g);
        sum += moment.before_input[c] * here.kept +
               (moment.before_weight[c] - moment.before_input[c]) * here.kept_for_weights;
        for (std::size_t k = 0; k < here.layers.size() && moment.before_input[c] > 0; ++k)
          sum += here.layers[k] * permanent.gathered[k];
        if (moment.begins == c) again = std::max(Bytes(0), here.while_again - here.kept);
      }
      most = std::max(most, sum + again);
    }
  }
  return most;
}

}  // namespace pipesim
