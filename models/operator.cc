#include "models/operator.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

Lack TensorUse::lack(FactorIndex factor) const {
  for (const auto& [lacked, how] : lacks) {
    if (lacked == factor) return how;
  }
  return Lack::Summed;
}

bool TensorUse::follows(FactorIndex factor) const {
  return std::any_of(dims.begin(), dims.end(), [factor](const IndexExpr& e) {
    return std::find(e.factors.begin(), e.factors.end(), factor) != e.factors.end();
  });
}

FactorIndex Operator::factor(const std::string& factor_name) const {
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i].name == factor_name) return static_cast<FactorIndex>(i);
  }
  throw InternalError("operator \"" + name + "\" has no factor \"" + factor_name + "\"");
}

}  // namespace pipesim
