#include "tools/inputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "topologies/presets.h"

namespace pipesim {

const char* const kModelHelp =
    "The model: NAME or NAME:key=value,… of the zoo (`pipesim models` lists it), FILE.json, or a measured "
    "profile "
    "FILE.txt:batch=N (N is the batch that was profiled, 64 when left out).";
const char* const kTopologyHelp =
    "The topology: NAME or NAME:N for N nodes (`pipesim topologies` lists the names), "
    "levels:4@10GB/s,2@1.25GB/s, or "
    "FILE.json.";

namespace {

bool looks_like_a_path(std::string_view text) {
  return text.ends_with(".json") || text.find('/') != std::string_view::npos;
}

[[noreturn]] void refuse_name(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  std::vector<std::string> names;
  for (const ZooModel& model : zoo_models()) names.push_back(model.name);
  throw InputError(fmt::format(
      "unknown model \"{}\"{}; allowed: {}, each also as NAME:key=value,…, or a .json or .txt file", name,
      did_you_mean(name, names), list_names(names, names.size())));
}

}  // namespace

OperatorGraph open_model(const std::string& text) {
  if (names_zoo_model(text)) return make_zoo_model(text);
  std::error_code ignored;
  if (looks_like_a_path(text) || std::filesystem::exists(text, ignored)) return load_model(text);
  refuse_name(text);
}

Topology open_topology(const std::string& text) { return make_topology(text); }

}  // namespace pipesim
