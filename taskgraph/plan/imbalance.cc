#include "taskgraph/plan/imbalance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "models/operators/expert_parts.h"
#include "sim/base/errors.h"

namespace pipesim {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string_view allowed) {
  throw InputError(fmt::format("imbalance \"{}\", allowed: {}", text, allowed));
}

double parse_load(std::string_view part, std::string_view text) {
  double load = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), load);
  constexpr double kMost = 1e6;
  if (error != std::errc() || end != part.data() + part.size() || !(load >= 0 && load <= kMost))
    refuse(text, "the load of the fullest expert, such as 1.2, or of each, such as 1.5,1.2,1,0.3");
  return load;
}

double sum_of(const std::vector<double>& loads) { return std::accumulate(loads.begin(), loads.end(), 0.0); }

}  // namespace

std::string Imbalance::str() const { return any() ? fmt::format("{}", fmt::join(loads, ",")) : "1"; }

Imbalance parse_imbalance(std::string_view text) {
  Imbalance imbalance;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    imbalance.loads.push_back(parse_load(rest.substr(0, comma), text));
    if (more) rest = rest.substr(comma + 1);
  }
  if (imbalance.loads.size() > 1) {
    if (sum_of(imbalance.loads) <= 0) refuse(text, "loads that are not all 0");
    return imbalance;
  }
  if (imbalance.loads.front() < 1) refuse(text, "1 or more, in shares of the mean load");
  if (imbalance.loads.front() == 1) return {};
  return imbalance;
}

double load_of(const Imbalance& imbalance, std::int64_t first, std::int64_t last, std::int64_t experts) {
  const std::vector<double>& loads = imbalance.loads;
  const std::int64_t n = last - first;
  if (loads.empty() || n <= 0 || n >= experts) return 1;
  const auto own = static_cast<double>(n), all = static_cast<double>(experts);
  if (loads.size() == 1) return (loads[0] + (own - 1) * (all - loads[0]) / (all - 1)) / own;
  double sum = 0;
  for (std::int64_t e = first; e < last; ++e) sum += loads[static_cast<std::size_t>(e) % loads.size()];
  return sum / own / (sum_of(loads) / static_cast<double>(loads.size()));
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Imbalance& imbalance) {
  if (!imbalance.any()) return std::nullopt;
  const auto is_dispatch = [](const Operator& op) { return op.kind == "moe_dispatch"; };
  if (std::ranges::none_of(graph.operators(), is_dispatch))
    return fmt::format("model \"{}\" has no experts", graph.name());
  const auto listed = static_cast<std::int64_t>(imbalance.loads.size());
  for (const Operator& op : graph.operators()) {
    if (!is_dispatch(op)) continue;
    const auto [experts, chosen] = choice_of(op);
    if (experts % listed != 0)
      return fmt::format("{} loads for the {} experts of \"{}\", allowed: a number that divides them", listed,
                         experts, op.name);
    const double fullest = *std::ranges::max_element(imbalance.loads),
                 mean = listed == 1 ? 1 : sum_of(imbalance.loads) / static_cast<double>(listed);
    const double most = static_cast<double>(experts) / static_cast<double>(chosen);
    if (fullest / mean > most + 1e-9)
      return fmt::format(
          "the fullest expert would get {:.4g} times the mean, allowed: up to {:.4g} (each "
          "token goes to {} of the {} experts of \"{}\")",
          fullest / mean, most, chosen, experts, op.name);
  }
  return std::nullopt;
}

}  // namespace pipesim
