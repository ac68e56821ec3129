#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "search/joint/joint_plan.h"

namespace pipesim {

/// 128 bits that identify a plan. The probability that two of a million plans have the same is about 10^-26.
using PlanDigest = std::array<std::uint64_t, 2>;
PlanDigest digest_of(const JointPlan& plan);

/// What is known about a plan's cost.
struct JointScore {
  enum class Known : std::uint8_t { Illegal, AtLeast, Exactly } known = Known::Illegal;
  Evaluation evaluation;  ///< for AtLeast: lower bounds of its parts
  bool operator==(const JointScore&) const = default;
};

/// Scores of plans that were seen before. Any number of threads may use it.
class JointScores {
 public:
  [[nodiscard]] std::optional<JointScore> find(const PlanDigest& plan) const;
  /// Exact scores are never replaced by bounds.
  void keep(const PlanDigest& plan, const JointScore& score);

 private:
  struct Hash {
    std::size_t operator()(const PlanDigest& digest) const noexcept { return digest[0]; }
  };
  mutable std::mutex mutex_;
  std::unordered_map<PlanDigest, JointScore, Hash> scores_;
};

}  // namespace pipesim
