#include "search/intra/dual_ascent.h"

#include <algorithm>
#include <cmath>

#include "sim/base/deadline.h"

namespace pipesim {
namespace {

constexpr double kFirstLevel = 0.1;    // of the bound, where no cost is known to be reached
constexpr double kOfGap = 0.1;         // the first level, where one is
constexpr std::size_t kPatience = 5;   // rounds without a better bound before the level comes closer
constexpr double kCloser = 0.5;        // how much
constexpr double kFarther = 1.1;       // and how much farther when it is reached
constexpr double kNewest = 0.3;        // the newest supergradient's share of the average
constexpr double kStalledGain = 1e-7;  // of the bound, in kStalledRounds rounds
constexpr std::size_t kStalledRounds = 200;

}  // namespace

DualAscent::DualAscent(const IntraCore& core) : core_(core), passing_(core) {
  start(std::vector<double>(core.rows(), 0), std::vector<double>(core.messages, 0));
}

void DualAscent::start(const std::vector<double>& multipliers, const std::vector<double>& messages) {
  best_multipliers_ = multipliers;
  best_messages_ = messages;
  go_back_to_best();
  best_ = best_at_check_ = -kNever;
  average_.clear();
  level_ = 0;
  since_ = rounds_ = 0;
  stalled_ = false;
}

void DualAscent::go_back_to_best() {
  multipliers_ = best_multipliers_;
  passing_.set_multipliers(multipliers_);
  passing_.set_messages(best_messages_);
}

void DualAscent::run(std::size_t rounds, double aim) {
  for (std::size_t round = 0; round < rounds && !is_late(); ++round) {
    const double bound = passing_.forward();
    passing_.usage_of_minima(used_);
    step(bound, aim);
    passing_.backward();
    if (++rounds_ % kStalledRounds == 0) {
      stalled_ = best_ - best_at_check_ <= kStalledGain * std::abs(best_);
      best_at_check_ = best_;
    }
  }
}

void DualAscent::step(double bound, double aim) {
  if (level_ == 0) level_ = aim < kNever ? kOfGap * (aim - bound) : kFirstLevel * std::abs(bound);
  const double gained = bound - best_;
  if (bound > best_) {
    best_ = bound;
    best_multipliers_ = multipliers_;
    best_messages_ = passing_.messages();
  }
  if (aim < kNever) level_ = std::min(level_, aim - best_);
  if (gained > level_ / static_cast<double>(kPatience)) {
    if (since_ == 0) level_ *= kFarther;
    since_ = 0;
  } else if (++since_ > kPatience) {
    since_ = 0;
    level_ *= kCloser;
    go_back_to_best();
    return;
  }
  if (average_.empty()) average_ = used_;
  double squares = 0;
  steps_.clear();
  std::size_t peak = 0;
  bool rising = false;  // in a stretch of rows that are used too much
  const auto over = [&](std::size_t r) {
    return (average_[r] - core_.capacity[r]) / (core_.capacity[r] + 1);
  };
  const auto take = [&](std::size_t r) { steps_.push_back(r), squares += over(r) * over(r); };
  for (std::size_t r = 0; r < used_.size(); ++r) {
    average_[r] += kNewest * (used_[r] - average_[r]);
    const bool too_much = over(r) > 0;
    if (too_much && (!rising || over(r) > over(peak))) peak = r;
    if (rising && !too_much && multipliers_[peak] == 0) take(peak);
    rising = too_much;
    if (multipliers_[r] > 0) take(r);
  }
  if (rising && multipliers_[peak] == 0) take(peak);
  if (squares > 0) {
    const double length = level_ / squares;
    for (const std::size_t r : steps_)
      multipliers_[r] = std::max(0.0, multipliers_[r] + length * over(r) / (core_.capacity[r] + 1));
    passing_.set_multipliers(multipliers_);
  }
}

}  // namespace pipesim
