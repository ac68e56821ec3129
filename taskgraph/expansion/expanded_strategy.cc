#include "taskgraph/expansion/expanded_strategy.h"

#include "sim/base/out_of_memory.h"
#include "taskgraph/expansion/graph_memory.h"
#include "taskgraph/expansion/strategy_expander.h"

namespace pipesim {
namespace {

// Runs `build`; says which graph it was when the memory did not suffice.
template <class Build>
void build_with_memory(const ExpandedStrategy& expanded, std::int32_t microbatches, Build build) {
  const Topology& topology = expanded.contents().costs().topology();
  with_memory([&] { return graph_too_large(expanded.graph(), microbatches, topology); }, build);
}

}  // namespace

ExpandedStrategy::ExpandedStrategy(const PlanContents& contents)
    : contents_(&contents), operators_(contents.graph().operators().size()), tasks_(operators_) {}

void ExpandedStrategy::set_contents(const PlanContents& contents) {
  contents_ = &contents;
  operators_ = contents.graph().operators().size();
}

void ExpandedStrategy::begin(const BoundStrategy& strategy, std::int32_t microbatches) {
  graph_.clear();
  strategy_ = strategy;
  microbatches_ = microbatches;
  num_wirings_ = 0;
  barriers_.clear();
  gates_.clear();
  host_ = contents_->costs().runtime().host;
  const std::size_t tasks = operators_ * static_cast<std::size_t>(microbatches);
  if (tasks_.size() < tasks) tasks_.resize(tasks);
}

void ExpandedStrategy::expand(const BoundStrategy& strategy, const ExpansionSetting& setting) {
  const PlanOptions& options = contents_->options();
  const std::int32_t microbatches = setting.microbatches > 0 ? setting.microbatches : options.microbatches;
  build_with_memory(*this, microbatches, [&] {
    begin(strategy, microbatches);
    if (setting.folding != nullptr) contents_->know_ways(strategy, setting.folding->ways());
    const PipelineOrder order = contents_->order_of(strategy, microbatches);
    StrategyExpander expander(*this, setting.labels, setting.folding);
    expander.add_microbatches(order);
    if (options.microbatches > 1 || options.pipeline) expander.order_steps(order);
    graph_.dag.finish();
  });
}

void ExpandedStrategy::expand_unordered(const BoundStrategy& strategy) {
  build_with_memory(*this, 1, [&] {
    begin(strategy, 1);
    StrategyExpander(*this, Labels::Leave, nullptr).add_microbatches({});
    graph_.dag.finish();
  });
}

TaskId ExpandedStrategy::in_microbatch(TaskId of_first, std::int32_t microbatch) const {
  if (block_.microbatches == 1)  // without divisions, since there are many to find
    return TaskId(static_cast<std::size_t>(microbatch) * block_.tasks + of_first.index());
  const auto block = static_cast<std::size_t>(microbatch / block_.microbatches),
             inside = static_cast<std::size_t>(microbatch % block_.microbatches);
  const std::size_t before = contents_->ways() > 1 ? 0 : inside * tasks_of_one_microbatch_;
  return TaskId(block * block_.tasks + before + of_first.index());
}

std::vector<LayoutId> ExpandedStrategy::terms_of(const Wiring& wiring) const {
  if (wiring.kind == TaskKind::WeightGather)
    return {contents_->gathered_from(wiring.tensor, wiring.plan->target, strategy_)};
  std::vector<LayoutId> terms;
  for (std::size_t s = 0; s < wiring.sources.size(); ++s) {
    if (static_cast<std::size_t>(wiring.source_terms[s]) < terms.size()) continue;
    const BoundStrategy& used = contents_->strategy_of(wiring.microbatch_of(s), strategy_);
    terms.push_back(moves_activations(wiring.kind) ? data_layout(wiring.sources[s], used)
                                                   : gradient_layout(wiring.sources[s], used));
  }
  return terms;
}

DataType ExpandedStrategy::type_of(const Wiring& wiring) const {
  if (wiring.kind == TaskKind::GradientSync) return contents_->options().gradient_type;
  const DataType type = contents_->graph().tensor(wiring.tensor).type;
  return wiring.kind == TaskKind::WeightGather ? contents_->options().state_sharding.gather_type(type) : type;
}

std::vector<Redistribution> ExpandedStrategy::redistributions_of(const Wiring& wiring) const {
  return pipesim::redistributions_of(terms_of(wiring), wiring.plan->target,
                                     bytes_per_element(type_of(wiring)), wiring.plan->term_by_term,
                                     contents_->layouts(), contents_->prices());
}

}  // namespace pipesim
