#include "models/index_expr.h"

#include <utility>

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

IndexExpr IndexExpr::blocks(FactorIndex factor, std::int64_t extent, std::int64_t length) {
  return length == 1 ? axis(factor, extent) : window(factor, extent, length, length, 1, 0);
}

IndexExpr IndexExpr::merged(std::vector<FactorIndex> factors, std::int64_t extent) {
  if (factors.size() == 1) return axis(factors.front(), extent);
  IndexExpr e;
  e.kind = Kind::Merged;
  e.extent = extent;
  e.factors = std::move(factors);
  return e;
}

}  // namespace pipesim
