#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/training_work.h"
#include "tools/analysis/inputs/subject.h"
#include "tools/analysis/plans/pipeline_report.h"
#include "tools/render/page/memory_curves.h"
#include "tools/render/page/page_table.h"
#include "tools/render/page/timeline_rows.h"
#include "tools/render/page/topology_drawing.h"

namespace pipesim {

/// All that a page shows of one simulated plan.
struct PlanPage {
  std::string name;  ///< the file's
  std::vector<PageFact> facts;
  std::vector<std::string> notes;  ///< what is not drawn, and what else a reader must know
  Nanoseconds iteration = 0;
  TimelineRows timeline;
  std::vector<MemoryCurve> memory;
  std::optional<PipelineReport> pipeline;
  TopologyDrawing topology;
  std::vector<PageTable> tables;
};

/// Simulates the plan. Where all devices and microbatches have at most `most_tasks` tasks, all are drawn. Of
/// larger plans those are drawn that stand for the others: one device of each kind, and the microbatches
/// that prove the others' times (search/simulated_part.h). MFU counts FLOPs as `counting` says.
PlanPage plan_page(const std::string& name, const Subject& subject, std::int64_t most_tasks,
                   const FlopsCounting& counting = {});

/// An element of "parts" in docs/reports.md, of kind "plan".
nlohmann::ordered_json json_of(const PlanPage& page);

}  // namespace pipesim
