#include "tools/render/page/read_input.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"
#include "sim/base/json_reader.h"
#include "tools/render/page/executed_timeline.h"
#include "tools/render/whatif/study_json.h"

namespace pipesim {
namespace {

constexpr const char* kAllowedInputs =
    "a plan (search -o), a search's log (search --search-log) or result (search --json), an execution "
    "(execute "
    "--json, execute --trace, compare --execute --json), or a study (whatif -o)";

bool is_measured(const JsonValue& root) {
  if (root.find("plans")) return root.find("top1_regret").has_value();
  return root.find("predicted_s") && root.find("backend");
}

}  // namespace

ReportInput read_report_input(const std::string& file) {
  const std::string text = read_file(file);
  if (text.starts_with(kSearchLogHeader)) return search_course_of_log(text, file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') {
    require_json_text(text, file);
    throw InputError(fmt::format("{}: this is no file for a report; allowed: {}", file, kAllowedInputs));
  }
  const JsonValue root = JsonDocument::parse(text, file);
  if (root.find(kPlanKey)) return PlanInput{file};
  if (root.find(kStudyKey)) return study_page_of(study_of(root), file);
  if (is_search_result(root)) return search_course_of_json(root);
  if (is_measured(root)) return measured_page_of(root);
  if (root.find(kTraceKey)) return measured_page_of_trace(root);
  require_file_kind(root, kPlanKey);
  throw InputError(fmt::format("{}: this is no file for a report; allowed: {}", file, kAllowedInputs));
}

}  // namespace pipesim
