#include "search/recipes/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {
namespace {

constexpr std::int64_t kMostOfAPart = 1 << 20;
constexpr std::array<std::string_view, kMeshAxes> kAxisNames{"tp", "cp", "ep", "dp", "pp"};

[[noreturn]] void fail(std::string_view part, const std::string& why) {
  throw InputError(fmt::format("recipe: \"{}\": {}", part, why));
}

// A part of a recipe: its name, and what stands behind it.
struct WrittenPart {
  std::string_view all, name, value;
};

std::int64_t number_of(const WrittenPart& part, std::int64_t least = 1) {
  std::int64_t number = 0;
  const char* const end = part.value.data() + part.value.size();
  const auto [stopped, error] = std::from_chars(part.value.data(), end, number);
  if (error != std::errc() || stopped != end || number < least || number > kMostOfAPart)
    fail(part.all, fmt::format("allowed: {} with a number from {} to {}", part.name, least, kMostOfAPart));
  return number;
}

std::array<MeshAxis, kMeshAxes> order_of(const WrittenPart& part) {
  std::array<MeshAxis, kMeshAxes> order{};
  std::set<std::string_view> seen;
  std::string_view left = part.value;
  for (std::size_t i = 0; i < kMeshAxes; ++i) {
    const std::string_view name = left.substr(0, left.find('-'));
    const auto known = std::ranges::find(kAxisNames, name);
    const bool is_last = name.size() == left.size();
    if (known == kAxisNames.end() || !seen.insert(name).second || is_last != (i + 1 == kMeshAxes))
      fail(part.all,
           "allowed: tp, cp, ep, dp and pp once each, the closest first, such as order=tp-cp-ep-dp-pp");
    order[i] = static_cast<MeshAxis>(known - kAxisNames.begin());
    left.remove_prefix(std::min(left.size(), name.size() + 1));
  }
  return order;
}

// What a function reads from a value; its errors name the part.
template <class Read>
auto read_part(const WrittenPart& part, std::string_view value, Read read) {
  try {
    return read(value);
  } catch (const InputError& error) {
    fail(part.all, error.what());
  }
}

void read_recompute(const WrittenPart& part, Recipe& recipe) {
  recipe.recompute = read_part(part, part.value, parse_recompute);
}

std::vector<std::int64_t> layers_of_groups(const WrittenPart& part) {
  std::vector<std::int64_t> layers;
  for (std::string_view left = part.value;;) {
    const std::string_view one = left.substr(0, left.find('-'));
    layers.push_back(number_of({part.all, part.name, one}, 0));
    if (one.size() == left.size()) return layers;
    left.remove_prefix(one.size() + 1);
  }
}

std::string schedule_of(const WrittenPart& part) {
  return read_part(part, part.value, [](std::string_view value) {
    std::string written(value);
    (void)plan_schedule(written);
    return written;
  });
}

struct PartKind {
  std::string_view name;
  RecipePart described;
  std::function<void(const WrittenPart&, Recipe&)> read;
};

PartKind degree(std::string_view name, std::string_view form, std::string_view meaning,
                std::int64_t Recipe::*degree) {
  return {name, {form, meaning}, [degree](const WrittenPart& p, Recipe& r) { r.*degree = number_of(p); }};
}

PartKind sharding(std::string_view name, std::string_view form, std::string_view meaning) {
  return {name, {form, meaning}, [](const WrittenPart& p, Recipe& r) {
            if (const auto why = read_state_sharding(p.name, p.value, r.state_sharding)) fail(p.all, *why);
          }};
}

// What PyTorch's FSDP2 does: weights are kept in float32, gathered copies have the model's type.
void shard_weights(const WrittenPart& part, Recipe& recipe) {
  if (recipe.state_sharding.any()) fail(part.all, "is zero3, and the recipe says another zero as well");
  recipe.state_sharding.kind = StateSharding::Kind::Weights;
  recipe.state_sharding.wide_weights = true;
}

const std::vector<PartKind>& part_kinds() {
  static const std::vector<PartKind> kinds{
      degree("tp", "tp8", "tensor parallel: parts of heads, feed-forward features and vocabulary",
             &Recipe::tensor),
      degree("cp", "cp2", "context parallel: parts of the sequence", &Recipe::context),
      degree("ulysses", "ulysses=2",
             "so many of cp divide the heads of attention, not its sequence (all-to-all); left out, 1",
             &Recipe::ulysses),
      {"ring",
       {"ring", "keys and values pass round the parts of cp's sequence while attention works, ungathered"},
       [](const WrittenPart& p, Recipe& r) {
         if (p.value != "") fail(p.all, "allowed: ring, without a value");
         r.ring = true;
       }},
      degree("dp", "dp16", "data parallel: copies of the model; left out, as many as there are devices for",
             &Recipe::data),
      degree("ep", "ep8", "expert parallel: parts of the experts of a layer, within tp, cp and dp",
             &Recipe::expert),
      degree("etp", "etp1", "tensor parallel within an expert: parts of its features; left out, as tp",
             &Recipe::expert_tensor),
      degree("pp", "pp4", "pipeline parallel: groups of devices, one behind the other", &Recipe::pipeline),
      degree("vpp", "vpp2", "stages on each of these groups (schedule interleaved; zb-v, dualpipe-v: 2)",
             &Recipe::chunks),
      degree("mbs", "mbs1", "samples of a microbatch on each copy of the model; left out, 1",
             &Recipe::microbatch),
      {"sp",
       {"sp", "sequence parallel: norms, dropout and residuals divide the sequence over tp"},
       [](const WrittenPart& p, Recipe& r) {
         if (p.value != "") fail(p.all, "allowed: sp, without a value");
         r.sequence_parallel = true;
       }},
      sharding("zero", "zero1",
               "copies of a weight divide the optimizer's state (zero1), gradients (zero2), weights (zero3)"),
      {"fsdp",
       {"fsdp", "another name of zero3,weights=float32; in pipelines with reshard=last"},
       [](const WrittenPart& p, Recipe& r) {
         if (p.value != "") fail(p.all, "allowed: fsdp, without a value");
         shard_weights(p, r);
       }},
      {"hsdp",
       {"hsdp=8", "another name of fsdp,shard=8"},
       [](const WrittenPart& p, Recipe& r) {
         shard_weights(p, r);
         if (const auto why = read_state_sharding("shard", p.value, r.state_sharding)) fail(p.all, *why);
       }},
      sharding("shard", "shard=8", "so many neighbouring copies divide state; left out, all of them"),
      sharding("reshard", "reshard=never",
               "zero3: gathered weights stay for backward (never), for all microbatches (last; in pipelines, "
               "never is that), or not"),
      sharding("gradients", "gradients=whole",
               "zero3: gradients accumulate whole and are reduced once an iteration; left out, own"),
      sharding("prefetch", "prefetch=2", "layers ahead of which weights are gathered; left out, 1"),
      sharding("weights", "weights=float32",
               "zero3: 16-bit weights are kept in float32, without a copy in the state; left out, own"),
      sharding("gather", "gather=float32", "16-bit weights travel in float32; left out, own"),
      sharding("overlap", "overlap=gather",
               "zero1, zero2: weights are gathered during the next forward (gather), or after the update "
               "(none, the default)"),
      {"recompute",
       {"recompute=selective",
        "what is computed again: none, selective, full, stage, op; full:4, uniform:4, every:2: of layers; "
        "modules (mlp+moe_act)"},
       read_recompute},
      {"gathered",
       {"gathered=keep",
        "inputs gathered for forward are kept for backward (keep) or gathered again; left out, again "
        "with sp and cp"},
       [](const WrittenPart& p, Recipe& r) { r.gathered = read_part(p, p.value, parse_gathered_inputs); }},
      {"reduce",
       {"reduce=overlapped",
        "gradients are reduced beside backward (overlapped), or behind all steps (after-steps, the default "
        "with pp)"},
       [](const WrittenPart& p, Recipe& r) {
         r.reduction = read_part(p, p.value, parse_gradient_reduction);
       }},
      {"tp-overlap",
       {"tp-overlap",
        "products hide gathers and scattered sums of tp and sp (always, or no value), or they wait (never); "
        "left out, as --runtime says"},
       [](const WrittenPart& p, Recipe& r) {
         if (p.value != "" && p.value != "always" && p.value != "never")
           fail(p.all, "allowed: tp-overlap, tp-overlap=always or tp-overlap=never");
         r.tensor_overlap = p.value != "never";
       }},
      {"messages",
       {"messages=blocking",
        "while stages send each other tensors, their devices compute (beside) or wait (blocking); left out, "
        "as "
        "--runtime says"},
       [](const WrittenPart& p, Recipe& r) { r.messages = read_part(p, p.value, parse_stage_messages); }},
      {"schedule",
       {"schedule=1f1b", "the order of the pipeline's steps; left out, 1f1b, or interleaved with vpp"},
       [](const WrittenPart& p, Recipe& r) { r.schedule = schedule_of(p); }},
      {"order",
       {"order=tp-cp-ep-dp-pp", "which devices are neighbours, the closest first; this is the default"},
       [](const WrittenPart& p, Recipe& r) { r.order = order_of(p); }},
      {"first",
       {"first=7", "layers on the first of the pp groups; left out, as many as on the others"},
       [](const WrittenPart& p, Recipe& r) { r.first = number_of(p, 0); }},
      {"last",
       {"last=7", "the same of the last group"},
       [](const WrittenPart& p, Recipe& r) { r.last = number_of(p, 0); }},
      {"layers",
       {"layers=3-4-4-3",
        "layers on each of the pp groups, or on each of all stages, where neither first nor "
        "last says enough"},
       [](const WrittenPart& p, Recipe& r) { r.layers = layers_of_groups(p); }}};
  return kinds;
}

// "tp8" and "tp=8" are tp and 8.
WrittenPart divide(std::string_view all) {
  const std::size_t equals = all.find('=');
  if (equals != std::string_view::npos) return {all, all.substr(0, equals), all.substr(equals + 1)};
  const std::size_t digit = all.find_first_of("0123456789");
  if (digit == std::string_view::npos) return {all, all, ""};
  return {all, all.substr(0, digit), all.substr(digit)};
}

const PartKind& kind_of(const WrittenPart& part) {
  std::vector<std::string> names;
  for (const PartKind& kind : part_kinds()) {
    if (kind.name == part.name) return kind;
    names.emplace_back(kind.name);
  }
  fail(part.all, fmt::format("unknown part{}, allowed: {}", did_you_mean(std::string(part.name), names),
                             list_names(names)));
}

// Where vpp is left out.
std::int64_t implied_chunks(const Recipe& recipe) { return recipe.in_v() ? 2 : 1; }

}  // namespace

std::string_view name_of(MeshAxis axis) { return kAxisNames[static_cast<std::size_t>(axis)]; }

const std::vector<RecipePart>& recipe_parts() {
  static const std::vector<RecipePart> parts = [] {
    std::vector<RecipePart> list;
    for (const PartKind& kind : part_kinds()) list.push_back(kind.described);
    return list;
  }();
  return parts;
}

Recipe parse_recipe(std::string_view text) {
  Recipe recipe;
  std::set<std::string_view> seen;
  std::string_view left = text;
  while (true) {
    const std::string_view all = left.substr(0, left.find(','));
    const WrittenPart part = divide(all);
    if (all.empty())
      throw InputError(
          fmt::format("recipe \"{}\": a part is empty, allowed: parts such as tp8,pp4,dp16", text));
    const PartKind& kind = kind_of(part);
    if (!seen.insert(kind.name).second) fail(all, fmt::format("{} stands there twice", kind.name));
    kind.read(part, recipe);
    if (all.size() == left.size()) break;
    left.remove_prefix(all.size() + 1);
  }
  if (!seen.contains("vpp")) recipe.chunks = implied_chunks(recipe);
  using enum StateSharding::Reshard;
  StateSharding& sharding = recipe.state_sharding;
  if (recipe.pipeline > 1) {
    // Each microbatch in flight would keep a copy of the same weights.
    if (sharding.reshard == Never) sharding.reshard = Last, sharding.whole_gradients = false;
    // PyTorch's pipelines run FSDP2 so.
    const bool fsdp = seen.contains("fsdp") || seen.contains("hsdp");
    if (fsdp && !seen.contains("reshard") && !seen.contains("gradients")) sharding.reshard = Last;
    if (fsdp && seen.contains("reshard") && sharding.reshard == Always) sharding.whole_gradients = true;
  }
  if (const auto why = contradiction(sharding))
    throw InputError(fmt::format("recipe \"{}\": {}", text, *why));
  return recipe;
}

std::string Recipe::schedule_name() const {
  if (!schedule.empty()) return schedule;
  return chunks > 1 ? "interleaved" : "1f1b";
}

bool Recipe::has_stages() const {
  if (pipeline > 1 || schedule.empty()) return pipeline > 1;
  const ScheduleKind& kind = schedule_kind(schedule);
  return kind.pairs && !kind.both_ways && !kind.in_v;
}

bool Recipe::in_v() const { return lies_in_v(schedule); }

std::int64_t Recipe::ways() const {
  return pipeline > 1 && !schedule.empty() && schedule_kind(schedule).both_ways ? 2 : 1;
}

std::string Recipe::str() const {
  std::vector<std::string> parts;
  const auto degree = [&](const char* name, std::int64_t value, std::int64_t left_out) {
    if (value != left_out) parts.push_back(fmt::format("{}{}", name, value));
  };
  degree("tp", tensor, 1);
  degree("pp", pipeline, 1);
  degree("vpp", chunks, implied_chunks(*this));
  degree("cp", context, 1);
  if (ulysses != 1) parts.push_back(fmt::format("ulysses={}", ulysses));
  if (ring) parts.emplace_back("ring");
  degree("dp", data, 0);
  degree("ep", expert, 1);
  degree("etp", expert_tensor, 0);
  if (sequence_parallel) parts.emplace_back("sp");
  degree("mbs", microbatch, 0);
  if (state_sharding.any()) parts.push_back(state_sharding.str());
  if (first) parts.push_back(fmt::format("first={}", *first));
  if (last) parts.push_back(fmt::format("last={}", *last));
  if (!layers.empty()) parts.push_back(fmt::format("layers={}", fmt::join(layers, "-")));
  if (recompute.any()) parts.push_back("recompute=" + recompute.str());
  if (gathered) parts.push_back(fmt::format("gathered={}", pipesim::name_of(*gathered)));
  if (reduction) parts.push_back(fmt::format("reduce={}", pipesim::name_of(*reduction)));
  if (tensor_overlap) parts.emplace_back(*tensor_overlap ? "tp-overlap" : "tp-overlap=never");
  if (messages) parts.push_back(fmt::format("messages={}", pipesim::name_of(*messages)));
  if (!schedule.empty()) parts.push_back("schedule=" + schedule);
  if (order != kUsualOrder) {
    std::vector<std::string_view> names;
    for (const MeshAxis axis : order) names.push_back(name_of(axis));
    parts.push_back(fmt::format("order={}", fmt::join(names, "-")));
  }
  if (parts.empty()) return "dp1";
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace pipesim
