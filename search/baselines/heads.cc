#include "search/baselines/heads.h"

#include <algorithm>

#include "models/operator_kind.h"

namespace pipesim {

bool is_multi_head(const Operator& op) {
  return is_attention(op.kind) && std::ranges::find(op.factors, "g", &Factor::name) != op.factors.end();
}

bool is_multi_head_scan(const Operator& op) {
  return op.kind == "state_space_scan" || op.kind == "gated_delta_rule";
}

}  // namespace pipesim
