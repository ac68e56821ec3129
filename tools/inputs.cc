#include "tools/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>
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
    "FILE.txt:batch=N,profile-batch=P (N samples of what was measured with P; each is the other, or 64, when "
    "left out)";
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

// What stands behind a model's name: "key=value" in order.
using Assignments = std::vector<std::pair<std::string, std::string>>;

Assignments assignments_of(std::string_view text) {
  Assignments list;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::size_t equals = std::min(one.find('='), one.size());
    list.emplace_back(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return list;
}

// `model` with the value of one of its keys.
std::string assigned(const std::string& model, std::size_t end_of_name, const std::string& key,
                     std::int64_t value) {
  Assignments list;
  if (end_of_name < model.size()) list = assignments_of(std::string_view(model).substr(end_of_name + 1));
  const auto known = std::ranges::find(list, key, &Assignments::value_type::first);
  if (known == list.end()) {
    list.emplace_back(key, std::to_string(value));
  } else {
    known->second = std::to_string(value);
  }
  std::string text = model.substr(0, end_of_name);
  for (std::size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? ':' : ',', list[i].first, list[i].second);
  return text;
}

constexpr std::int64_t kMostSamples = 1 << 20;

// Samples of a profile: to be run, and that were measured.
struct ProfileBatches {
  std::int64_t run = 0, measured = 0;
};

ProfileBatches batches_of_profile(const std::string& text, std::size_t end_of_name) {
  constexpr std::int64_t kUsual = 64;
  ProfileBatches batches;
  if (end_of_name < text.size()) {
    for (const auto& [key, value] : assignments_of(std::string_view(text).substr(end_of_name + 1))) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool known = key == "batch" || key == "profile-batch";
      if (!known || error != std::errc{} || end != value.data() + value.size() || number < 1 ||
          number > kMostSamples) {
        throw InputError(fmt::format(
            "profile \"{}\": found \"{}\" after the file, allowed :batch=N,profile-batch=N, N from "
            "1 to {}",
            text, text.substr(end_of_name), kMostSamples));
      }
      (key == "batch" ? batches.run : batches.measured) = number;
    }
  }
  if (batches.run == 0) batches.run = batches.measured == 0 ? kUsual : batches.measured;
  if (batches.measured == 0) batches.measured = batches.run;
  return batches;
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
    const ProfileBatches batches = batches_of_profile(text, end);
    return import_profile(read_file(file), file, batches.measured, batches.run);
  }
  std::error_code ignored;
  if (looks_like_a_path(text) || std::filesystem::exists(text, ignored)) return load_model(text);
  refuse_name(text);
}

std::string with_batch(const std::string& model, std::int64_t batch) {
  if (batch < 1 || batch > kMostSamples)
    throw InputError(fmt::format("found a batch of {}, allowed: 1 to {}", batch, kMostSamples));
  if (const std::size_t end = end_of_profile(model); end != std::string::npos) {
    const std::string measured = with_profile_batch(model, batches_of_profile(model, end).measured);
    return assigned(measured, end, "batch", batch);
  }
  if (names_zoo_model(model)) return assigned(model, std::min(model.find(':'), model.size()), "batch", batch);
  if (const std::int64_t own = open_model(model).batch(); own != batch)
    throw InputError(fmt::format("model \"{}\" has a batch of {} in its file, found {}", model, own, batch));
  return model;
}

std::string with_profile_batch(const std::string& model, std::int64_t batch) {
  const std::size_t end = end_of_profile(model);
  if (end == std::string::npos)
    throw InputError(
        fmt::format("model \"{}\" is no profile (FILE.txt), so it has no batch that was profiled", model));
  return assigned(model, end, "profile-batch", batch);
}

std::string profile_note(const std::string& model) {
  const std::size_t end = end_of_profile(model);
  if (names_zoo_model(model) || end == std::string::npos ||
      model.find("profile-batch=", end) != std::string::npos)
    return "";
  return fmt::format(
      "{} does not tell with how many samples it was measured: {} were taken (--profile-batch)",
      model.substr(0, end), batches_of_profile(model, end).measured);
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
