#include "tools/render/plans/plan_reason_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/base/figures.h"
#include "tools/render/base/text.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

struct KeyWords {
  std::string_view key, words;
};
constexpr std::array<KeyWords, kTimeParts> kPartWords{
    {{"compute_s", "to compute on each device (mean)"},
     {"uneven_s", "waiting for the busiest device"},
     {"transfers_s", "waiting for transfers"},
     {"results_s", "waiting for results of other devices"}}};
constexpr std::array<KeyWords, kCommunicationKinds.size()> kMovedWords{
    {{"forward_transfer_bytes", "activations to move"},
     {"recompute_transfer_bytes", "activations to move once more"},
     {"backward_transfer_bytes", "gradients of activations to move"},
     {"gradient_sync_bytes", "gradient to synchronise"},
     {"weight_gather_bytes", "weights to gather"},
     {"inner_reduce_bytes", "statistics to add up"},
     {"rotation_bytes", "keys and values to pass round rings"}}};

std::string time_in_words(Nanoseconds time) { return pretty(to_seconds(time)); }

std::string which_baseline(const std::string& name, const std::string& infeasible) {
  if (infeasible.empty()) return name + ", the fastest baseline";
  return fmt::format("{}, the nearest baseline, which does not fit ({})", name, infeasible);
}

// Sentences about a reason. They say what is better or worse from the faster side: that of the plan, or of
// the baseline where the plan is slower.
class ReasonText {
 public:
  explicit ReasonText(const PlanReason& reason)
      : r_(reason), sign_(reason.after > reason.before ? -1 : 1), gained_(std::abs(r_.before - r_.after)) {}

  [[nodiscard]] std::string text() const {
    if (r_.same) return fmt::format("the plan is {}", which_baseline(r_.baseline, r_.infeasible));
    std::vector<std::string> sentences;
    if (!r_.infeasible.empty()) sentences.push_back(memory_sentence());
    const std::string causes = r_.detailed && gained_ > 0 ? cause_sentence() : "";
    if (!causes.empty()) sentences.push_back(causes);
    sentences.push_back(time_sentence(!r_.whole.empty() && !causes.starts_with(r_.whole)));
    if (r_.detailed) {
      if (std::string price = price_sentence(); !price.empty()) sentences.push_back(std::move(price));
    }
    return fmt::format("{}", fmt::join(sentences, " "));
  }

 private:
  struct Effect {
    Nanoseconds weight;
    std::string text;
  };

  [[nodiscard]] std::string_view less() const { return sign_ > 0 ? "less" : "more"; }

  // "less" where `saved` is more than nothing.
  static std::string amount(const std::string& text, bool saved) {
    return text + (saved ? " less" : " more");
  }

  // Says what operators cost less in the faster plan, the most first, as far as it is a fifth of their gain.
  [[nodiscard]] std::string effects(const SplitChange& c, Nanoseconds gain) const {
    std::vector<Effect> effects;
    const Nanoseconds compute = sign_ * (c.before.compute - c.after.compute) / r_.devices;
    const Nanoseconds update = sign_ * (c.before.update - c.after.update) / r_.devices;
    const std::string updates = 2 * update > compute && update <= compute
                                    ? fmt::format(", {} of it to update weights", time_in_words(update))
                                    : "";
    if (!c.operators.empty())
      effects.push_back({compute, fmt::format("{} {} to compute on each device (mean){}",
                                              time_in_words(compute), less(), updates)});
    for (std::size_t k = 0; k < kMovedWords.size(); ++k) {
      const std::int64_t bytes = sign_ * (c.before.moved_by[k].value - c.after.moved_by[k].value);
      const Nanoseconds waiting = sign_ * (c.waiting[0][k] - c.waiting[1][k]);
      // Where no bytes are saved but more waiting than the whole gain, the plan now waits for something else.
      if (bytes <= 0 && waiting > gained_) continue;
      effects.push_back(
          {waiting, bytes > 0 ? fmt::format("{} {} {}", pretty(Bytes(bytes)), less(), kMovedWords[k].words)
                              : fmt::format("{} {} waiting for {}", time_in_words(waiting), less(),
                                            kMovedWords[k].words)});
    }
    std::ranges::stable_sort(effects, {}, [](const Effect& e) { return -e.weight; });
    constexpr std::size_t kMost = 2;
    std::vector<std::string> texts;
    for (const Effect& e : effects) {
      if (texts.size() < kMost && e.weight > 0 && 5 * e.weight >= std::abs(gain)) texts.push_back(e.text);
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  // Returns all operators as one change. It has no name, so that their compute is left to the sentence on
  // time.
  [[nodiscard]] SplitChange all_changes() const {
    SplitChange all;
    for (const SplitChange& c : r_.changes) {
      all.before += c.before;
      all.after += c.after;
      for (std::size_t plan = 0; plan < 2; ++plan) {
        for (std::size_t k = 0; k < kMovedWords.size(); ++k) all.waiting[plan][k] += c.waiting[plan][k];
      }
    }
    return all;
  }

  [[nodiscard]] std::string change_clause(const SplitChange& c) const {
    const std::string what = effects(c, c.gain);
    if (what.empty()) return "";
    std::string_view from = c.from;
    for (const std::string_view same : {"split by ", "split "}) {
      if (from.starts_with(same) && c.to.starts_with(same)) from.remove_prefix(same.size());
    }
    return fmt::format("{} {} instead of {}: {}", c.operators, c.to, from, what);
  }

  // Says what changed and what that saves, for a first change that explains a fifth of the time, and a second
  // one that explains a quarter.
  [[nodiscard]] std::string cause_sentence() const {
    std::vector<std::string> clauses;
    if (!r_.whole.empty()) {
      const std::string what = effects(all_changes(), gained_);
      if (!what.empty()) clauses.push_back(fmt::format("{}: {}", r_.whole, what));
    }
    std::vector<const SplitChange*> most;
    for (const SplitChange& c : r_.changes) {
      if (!c.operators.empty()) most.push_back(&c);
    }
    std::ranges::stable_sort(most, {}, [&](const SplitChange* c) { return -sign_ * c->gain; });
    constexpr std::size_t kMost = 2;
    for (const SplitChange* c : most) {
      const Nanoseconds least = gained_ / (clauses.empty() ? 5 : 4);
      if (clauses.size() == kMost || sign_ * c->gain <= 0 || sign_ * c->gain < least) break;
      // In stages all operators are on fewer devices.
      if (!r_.whole.empty() && c->to.starts_with("split ") && !c->to.starts_with("split by ")) continue;
      if (std::string clause = change_clause(*c); !clause.empty()) clauses.push_back(std::move(clause));
    }
    return clauses.empty() ? "" : fmt::format("{}.", fmt::join(clauses, "; "));
  }

  // Parts of the time, those that go with the whole difference first.
  [[nodiscard]] std::string time_sentence(bool name_plan) const {
    if (gained_ == 0) return fmt::format("An iteration takes as long as with {}.", r_.baseline);
    std::string text =
        fmt::format("{} takes {} than with {}",
                    !name_plan ? "An iteration" : fmt::format("With {} an iteration", r_.whole),
                    amount(time_in_words(gained_), sign_ > 0), r_.baseline);
    if (!r_.detailed)
      return text + fmt::format(" ({} instead of {}).", time_in_words(r_.after), time_in_words(r_.before));
    std::vector<std::pair<Nanoseconds, std::size_t>> changes;
    for (std::size_t p = 0; p < kTimeParts; ++p) changes.emplace_back(r_.parts[0][p] - r_.parts[1][p], p);
    std::ranges::stable_sort(changes, {}, [&](const auto& change) { return -sign_ * change.first; });
    std::vector<std::string> with, against;
    for (const auto& [saved, part] : changes) {
      if (20 * std::abs(saved) < gained_) continue;
      (sign_ * saved > 0 ? with : against)
          .push_back(fmt::format("{} {}", amount(time_in_words(std::abs(saved)), saved > 0),
                                 kPartWords[part].words));
    }
    return text + fmt::format(": {}{}{}.", fmt::join(with, ", "), against.empty() ? "" : ", but ",
                              fmt::join(against, ", "));
  }

  // What moves more in the faster plan, where that is not little.
  [[nodiscard]] std::string price_sentence() const {
    std::int64_t most_saved = 0, moved = 0;
    for (std::size_t k = 0; k < kMovedWords.size(); ++k) {
      most_saved = std::max(most_saved, sign_ * (r_.moved[0][k].value - r_.moved[1][k].value));
      moved += std::max(r_.moved[0][k].value, r_.moved[1][k].value);
    }
    std::vector<std::string> prices;
    for (std::size_t k = 0; k < kMovedWords.size(); ++k) {
      const std::int64_t paid = -sign_ * (r_.moved[0][k].value - r_.moved[1][k].value);
      if (paid > 0 && 4 * paid >= most_saved && 20 * paid >= moved)
        prices.push_back(fmt::format("{} {}", amount(pretty(Bytes(paid)), sign_ < 0), kMovedWords[k].words));
    }
    return prices.empty() ? "" : fmt::format("In return {}.", fmt::join(prices, ", "));
  }

  [[nodiscard]] std::string memory_sentence() const {
    std::string text = fmt::format("{} does not fit ({})", r_.baseline, r_.infeasible);
    if (!r_.detailed) return text + ".";
    std::vector<std::pair<Bytes, std::size_t>> saved;
    for (std::size_t c = 0; c < kMemoryCategories; ++c)
      saved.emplace_back(r_.memory[0].at_peak[c] - r_.memory[1].at_peak[c], c);
    std::ranges::stable_sort(saved, {}, [](const auto& s) { return -s.first.value; });
    const Bytes less = r_.memory[0].peak - r_.memory[1].peak;
    if (less.value <= 0) return text + ".";
    text += fmt::format("; this plan takes {} less on its fullest device", pretty(less));
    std::vector<std::string> parts;
    constexpr std::size_t kMost = 2;
    for (const auto& [bytes, category] : saved) {
      if (parts.size() < kMost && 5 * bytes.value >= less.value)
        parts.push_back(
            fmt::format("{} less {}", pretty(bytes), name_of(static_cast<MemoryCategory>(category))));
    }
    return text + fmt::format("{}{}.", parts.empty() ? "" : ": ", fmt::join(parts, ", "));
  }

  const PlanReason& r_;
  const std::int64_t sign_;
  const Nanoseconds gained_;
};

Nanoseconds waiting_in_all(const CommunicationTimes& times) {
  return std::accumulate(times.begin(), times.end(), Nanoseconds{0});
}

Json both_json(const Json& before, const Json& after) { return {{"baseline", before}, {"plan", after}}; }

Json moved_json(const MovedBytes& before, const MovedBytes& after) {
  Json json = Json::object();
  for (std::size_t k = 0; k < kMovedWords.size(); ++k)
    json[std::string(kMovedWords[k].key)] = both_json(before[k].value, after[k].value);
  return json;
}

}  // namespace

std::string to_text(const PlanReason& reason) { return ReasonText(reason).text(); }

std::string why_lines(const PlanReason& reason) {
  constexpr std::size_t kWidth = 110, kIndent = 17;
  std::string text = wrap(to_text(reason), kWidth, kIndent);
  const std::string_view label = "  why";
  return text.replace(0, label.size(), label);
}

nlohmann::ordered_json json_of(const PlanReason& r) {
  Json json{{"baseline", r.baseline}, {"same_plan", r.same}};
  if (!r.infeasible.empty()) json["infeasible"] = r.infeasible;
  if (!r.same) json["iteration_time_s"] = both_json(seconds(r.before), seconds(r.after));
  if (!r.same && r.detailed) {
    for (std::size_t p = 0; p < kTimeParts; ++p)
      json["time_parts"][std::string(kPartWords[p].key)] =
          both_json(seconds(r.parts[0][p]), seconds(r.parts[1][p]));
    json["moved"] = moved_json(r.moved[0], r.moved[1]);
    json["peak_memory_bytes"] = both_json(r.memory[0].peak.value, r.memory[1].peak.value);
    if (!r.whole.empty()) json["whole_plan"] = r.whole;
    json["changes"] = Json::array();
    for (const SplitChange& c : r.changes) {
      Json change{{"operators", c.operators.empty() ? "unchanged" : c.operators},
                  {"count", c.members.size()}};
      if (!c.operators.empty()) change.update({{"from", c.from}, {"to", c.to}});
      change["gain_s"] = seconds(c.gain);
      change["compute_s"] = both_json(seconds(c.before.compute), seconds(c.after.compute));
      change["update_s"] = both_json(seconds(c.before.update), seconds(c.after.update));
      change["on_links_s"] = both_json(seconds(c.before.on_links), seconds(c.after.on_links));
      change["waiting_s"] =
          both_json(seconds(waiting_in_all(c.waiting[0])), seconds(waiting_in_all(c.waiting[1])));
      change["moved"] = moved_json(c.before.moved_by, c.after.moved_by);
      json["changes"].push_back(std::move(change));
    }
  }
  json["text"] = to_text(r);
  return json;
}

}  // namespace pipesim
