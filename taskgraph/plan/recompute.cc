#include "taskgraph/plan/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "models/backward_need.h"
#include "models/operator_kind.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

constexpr std::array<std::pair<Recompute::Kind, std::string_view>, 3> kRecomputeNames{
    {{Recompute::Kind::None, "none"},
     {Recompute::Kind::Selective, "selective"},
     {Recompute::Kind::Full, "full"}}};

// Runs of operators of one repeat ("layer#" once more), and what stands between them.
std::vector<std::int32_t> repeated_blocks(const OperatorGraph& graph) {
  std::vector<std::int32_t> block_of;
  std::set<std::string_view> seen;  // labels of the block
  std::string_view block;           // what is repeated in it
  for (const Operator& op : graph.operators()) {
    const std::string_view repeated = std::string_view(op.repeat).substr(0, op.repeat.find('#'));
    const bool again = !op.repeat.empty() && seen.contains(op.repeat);
    if (block_of.empty() || repeated != block || again) {
      block_of.push_back(block_of.empty() ? 0 : block_of.back() + 1);
      seen.clear();
      block = repeated;
    } else {
      block_of.push_back(block_of.back());
    }
    seen.insert(op.repeat);
  }
  return block_of;
}

// Input, index and output: what backward reads of tensors between operators.
bool read_in_backward(const TensorUse& use) { return use.saved || use.role == Role::Index; }

bool saves_for_itself(const Operator& op) {
  return !op.saved_extra_bytes.empty() || std::ranges::any_of(op.uses, [](const TensorUse& use) {
    return use.role == Role::Output && use.saved;
  });
}

}  // namespace

std::string_view name_of(Recompute::Kind kind) {
  for (const auto& [named, name] : kRecomputeNames) {
    if (named == kind) return name;
  }
  throw InternalError("a list of operators to recompute has no name");
}

std::vector<std::string> recompute_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kRecomputeNames) names.emplace_back(name);
  return names;
}

Recompute parse_recompute(std::string_view name) {
  for (const auto& [kind, named] : kRecomputeNames) {
    if (named == name) return {kind, {}};
  }
  const std::vector<std::string> names = recompute_names();
  throw InputError(fmt::format("recompute \"{}\": unknown{}, allowed: {}", name,
                               did_you_mean(std::string(name), names), list_names(names)));
}

std::vector<std::int32_t> forward_blocks(const OperatorGraph& graph) {
  constexpr std::size_t kLeastOperators = 4;  // of a block, on average
  std::vector<std::int32_t> blocks = repeated_blocks(graph);
  const std::size_t operators = blocks.size();
  const auto labelled = static_cast<std::size_t>(
      std::ranges::count_if(graph.operators(), [](const Operator& op) { return !op.repeat.empty(); }));
  if (2 * labelled > operators && kLeastOperators * static_cast<std::size_t>(blocks.back() + 1) <= operators)
    return blocks;
  const auto runs = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(operators))));
  for (std::size_t i = 0; i < operators; ++i) blocks[i] = static_cast<std::int32_t>(i * runs / operators);
  return blocks;
}

std::vector<std::int32_t> recompute_segments(const OperatorGraph& graph, const Recompute& recompute,
                                             const std::optional<Pipeline>& pipeline) {
  std::vector<std::int32_t> segments(graph.operators().size(), kNoSegment);
  switch (recompute.kind) {
    case Recompute::Kind::None:
      break;
    case Recompute::Kind::Selective:
      for (std::size_t i = 0, next = 0; i < segments.size(); ++i) {
        if (is_attention(graph.operators()[i].kind)) segments[i] = static_cast<std::int32_t>(next++);
      }
      break;
    case Recompute::Kind::Full:
      if (pipeline) return pipeline->stage_of;
      segments = forward_blocks(graph);
      for (const std::int32_t last = segments.back(); std::int32_t & segment : segments) {
        if (segment == last) segment = kKeptSegment;
      }
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
  if (recompute.kind == Recompute::Kind::Selective &&
      std::ranges::all_of(segments, [](std::int32_t s) { return s < 0; })) {
    return fmt::format("selective runs attention again, and model \"{}\" has none", graph.name());
  }
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
            read_in_backward(graph.op(reader.op).uses[static_cast<std::size_t>(reader.use)]);
        return !is_kept_for(OperatorId(i), reader.op) && (in_backward || again_[reader.op.index()]);
      });
    }
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
  return again(use.op) || (backward_[use.op.index()] && read_in_backward(u));
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
