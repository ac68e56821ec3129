#include "tools/cli/options/shared_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "search/baselines/baselines.h"
#include "sim/base/cores.h"

namespace pipesim {

std::string text_or_none(const Arguments& a, const std::string& option) {
  return a.has(option) ? a.text(option) : "";
}

Option json_option() {
  return {.name = "json",
          .argument = "",
          .default_value = "",
          .help = "print one JSON object instead of text",
          .group = OptionGroup::Output};
}

std::vector<Choice> choices_of(const std::vector<std::string>& names) {
  std::vector<Choice> choices;
  for (const std::string& name : names) choices.push_back({name});
  return choices;
}

std::vector<std::string> names_of_baselines() {
  std::vector<std::string> names;
  for (const std::string_view name : baseline_names()) names.emplace_back(name);
  return names;
}

int threads_of(const Arguments& arguments) {
  constexpr std::int64_t kMost = 1024;
  if (arguments.given("threads")) return static_cast<int>(arguments.integer("threads", 1, kMost));
  // Further ones would have nothing to run, but memory of their own.
  const std::int64_t chains =
      arguments.text("moves") == "flexflow" ? 1 : arguments.integer("chains", 1, kMost);
  return static_cast<int>(std::min<std::int64_t>(available_cores(), chains));
}

const std::string& required_text(const Arguments& arguments, const std::string& option) {
  if (arguments.has(option)) return arguments.text(option);
  const bool both = option == "model" && !arguments.has("topology");
  arguments.refuse(both ? "--model and --topology are missing" : fmt::format("--{} is missing", option));
}

SearchBudget search_budget_of(const Arguments& a) {
  SearchBudget budget{0, 0};
  if (a.has("proposals")) budget.proposals = a.integer("proposals", 1, INT64_MAX / 2);
  if (a.given("seconds") || budget.proposals == 0) budget.seconds = a.number("seconds", 0, 1e7);
  return budget;
}

}  // namespace pipesim
