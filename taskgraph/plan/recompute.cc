#include "taskgraph/plan/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "models/backward_need.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "taskgraph/plan/layer_modules.h"
#include "taskgraph/plan/repeated_blocks.h"

namespace pipesim {
namespace {

// These kinds have neither a number nor modules.
constexpr std::array<std::pair<Recompute::Kind, std::string_view>, 4> kRecomputeWords{
    {{Recompute::Kind::None, "none"},
     {Recompute::Kind::Full, "full"},
     {Recompute::Kind::Operators, "op"},
     {Recompute::Kind::Stage, "stage"}}};
constexpr std::array<std::pair<Recompute::Kind, std::string_view>, 3> kCountedRecomputes{
    {{Recompute::Kind::First, "full"},
     {Recompute::Kind::Groups, "uniform"},
     {Recompute::Kind::Every, "every"}}};
constexpr std::array<std::string_view, kRecomputeModules> kModuleNames{
    "core_attn", "mlp", "moe", "moe_act", "layernorm", "mla_up_proj", "shared_experts"};
constexpr std::int64_t kMostCounted = 100000;

// ⌈√n⌉ runs of about equal length.
std::vector<std::int32_t> equal_runs(std::size_t operators) {
  const auto runs = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(operators))));
  std::vector<std::int32_t> run_of;
  for (std::size_t i = 0; i < operators; ++i)
    run_of.push_back(static_cast<std::int32_t>(i * runs / operators));
  return run_of;
}

// Segments numbered afresh, so that no two stages have the same.
std::vector<std::int32_t> cut_by_stages(std::vector<std::int32_t> segments,
                                        const std::vector<std::int32_t>& stage_of) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] < 0) continue;
    const auto next = static_cast<std::int32_t>(numbers.size());
    segments[i] = numbers.try_emplace({segments[i], stage_of[i]}, next).first->second;
  }
  return segments;
}

std::vector<std::int32_t> full_segments(const OperatorGraph& graph, const std::optional<Pipeline>& pipeline) {
  std::vector<std::int32_t> segments = layers_of(graph);
  const bool layers = std::ranges::any_of(segments, [](std::int32_t s) { return s >= 0; });
  static_assert(kNoLayer == kNoSegment);
  if (!layers) segments = equal_runs(segments.size());
  if (pipeline) return cut_by_stages(std::move(segments), pipeline->stage_of);
  if (layers) return segments;
  for (const std::int32_t last = segments.back(); std::int32_t & segment : segments) {
    if (segment == last) segment = kKeptSegment;
  }
  return segments;
}

bool saves_for_itself(const Operator& op) {
  return !op.saved_extra_bytes.empty() || std::ranges::any_of(op.uses, [](const TensorUse& use) {
    return use.role == Role::Output && use.saved;
  });
}

}  // namespace

std::string_view name_of(RecomputeModule module) { return kModuleNames[static_cast<std::size_t>(module)]; }

Recompute Recompute::of_modules(std::initializer_list<RecomputeModule> modules) {
  Recompute recompute{Kind::Modules};
  for (const RecomputeModule module : modules) recompute.modules |= 1U << static_cast<unsigned>(module);
  return recompute;
}

std::string Recompute::str() const {
  if (*this == selective()) return "selective";
  if (kind == Kind::Modules) {
    std::vector<std::string_view> names;
    for (std::size_t m = 0; m < kRecomputeModules; ++m) {
      if (has(static_cast<RecomputeModule>(m))) names.push_back(kModuleNames[m]);
    }
    return fmt::format("{}", fmt::join(names, "+"));
  }
  for (const auto& [named, name] : kCountedRecomputes) {
    if (named == kind) return fmt::format("{}:{}", name, count);
  }
  for (const auto& [named, name] : kRecomputeWords) {
    if (named == kind) return std::string(name);
  }
  throw InternalError("a list of operators to recompute has no text");
}

std::string in_words(const Recompute& recompute) {
  if (recompute.kind != Recompute::Kind::Listed) return recompute.str();
  const auto again = std::ranges::count_if(recompute.segment_of, [](std::int32_t s) { return s >= 0; });
  return "of " + counted(again, "operator");
}

std::string recompute_forms() {
  return fmt::format(
      "none, selective, full, stage, op; a number of layers: full:4 (the first of each stage), uniform:4 "
      "(groups of so many), every:2; modules with + between them: {}",
      fmt::join(kModuleNames, ", "));
}

namespace {

std::optional<std::int64_t> count_in(std::string_view text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stopped != end || count < 1 || count > kMostCounted) return std::nullopt;
  return count;
}

std::optional<Recompute> modules_in(std::string_view text) {
  Recompute recompute{Recompute::Kind::Modules};
  while (true) {
    const std::string_view name = text.substr(0, text.find('+'));
    const auto* const found = std::ranges::find(kModuleNames, name);
    if (found == kModuleNames.end()) return std::nullopt;
    recompute.modules |= 1U << static_cast<unsigned>(found - kModuleNames.begin());
    if (name.size() == text.size()) return recompute;
    text.remove_prefix(name.size() + 1);
  }
}

}  // namespace

Recompute parse_recompute(std::string_view text) {
  if (text == "selective") return Recompute::selective();
  for (const auto& [kind, word] : kRecomputeWords) {
    if (word == text) return {kind};
  }
  const std::size_t colon = text.find(':');
  if (const auto modules = modules_in(text)) return *modules;
  if (colon != std::string_view::npos) {
    for (const auto& [kind, word] : kCountedRecomputes) {
      if (word != text.substr(0, colon)) continue;
      const auto count = count_in(text.substr(colon + 1));
      if (!count)
        throw InputError(fmt::format("recompute \"{}\": allowed: {}: with a number from 1 to {} alone", text,
                                     word, kMostCounted));
      return {.kind = kind, .count = *count};
    }
  }
  std::vector<std::string> words{"selective"};
  for (const auto& [kind, word] : kRecomputeWords) words.emplace_back(word);
  words.insert(words.end(), kModuleNames.begin(), kModuleNames.end());
  throw InputError(fmt::format("recompute \"{}\": unknown{}, allowed: {}", text,
                               did_you_mean(std::string(text), words), recompute_forms()));
}

namespace {

// "layer12" of the operator "layer12.query" with the repeat "layer#.query"; "" where its name is no such.
std::string_view numbered_repeat(const Operator& op) {
  const std::string_view name = op.name;
  const std::size_t prefix = op.repeat.find('#');
  if (prefix == std::string::npos || !name.starts_with(std::string_view(op.repeat).substr(0, prefix)))
    return "";
  const std::size_t end = name.find_first_not_of("0123456789", prefix);
  return end == prefix || end == std::string_view::npos ? "" : name.substr(0, end);
}

// Runs of operators of one repeat ("layer#" once more).
std::vector<std::int32_t> labelled_layers(const OperatorGraph& graph) {
  std::vector<std::int32_t> layer_of;
  std::set<std::string_view> seen;  // labels of the layer
  std::string_view now, number;     // what is repeated in it, and its name where it has one
  std::int32_t layers = 0;
  for (const Operator& op : graph.operators()) {
    const std::string_view repeated = std::string_view(op.repeat).substr(0, op.repeat.find('#'));
    if (repeated != now || numbered_repeat(op) != number || seen.contains(op.repeat)) {
      seen.clear();
      now = repeated, number = numbered_repeat(op);
      if (!now.empty()) ++layers;
    }
    layer_of.push_back(now.empty() ? kNoLayer : layers - 1);
    if (!now.empty()) seen.insert(op.repeat);
  }
  return layer_of;
}

// Which operators lead to a tensor.
std::vector<bool> leading_to(const OperatorGraph& graph, TensorId tensor) {
  std::vector<bool> leads(graph.operators().size(), false);
  const auto mark = [&](TensorId t) {
    if (const OperatorId producer = graph.tensor(t).producer; producer.valid())
      leads[producer.index()] = true;
  };
  mark(tensor);
  for (std::size_t i = leads.size(); i-- > 0;) {
    if (!leads[i]) continue;
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role != Role::Output) mark(use.tensor);
    }
  }
  return leads;
}

// Layers that make a part of the sequence, such as those of a vision tower, come before the stream as an
// embedding does: they lead to a concatenation of positions whose other part is an embedding.
void leave_out_towers(const OperatorGraph& graph, std::vector<std::int32_t>& layer_of) {
  constexpr std::int64_t kPositions = 1;
  std::int32_t first = 0;  // layer behind all towers
  for (const Operator& op : graph.operators()) {
    if (op.kind != "concat" || op.uses.size() != 3 || op.uses.back().dims.size() != 3 ||
        std::get<std::int64_t>(op.attributes.at("axis")) != kPositions)
      continue;
    std::int32_t last = kNoLayer;
    std::size_t with_layers = 0, embedded = 0;
    for (std::size_t part = 0; part < 2; ++part) {
      const std::vector<bool> leads = leading_to(graph, op.uses[part].tensor);
      bool layers = false, embedding = false;
      for (std::size_t i = 0; i < leads.size(); ++i) {
        if (!leads[i]) continue;
        layers = layers || layer_of[i] != kNoLayer;
        embedding = embedding || graph.operators()[i].kind == "embedding";
        last = std::max(last, layer_of[i]);
      }
      with_layers += layers;
      embedded += embedding && !layers;
    }
    if (with_layers == 1 && embedded == 1) first = std::max(first, last + 1);
  }
  if (std::ranges::none_of(layer_of, [&](std::int32_t layer) { return layer >= first; })) return;
  for (std::int32_t& layer : layer_of) layer = layer < first ? kNoLayer : layer - first;
}

}  // namespace

std::vector<std::int32_t> layers_of(const OperatorGraph& graph) {
  constexpr std::ptrdiff_t kLeastOperators = 4;  // of a layer, on average
  const bool labelled =
      std::ranges::any_of(graph.operators(), [](const Operator& op) { return !op.repeat.empty(); });
  std::vector<std::int32_t> layer_of = labelled ? labelled_layers(graph) : repeated_blocks(graph);
  const std::ptrdiff_t in_layers = std::ssize(layer_of) - std::ranges::count(layer_of, kNoLayer);
  const std::ptrdiff_t layers = layer_of.empty() ? 0 : *std::ranges::max_element(layer_of) + 1;
  const bool most = 2 * in_layers > std::ssize(layer_of) && kLeastOperators * layers <= in_layers;
  if (!most) std::ranges::fill(layer_of, kNoLayer);
  leave_out_towers(graph, layer_of);
  return layer_of;
}

namespace {

// Returns segments of the layers of each stage that `segment` chooses: it gets the number of a layer in its
// stage and returns which of the stage's segments it belongs to, or kNoSegment.
std::vector<std::int32_t> segments_of_layers(const OperatorGraph& graph,
                                             const std::optional<Pipeline>& pipeline, auto segment) {
  const std::vector<std::int32_t> layer_of = layers_of(graph);
  std::map<std::int32_t, std::vector<std::int32_t>> of_stages;            // layers
  std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> numbers;  // by stage and segment
  std::vector<std::int32_t> segments(layer_of.size(), kNoSegment);
  for (std::size_t i = 0; i < layer_of.size(); ++i) {
    if (layer_of[i] == kNoLayer) continue;
    const std::int32_t stage = pipeline ? pipeline->stage_of[i] : 0;
    std::vector<std::int32_t>& layers = of_stages[stage];
    if (std::ranges::find(layers, layer_of[i]) == layers.end()) layers.push_back(layer_of[i]);
    const std::int64_t of_stage = segment(std::ranges::find(layers, layer_of[i]) - layers.begin());
    if (of_stage == kNoSegment) continue;
    const auto next = static_cast<std::int32_t>(numbers.size());
    segments[i] = numbers.try_emplace({stage, of_stage}, next).first->second;
  }
  return segments;
}

}  // namespace

std::vector<std::int32_t> recompute_segments(const OperatorGraph& graph, const Recompute& recompute,
                                             const std::optional<Pipeline>& pipeline) {
  std::vector<std::int32_t> segments(graph.operators().size(), kNoSegment);
  const std::int64_t count = recompute.count;
  switch (recompute.kind) {
    case Recompute::Kind::None:
      break;
    case Recompute::Kind::Modules:
      segments = module_segments(graph, recompute, layers_of(graph));
      return pipeline ? cut_by_stages(std::move(segments), pipeline->stage_of) : segments;
    case Recompute::Kind::Operators:
      segments = operator_segments(graph, layers_of(graph));
      return pipeline ? cut_by_stages(std::move(segments), pipeline->stage_of) : segments;
    case Recompute::Kind::Full:
      return full_segments(graph, pipeline);
    case Recompute::Kind::First:
      return segments_of_layers(graph, pipeline,
                                [&](std::int64_t layer) { return layer < count ? layer : kNoSegment; });
    case Recompute::Kind::Groups:
      return segments_of_layers(graph, pipeline, [&](std::int64_t layer) { return layer / count; });
    case Recompute::Kind::Every:
      return segments_of_layers(
          graph, pipeline, [&](std::int64_t layer) { return (layer + 1) % count == 0 ? layer : kNoSegment; });
    case Recompute::Kind::Stage:
      if (pipeline) return pipeline->stage_of;
      break;
    case Recompute::Kind::Listed:
      return recompute.segment_of;
  }
  return segments;
}

std::optional<std::string> illegal(const OperatorGraph& graph, const Recompute& recompute,
                                   const std::optional<Pipeline>& pipeline) {
  const std::size_t operators = graph.operators().size();
  if (recompute.kind == Recompute::Kind::Listed && recompute.segment_of.size() != operators) {
    return fmt::format("{} operators have a segment or none, the model has {}", recompute.segment_of.size(),
                       operators);
  }
  const std::vector<std::int32_t> segments = recompute_segments(graph, recompute, pipeline);
  for (std::int32_t s = 0; operators > 0 && s < *std::ranges::max_element(segments); ++s) {
    if (std::ranges::find(segments, s) == segments.end()) return fmt::format("segment {} has no operator", s);
  }
  if (recompute.kind == Recompute::Kind::Modules) {
    if (const auto missing = missing_module(graph, recompute, layers_of(graph)))
      return fmt::format("{} runs {} again, and model \"{}\" has none", recompute.str(), described(*missing),
                         graph.name());
  }
  const bool counts_layers = recompute.of_layers() && recompute.kind != Recompute::Kind::Full;
  if ((counts_layers || recompute.kind == Recompute::Kind::Operators) &&
      std::ranges::all_of(segments, [](std::int32_t s) { return s < 0; }))
    return fmt::format(
        "{} runs parts of layers again, and {}", recompute.str(),
        std::ranges::all_of(layers_of(graph), [](std::int32_t layer) { return layer == kNoLayer; })
            ? "the model has no layers"
            : "no stage has so many layers");
  if (!pipeline && recompute.kind == Recompute::Kind::Stage)
    return "stage keeps the inputs of a pipeline's stages, and there is no pipeline";
  if (!pipeline) return std::nullopt;
  std::vector<std::size_t> first(operators, operators);  // operator of a segment
  for (std::size_t i = 0; i < operators; ++i) {
    if (segments[i] < 0) continue;
    std::size_t& begin = first[static_cast<std::size_t>(segments[i])];
    if (begin == operators) begin = i;
    if (pipeline->stage_of[begin] == pipeline->stage_of[i]) continue;
    return fmt::format(
        "operators \"{}\" of stage {} and \"{}\" of stage {} are in one segment; a segment lies in one stage",
        graph.operators()[begin].name, pipeline->stage_of[begin], graph.operators()[i].name,
        pipeline->stage_of[i]);
  }
  return std::nullopt;
}

Recomputation::Recomputation(const OperatorGraph& graph, const Recompute& recompute,
                             const std::optional<Pipeline>& pipeline)
    : graph_(&graph),
      segment_of_(recompute_segments(graph, recompute, pipeline)),
      stage_of_(pipeline ? pipeline->stage_of : std::vector<std::int32_t>(segment_of_.size(), 0)),
      again_(segment_of_.size(), false) {
  if (std::ranges::all_of(segment_of_, [](std::int32_t s) { return s < 0; })) return;
  for (std::size_t i = 0; i < segment_of_.size(); ++i) {
    const BackwardNeed need = backward_need(graph, OperatorId(i));
    backward_.push_back(need.input_pass || need.weight_pass);
  }
  for (std::size_t i = segment_of_.size(); i-- > 0;) {  // readers first
    if (segment_of_[i] < 0) continue;
    const Operator& op = graph.operators()[i];
    again_[i] = backward_[i] && saves_for_itself(op);
    for (const TensorUse& use : op.uses) {
      if (use.role != Role::Output || again_[i]) continue;
      again_[i] = std::ranges::any_of(graph.consumers(use.tensor), [&](UseRef reader) {
        const bool in_backward =
            backward_[reader.op.index()] &&
            graph.op(reader.op).uses[static_cast<std::size_t>(reader.use)].read_in_backward();
        return !is_kept_for(OperatorId(i), reader.op) && (in_backward || again_[reader.op.index()]);
      });
    }
  }
  if (recompute.kind == Recompute::Kind::Operators) {
    const std::vector<std::int32_t> layer_of = layers_of(graph);
    for (std::size_t i = 0; i < segment_of_.size(); ++i)
      stores_.push_back(segment_of_[i] == kNoSegment && layer_of[i] != kNoLayer && backward_[i]);
  }
  find_segments(graph);
}

// What enters another segment, or another stage.
bool Recomputation::is_kept_for(OperatorId producer, OperatorId reader) const {
  const std::int32_t of_reader = segment_of_[reader.index()];
  return stage_of_[producer.index()] != stage_of_[reader.index()] ||
         (of_reader != kNoSegment && of_reader != segment_of_[producer.index()]);
}

bool Recomputation::reads_again(UseRef use) const {
  const TensorUse& u = graph_->op(use.op).uses[static_cast<std::size_t>(use.use)];
  const OperatorId producer = graph_->tensor(u.tensor).producer;
  if (u.role == Role::Output || !producer.valid() || !again(producer)) return false;
  if (is_kept_for(producer, use.op)) return false;
  return again(use.op) || (backward_[use.op.index()] && u.read_in_backward());
}

bool Recomputation::keeps_copy(UseRef use) const {
  return graph_->op(use.op).uses[static_cast<std::size_t>(use.use)].saved_as.has_value() &&
         (again(use.op) || !reads_again(use));
}

bool Recomputation::runs_again_from_copy(UseRef use) const {
  return again(use.op) && !reads_again(use) &&
         graph_->op(use.op).uses[static_cast<std::size_t>(use.use)].runs_again_from_saved;
}

void Recomputation::find_segments(const OperatorGraph& graph) {
  std::vector<Segment> all(static_cast<std::size_t>(*std::ranges::max_element(segment_of_) + 1));
  for (std::size_t i = 0; i < segment_of_.size(); ++i) {
    if (!again_[i]) continue;
    Segment& segment = all[static_cast<std::size_t>(segment_of_[i])];
    segment.operators.emplace_back(i);
    segment.last = std::max(segment.last, OperatorId(i));
    for (const TensorUse& use : graph.operators()[i].uses) {
      if (use.role != Role::Output) continue;
      for (const UseRef reader : graph.consumers(use.tensor)) {
        if (reads_again(reader)) segment.last = std::max(segment.last, reader.op);
      }
    }
  }
  std::erase_if(all, [](const Segment& s) { return s.operators.empty(); });
  std::ranges::stable_sort(all, std::greater<>(), &Segment::last);
  segments_ = std::move(all);
}

}  // namespace pipesim
