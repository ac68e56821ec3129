#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/analysis/whatif/study.h"
#include "tools/render/page/page_table.h"

namespace pipesim {

/// One point of a study: what was predicted there.
struct DrawnStudyPoint {
  std::vector<std::size_t> at;  ///< by drawn axis, which value
  PointResult result;
  std::optional<double> scaling, cost;  ///< scaling_efficiencies(), cost_of_work()
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

/// Between two values of an axis another kind of plan becomes the fastest.
struct DrawnCrossover {
  std::size_t axis = 0;  ///< of the drawn ones
  std::string low, high, from, to;
  std::string others;  ///< where on the other axes: "nodes 4"; "": there are none
  double place = -1;   ///< from 0, the first value of the axis, to the last; below 0: not on the axis
  bool operator==(const DrawnCrossover&) const = default;
};

struct StudyPage {
  std::string name;  ///< the file's
  std::vector<PageFact> facts;
  std::vector<DrawnStudyAxis> axes;  ///< with several values; at least one axis
  std::vector<DrawnStudyPoint> points;
  std::vector<DrawnCrossover> crossovers;
  std::string objective;  ///< Study::objective
  std::string work;       ///< what DrawnStudyPoint::cost pays for: "1 B tokens"
  std::vector<PageTable> tables;
};

/// `name`: the file's.
StudyPage study_page_of(const Study& study, const std::string& name);

/// "network fast, batch 8": what a place has on all axes but one.
std::string other_values(const StudyPage& page, const std::vector<std::size_t>& at, std::size_t but);

/// An element of "parts" in docs/reports.md, of kind "study".
nlohmann::ordered_json json_of(const StudyPage& page);

}  // namespace pipesim
