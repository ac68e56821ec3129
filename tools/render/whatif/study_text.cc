#include "tools/render/whatif/study_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/base/figures.h"
#include "tools/render/base/table.h"

namespace pipesim {
namespace {

bool has_any(const Study& study, const std::function<bool(const PointResult&)>& has) {
  return std::ranges::any_of(study.points, [&](const auto& p) { return p && p->error.empty() && has(*p); });
}

// "nodes=4, batch=64": what a point has on all axes with several values but one.
std::string other_values_text(const Study& study, const std::vector<std::size_t>& at, std::size_t but) {
  std::vector<std::string> others;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (a != but && study.axes[a].values.size() > 1)
      others.push_back(fmt::format("{}={}", study.axes[a].path, study.axes[a].values[at[a]]));
  }
  return fmt::format("{}", fmt::join(others, ", "));
}

// A line for each row of points along the longest axis, and in it a character for each point, as high as its
// time among all.
std::string sparklines(const Study& study) {
  constexpr std::array<const char*, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t kMostLines = 16, kMostWide = 100;
  const std::size_t axis = longest_axis(study.axes), wide = study.axes[axis].values.size();
  if (wide < 2 || wide > kMostWide) return "";
  double least = 0, most = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  std::map<std::string, std::size_t> known;
  for (const auto& p : study.points) {
    if (!p || !p->error.empty()) continue;
    if (least == 0 || p->time_s < least) least = p->time_s;
    most = std::max(most, p->time_s);
  }
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const auto& p = study.points[i];
    const std::vector<std::size_t> at = place_of_point(study.axes, i);
    const std::string others = other_values_text(study, at, axis);
    const auto [line, is_new] = known.try_emplace(others, lines.size());
    if (is_new) lines.emplace_back(others, std::vector<std::string>(wide, " "));
    if (!p || !p->error.empty()) continue;
    const double height = most > least ? (p->time_s - least) / (most - least) : 0;
    lines[line->second].second[at[axis]] =
        kHeights[static_cast<std::size_t>(height * (kHeights.size() - 1) + 0.5)];
  }
  if (least == 0) return "";
  const std::string range = fmt::format("from {} to {}\n", pretty(Seconds(least)), pretty(Seconds(most)));
  if (lines.size() == 1) return fmt::format("\n  time {} {}", fmt::join(lines.front().second, ""), range);
  std::string text = fmt::format("\n  time over {}, {}", study.axes[axis].path, range);
  std::size_t longest = 0;
  for (const auto& [name, marks] : lines) longest = std::max(longest, name.size());
  for (std::size_t i = 0; i < std::min(kMostLines, lines.size()); ++i)
    text += fmt::format("  {:<{}}  {}\n", lines[i].first, longest, fmt::join(lines[i].second, ""));
  if (lines.size() > kMostLines) text += fmt::format("  and {} more\n", lines.size() - kMostLines);
  return text;
}

// By path of all axes.
std::vector<std::string> values_of(const Study& study, std::size_t point) {
  const std::vector<std::size_t> at = place_of_point(study.axes, point);
  std::vector<std::string> values;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    for (StudyAxis::Assignment& one : study.axes[a].assignments(at[a]))
      values.push_back(std::move(one.value));
  }
  return values;
}

std::string crossovers_text(const Study& study) {
  std::string text;
  for (const Crossover& c : study.crossovers) {
    const std::string others = other_values_text(study, c.before, c.axis);
    text +=
        fmt::format("  {} from {} to {}: {} becomes {}{}\n", study.axes[c.axis].path, short_value(c.low),
                    short_value(c.high), c.from, c.to, others.empty() ? "" : fmt::format(" ({})", others));
  }
  return text.empty() ? "" : "\nthe fastest plan changes its kind\n" + text;
}

// Once for all points that are counted alike.
std::string counted_text(const Study& study) {
  std::vector<std::string> told;
  for (const std::optional<PointResult>& p : study.points) {
    if (p && !p->counted.empty() && std::ranges::find(told, p->counted) == told.end())
      told.push_back(p->counted);
  }
  return told.empty() ? "" : fmt::format("  MFU counts {}\n", fmt::join(told, "\n  or counts "));
}

// Their shares differ little from point to point.
std::string opaque_text(const Study& study) {
  for (const std::optional<PointResult>& p : study.points) {
    if (p && !p->opaque.empty()) return fmt::format("\nunknown kinds, at the first point: {}\n", p->opaque);
  }
  return "";
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string to_text(const Study& study) {
  const bool tokens = has_any(study, [](const PointResult& p) { return p.tokens_per_s.has_value(); });
  const bool prices = has_any(study, [](const PointResult& p) { return p.price_per_hour.has_value(); });
  const std::vector<std::optional<double>> scaling = scaling_efficiencies(study);
  const bool scales = std::ranges::any_of(scaling, [](const auto& s) { return s.has_value(); });
  std::vector<Table::Column> columns;
  for (const StudyAxis& axis : study.axes) {
    for (const std::string& path : axis.paths()) columns.push_back({path, Align::Right});
  }
  columns.push_back({"iteration", Align::Right});
  if (!study.objective.empty()) columns.push_back({study.objective, Align::Right});
  columns.push_back({tokens ? "tokens/s" : "samples/s", Align::Right});
  if (scales) columns.push_back({"scaling", Align::Right});
  if (tokens) columns.push_back({"MFU", Align::Right});
  columns.push_back({"memory", Align::Right});
  if (prices) columns.push_back({tokens ? "cost of 1 B tokens" : "cost of 1 M samples", Align::Right});
  columns.push_back({"plan"});
  Table table(columns);
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (!study.points[i]) continue;
    const PointResult& p = *study.points[i];
    std::vector<std::string> cells = values_of(study, i);
    if (!p.error.empty()) {
      cells.resize(columns.size() - 1, "-");
      cells.push_back(p.error);
      table.add(std::move(cells));
      continue;
    }
    constexpr int kDigits = 4;
    cells.push_back(pretty(Seconds(p.time_s)));
    if (!study.objective.empty()) cells.push_back(p.objective_s ? pretty(Seconds(*p.objective_s)) : "-");
    cells.push_back(significant(tokens ? p.tokens_per_s.value_or(0) : p.samples_per_s, kDigits));
    if (scales) cells.push_back(scaling[i] ? percent(*scaling[i]) : "-");
    if (tokens) cells.push_back(p.mfu ? percent(*p.mfu) : "-");
    cells.push_back(pretty(Bytes(p.memory_bytes)));
    if (prices) cells.push_back(cost_of_work(p) ? significant(*cost_of_work(p), kDigits) : "-");
    cells.push_back(p.recipe + (p.fits ? "" : " does not fit"));
    table.add(std::move(cells));
  }
  return table.str(2) + counted_text(study) + sparklines(study) + crossovers_text(study) + opaque_text(study);
}

std::string to_csv(const Study& study) {
  std::string text;
  for (const StudyAxis& axis : study.axes) {
    for (const std::string& path : axis.paths()) text += csv_cell(path) + ",";
  }
  text +=
      "time_s,objective_s,samples_per_s,tokens_per_s,mfu,scaling,devices,memory_bytes,fits,price_per_hour,"
      "cost,kind,"
      "recipe,error\n";
  const std::vector<std::optional<double>> scaling = scaling_efficiencies(study);
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
  };
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (!study.points[i]) continue;
    const PointResult& p = *study.points[i];
    for (const std::string& value : values_of(study, i)) text += csv_cell(value) + ",";
    if (!p.error.empty()) {
      text += fmt::format(",,,,,,,,,,,,,{}\n", csv_cell(p.error));
      continue;
    }
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},\n", p.time_s, number(p.objective_s),
                        p.samples_per_s, number(p.tokens_per_s), number(p.mfu), number(scaling[i]), p.devices,
                        p.memory_bytes, p.fits, number(p.price_per_hour), number(cost_of_work(p)),
                        csv_cell(p.kind), csv_cell(p.recipe));
  }
  return text;
}

}  // namespace pipesim
