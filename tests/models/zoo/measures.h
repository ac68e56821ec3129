#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "models/box.h"
#include "models/operator_graph.h"

namespace pipesim {

/// Forward operations of the operators that `counted` accepts.
inline double forward_flops(const OperatorGraph& graph, const std::function<bool(const Operator&)>& counted) {
  double sum = 0;
  for (const Operator& op : graph.operators()) {
    if (counted(op)) sum += evaluate(op.flops_forward, whole_ranges(op));
  }
  return sum;
}

/// What published counts of multiply-adds mean: half the operations of convolutions and matrix products.
/// Norms, activations and pools, which forward_flops() counts too, are left out.
inline double multiply_adds(const OperatorGraph& graph) {
  return 0.5 * forward_flops(graph, [](const Operator& op) { return op.matrix.has_value(); });
}

/// Operators of each repeat label, e.g. {"layer#.ffn1": 12}.
inline std::map<std::string, int> repeats(const OperatorGraph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators()) {
    if (!op.repeat.empty()) ++counts[op.repeat];
  }
  return counts;
}

inline int count_kind(const OperatorGraph& graph, const std::string& kind) {
  int count = 0;
  for (const Operator& op : graph.operators()) count += op.kind == kind ? 1 : 0;
  return count;
}

inline const Operator& operator_named(const OperatorGraph& graph, const std::string& name) {
  for (const Operator& op : graph.operators()) {
    if (op.name == name) return op;
  }
  throw std::out_of_range("no operator " + name);
}

}  // namespace pipesim
