#pragma once

#include <string>
#include <vector>

#include "tools/render/page/measured_page.h"
#include "tools/render/page/search_course.h"
#include "tools/render/page/study_page.h"
#include "tools/render/page/svg/plan_pictures.h"

namespace pipesim {

/// The best plan over the course of a search, and plans by time and memory; without what the file does not
/// tell.
std::vector<NamedPicture> pictures_of(const SearchCourse& course);
/// Predicted beside measured: iterations, and the operators and transfers that differ most.
std::vector<NamedPicture> pictures_of(const MeasuredPage& page);
/// Iteration time over the axis with the most values, a line for each choice of the others, with crossovers;
/// and time against cost, where costs are told.
std::vector<NamedPicture> pictures_of(const StudyPage& page);

}  // namespace pipesim
