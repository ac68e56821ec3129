#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pipesim {

/// The page without data, as web/report builds it: tools/render/page/template.html.
std::string_view page_template();

/// One HTML file that needs nothing else: the template with {"pipesim_report": 1, "parts": parts} inside.
std::string report_page(const nlohmann::ordered_json& parts);

}  // namespace pipesim
