#pragma once

#include <string>
#include <variant>

#include "tools/render/page/measured_page.h"
#include "tools/render/page/search_course.h"
#include "tools/render/page/study_page.h"

namespace pipesim {

/// A plan file, which has yet to be simulated.
struct PlanInput {
  std::string file;
};

using ReportInput = std::variant<PlanInput, SearchCourse, MeasuredPage, StudyPage>;

/// What a file is for a report, found in the file, not in its name. InputError where it is none of these, or
/// can't be read.
ReportInput read_report_input(const std::string& file);

}  // namespace pipesim
