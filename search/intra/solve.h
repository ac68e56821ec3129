#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "search/intra/instance.h"

namespace pipesim {

/// How far the solver has come.
struct IntraProgress {
  bool found = false;          ///< an answer that breaks no rule
  WideCost cost = 0;           ///< of the best answer
  WideCost bound = 0;          ///< no answer costs less
  std::size_t strategies = 0;  ///< that may still be in a better answer, of the part that is looked at
  std::size_t parts = 0;       ///< of branch and bound
  std::uint64_t rounds = 0;    ///< done
};

struct IntraSettings {
  std::uint64_t seed = 0;
  std::size_t threads = 1;
  /// The result depends on the seed and the number of rounds, not on the threads. The deadline that the
  /// thread keeps (sim/base/deadline.h) ends the work as well.
  std::uint64_t rounds = std::numeric_limits<std::uint64_t>::max();
  std::function<void(const IntraProgress&)> progress = {};  ///< after each round, by the calling thread
};

struct IntraSolution {
  bool found = false;
  /// The answer is optimal; or, if none was found, there is none. Where sums of costs may exceed 2^53 no
  /// answer is proven, and the bound is lower by as much as sums of doubles may be wrong.
  bool proven = false;
  IntraAnswer answer;
  WideCost cost = 0;
  WideCost bound = 0;
  std::size_t nodes = 0;  ///< that the reductions left
  std::size_t parts = 0;  ///< that branch and bound looked at
  std::uint64_t rounds = 0;

  /// The cost's distance from the bound, as a share of the cost.
  [[nodiscard]] double gap() const;
};

/// Reduces the instance, then improves answers and raises the lower bound in turn until they meet or the time
/// is over. docs/intra.md says how. Throws InputError where the limit is below what every choice uses.
IntraSolution solve(const IntraInstance& instance, const IntraSettings& settings = {});

}  // namespace pipesim
