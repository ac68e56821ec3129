#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "search/intra/dual_ascent.h"
#include "search/intra/model.h"

namespace pipesim {

/// An answer that the prover came across. Improvers may start from it. It may use too much.
struct RoundedAnswer {
  IntraAnswer answer;
  double cost = 0, excess = 0;
};

/// Raises the lower bound of a whole model by dual ascent. It drops strategies that only dearer answers have,
/// reduces the model after that, and turns to branch and bound when nothing more is gained.
class Prover {
 public:
  /// A part of the model: some nodes have fewer strategies.
  struct Open {
    IntraModel model;
    double bound = -kNever;                      ///< with the model's constant
    std::map<std::int64_t, double> multipliers;  ///< by time
    std::size_t depth = 0;
    std::shared_ptr<const IntraCore> core = {};  ///< that the messages belong to
    std::vector<double> messages = {};
  };

  explicit Prover(const IntraModel& model);

  /// Works until about so many entries of tables were read. `aim`: the cost of the best answer that is known,
  /// or infinity. Costs are whole numbers, so that only answers cheaper by 1 matter.
  void run(std::uint64_t work, double aim);

  /// No answer costs less than this or than the aim, whichever is lower.
  [[nodiscard]] double bound() const;
  /// Whether nothing cheaper than the aim is left.
  [[nodiscard]] bool finished() const { return !current_ && open_.empty(); }
  [[nodiscard]] std::size_t parts() const { return parts_; }  ///< that branch and bound looked at
  /// Multipliers of the first part, by time.
  [[nodiscard]] const std::map<std::int64_t, double>& multipliers() const { return first_multipliers_; }
  [[nodiscard]] const std::vector<RoundedAnswer>& rounded() const { return rounded_; }
  /// Returns how many strategies are left, over all nodes, in the part that it works on.
  [[nodiscard]] std::size_t strategies_left() const;

 private:
  struct Current {
    Open part;
    std::shared_ptr<IntraCore> core;
    std::unique_ptr<DualAscent> ascent;
    std::vector<double> weights;  // averages, of all strategies
    std::size_t chunks = 0;
    double bound_at_shrink = -kNever;
  };

  void take_next(double aim);
  void prepare(Current& current) const;
  void ascend(double aim);
  bool shrink(double aim);
  void branch(double aim);
  void note_rounded(bool only_good, double aim);
  [[nodiscard]] static bool hopeless(double bound, double aim) { return bound > aim - 1; }

  std::size_t num_nodes_;
  std::vector<Open> open_;
  std::unique_ptr<Current> current_;
  std::map<std::int64_t, double> first_multipliers_;
  std::vector<RoundedAnswer> rounded_;
  double first_bound_ = -kNever;
  std::uint64_t work_ = 0;
  std::size_t parts_ = 0;
};

}  // namespace pipesim
