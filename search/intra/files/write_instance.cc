#include <nlohmann/json.hpp>

#include "search/intra/files/read_instance.h"

namespace pipesim {

std::string instance_text(const IntraInstance& instance, const std::string& name,
                          const InstanceNames* names) {
  using InstanceJson = nlohmann::ordered_json;
  InstanceJson intervals = InstanceJson::array(), costs = InstanceJson::array(),
               usages = InstanceJson::array();
  for (const IntraInstance::Node& node : instance.nodes) {
    intervals.push_back({node.begin, node.end});
    costs.push_back(node.cost);
    usages.push_back(node.usage);
  }
  InstanceJson edges = InstanceJson::array(), pairs = InstanceJson::array();
  for (const IntraInstance::Edge& edge : instance.edges) {
    edges.push_back({edge.a, edge.b});
    pairs.push_back(edge.cost);
  }
  InstanceJson json{{"problem",
                     {{"name", name},
                      {"nodes", {{"intervals", intervals}, {"costs", costs}, {"usages", usages}}},
                      {"edges", {{"nodes", edges}, {"costs", pairs}}},
                      {"usage_limit", instance.limit}}}};
  json["unit_s"] = instance.unit;
  if (names != nullptr) json["names"] = {{"nodes", names->nodes}, {"strategies", names->strategies}};
  return json.dump() + "\n";
}

}  // namespace pipesim
