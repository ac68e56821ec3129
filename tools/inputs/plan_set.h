#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/inputs/subject.h"

namespace pipesim {

/// Most strategies that --random draws.
inline constexpr std::int64_t kMostRandomPlans = 1000;

/// A plan to run, and what to call it: "data-parallel", "random 3", the name of a file. Baselines that are
/// the same plan stand once, with both names.
struct NamedSubject {
  std::string name;
  Subject subject;
};

/// A model on a topology, and the plans that are run on it.
class PlanSet {
 public:
  /// UsageError, InputError as subject_of. `calibration` predicts, where there is one.
  PlanSet(OperatorGraph graph, Topology topology, PlanOptions options,
          std::optional<Calibration> calibration);

  /// Baselines that fit into memory.
  void add_baselines();
  /// Strategies in each of which every operator is split at random, but in no way a second time before it
  /// was split in all ways; as far as so many that fit into memory are found: "random 1" and so on. The same
  /// seed gives the same strategies.
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
