#pragma once

#include <algorithm>
#include <cstdint>

#include "search/search.h"

namespace pipesim {

/// A budget that several searches share. It is given out in parts; the last part gets the remaining
/// proposals.
class SharedBudget {
 public:
  explicit SharedBudget(const SearchBudget& all) : all_(all), left_(all.proposals) {}

  [[nodiscard]] bool is_spent() const { return all_.proposals > 0 && left_ <= 0; }
  /// A share of the whole budget; at least one planned proposal while any remain.
  SearchBudget take(double share) {
    SearchBudget part{share * all_.seconds, 0};
    if (all_.proposals == 0) return part;
    const auto wanted = static_cast<std::int64_t>(share * static_cast<double>(all_.proposals));
    part.proposals = std::min(left_, std::max<std::int64_t>(1, wanted));
    left_ -= part.proposals;
    return part;
  }
  /// The share of the proposals that is left; 1 where only time is limited.
  [[nodiscard]] double share_left() const {
    return all_.proposals > 0 ? static_cast<double>(left_) / static_cast<double>(all_.proposals) : 1;
  }

 private:
  SearchBudget all_;
  std::int64_t left_;
};

}  // namespace pipesim
