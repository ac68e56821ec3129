#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/json_reader.h"
#include "tools/reports/page/page_table.h"

namespace pipesim {

/// One point of a study: what was predicted there.
struct DrawnStudyPoint {
  std::vector<std::size_t> at;  ///< by axis, which value
  std::optional<double> seconds, tokens_per_second, samples_per_second, cost_per_hour;
  bool fits = true;  ///< into memory
  std::string recipe, error;
  bool operator==(const DrawnStudyPoint&) const = default;
};

/// What a study varied.
struct DrawnStudyAxis {
  std::string name;
  std::vector<std::string> values;  ///< "8", "25Gb/s", "rail"
  std::vector<double> numbers;      ///< of the values; empty unless all are numbers of one unit
  std::string unit;                 ///< "Gb/s"; of factors such as "x2" it is "x"
  bool operator==(const DrawnStudyAxis&) const = default;
};

/// Between two values of an axis another plan becomes the best.
struct DrawnCrossover {
  std::string axis, low, high, from, to;
  std::string others;  ///< where on the other axes: "nodes 4"; "": everywhere
  double place = -1;   ///< from 0, the first value of the axis, to the last; below 0: not on the axis
  bool operator==(const DrawnCrossover&) const = default;
};

struct StudyPage {
  std::string name;  ///< the file's
  std::vector<DrawnStudyAxis> axes;
  std::vector<DrawnStudyPoint> points;
  std::vector<DrawnCrossover> crossovers;
  std::vector<PageTable> tables;
};

/// Of a file of kind "pipesim_study". Members that a study lacks may be missing. InputError with file and
/// JSON pointer.
StudyPage study_page_of(const JsonValue& root);

/// An element of "parts" in docs/reports.md, of kind "study".
nlohmann::ordered_json json_of(const StudyPage& page);

}  // namespace pipesim
