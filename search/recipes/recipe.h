#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "taskgraph/plan/policies.h"
#include "taskgraph/plan/recompute.h"
#include "taskgraph/plan/stage_messages.h"
#include "taskgraph/plan/state_sharding.h"

namespace pipesim {

/// The dimensions of a parallel training run, as practitioners count them.
enum class MeshAxis : std::uint8_t { Tensor, Context, Expert, Data, Pipeline };
constexpr std::size_t kMeshAxes = 5;
/// "tp", "cp", "ep", "dp", "pp".
std::string_view name_of(MeshAxis axis);
/// Which devices are neighbours where a recipe does not say: the first axis has the closest.
inline constexpr std::array<MeshAxis, kMeshAxes> kUsualOrder{
    MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Expert, MeshAxis::Data, MeshAxis::Pipeline};

/// How a model divides the sequence of a sample.
struct SequenceDivision {
  std::int64_t parts = 1;         ///< for which positions are ordered to do equal work
  std::int64_t token_groups = 0;  ///< of tokens, which experts take by themselves; 0: as the model says
  auto operator<=>(const SequenceDivision&) const = default;
};

/// What a recipe decides of its model.
struct ModelShape {
  std::int64_t batch = 1;  ///< samples of a microbatch, on all copies together
  SequenceDivision sequence;
  auto operator<=>(const ModelShape&) const = default;
};

/// A plan for a transformer in the words of Megatron-LM and torchtitan: "tp8,pp4,vpp2,dp16,sp,mbs1". It is
/// short for a strategy, see expand_recipe().
///
/// World size = tp · cp · dp · pp (Shoeybi et al., arXiv:1909.08053; Narayanan et al., arXiv:2104.04473). The
/// tp · cp · dp devices of a stage are also etp · ep · edp: experts have copies of their own number (Liu et
/// al., arXiv:2504.14960, section 3).
struct Recipe {
  std::int64_t tensor = 1;   ///< tp: parts of heads, feed-forward features and vocabulary
  std::int64_t context = 1;  ///< cp: parts of the sequence
  /// ulysses: of cp, parts of attention's heads instead (Jacobs et al., arXiv:2309.14509). The rest of cp
  /// divides the sequence of queries there too.
  std::int64_t ulysses = 1;
  /// ring: keys and values pass round the parts of the sequence (Liu et al., arXiv:2310.01889) instead of
  /// being gathered.
  bool ring = false;
  std::int64_t data = 0;           ///< dp: copies of the model, each with its own samples; 0: as many as fit
  std::int64_t expert = 1;         ///< ep: parts of the experts of a layer
  std::int64_t expert_tensor = 0;  ///< etp: parts of the features of an expert; 0: as many as tp
  std::int64_t pipeline = 1;       ///< pp: groups of devices, one behind the other
  std::int64_t chunks = 1;         ///< vpp: stages on each of these groups; two where they lie in a V
  std::int64_t microbatch = 0;     ///< mbs: samples of a microbatch on each copy; 0: not said
  bool sequence_parallel = false;  ///< sp: norms, dropout and residuals divide the sequence over tp
  Recompute recompute;             ///< any but a list
  /// zero1, zero2, zero3: what copies of weights divide, dp · cp, and twice as many with schedules that go
  /// both ways.
  StateSharding state_sharding;
  /// gathered: what backward reads of inputs that forward gathered; nothing: again under sp and cp.
  std::optional<GatheredInputs> gathered;
  /// reduce: when gradients are reduced, unless each microbatch does; nothing: with a pipeline after a
  /// device's steps, without one as what runs the plan does.
  std::optional<GradientReduction> reduction;
  /// tp-overlap: whether products hide the gathers and scattered sums of tp and sp, part by part
  /// (taskgraph/binding/product_overlap.h); nothing: as what runs the plan does.
  std::optional<bool> tensor_overlap;
  /// messages: what devices do while stages exchange tensors; nothing: as what runs the plan does.
  std::optional<StageMessages> messages;
  std::string schedule;  ///< "": 1f1b, or interleaved where there are chunks
  /// Which devices are neighbours: the first axis has the closest. A permutation of all five.
  std::array<MeshAxis, kMeshAxes> order = kUsualOrder;
  /// Layers on the first and on the last group of devices; nothing: as many as on the others.
  std::optional<std::int64_t> first, last;
  /// layers: on each group of devices; empty: as `first` and `last` say.
  std::vector<std::int64_t> layers;

  bool operator==(const Recipe&) const = default;
  /// Reads back to an equal recipe: "tp8,pp4,dp16,sp,mbs1,recompute=selective". Parts with their default are
  /// left out.
  [[nodiscard]] std::string str() const;
  [[nodiscard]] std::int64_t devices() const { return tensor * context * data * pipeline; }
  /// etp, or the tp that stands for it.
  [[nodiscard]] std::int64_t expert_tensor_degree() const {
    return expert_tensor > 0 ? expert_tensor : tensor;
  }
  /// Experts have a mesh of their own. Otherwise they are divided like all else: copies over cp and dp.
  [[nodiscard]] bool divides_experts() const { return expert > 1 || expert_tensor_degree() != tensor; }
  /// edp: copies of an expert. Legal recipes have a whole number of them.
  [[nodiscard]] std::int64_t expert_data() const {
    return tensor * context * data / (expert_tensor_degree() * expert);
  }
  [[nodiscard]] GatheredInputs gathered_inputs() const {
    const bool divides = sequence_parallel || context > 1;
    return gathered.value_or(divides ? GatheredInputs::Again : GatheredInputs::Keep);
  }
  [[nodiscard]] GradientReduction gradient_reduction() const {
    const bool once = pipeline > 1 && !state_sharding.each_microbatch();
    return reduction.value_or(once ? GradientReduction::AfterSteps : GradientReduction::Overlapped);
  }
  /// Whether plans of this recipe have a pipeline: with pp, and under schedules that change the order of one
  /// group's steps.
  [[nodiscard]] bool has_stages() const;
  /// What plans of this recipe have.
  [[nodiscard]] PlanPolicies policies() const {
    return {recompute, state_sharding, gathered_inputs(), gradient_reduction()};
  }
  /// Groups of devices that hold a stage: two under schedules that go both ways (ScheduleKind::both_ways).
  [[nodiscard]] std::int64_t ways() const;
  /// Copies of some weight, dense or of an expert.
  [[nodiscard]] std::int64_t copies_of_weights() const {
    return ways() * std::max(context * data, divides_experts() ? expert_data() : 1);
  }
  /// Whether gradients are reduced once an iteration, so that `reduce` says when.
  [[nodiscard]] bool reduces_once() const {
    return copies_of_weights() > 1 && !state_sharding.each_microbatch();
  }
  /// `local_dispatch`: each device hands out its own tokens to experts, without gathering those of others.
  [[nodiscard]] ModelShape shape(bool local_dispatch) const {
    return {data * microbatch, {context, local_dispatch ? context * (sequence_parallel ? tensor : 1) : 0}};
  }
  /// The schedule, or the one that the number of chunks implies.
  [[nodiscard]] std::string schedule_name() const;
  /// Whether stages lie on the groups in a V, see ScheduleKind::in_v.
  [[nodiscard]] bool in_v() const;
};

/// Parts in any order, separated by commas: a name with a number ("tp8" or "tp=8"), a word ("sp"), or
/// "name=value". InputError that names the part and what is allowed.
Recipe parse_recipe(std::string_view text);

/// One part of the language, for help and docs.
struct RecipePart {
  std::string_view form;     ///< "tp8"
  std::string_view meaning;  ///< "parts of heads, feed-forward features and vocabulary"
};
const std::vector<RecipePart>& recipe_parts();

}  // namespace pipesim
