#include "tools/render/page/page_table.h"

#include <nlohmann/json.hpp>

namespace pipesim {

nlohmann::ordered_json json_of(const PageTable& table) {
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (const PageTable::Column& c : table.columns)
    columns.push_back({{"name", c.name}, {"number", c.number}});
  return {{"title", table.title}, {"note", table.note}, {"columns", columns}, {"rows", table.rows}};
}

nlohmann::ordered_json json_of(const std::vector<PageFact>& facts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PageFact& f : facts) list.push_back({f.label, f.value});
  return list;
}

}  // namespace pipesim
