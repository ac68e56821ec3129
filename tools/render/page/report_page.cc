#include "tools/render/page/report_page.h"

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "tools/render/page/packed_text.h"

namespace pipesim {

std::string report_page(const nlohmann::ordered_json& parts) {
  constexpr std::string_view kPlace = "@PIPESIM_REPORT_DATA@";
  const std::string_view whole = page_template();
  const std::size_t at = whole.find(kPlace);
  if (at == std::string_view::npos || whole.find(kPlace, at + 1) != std::string_view::npos)
    throw InternalError("the template of reports must have one place for data");
  const nlohmann::ordered_json data{{"pipesim_report", 1}, {"parts", parts}};
  std::string page(whole.substr(0, at));
  page += packed_text(data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  page += whole.substr(at + kPlace.size());
  return page;
}

}  // namespace pipesim
