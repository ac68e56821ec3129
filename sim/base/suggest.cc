#include "sim/base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <vector>

namespace pipesim {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Letters and digits in lower case: "GPT3_175B" and "gpt3-175b" are one.
std::string folded(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (is_word(c)) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// "dp" of "data-parallel"; "" of a single word.
std::string initials(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (is_word(name[i]) && (i == 0 || !is_word(name[i - 1])))
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return text.size() > 1 ? text : "";
}

struct OtherWord {
  std::string_view said, meant;  // folded; as it is spelled here
};

// What other programs call the same. A word may mean several things; what there is to choose from decides.
constexpr std::array kOtherWords{OtherWord{"bf16", "bfloat16"},
                                 OtherWord{"fp16", "float16"},
                                 OtherWord{"f16", "float16"},
                                 OtherWord{"half", "float16"},
                                 OtherWord{"fp32", "float32"},
                                 OtherWord{"f32", "float32"},
                                 OtherWord{"float", "float32"},
                                 OtherWord{"single", "float32"},
                                 OtherWord{"fp64", "float64"},
                                 OtherWord{"f64", "float64"},
                                 OtherWord{"double", "float64"},
                                 OtherWord{"bs", "batch"},
                                 OtherWord{"bsz", "batch"},
                                 OtherWord{"gbs", "batch"},
                                 OtherWord{"mbs", "microbatch"},
                                 OtherWord{"seqlen", "sequence"},
                                 OtherWord{"ctx", "sequence"},
                                 OtherWord{"depth", "layers"},
                                 OtherWord{"dmodel", "hidden"},
                                 OtherWord{"width", "hidden"},
                                 OtherWord{"embedding", "hidden"},
                                 OtherWord{"ddp", "data-parallel"},
                                 OtherWord{"tp", "model-parallel"},
                                 OtherWord{"tensorparallel", "model-parallel"},
                                 OtherWord{"time", "seconds"},
                                 OtherWord{"timeout", "seconds"},
                                 OtherWord{"duration", "seconds"},
                                 OtherWord{"iterations", "proposals"},
                                 OtherWord{"iterations", "steps"},
                                 OtherWord{"cluster", "topology"},
                                 OtherWord{"hardware", "topology"},
                                 OtherWord{"machine", "topology"},
                                 OtherWord{"gpus", "topology"},
                                 OtherWord{"network", "model"},
                                 OtherWord{"jobs", "threads"},
                                 OtherWord{"cores", "threads"},
                                 OtherWord{"workers", "threads"},
                                 OtherWord{"cpus", "threads"},
                                 OtherWord{"method", "algorithm"},
                                 OtherWord{"planner", "algorithm"},
                                 OtherWord{"strategy", "algorithm"},
                                 OtherWord{"strategy", "baseline"},
                                 OtherWord{"checkpointing", "recompute"},
                                 OtherWord{"run", "execute"},
                                 OtherWord{"train", "execute"},
                                 OtherWord{"optimize", "search"},
                                 OtherWord{"optimise", "search"},
                                 OtherWord{"plan", "search"},
                                 OtherWord{"tune", "search"},
                                 OtherWord{"predict", "simulate"},
                                 OtherWord{"estimate", "simulate"},
                                 OtherWord{"baselines", "compare"},
                                 OtherWord{"profile", "calibrate"},
                                 OtherWord{"measure", "calibrate"},
                                 OtherWord{"clusters", "topologies"},
                                 OtherWord{"gpu", "cuda"},
                                 OtherWord{"gpus", "cuda"},
                                 OtherWord{"nvidia", "cuda"},
                                 OtherWord{"topology", "topologies"},
                                 OtherWord{"version", "--version"},
                                 OtherWord{"v", "--version"},
                                 OtherWord{"gpus", "devices"},
                                 OtherWord{"zoo", "models"},
                                 OtherWord{"list", "models"}};

std::string by_other_word(const std::string& said, std::span<const std::string> candidates) {
  for (const OtherWord& word : kOtherWords) {
    if (word.said == said && std::ranges::find(candidates, word.meant) != candidates.end())
      return std::string(word.meant);
  }
  for (const std::string& candidate : candidates) {
    if (initials(candidate) == said) return candidate;
  }
  return "";
}

// The shortest candidate that begins with `said`; two letters must leave no choice.
std::string by_beginning(const std::string& said, std::span<const std::string> candidates) {
  std::string shortest;
  std::size_t found = 0;
  for (const std::string& candidate : candidates) {
    if (!folded(candidate).starts_with(said)) continue;
    ++found;
    if (shortest.empty() || candidate.size() < shortest.size()) shortest = candidate;
  }
  constexpr std::size_t kFewest = 2;
  return said.size() < kFewest || (said.size() == kFewest && found > 1) ? "" : shortest;
}

// The shortest candidate of which a later word begins with `said`, as "dgx-a100" has "a100".
std::string by_word(const std::string& said, std::span<const std::string> candidates) {
  constexpr std::size_t kFewest = 3;
  std::string shortest;
  for (const std::string& candidate : candidates) {
    if (said.size() < kFewest || (!shortest.empty() && candidate.size() >= shortest.size())) continue;
    for (std::size_t i = 1; i < candidate.size(); ++i) {
      const bool begins = is_word(candidate[i]) && !is_word(candidate[i - 1]);
      if (begins && folded(std::string_view(candidate).substr(i)).starts_with(said)) shortest = candidate;
    }
  }
  return shortest;
}

// The longest candidate that `said` begins or ends with, as "num_layers" ends with "layers".
std::string by_part(const std::string& said, std::span<const std::string> candidates) {
  constexpr std::size_t kFewest = 4;
  std::string longest;
  for (const std::string& candidate : candidates) {
    const std::string part = folded(candidate);
    if (part.size() < kFewest || candidate.size() <= longest.size()) continue;
    if (said.starts_with(part) || said.ends_with(part)) longest = candidate;
  }
  return longest;
}

std::string by_distance(std::string_view name, std::span<const std::string> candidates, std::size_t most) {
  std::size_t best = most + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string said = folded(name);
  if (said.empty()) return "";
  for (const std::string& candidate : candidates) {
    if (folded(candidate) == said) return candidate;
  }
  if (std::string found = by_other_word(said, candidates); !found.empty()) return found;
  if (std::string found = by_distance(name, candidates, 1); !found.empty()) return found;
  if (std::string found = by_beginning(said, candidates); !found.empty()) return found;
  if (std::string found = by_word(said, candidates); !found.empty()) return found;
  if (std::string found = by_part(said, candidates); !found.empty()) return found;
  return by_distance(name, candidates, std::max<std::size_t>(2, name.size() / 3));
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest);
}

std::string list_names(std::span<const std::string> names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(", … ({} in all)", names.size());
  return text;
}

std::string counted(std::int64_t number, std::string_view noun) {
  const std::string_view ending = number == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", number, noun, ending);
}

}  // namespace pipesim
