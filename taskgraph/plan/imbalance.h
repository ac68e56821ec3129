#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"

namespace pipesim {

/// How unevenly tokens go to the experts of a layer.
struct Imbalance {
  /// Empty: evenly. One: the load of the fullest expert, in shares of the mean. Several: relative loads of
  /// the experts in order, repeated until all have one.
  std::vector<double> loads;

  [[nodiscard]] bool any() const { return !loads.empty(); }
  [[nodiscard]] std::string str() const;  ///< "1.2", "1.5,1.2,1,0.3"; "1" where there is none
  bool operator==(const Imbalance&) const = default;
};

/// "1.2" or "1.5,1.2,1,0.3"; "1" is none. InputError for other texts, a load below 1 of the fullest, or loads
/// of several that are negative or all 0.
Imbalance parse_imbalance(std::string_view text);

/// Returns the load of experts [first, last) of `experts`, in shares of the mean of all. A single load f may
/// be anywhere: the fullest is taken to be among these n of E experts, and the others share the rest evenly:
/// (f + (n − 1) (E − f) / (E − 1)) / n.
double load_of(const Imbalance& imbalance, std::int64_t first, std::int64_t last, std::int64_t experts);

/// Why a model can't have it: it has no experts, their number is no multiple of that of the loads, or the
/// fullest would get more tokens than there are.
std::optional<std::string> illegal(const OperatorGraph& graph, const Imbalance& imbalance);

}  // namespace pipesim
