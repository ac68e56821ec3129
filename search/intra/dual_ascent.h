#pragma once

#include <cstdint>
#include <vector>

#include "search/intra/message_passing.h"

namespace pipesim {

/// Raises the bound of a core: passes of messages and steps of the multipliers take turns. The steps are
/// those of the volume algorithm (Barahona and Anbil 2000): along an average of the supergradients, with a
/// length that aims at a level above the best bound. The level comes closer when it is not reached.
class DualAscent {
 public:
  explicit DualAscent(const IntraCore& core);

  /// Begins again with these multipliers, and with messages.
  void start(const std::vector<double>& multipliers, const std::vector<double>& messages);
  /// Sets messages() to the multipliers and messages of the best bound.
  void go_back_to_best();
  /// So many passes in each direction. `aim`: a cost that is known to be reached, or infinity.
  void run(std::size_t rounds, double aim);

  [[nodiscard]] double bound() const { return best_; }
  [[nodiscard]] const std::vector<double>& best_multipliers() const { return best_multipliers_; }
  [[nodiscard]] const std::vector<double>& best_messages() const { return best_messages_; }
  [[nodiscard]] MessagePassing& messages() { return passing_; }
  /// Whether the last steps gained next to nothing.
  [[nodiscard]] bool stalled() const { return stalled_; }

 private:
  void step(double bound, double aim);

  const IntraCore& core_;
  MessagePassing passing_;
  std::vector<double> multipliers_, best_multipliers_, best_messages_, used_, average_;
  double best_ = -kNever, level_ = 0, best_at_check_ = -kNever;
  std::size_t since_ = 0, rounds_ = 0;
  std::vector<std::size_t> steps_;  // rows whose multipliers change
  bool stalled_ = false;
};

}  // namespace pipesim
