#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tools/cli/figures.h"
#include "tools/cli/table.h"
#include "tools/whatif/study.h"

namespace pipesim {
namespace {

bool has_any(const Study& study, const std::function<bool(const PointResult&)>& has) {
  return std::ranges::any_of(study.points, [&](const auto& p) { return p && p->error.empty() && has(*p); });
}

// A character for each point, as high as its time among all.
std::string sparkline(const Study& study) {
  constexpr std::array<const char*, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double least = 0, most = 0;
  for (const auto& p : study.points) {
    if (!p || !p->error.empty()) continue;
    if (least == 0 || p->time_s < least) least = p->time_s;
    most = std::max(most, p->time_s);
  }
  if (most == 0) return "";
  std::string line;
  for (const auto& p : study.points) {
    if (!p || !p->error.empty()) {
      line += " ";
      continue;
    }
    const double height = most > least ? (p->time_s - least) / (most - least) : 0;
    line += kHeights[static_cast<std::size_t>(height * (kHeights.size() - 1) + 0.5)];
  }
  return fmt::format("  time {} from {} to {}\n", line, pretty(Seconds(least)), pretty(Seconds(most)));
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
    std::vector<std::string> others;
    for (std::size_t a = 0; a < study.axes.size(); ++a) {
      if (a != c.axis)
        others.push_back(fmt::format("{}={}", study.axes[a].path, study.axes[a].values[c.before[a]]));
    }
    text += fmt::format("  {} from {} to {}: {} becomes {}{}\n", study.axes[c.axis].path, c.low, c.high,
                        c.from, c.to, others.empty() ? "" : fmt::format(" ({})", fmt::join(others, ", ")));
  }
  return text.empty() ? "" : "\nthe fastest plan changes its kind\n" + text;
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
  std::vector<Table::Column> columns;
  for (const StudyAxis& axis : study.axes) {
    for (const std::string& path : axis.paths()) columns.push_back({path, Align::Right});
  }
  columns.push_back({"iteration", Align::Right});
  if (!study.objective.empty()) columns.push_back({study.objective, Align::Right});
  columns.push_back({tokens ? "tokens/s" : "samples/s", Align::Right});
  columns.push_back({"scaling", Align::Right});
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
    cells.push_back(percent(*scaling_efficiency(study, i)));
    if (tokens) cells.push_back(p.mfu ? percent(*p.mfu) : "-");
    cells.push_back(pretty(Bytes(p.memory_bytes)));
    if (prices) cells.push_back(cost_of_work(p) ? significant(*cost_of_work(p), kDigits) : "-");
    cells.push_back(p.recipe + (p.fits ? "" : " does not fit"));
    table.add(std::move(cells));
  }
  const bool curve = study.axes.size() == 1 && study.points.size() > 1;
  const std::string line = curve ? sparkline(study) : "";
  return table.str(2) + (line.empty() ? "" : "\n" + line) + crossovers_text(study);
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
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},\n", p.time_s, number(p.objective_s),
                    p.samples_per_s, number(p.tokens_per_s), number(p.mfu),
                    number(scaling_efficiency(study, i)), p.devices, p.memory_bytes, p.fits,
                    number(p.price_per_hour), number(cost_of_work(p)), csv_cell(p.kind), csv_cell(p.recipe));
  }
  return text;
}

}  // namespace pipesim
