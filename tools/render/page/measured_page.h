#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_reader.h"
#include "tools/render/page/page_table.h"
#include "tools/render/page/timeline_rows.h"

namespace pipesim {

/// Predicted beside measured: seconds.
struct MeasuredPair {
  std::string name;
  double predicted = 0, measured = 0;
  std::optional<double> low, high;  ///< of the measured iterations
  std::int64_t tasks = 0;           ///< 0: not of tasks
  bool operator==(const MeasuredPair&) const = default;
};

/// A plan that was executed, or several that were compared.
struct MeasuredPage {
  std::string name;  ///< the file's
  std::vector<PageFact> facts;
  std::vector<MeasuredPair> iterations, operators, links;  ///< of the latter, those that differ most first
  std::vector<PageTable> tables;
  std::optional<TimelineRows> timeline;  ///< of one iteration: predicted and measured
};

/// Makes a page from the JSON of `execute --json` or `compare --execute --json`. InputError with file and
/// JSON pointer, also where nothing was measured.
MeasuredPage measured_page_of(const JsonValue& root);

/// These also serve executed_timeline.h. They add the facts of the first iteration, sort a list so that what
/// differs most comes first, and make a table of a list.
void add_iteration_facts(MeasuredPage& page);
void sort_by_difference(std::vector<MeasuredPair>& pairs);
PageTable measured_pairs_table(const std::string& title, const std::vector<MeasuredPair>& pairs);

/// An element of "parts" in docs/reports.md, of kind "measured".
nlohmann::ordered_json json_of(const MeasuredPage& page);

}  // namespace pipesim
