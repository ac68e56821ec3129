#pragma once

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/float_group.h"
#include "executor/gpu/bodies/parts/floats.h"
#include "executor/operators/optimizer.h"

namespace pipesim::gpu {

/// What every optimizer reads and writes of a shard's weights.
struct TrainedElements {
  Floats weights, master, gradient;
  float averaged = 1;  ///< the gradient is divided by it
  [[nodiscard]] PIPESIM_DEVICE FloatGroup slopes(const GroupPlace& at) const {
    FloatGroup slopes = read_group(gradient, at);
    for (float& slope : slopes.values) slope /= averaged;
    return slopes;
  }
  [[nodiscard]] PIPESIM_DEVICE FloatGroup values(const GroupPlace& at) const {
    return read_group(master.present() ? master : weights, at);
  }
  PIPESIM_DEVICE void put(const GroupPlace& at, const FloatGroup& values) const {
    if (master.present()) write_group(master, at, values);
    write_group(weights, at, values);
  }
};

/// By groups.
struct SgdUpdate {
  TrainedElements trained;
  OptimizerSettings settings;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    const FloatGroup slopes = trained.slopes(at);
    FloatGroup values = trained.values(at);
    for (int k = 0; k < FloatGroup::size; ++k) step_sgd(settings, slopes.values[k], values.values[k]);
    trained.put(at, values);
  }
};

/// By groups.
struct MomentumUpdate {
  TrainedElements trained;
  Floats velocity;
  OptimizerSettings settings;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    const FloatGroup slopes = trained.slopes(at);
    FloatGroup values = trained.values(at), kept = read_group(velocity, at);
    for (int k = 0; k < FloatGroup::size; ++k)
      step_momentum(settings, slopes.values[k], values.values[k], kept.values[k]);
    write_group(velocity, at, kept);
    trained.put(at, values);
  }
};

/// By groups.
struct LionUpdate {
  TrainedElements trained;
  Floats moment;
  OptimizerSettings settings;
  std::int64_t elements = 0;
  PIPESIM_DEVICE void operator()(std::int64_t i) const {
    const GroupPlace at = group_at(i, elements);
    const FloatGroup slopes = trained.slopes(at);
    FloatGroup values = trained.values(at), kept = read_group(moment, at);
    for (int k = 0; k < FloatGroup::size; ++k)
      step_lion(settings, slopes.values[k], values.values[k], kept.values[k]);
    write_group(moment, at, kept);
    trained.put(at, values);
  }
};

/// A team updates a chunk of the weights, made of whole groups, so that one of its threads computes the
/// powers for all.
struct AdamUpdate {
  static constexpr std::int64_t chunk = 4096;
  TrainedElements trained;
  Floats first, second;
  OptimizerSettings settings;
  std::int64_t elements = 0;
  /// The step counts from 0. It has `changes` changes of the weights, and this is number `change`, from 0.
  const std::int64_t* step = nullptr;
  std::int64_t changes = 1, change = 0;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t c) const {
    AdamCorrections corrections{0, 0};
    if (team.rank() == 0) corrections = adam_corrections(settings, *step * changes + change + 1);
    corrections = {static_cast<float>(team.sum(static_cast<double>(corrections.first))),
                   static_cast<float>(team.sum(static_cast<double>(corrections.second)))};
    const std::int64_t end = (c + 1) * chunk < elements ? (c + 1) * chunk : elements;
    for (std::int64_t i = c * chunk / FloatGroup::size + team.rank(); i < groups_of(end); i += team.size())
      train(group_at(i, elements), corrections);
  }

 private:
  PIPESIM_DEVICE void train(const GroupPlace& at, const AdamCorrections& corrections) const {
    const FloatGroup slopes = trained.slopes(at);
    FloatGroup values = trained.values(at), means = read_group(first, at), squares = read_group(second, at);
    for (int k = 0; k < FloatGroup::size; ++k)
      step_adam(settings, corrections, slopes.values[k], values.values[k], means.values[k],
                squares.values[k]);
    write_group(first, at, means);
    write_group(second, at, squares);
    trained.put(at, values);
  }
};

using OptimizerBodies = BodyList<AdamUpdate, LionUpdate, MomentumUpdate, SgdUpdate>;

}  // namespace pipesim::gpu
