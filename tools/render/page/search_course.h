#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_reader.h"
#include "sim/base/units.h"
#include "tools/render/page/page_table.h"

namespace pipesim {

/// A moment of a search.
struct SearchMoment {
  double seconds = 0;
  std::int64_t proposals = 0;
  std::optional<double> best;  ///< seconds of an iteration; nothing while no plan fits
  std::int32_t chain = -1;     ///< that found it; -1: none
  bool operator==(const SearchMoment&) const = default;
};

/// A plan that was found, with what it takes.
struct FoundPlan {
  std::string recipe;
  double seconds = 0;
  Bytes memory;  ///< of its fullest device
  bool operator==(const FoundPlan&) const = default;
};

/// How a search went.
struct SearchCourse {
  std::string name;  ///< the file's
  std::vector<PageFact> facts;
  std::vector<FoundPlan> plans;  ///< the best ones, where the search tells several
  std::vector<PageTable> tables;
  std::vector<SearchMoment> moments;  ///< in order of time; none where the search tells none
  std::optional<double> lower_bound;  ///< seconds
  std::vector<std::pair<std::string, double>> baselines;  ///< names and seconds
};

/// Reads the log of `search --search-log`. InputError with file and line.
SearchCourse search_course_of_log(std::string_view text, const std::string& file);
/// Whether this is what `search --json` prints.
bool is_search_result(const JsonValue& root);
/// Reads the output of `search --json`: the course of a search, what each algorithm found, or the best
/// recipes, whichever it has. InputError with file and JSON pointer.
SearchCourse search_course_of_json(const JsonValue& root);

/// An element of "parts" in docs/reports.md, of kind "search".
nlohmann::ordered_json json_of(const SearchCourse& course);

}  // namespace pipesim
