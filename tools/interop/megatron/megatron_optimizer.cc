#include "tools/interop/megatron/megatron_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/interop/megatron/megatron_arguments.h"

// megatron/core/optimizer/optimizer_config.py and __init__.py say which settings go together.

namespace pipesim {
namespace {

using Main = Optimizer::Main;

// The minor numbers of Megatron core with which moments in bfloat16, and Muon and Lion over all copies, came.
constexpr int kBfloat16Moments = 13, kLayerWise = 20;

constexpr std::array<std::pair<std::string_view, DataType>, 4> kTypes{{{"fp32", DataType::Float32},
                                                                       {"fp16", DataType::Float16},
                                                                       {"bf16", DataType::BFloat16},
                                                                       {"fp8", DataType::Float8}}};

DataType read_type(const MegatronFile& file, std::string_view flag) {
  const std::string text = file.text(flag).value_or("fp32");
  for (const auto& [name, type] : kTypes) {
    if (text == name || text == name_of(type)) return type;
  }
  file.fail(flag, fmt::format("found \"{}\", allowed: fp32, fp16, bf16, fp8", text));
}

std::string_view name_of_type(DataType type) {
  return std::ranges::find(kTypes, type, &std::pair<std::string_view, DataType>::second)->first;
}

Optimizer read_kind(const MegatronFile& file, std::vector<std::string>& left_out) {
  constexpr double kUsualMomentum = 0.9;
  const std::string name = file.text("--optimizer").value_or("adam");
  if (name == "adam") return Optimizer::Adam;
  if (name == "sgd")
    return file.rate("--sgd-momentum").value_or(kUsualMomentum) > 0 ? Optimizer::Momentum : Optimizer::Sgd;
  if (name == "lion") return Optimizer::Lion;
  if (name == "adaptive_muon")
    left_out.push_back("--optimizer: adaptive_muon is taken as muon, without the scale of each row");
  if (name.ends_with("muon")) return Optimizer::Muon;
  file.fail("--optimizer", fmt::format("found \"{}\", allowed: adam, sgd, muon, lion", name));
}

// Whether weights in float8 are found from float32 copies, so that these are kept whole.
bool keeps_whole_copies(const DecoderSizes& sizes) {
  return sizes.products != "own" && sizes.products != "fp8-delayed";
}

bool is_usual(const Optimizer& optimizer) { return optimizer == Optimizer(optimizer.kind); }

void take_usual_state(FrameworkPlan& plan) { plan.optimizer = Optimizer(plan.optimizer.kind); }
void take_adam(FrameworkPlan& plan) { plan.optimizer = Optimizer::Adam; }

}  // namespace

Optimizer read_megatron_optimizer(const MegatronFile& file, const DecoderSizes& sizes,
                                  std::vector<std::string>& left_out) {
  Optimizer optimizer = read_kind(file, left_out);
  if (optimizer.kind != Optimizer::Adam || !file.given("--use-precision-aware-optimizer")) {
    for (const char* flag : {"--exp-avg-dtype", "--exp-avg-sq-dtype", "--main-params-dtype"}) {
      if (read_type(file, flag) != DataType::Float32)
        left_out.push_back(fmt::format(
            "{}: the optimizer's state is in float32 without --use-precision-aware-optimizer", flag));
    }
    return optimizer;
  }
  optimizer.first = read_type(file, "--exp-avg-dtype");
  optimizer.second = read_type(file, "--exp-avg-sq-dtype");
  const DataType main = read_type(file, "--main-params-dtype");
  if (main != DataType::Float32 && main != DataType::Float16)
    file.fail("--main-params-dtype", fmt::format("found \"{}\", allowed: fp32, fp16",
                                                 file.text("--main-params-dtype").value_or("")));
  if (sizes.type == DataType::Float32) return optimizer;
  if (main == DataType::Float16) {
    optimizer.main = Main::Float16;
  } else if (sizes.type == DataType::BFloat16 && !keeps_whole_copies(sizes)) {
    optimizer.main = Main::Remainder;
  }
  return optimizer;
}

bool keeps_megatron_gradients_narrow(const MegatronFile& file) {
  return file.given("--use-precision-aware-optimizer") &&
         read_type(file, "--main-grads-dtype") == DataType::BFloat16;
}

void write_megatron_state(const FrameworkPlan& plan, MegatronWriter& w) {
  const Optimizer& o = plan.optimizer;
  w.add("--optimizer", o.kind == Optimizer::Adam   ? "adam"
                       : o.kind == Optimizer::Lion ? "lion"
                       : o.kind == Optimizer::Muon ? "muon"
                                                   : "sgd");
  if (o.kind == Optimizer::Sgd) w.add("--sgd-momentum", 0);
  if (o.kind == Optimizer::Momentum) w.add("--sgd-momentum", 0.9);
  if (is_usual(o)) return;
  w.flag("--use-precision-aware-optimizer");
  if (o.main == Main::Float16) w.add("--main-params-dtype", "fp16");
  if (plan.gradient_type == DataType::BFloat16) w.add("--main-grads-dtype", "bf16");
  if (o.first != DataType::Float32) w.add("--exp-avg-dtype", name_of_type(o.first));
  if (o.second != DataType::Float32) w.add("--exp-avg-sq-dtype", name_of_type(o.second));
}

void refuse_megatron_optimizer(const FrameworkPlan& plan, RuleCheck& check) {
  const Optimizer& o = plan.optimizer;
  const auto refuse = [&](std::string reason, void (*amend)(FrameworkPlan&)) {
    check.refuse([&] { return Refusal{fmt::format("--optimizer {}", o.str()), std::move(reason), amend}; });
  };
  const bool late = o.kind == Optimizer::Lion || o.kind == Optimizer::Muon;
  if (o.kind == Optimizer::Adam8bit || o.kind == Optimizer::Adafactor)
    return refuse("its optimizers are adam, sgd, lion and muon", take_adam);
  if (late && megatron_version(plan).number < kLayerWise)
    return refuse("lion and muon are written for versions after core 0.19", take_adam);
  if (is_usual(o)) return;
  if (o.kind != Optimizer::Adam)
    return refuse("--use-precision-aware-optimizer, which keeps state in other types, is for adam",
                  take_usual_state);
  const bool narrow = plan.sizes.type != DataType::Float32;
  const bool has_main = o.main == Main::Float16 ||
                        o.main == (plan.sizes.type == DataType::BFloat16 ? Main::Remainder : Main::Float32);
  if (narrow ? !has_main : o.main != Main::Float32)
    return refuse(
        "with --use-precision-aware-optimizer main weights are in float16, or of bfloat16 ones the remainder",
        take_usual_state);
  if (megatron_version(plan).number < kBfloat16Moments &&
      (o.first == DataType::BFloat16 || o.second == DataType::BFloat16))
    return refuse("moments in bfloat16 came with core 0.13", take_usual_state);
}

void refuse_megatron_state(const FrameworkPlan& plan, RuleCheck& check) {
  const Optimizer& o = plan.optimizer;
  const bool late = o.kind == Optimizer::Lion || o.kind == Optimizer::Muon;
  const StateSharding& s = plan.recipe.state_sharding;
  if (late && shards_megatron_gradients(plan.recipe))
    check.refuse([&] {
      return Refusal{fmt::format("zero{} with --optimizer {}", static_cast<int>(s.kind), o.str()),
                     "its FSDP is for adam and sgd", amend_recipe([](Recipe& recipe) {
                       recipe.state_sharding = {.kind = StateSharding::Kind::Optimizer};
                     })};
    });
  if (is_usual(o) || s.kind == StateSharding::Kind::Optimizer) return;
  check.refuse([&] {
    return Refusal{
        fmt::format("--optimizer {} without zero1", o.str()),
        "--use-precision-aware-optimizer needs --use-distributed-optimizer, and its FSDP has types "
        "of its own",
        take_usual_state};
  });
}

}  // namespace pipesim
