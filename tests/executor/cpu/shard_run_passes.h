#pragma once

#include "tests/executor/cpu/shard_run.h"

namespace pipesim::cpu {

inline ShardRun::Shard ShardRun::make_shard(std::int64_t k, const WholeTensors& whole) {
  Shard shard;
  grid_.ranges(k, shard.ranges);
  for (std::size_t u = 0; u < op_.uses.size(); ++u) {
    const TensorUse& use = op_.uses[u];
    const Box box = box_of(use, op_, shard.ranges);
    const bool output = use.role == Role::Output;
    shard.values.push_back(box.empty() || !has_box(use, k) ? LocalTensor::absent(box)
                           : output                        ? LocalTensor::unwritten(box, whole[u].integers)
                                                           : LocalTensor::cut_out(whole[u], box));
    shard.gradients.push_back(LocalTensor::absent(box));
  }
  shard.saved = std::make_unique<SavedBytes>(kernel_->saved_bytes(op_, shard.ranges));
  return shard;
}

inline void ShardRun::prepare_backward(Shard& shard, const WholeTensors& output_gradients) {
  for (std::size_t u = 0; u < op_.uses.size(); ++u) {
    const TensorUse& use = op_.uses[u];
    LocalTensor& value = shard.values[u];
    const bool had = use.role == Role::Output ? !value.box.empty() : value.present();
    if (use.role == Role::Output && had) {
      shard.gradients[u] = LocalTensor::cut_out(output_gradients[u], value.box);
    } else if (wanted_[u] && had) {
      shard.gradients[u] = LocalTensor::unwritten(value.box, false);
    }
    if (!use.saved && use.role != Role::Weight && use.role != Role::Index) {
      value = LocalTensor::absent(value.box);
    }
  }
}

template <class Segment>
void ShardRun::call_shard(Shard& shard, Pass pass, std::size_t index, Segment segment) {
  std::vector<Piece> values, gradients;
  std::vector<std::span<double>> statistics;
  for (LocalTensor& t : shard.values) values.push_back(t.piece());
  const bool separate = !op_.flops_backward_weight.empty();
  for (std::size_t u = 0; u < op_.uses.size(); ++u) {
    const Role role = op_.uses[u].role;
    const bool other_pass = separate && ((pass == Pass::BackwardInput && role == Role::Weight) ||
                                         (pass == Pass::BackwardWeight && role == Role::Input));
    gradients.push_back(other_pass ? Piece{shard.gradients[u].box} : shard.gradients[u].piece());
  }
  for (std::vector<double>& s : shard.statistics) statistics.emplace_back(s);
  segment(ShardCall{op_, shard.ranges, values, gradients, statistics, shard.saved->span(), step_}, index);
  EXPECT_TRUE(shard.saved->intact()) << op_.kind << " writes beyond its saved bytes";
}

template <class Segment>
void ShardRun::run_pass(Pass pass, Segment segment) {
  std::vector<const InnerStep*> steps;
  for (const InnerStep& step : op_.inner_steps) {
    if (step.pass == pass) steps.push_back(&step);
  }
  for (Shard& shard : shards_) {
    shard.statistics.clear();
    for (const InnerStep* step : steps) {
      const auto n = static_cast<std::size_t>(evaluate(std::span(&step->elements, 1), shard.ranges));
      shard.statistics.emplace_back(n, std::numeric_limits<double>::quiet_NaN());
    }
  }
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    for (Shard& shard : shards_) call_shard(shard, pass, i, segment);
    if (i < steps.size()) reduce(*steps[i], i);
  }
}

inline void ShardRun::reduce(const InnerStep& step, std::size_t index) {
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> groups;
  for (std::size_t k = 0; k < shards_.size(); ++k) {
    std::vector<std::int64_t> rest;
    for (FactorIndex f = ShardGrid::replica_axis; f < std::ssize(op_.factors); ++f) {
      const bool over = std::find(step.over.begin(), step.over.end(), f) != step.over.end();
      rest.push_back(over ? 0 : grid_.coordinate(static_cast<std::int64_t>(k), f));
    }
    groups[rest].push_back(k);
  }
  for (const auto& [key, members] : groups) {
    std::vector<double> total = shards_[members.front()].statistics[index];
    for (std::size_t m = 1; m < members.size(); ++m) {
      const std::vector<double>& next = shards_[members[m]].statistics[index];
      for (std::size_t i = 0; i < total.size(); ++i) {
        total[i] = step.reduce == InnerStep::Reduce::Max ? std::max(total[i], next[i]) : total[i] + next[i];
      }
    }
    for (const std::size_t m : members) shards_[m].statistics[index] = total;
  }
}

inline WholeTensor ShardRun::assemble(std::size_t use, const Layout& layout,
                                      std::vector<LocalTensor> Shard::*held, bool complete) {
  WholeTensor whole = filled(op_.uses[use], 0);
  std::vector<std::vector<double>> addends(
      static_cast<std::size_t>(layout.num_addends()),
      std::vector<double>(whole.elements.size(), std::numeric_limits<double>::quiet_NaN()));
  for (std::size_t k = 0; k < shards_.size(); ++k) {
    const LocalTensor& local = (shards_[k].*held)[use];
    const auto entries = layout.entries_on(config_.devices[k]);
    EXPECT_EQ(entries.size(), local.present() ? 1U : 0U) << op_.kind << ", use " << use;
    if (entries.empty()) continue;
    EXPECT_EQ(layout.box(entries[0]), local.box);
    std::vector<double>& addend = addends[static_cast<std::size_t>(entries[0].addend)];
    std::size_t i = 0;
    for_each_offset(whole.shape, local.box, [&](std::size_t offset) {
      const double value = local.at(i++), before = addend[offset];
      EXPECT_FALSE(std::isnan(value)) << op_.kind << " leaves elements of use " << use << " unwritten";
      EXPECT_TRUE(std::isnan(before) || std::abs(value - before) < 1e-5)
          << "copies of use " << use << " differ: " << value << " and " << before;
      addend[offset] = value;
    });
  }
  for (std::size_t i = 0; i < whole.elements.size(); ++i) {
    bool covered = false;
    for (const std::vector<double>& addend : addends) {
      if (!std::isnan(addend[i])) covered = true, whole.elements[i] += addend[i];
    }
    EXPECT_TRUE(covered || !complete) << "element " << i << " of use " << use << " is nowhere";
  }
  return whole;
}

inline WholeTensor ShardRun::assemble_state(std::size_t use) {
  WholeTensor whole = filled(op_.uses[use], std::numeric_limits<double>::quiet_NaN());
  for (const Shard& shard : shards_) {
    const LocalTensor& local = shard.values[use];
    if (!local.present()) continue;
    std::size_t i = 0;
    for_each_offset(whole.shape, local.box, [&](std::size_t offset) {
      double& kept = whole.elements[offset];
      EXPECT_TRUE(std::isnan(kept) || local.at(i) == kept) << "copies of state " << use << " differ";
      kept = local.at(i++);
    });
  }
  return whole;
}

}  // namespace pipesim::cpu
