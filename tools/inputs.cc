#include "tools/inputs.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <string_view>
#include <vector>

#include "models/import_profile.h"
#include "models/model_json.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "topologies/presets.h"
#include "topologies/topology_json.h"

namespace pipesim {

const char* const kModelHelp =
    "NAME or NAME:key=value,… of the zoo (`pipesim models` lists it), FILE.json, or a measured "
    "profile "
    "FILE.txt:batch=N (N is the batch that was profiled, 64 when left out)";
const char* const kTopologyHelp =
    "NAME or NAME:N for N nodes (`pipesim topologies` lists the names), cpu:N for N threads of a host, "
    "levels:4@10GB/s,2@1.25GB/s, or "
    "FILE.json";

namespace {

bool looks_like_a_path(std::string_view text) {
  return text.ends_with(".json") || text.find('/') != std::string_view::npos;
}

// Where ".txt" ends the name of a profile's file, or npos.
std::size_t end_of_profile(std::string_view text) {
  const std::size_t dot = text.rfind(".txt");
  if (dot == std::string_view::npos) return dot;
  const std::size_t end = dot + 4;
  return end == text.size() || text[end] == ':' ? end : std::string_view::npos;
}

std::int64_t profiled_batch(std::string_view text, std::string_view option) {
  constexpr std::int64_t kUsual = 64, kMost = 1 << 20;
  constexpr std::string_view kKey = ":batch=";
  if (option.empty()) return kUsual;
  std::int64_t batch = 0;
  if (option.starts_with(kKey)) {
    const std::string_view number = option.substr(kKey.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), batch);
    if (error == std::errc{} && end == number.data() + number.size() && batch >= 1 && batch <= kMost)
      return batch;
  }
  throw InputError(fmt::format(
      "profile \"{}\": found \"{}\" after the file, allowed :batch=N, N from 1 to {}", text, option, kMost));
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
  if (const std::size_t end = end_of_profile(text); end != std::string::npos) {
    const std::string file = text.substr(0, end);
    const std::int64_t batch = profiled_batch(text, text.substr(end));
    return import_profile(read_file(file), file, batch);
  }
  std::error_code ignored;
  if (looks_like_a_path(text) || std::filesystem::exists(text, ignored)) return load_model(text);
  refuse_name(text);
}

Topology open_topology(const std::string& text) {
  std::error_code ignored;
  // Bandwidths contain slashes, too.
  const bool levels = text.starts_with("levels:");
  if (!levels && (looks_like_a_path(text) || std::filesystem::exists(text, ignored)))
    return load_topology(text);
  return make_topology(text);
}

}  // namespace pipesim
