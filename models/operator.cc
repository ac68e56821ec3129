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

double TensorUse::sent_share(DataType own) const {
  constexpr double kBlock = 128, kBytesOfScale = 4;
  if (!sent_as || bytes_per_element(*sent_as) >= bytes_per_element(own)) return 1;
  return (static_cast<double>(bytes_per_element(*sent_as)) + kBytesOfScale / kBlock) /
         static_cast<double>(bytes_per_element(own));
}

// Some nodes are drawn, then experts of these, none twice.
double NodeRoute::nodes_of_a_token(std::int64_t of) const {
  const double all = static_cast<double>(std::min(nodes, of)),
               on_node = static_cast<double>(experts) / static_cast<double>(of);
  double without = 1;  // how likely one of the nodes is to have none of the token's experts
  for (std::int64_t i = 0; i < chosen; ++i) {
    const double left = all * on_node - static_cast<double>(i);
    without *= left <= 0 ? 0 : std::max(0.0, 1 - on_node / left);
  }
  return all * (1 - without);
}

double NodeRoute::devices_of_a_token(std::int64_t of_nodes, std::int64_t devices_of_a_node) const {
  const std::int64_t drawn = std::min(nodes, of_nodes), devices = drawn * devices_of_a_node;
  return NodeRoute{experts * drawn / of_nodes, chosen, devices}.nodes_of_a_token(devices);
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
