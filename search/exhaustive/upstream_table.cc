#include "search/exhaustive/upstream_table.h"

#include <algorithm>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

TaskId first_backward(const OperatorTasks& tasks) {
  return tasks.backward_input.valid() ? tasks.backward_input : tasks.backward_weight;
}

Nanoseconds sum_if_reached(Nanoseconds before, Nanoseconds distance) {
  return distance < 0 ? 0 : before + distance;
}

UpstreamChoice least_of(const std::vector<UpstreamChoice>& choices) {
  UpstreamChoice least = choices.front();
  for (const UpstreamChoice& c : choices) least.take_least(c);
  return least;
}

}  // namespace

// Between the shards of a block and those of one operator that reads from it; negative where no way leads.
struct UpstreamTable::Distances {
  std::size_t above, shards;            // numbers of shards
  std::vector<Nanoseconds> forward;     // [shard · above + shard of the block], start to start
  std::vector<Nanoseconds> backward;    // the same, gradient there to gradient there
  std::vector<std::uint8_t> same_lane;  // the same: on the same device, and reached
  std::vector<Nanoseconds> own;         // by shard: backward time

  Distances(std::size_t shards_above, const BoundOperator& bound)
      : above(shards_above),
        shards(bound.config.devices.size()),
        forward(above * shards, -1),
        backward(above * shards, -1),
        same_lane(above * shards, 0) {
    for (std::size_t k = 0; k < shards; ++k) own.push_back(backward_time(bound, k));
  }

  void extend(const UpstreamChoice& choice, UpstreamChoice& out, std::size_t first) const {
    for (std::size_t k = 0; k < shards; ++k) {
      Nanoseconds release = 0, path = 0, lane = 0;
      for (std::size_t i = 0; i < above; ++i) {
        release = std::max(release, sum_if_reached(choice.release()[i], forward[k * above + i]));
        path = std::max(path, sum_if_reached(choice.path()[i], backward[k * above + i]));
        if (same_lane[k * above + i] != 0) lane = std::max(lane, choice.lane()[i]);
      }
      out.release()[first + k] = release;
      out.path()[first + k] = path;
      out.lane()[first + k] = own[k] + lane;
    }
  }
};

UpstreamTable::UpstreamTable(const CandidateSet& candidates, const OperatorBlocks& blocks,
                             const PlanContents& contents, const UpstreamEffort& effort,
                             const std::function<bool()>& go_on)
    : contents_(contents),
      graph_(contents),
      effort_(effort),
      configs_(candidates.graph().operators().size()),
      settled_(configs_.size(), false),
      bounds_(blocks.size()) {
  for (const std::vector<OperatorId>& ops : blocks) blocks_.emplace_back(candidates, ops);
  for (std::size_t i = 0; i < configs_.size(); ++i) {
    const OperatorId op(i);
    for (std::size_t c = 0; c < candidates.size(op); ++c) {
      stop_if_late();
      configs_[i].push_back(contents.bind(op, candidates.config(op, c)));
    }
    strategy_.push_back(configs_[i].front());
  }
  for (std::size_t b = 0; b < blocks.size() && go_on(); ++b) fill(b, go_on);
}

void UpstreamTable::settle(const std::vector<OperatorId>& ops) {
  settled_.assign(settled_.size(), false);
  for (const OperatorId op : ops) settled_[op.index()] = true;
  graph_.build(strategy_, settled_, {}, nullptr);
}

void UpstreamTable::choose(const BlockConfigs& block, std::size_t joint) {
  for (std::size_t i = 0; i < block.ops().size(); ++i) {
    const OperatorId op = block.ops()[i];
    strategy_[op.index()] = configs_[op.index()][block.config(joint, i)];
  }
}

void UpstreamTable::fill(std::size_t b, const std::function<bool()>& go_on) {
  const BlockConfigs& block = blocks_[b];
  bounds_[b].resize(block.size());
  if (b > 0) extend(b, go_on);
  for (std::size_t joint = 0; joint < block.size(); ++joint) {
    const UpstreamChoice own = alone(block, joint);
    UpstreamBound& bound = bounds_[b][joint];
    if (bound.choices.empty()) bound.choices.push_back(own);
    for (UpstreamChoice& c : bound.choices) c.take_largest(own);
    bound.least = least_of(bound.choices);
    bound.summary = bound.choices;
    thin_out(bound.summary, effort_.choices_of_summary);
  }
}

std::size_t UpstreamTable::num_shards(const BlockConfigs& block) const {
  std::size_t shards = 0;
  for (const OperatorId op : block.ops()) shards += strategy_[op.index()]->config.devices.size();
  return shards;
}

// What the block itself adds.
UpstreamChoice UpstreamTable::alone(const BlockConfigs& block, std::size_t joint) {
  choose(block, joint);
  settle(block.ops());
  UpstreamChoice choice(num_shards(block));
  std::size_t at = 0;
  for (const OperatorId op : block.ops()) {
    const OperatorTasks& tasks = graph_.tasks_of(op);
    for (std::size_t k = 0; k < strategy_[op.index()]->config.devices.size(); ++k, ++at) {
      for (const TaskId first : {tasks.backward_input, tasks.backward_weight}) {
        if (!first.valid()) continue;
        choice.path()[at] = std::max(choice.path()[at], graph_.rest_from(TaskId(first.index() + k)));
      }
      choice.lane()[at] = backward_time(*strategy_[op.index()], k);
    }
  }
  return choice;
}

namespace {

// Reads the distances to each shard of a block's operators from `distances`.
template <class FirstTask, class Take>
void for_each_shard(const std::vector<OperatorId>& ops, const BoundStrategy& strategy, FirstTask first,
                    Take take) {
  std::size_t at = 0;
  for (const OperatorId op : ops) {
    const std::vector<DeviceId>& devices = strategy[op.index()]->config.devices;
    const TaskId task = first(op);
    for (std::size_t i = 0; i < devices.size(); ++i, ++at) {
      if (task.valid()) take(at, TaskId(task.index() + i), devices[i]);
    }
  }
}

}  // namespace

UpstreamTable::Distances UpstreamTable::measure(const BlockConfigs& above, OperatorId op) {
  std::vector<OperatorId> ops = above.ops();
  ops.push_back(op);
  settle(ops);
  const BoundOperator& bound = *strategy_[op.index()];
  const OperatorTasks& to = graph_.tasks_of(op);
  Distances d(num_shards(above), bound);
  for_each_shard(
      above.ops(), strategy_, [&](OperatorId from) { return graph_.tasks_of(from).forward; },
      [&](std::size_t at, TaskId task, DeviceId) {
        graph_.distances_from(task, distances_);
        for (std::size_t k = 0; k < d.shards; ++k)
          d.forward[k * d.above + at] = distances_[to.forward.index() + k];
      });
  for (std::size_t k = 0; to.backward_input.valid() && k < d.shards; ++k) {
    graph_.distances_from(TaskId(to.backward_input.index() + k), distances_);
    for_each_shard(
        above.ops(), strategy_, [&](OperatorId from) { return first_backward(graph_.tasks_of(from)); },
        [&](std::size_t at, TaskId task, DeviceId device) {
          const Nanoseconds distance = distances_[task.index()];
          d.backward[k * d.above + at] = distance;
          d.same_lane[k * d.above + at] = distance >= 0 && device == bound.config.devices[k];
        });
  }
  return d;
}

UpstreamTable::Parts UpstreamTable::measure(const BlockConfigs& above, const BlockConfigs& block) {
  Parts parts(block.ops().size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OperatorId op = block.ops()[i];
    for (const BoundOperator* config : configs_[op.index()]) {
      strategy_[op.index()] = config;
      parts[i].push_back(measure(above, op));
    }
  }
  return parts;
}

void UpstreamTable::extend(std::size_t b, const std::function<bool()>& go_on) {
  for (std::size_t origin = 0; origin < blocks_[b - 1].size() && go_on(); ++origin) {
    choose(blocks_[b - 1], origin);
    extend_from(origin, b, measure(blocks_[b - 1], blocks_[b]));
  }
}

void UpstreamTable::extend_from(std::size_t origin, std::size_t b, const Parts& parts) {
  std::vector<const Distances*> own(parts.size());
  for (std::size_t joint = 0; joint < blocks_[b].size(); ++joint) {
    std::size_t shards = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      own[i] = &parts[i][blocks_[b].config(joint, i)];
      shards += own[i]->shards;
    }
    std::vector<UpstreamChoice> choices;
    for (const UpstreamChoice& choice : bounds_[b - 1][origin].summary) {
      choices.emplace_back(shards, origin);
      std::size_t first = 0;
      for (const Distances* part : own) {
        part->extend(choice, choices.back(), first);
        first += part->shards;
      }
    }
    thin_out(choices, effort_.choices_per_origin);
    std::vector<UpstreamChoice>& all = bounds_[b][joint].choices;
    std::move(choices.begin(), choices.end(), std::back_inserter(all));
  }
}

}  // namespace pipesim
