#include "taskgraph/plan/state_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "sim/base/errors.h"
#include "taskgraph/plan/weight_versions.h"

namespace pipesim {
namespace {

constexpr std::int32_t kMostOfAPart = 1 << 20;

std::optional<std::string> read_number(std::string_view name, std::string_view value, std::int32_t least,
                                       std::int32_t most, std::int32_t& out) {
  const char* const end = value.data() + value.size();
  std::int32_t number = 0;
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped != end || number < least || number > most)
    return fmt::format("allowed: {} with a number from {} to {}", name, least, most);
  out = number;
  return std::nullopt;
}

// Reads a part with two values, the default `usual` and `other`.
std::optional<std::string> read_choice(std::string_view name, std::string_view value, std::string_view usual,
                                       std::string_view other, bool& is_other) {
  if (value != usual && value != other) return fmt::format("allowed: {0}={2}, {0}={1}", name, usual, other);
  is_other = value == other;
  return std::nullopt;
}

constexpr std::array<std::pair<std::string_view, StateSharding::Reshard>, 3> kReshards{
    {{"always", StateSharding::Reshard::Always},
     {"never", StateSharding::Reshard::Never},
     {"last", StateSharding::Reshard::Last}}};

std::optional<std::string> read_reshard(std::string_view value, StateSharding::Reshard& out) {
  const auto* const found =
      std::ranges::find(kReshards, value, &std::pair<std::string_view, StateSharding::Reshard>::first);
  if (found == kReshards.end()) return "allowed: reshard=always, reshard=never, reshard=last";
  out = found->second;
  return std::nullopt;
}

DataType widened(DataType type) { return bytes_per_element(type) < 4 ? DataType::Float32 : type; }

}  // namespace

DataType StateSharding::kept_type(DataType type) const {
  return wide_weights && gathers_to_use() ? widened(type) : type;
}
DataType StateSharding::gather_type(DataType type) const { return wide_gathers ? widened(type) : type; }

std::string StateSharding::str() const {
  if (!any()) return "none";
  std::string text = fmt::format("zero{}", static_cast<int>(kind));
  if (group != 0) text += fmt::format(",shard={}", group);
  if (reshard != Reshard::Always)
    text += fmt::format(",reshard={}", kReshards[static_cast<std::size_t>(reshard)].first);
  if (whole_gradients) text += ",gradients=whole";
  if (prefetch != StateSharding().prefetch) text += fmt::format(",prefetch={}", prefetch);
  if (wide_weights) text += ",weights=float32";
  if (wide_gathers) text += ",gather=float32";
  if (overlaps_gather) text += ",overlap=gather";
  return text;
}

std::span<const std::string_view> state_sharding_parts() {
  static constexpr std::array<std::string_view, 8> parts{"zero",     "shard",   "reshard", "gradients",
                                                         "prefetch", "weights", "gather",  "overlap"};
  return parts;
}

std::optional<std::string> read_state_sharding(std::string_view name, std::string_view value,
                                               StateSharding& sharding) {
  if (name == "zero") {
    std::int32_t kind = 0;
    if (auto why = read_number(name, value, 1, 3, kind)) return why;
    sharding.kind = static_cast<StateSharding::Kind>(kind);
    return std::nullopt;
  }
  if (name == "shard") return read_number(name, value, 1, kMostOfAPart, sharding.group);
  if (name == "prefetch") return read_number(name, value, 0, kMostOfAPart, sharding.prefetch);
  if (name == "weights") return read_choice(name, value, "own", "float32", sharding.wide_weights);
  if (name == "gather") return read_choice(name, value, "own", "float32", sharding.wide_gathers);
  if (name == "overlap") return read_choice(name, value, "none", "gather", sharding.overlaps_gather);
  if (name == "gradients") return read_choice(name, value, "own", "whole", sharding.whole_gradients);
  return read_reshard(value, sharding.reshard);
}

StateSharding parse_state_sharding(std::string_view text) {
  constexpr std::string_view allowed =
      "allowed: none, or zero1, zero2 or zero3, then shard=N, reshard=never or last, gradients=whole, "
      "prefetch=N, weights=float32, gather=float32 and overlap=gather as wanted";
  StateSharding sharding;
  if (text == "none") return sharding;
  std::vector<std::string_view> seen;
  for (std::string_view left = text; !left.empty();) {
    const std::string_view part = left.substr(0, left.find(','));
    const std::string_view name = part.substr(0, part.find_first_of("=0123456789"));
    std::string_view value = part.substr(name.size());
    if (value.starts_with('=')) value.remove_prefix(1);
    if (std::ranges::find(state_sharding_parts(), name) == state_sharding_parts().end())
      throw InputError(fmt::format("state sharding \"{}\": unknown part \"{}\", {}", text, part, allowed));
    if (std::ranges::find(seen, name) != seen.end())
      throw InputError(fmt::format("state sharding \"{}\": {} stands there twice", text, name));
    seen.push_back(name);
    if (const auto why = read_state_sharding(name, value, sharding))
      throw InputError(fmt::format("state sharding \"{}\": \"{}\": {}", text, part, *why));
    left.remove_prefix(std::min(left.size(), part.size() + 1));
  }
  if (!sharding.any()) throw InputError(fmt::format("state sharding \"{}\": {}", text, allowed));
  if (const auto why = contradiction(sharding))
    throw InputError(fmt::format("state sharding \"{}\": {}", text, *why));
  return sharding;
}

std::optional<std::string> contradiction(const StateSharding& sharding) {
  if (!sharding.any() && sharding != StateSharding())
    return "shard, reshard, gradients, prefetch, weights, gather and overlap belong to zero1, zero2 or zero3";
  const bool divides_weights = sharding.kind == StateSharding::Kind::Weights;
  if (sharding.overlaps_gather && divides_weights)
    return "overlap belongs to zero1 and zero2; zero3 gathers weights before each use";
  if ((sharding.reshard != StateSharding::Reshard::Always || sharding.wide_weights) && !divides_weights)
    return "reshard and weights belong to zero3, which divides weights";
  if (sharding.whole_gradients && !divides_weights)
    return "gradients=whole belongs to zero3; zero1 is what does not divide gradients";
  if (sharding.whole_gradients && sharding.reshard == StateSharding::Reshard::Last)
    return "reshard=last reduces gradients once, so gradients=whole says nothing more";
  if (sharding.prefetch != StateSharding().prefetch && !sharding.gathers_before_use())
    return "prefetch belongs to zero3, and to zero1 and zero2 with overlap=gather";
  return std::nullopt;
}

std::optional<std::string> refusal_in_ways(const StateSharding& sharding, const std::string& schedule) {
  const bool once = !sharding.each_microbatch() && !sharding.gathers_to_use();
  if (!schedule_kind(schedule).both_ways || once) return std::nullopt;
  return fmt::format(
      "{} moves weights or gradients in each microbatch, of which half run on each copy under schedule={}; "
      "allowed: zero1, or zero3 with reshard=last",
      sharding.str(), schedule);
}

std::optional<std::string> illegal(const StateSharding& sharding, const std::optional<Pipeline>& pipeline,
                                   std::int32_t microbatches) {
  if (!sharding.any() || !pipeline) return std::nullopt;
  const WeightVersions versions(pipeline, microbatches);
  if (!versions.trained())
    return fmt::format("{} divides state of training, and schedule {} trains nothing", sharding.str(),
                       pipeline->schedule);
  if (versions.several())
    return fmt::format("{} needs weights that change once an iteration; schedule {} changes them in between",
                       sharding.str(), pipeline->schedule);
  return refusal_in_ways(sharding, pipeline->schedule);
}

}  // namespace pipesim
