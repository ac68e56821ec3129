#pragma once

#include <nlohmann/json_fwd.hpp>

#include "topologies/topology.h"

namespace pipesim {

/// These write parts as topology files have them, without those that take nothing.
nlohmann::ordered_json overhead_json(const MemoryOverhead& overhead);
nlohmann::ordered_json efficiency_json(const std::vector<EfficiencyPoint>& curve);
nlohmann::ordered_json product_rates_json(const std::map<DataType, ProductRate>& rates);
nlohmann::ordered_json fused_attention_json(const FusedAttention& fused);
nlohmann::ordered_json collectives_json(const CollectiveTraits& traits);

}  // namespace pipesim
