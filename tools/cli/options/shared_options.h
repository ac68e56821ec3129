#pragma once

#include <string>
#include <vector>

#include "search/search.h"
#include "tools/cli/base/arguments.h"

namespace pipesim {

// Options of many commands, and what all files of options need.

/// UsageError when it was not given.
const std::string& required_text(const Arguments& arguments, const std::string& option);
/// The value of a text option; "" when it was not given and has no default.
std::string text_or_none(const Arguments& arguments, const std::string& option);
/// --json.
Option json_option();
/// Names as choices without meanings.
std::vector<Choice> choices_of(const std::vector<std::string>& names);
std::vector<std::string> names_of_baselines();
/// --threads; by default the number of the process's cores, but no more than chains.
int threads_of(const Arguments& arguments);
/// --seconds and --proposals; the default of the former counts only without the latter.
SearchBudget search_budget_of(const Arguments& arguments);

}  // namespace pipesim
