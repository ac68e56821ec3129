#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "taskgraph/plan/recompute.h"
#include "taskgraph/plan/state_sharding.h"

namespace pipesim {

class JsonValue;

/// What happens to an input that the devices of an operator put together from parts that each of them has,
/// and that backward reads too.
enum class GatheredInputs : std::uint8_t {
  Keep,  ///< stays on every device from forward to backward
  Again  ///< is freed when forward has read it; the parts stay, and are gathered again for backward
         ///< (Korthikanti et al. 2023, section 4.2.2)
};

/// "keep", "again".
std::string_view name_of(GatheredInputs gathered);
/// InputError with those that are allowed.
GatheredInputs parse_gathered_inputs(std::string_view name);

/// When the devices of a pipeline that reduces gradients once an iteration begin to do so. It says nothing of
/// other plans: without a pipeline, gradients are reduced beside backward.
enum class GradientReduction : std::uint8_t {
  Overlapped,  ///< as soon as backward has made them (Megatron-LM's --overlap-grad-reduce); where links are
               ///< shared, what stages before wait for queues up behind it
  AfterSteps   ///< when all steps of the devices that hold the weight are done
};

/// "overlapped", "after-steps".
std::string_view name_of(GradientReduction reduction);
/// InputError with those that are allowed.
GradientReduction parse_gradient_reduction(std::string_view name);

/// What a plan holds, what it computes or gathers again, and when it reduces gradients. Plans' options, plans
/// of a joint search and recipes all have these, and take them over from each other.
struct PlanPolicies {
  Recompute recompute;           ///< which operators run forward once more before backward
  StateSharding state_sharding;  ///< what the copies of a weight divide among each other
  GatheredInputs gathered_inputs = GatheredInputs::Keep;                 ///< what backward reads of them
  GradientReduction gradient_reduction = GradientReduction::Overlapped;  ///< in pipelines

  bool operator==(const PlanPolicies&) const = default;
  [[nodiscard]] const PlanPolicies& policies() const { return *this; }
  void set_policies(const PlanPolicies& other) { *this = other; }
  /// All but the recomputation in words, "zero1 keep overlapped". Plans with the same text can share what
  /// an Evaluator remembers: its with() makes one for another pipeline and recomputation.
  [[nodiscard]] std::string shared_text() const;
};

/// Writes the members "state_sharding", "gathered_inputs" and "gradient_reduction", each where it is not as
/// in PlanPolicies().
void write_policies(const PlanPolicies& policies, nlohmann::ordered_json& to);
/// Reads them; what is missing keeps its value. InputError with the place of a word that is not allowed.
void read_policies(const JsonValue& from, PlanPolicies& policies);

}  // namespace pipesim
