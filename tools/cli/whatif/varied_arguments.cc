#include "tools/cli/whatif/varied_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

#include "costmodel/runtime/runtime.h"
#include "models/zoo/zoo.h"
#include "search/recipes/recipe.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/base/split.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/shared_options.h"
#include "topologies/changes/topology_changes.h"

namespace pipesim {
namespace {

// Options of plans whose names are paths.
constexpr std::array kVariedOptions{
    "batch",    "microbatch", "microbatches", "model",          "topology",  "recipe",        "runtime",
    "baseline", "for",        "optimizer",    "gradient-type",  "imbalance", "memory-margin", "schedule",
    "stages",   "chunks",     "recompute",    "state-sharding", "algorithm", "calibration",   "plan"};
// Keys of a preset's text.
constexpr std::array kPresetKeys{"gpus", "network",          "leaf",
                                 "pod",  "oversubscription", "core_oversubscription"};

bool is_option(const Arguments& a, const std::string& path) {
  return a.knows(path) && std::ranges::find(kVariedOptions, path) != kVariedOptions.end();
}

// Sets a key of "NAME:key=value,…", which replaces its former value.
std::string with_key(const std::string& text, std::size_t end_of_name, const std::string& key,
                     const std::string& value) {
  std::string made = text.substr(0, end_of_name);
  std::vector<std::string> assignments;
  if (end_of_name < text.size()) assignments = split(text.substr(end_of_name + 1), ",");
  const auto same =
      std::ranges::find_if(assignments, [&](const std::string& one) { return one.starts_with(key + "="); });
  if (same != assignments.end()) {
    *same = key + "=" + value;
  } else {
    assignments.push_back(key + "=" + value);
  }
  return fmt::format("{}:{}", made, fmt::join(assignments, ","));
}

std::string with_model_key(const Arguments& a, const std::string& key, const std::string& value) {
  const std::string model = required_text(a, "model");
  const auto file = model_file(model);
  const std::size_t end = file ? file->size() : std::min(model.find(':'), model.size());
  return with_key(model, end, key, value);
}

// Sets the number of nodes or an option of the preset with which a topology's text begins.
std::string with_preset(const std::string& text, const std::string& path, const std::string& value) {
  const std::size_t plus = text.find('+');
  const std::string first = text.substr(0, plus), rest = plus == std::string::npos ? "" : text.substr(plus);
  const std::size_t colon = first.find(':');
  const std::string name = first.substr(0, colon);
  if (first.ends_with(".json") || first.starts_with("levels:"))
    throw InputError(fmt::format(
        "{}={}: --topology {} has no nodes that could be counted anew, allowed: NAME:N", path, value, text));
  std::string count, options;
  if (colon != std::string::npos) {
    const std::string behind = first.substr(colon + 1);
    const std::size_t comma = behind.find(',');
    const bool counted = behind.substr(0, comma).find('=') == std::string::npos;
    count = counted ? behind.substr(0, comma) : "";
    options = !counted ? behind : comma == std::string::npos ? "" : behind.substr(comma + 1);
  }
  if (path == "nodes") {
    count = value;
  } else {
    const std::string changed = with_key(options.empty() ? "" : ":" + options, 0, path, value);
    options = changed.substr(1);
  }
  const std::string separator = count.empty() || options.empty() ? "" : ",";
  return name + (count.empty() && options.empty() ? "" : ":") + count + separator + options + rest;
}

// Returns whether a part of a recipe has this key: "tp8" and "tp=8" have the key tp, "sp" has the key sp.
bool is_part(std::string_view part, std::string_view key) {
  if (!part.starts_with(key)) return false;
  const std::string_view behind = part.substr(key.size());
  return behind.empty() || behind.front() == '=' ||
         std::isdigit(static_cast<unsigned char>(behind.front())) != 0;
}

// Returns the name in "tp8", "zero1" or "tp-overlap=on": what stands before the number or sign.
std::string part_name(std::string_view form) {
  const auto is_name = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  };
  return {form.begin(), std::ranges::find_if_not(form, is_name)};
}

std::vector<std::string> part_names() {
  std::vector<std::string> names;
  for (const RecipePart& part : recipe_parts()) {
    const std::string name = part_name(part.form);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string with_part(const std::string& recipe, const std::string& key, const std::string& value) {
  std::vector<std::string> parts;
  for (const std::string& part : split(recipe, ",")) {
    if (!is_part(part, key) && !part.empty()) parts.push_back(part);
  }
  const bool number =
      std::ranges::all_of(value, [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
  const bool left_out = value == "no" || (key == "zero" && value == "0");
  if (!left_out) parts.push_back(value == "yes" ? key : number ? key + value : key + "=" + value);
  return parts.empty() ? "tp1" : fmt::format("{}", fmt::join(parts, ","));
}

void add_recipe_figures(const Arguments& a, std::vector<VariedFigure>& figures) {
  const std::vector<std::string> now = split(a.has("recipe") ? a.text("recipe") : "", ",");
  std::set<std::string> told;
  for (const RecipePart& part : recipe_parts()) {
    const std::string name = part_name(part.form);
    if (!told.insert(name).second) continue;
    const auto has = std::ranges::find_if(now, [&](const std::string& one) { return is_part(one, name); });
    figures.push_back({"recipe." + name, has == now.end() ? "" : *has, std::string(part.meaning)});
  }
}

std::string without_data(const std::string& recipe) { return with_part(recipe, "dp", "no"); }

constexpr std::size_t kMostPaths = 60;

std::vector<std::string> paths_of(const Arguments& a) {
  std::vector<std::string> paths;
  for (const VariedFigure& figure : varied_figures(a)) paths.push_back(figure.path);
  return paths;
}

void require_known(const std::string& path, std::string_view prefix, const std::vector<std::string>& keys) {
  const std::string key = path.substr(prefix.size());
  if (std::ranges::find(keys, key) == keys.end())
    throw InputError(fmt::format("--vary {}: there is no {}{}; allowed: {}", path, key,
                                 did_you_mean(key, keys), list_names(keys, kMostPaths)));
}

Arguments varied_recipe(const Arguments& a, const std::string& path, const std::string& value) {
  const std::string key = path.substr(std::string_view("recipe.").size());
  require_known(path, "recipe.", part_names());
  const std::string recipe = a.has("recipe") ? a.text("recipe") : "";
  const bool mesh = key != "mbs" && key != "sp" && key != "zero" && key != "schedule" && key != "recompute";
  return a.with("recipe", with_part(mesh && key != "dp" ? without_data(recipe) : recipe, key, value));
}

// The topology comes first, so that no recipe is checked against another number of devices.
int turn_of(const std::string& path) {
  if (path == "recipe" || path == "model" || path == "topology" || path == "runtime") return 0;
  if (path == "device") return 1;  // before changes of the devices' figures
  return path == "recipe.dp" ? 3 : 2;
}

void add_model_figures(const Arguments& a, std::vector<VariedFigure>& figures) {
  const std::string model = model_text_of(a);
  const std::string name = model.substr(0, model.find(':'));
  if (!names_zoo_model(name)) {
    figures.push_back({"model.SIZE", "", "a number; the sizes that the file names"});
    return;
  }
  const auto zoo = std::ranges::find(zoo_models(), name, &ZooModel::name);
  const ZooValues values(name, zoo->options, name.size() < model.size() ? model.substr(name.size() + 1) : "");
  for (const ZooOption& option : zoo->options) {
    if (option.key != "batch")
      figures.push_back({"model." + option.key, values.word(option.key), option.allowed()});
  }
}

}  // namespace

Arguments varied(const Arguments& a, const std::string& path, const std::string& value) {
  if (path == "batch" || path == "model.batch") return a.with("batch", value);
  if (is_option(a, path)) return a.with(path, value);
  if (path.starts_with("model.")) return a.with("model", with_model_key(a, path.substr(6), value));
  if (path.starts_with("recipe.")) return varied_recipe(a, path, value);
  if (path.starts_with("runtime.")) {
    const std::string runtime = a.has("runtime") ? a.text("runtime") : "megatron";
    return a.with("runtime",
                  with_key(runtime, std::min(runtime.find(':'), runtime.size()), path.substr(8), value));
  }
  const std::string topology = required_text(a, "topology");
  const bool preset = path == "nodes" || std::ranges::find(kPresetKeys, path) != kPresetKeys.end();
  const Arguments made =
      a.with("topology", preset ? with_preset(topology, path, value) : topology + "+" + path + "=" + value);
  const bool devices = path == "nodes" || path == "gpus" || path.starts_with("remove:");
  return devices && a.has("recipe") ? made.with("recipe", without_data(a.text("recipe"))) : made;
}

Arguments varied(const Arguments& arguments, const std::vector<StudyAxis>& axes,
                 const std::vector<std::size_t>& at) {
  std::vector<StudyAxis::Assignment> all;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (StudyAxis::Assignment& one : axes[i].assignments(at[i])) all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, {}, [](const StudyAxis::Assignment& one) { return turn_of(one.path); });
  Arguments made = arguments;
  for (const StudyAxis::Assignment& one : all) made = varied(made, one.path, one.value);
  return made;
}

Arguments with_first_values(const Arguments& arguments, const std::vector<StudyAxis>& axes) {
  Arguments made = arguments;
  for (const StudyAxis& axis : axes) {
    for (const StudyAxis::Assignment& one : axis.assignments(0)) {
      const bool needed = one.path == "model" || one.path == "topology";
      if (needed && !made.has(one.path) && !made.has("plan")) made = made.with(one.path, one.value);
    }
  }
  return made;
}

void require_varied(const Arguments& a, const std::string& path) {
  const bool open = path.starts_with("slow:") || path.starts_with("remove:") || path.starts_with("model.") ||
                    path.starts_with("recipe.") || path.starts_with("runtime.");
  if (open || is_option(a, path) || std::ranges::find(kPresetKeys, path) != kPresetKeys.end()) return;
  const std::vector<std::string> paths = paths_of(a);
  if (std::ranges::find(paths, path) != paths.end()) return;
  if (a.knows(path))
    throw InputError(fmt::format("--vary {}: this option can't be varied; allowed: {}", path,
                                 list_names(paths, kMostPaths)));
  throw InputError(fmt::format("--vary {}: there is no such figure{}; allowed: {}", path,
                               did_you_mean(path, paths), list_names(paths, kMostPaths)));
}

std::vector<VariedFigure> varied_figures(const Arguments& a) {
  std::vector<VariedFigure> figures;
  const std::string text = required_text(a, "topology");
  const Topology topology = open_topology(text);
  if (!text.ends_with(".json") && !text.starts_with("levels:")) {
    figures.push_back({"nodes", fmt::format("{}", topology.num_nodes()), "a number of nodes"});
    figures.push_back({"gpus", fmt::format("{}", topology.devices_of_node(0).size()),
                       "of a node, where the preset takes fewer"});
    figures.push_back({"network", "", "ideal, rail, fat-tree"});
    figures.push_back({"oversubscription", "", "1 to 100, with network=rail or fat-tree"});
  }
  for (const ChangeableFigure& figure : changeable_figures(topology.parts()))
    figures.push_back({figure.path, figure.now, figure.takes});
  add_model_figures(a, figures);
  figures.push_back({"batch", a.has("batch") ? a.text("batch") : "", "samples of an iteration"});
  add_recipe_figures(a, figures);
  const std::string runtime = a.has("runtime") ? a.text("runtime") : "";
  figures.push_back({"runtime", runtime, "what runs the plan; runtime.KEY for one of its figures"});
  std::set<std::string> told;
  for (const VariedFigure& figure : figures) told.insert(figure.path);
  for (const std::string option : kVariedOptions) {
    if (is_option(a, option) && !told.contains(option))
      figures.push_back({option, a.has(option) ? a.text(option) : "", "as --" + option});
  }
  return figures;
}

}  // namespace pipesim
