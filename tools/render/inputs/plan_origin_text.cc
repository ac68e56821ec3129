#include "tools/render/inputs/plan_origin_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pipesim {

std::string to_text(const std::vector<OtherOrigin>& others) {
  std::string text;
  for (const OtherOrigin& other : others) {
    if (!other.unknown.empty()) {
      text += fmt::format("  the plan was made for {}, which {}: what differs is not known\n", other.made_for,
                          other.unknown);
      continue;
    }
    text += fmt::format("  the plan was made for {}; here\n", other.made_for);
    for (const std::string& difference : other.here) text += fmt::format("    {}\n", difference);
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<OtherOrigin>& others) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OtherOrigin& other : others) {
    nlohmann::ordered_json row{{"made_for", other.made_for}};
    if (other.unknown.empty()) row["here"] = other.here;
    if (!other.unknown.empty()) row["unknown"] = other.unknown;
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace pipesim
