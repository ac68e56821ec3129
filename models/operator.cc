#include "models/operator.h"

#include <algorithm>

#include "sim/base/errors.h"

namespace pipesim {

IndexExpr IndexExpr::whole(std::int64_t extent) {
  IndexExpr e;
  e.extent = extent;
  return e;
}

IndexExpr IndexExpr::axis(FactorIndex factor, std::int64_t extent, std::int64_t offset) {
  IndexExpr e;
  e.kind = Kind::Axis;
  e.extent = extent;
  e.factors = {factor};
  e.offset = offset;
  return e;
}

IndexExpr IndexExpr::window(FactorIndex factor, std::int64_t extent, std::int64_t stride, std::int64_t kernel,
                            std::int64_t dilation, std::int64_t pad) {
  IndexExpr e;
  e.kind = Kind::Window;
  e.extent = extent;
  e.factors = {factor};
  e.stride = stride;
  e.kernel = kernel;
  e.dilation = dilation;
  e.pad = pad;
  return e;
}

IndexExpr IndexExpr::merged(std::vector<FactorIndex> factors, std::int64_t extent) {
  if (factors.size() == 1) return axis(factors.front(), extent);
  IndexExpr e;
  e.kind = Kind::Merged;
  e.extent = extent;
  e.factors = std::move(factors);
  return e;
}

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
