#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/analysis/inputs/subject.h"

namespace pipesim {

/// The largest number of strategies that --random draws.
inline constexpr std::int64_t kMostRandomPlans = 1000;

/// A plan to run, and its name: "data-parallel", "random 3", the name of a file. Baselines that are the same
/// plan appear once, with both names.
struct NamedSubject {
  std::string name;
  Subject subject;
};

/// A model on a topology, and the plans that are run on it.
class PlanSet {
 public:
  /// UsageError and InputError as in subject_of. Predictions use `calibration`, if there is one.
  PlanSet(OperatorGraph graph, Topology topology, PlanOptions options,
          std::optional<Calibration> calibration);

  /// Baselines that fit into memory.
  void add_baselines();
  /// Adds `count` random strategies "random 1", "random 2", …, or fewer if fewer that fit into memory are
  /// found. In each, every operator is split at random; no split of an operator comes a second time before
  /// all its splits came once. The same seed gives the same strategies.
  void add_random(std::int64_t count, std::uint64_t seed);
  /// A plan file, made for the same operators and devices.
  void add_file(const std::string& path);

  [[nodiscard]] const std::vector<NamedSubject>& plans() const { return plans_; }

 private:
  void add(const std::string& name, Plan plan);
  [[nodiscard]] bool fits(const Strategy& strategy) const;

  OperatorGraph graph_;
  Topology topology_;
  PlanOptions options_;
  std::optional<Calibration> calibration_;
  std::vector<NamedSubject> plans_;
};

}  // namespace pipesim
