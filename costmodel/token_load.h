#pragma once

#include "models/operator.h"

namespace pipesim {

/// A shard of an operator over experts has more tokens than its ranges say, or fewer.
struct TokenLoad {
  double times = 1;         ///< as many
  FactorIndex tokens = -1;  ///< the factor that counts the tokens of an expert; −1: there is none
  [[nodiscard]] bool is_even() const { return times == 1; }
  bool operator==(const TokenLoad&) const = default;
};

}  // namespace pipesim
