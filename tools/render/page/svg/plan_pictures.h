#pragma once

#include <string>
#include <vector>

#include "tools/render/page/plan_page.h"

namespace pipesim {

/// A picture and the name of its file: "timeline", without an ending.
struct NamedPicture {
  std::string name, svg;
};

/// What a page shows of a plan: timeline, memory, topology, and of pipelines the pipeline.
std::vector<NamedPicture> pictures_of(const PlanPage& page);

/// Tasks narrower than a pixel share columns: a column has the color of the activity that takes most of it,
/// and is paler the less of it is busy. At most 400 rows are drawn.
std::string timeline_svg(const TimelineRows& timeline, const std::string& title);
/// Draws the memory of the fullest device; there must be one.
std::string memory_svg(const std::vector<MemoryCurve>& curves, Nanoseconds end, const std::string& title);
std::string pipeline_svg(const PipelineReport& pipeline, const std::string& title);
std::string topology_svg(const TopologyDrawing& drawing, const std::string& title);

}  // namespace pipesim
