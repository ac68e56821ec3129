#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "tests/tools/interop/documented_settings.h"
#include "tests/tools/interop/framework_case.h"
#include "tools/interop/frameworks.h"
#include "tools/interop/torchtitan/torchtitan.h"
#include "tools/interop/torchtitan/torchtitan_fields.h"
#include "tools/interop/torchtitan/torchtitan_files.h"
#include "tools/interop/torchtitan/torchtitan_schedule.h"

namespace pipesim {
namespace {

const std::vector<const char*> kTorchtitanModels{"llama3-8b:batch=8"};

std::map<std::string, std::string> fields_by_path(const FrameworkPlan& plan) {
  std::map<std::string, std::string> fields;
  for (const TorchtitanField& field : torchtitan_fields(plan)) fields[field.path] = field.value;
  return fields;
}

std::string file_of(const FrameworkPlan& plan, const std::string& name) {
  for (const ExportedFile& file : torchtitan_files(plan)) {
    if (file.name == name) return file.content;
  }
  return "";
}

TEST(Torchtitan, FieldsAreDocumented) {
  const DocumentedSettings of_main("torchtitan"), of_toml("torchtitan-0.2");
  int for_toml = 0;
  for_random_plans(
      framework_named("torchtitan"), 150,
      [&](const FrameworkPlan& plan, const RecipeModel&, const Topology&) {
        for (const TorchtitanField& field : torchtitan_fields(plan))
          of_main.expect(field.path, {field.value});
        of_main.expect("parallelism.module_fqns_per_model_part", {"[[]]"});
        const FrameworkPlan toml = with_version(plan, "torchtitan", "0.2");
        if (!framework_named("torchtitan").refusals(toml).empty()) return;
        ++for_toml;
        for (const TorchtitanField& field : torchtitan_fields(toml))
          of_toml.expect(field.path, {field.value});
        of_toml.expect("parallelism.module_fqns_per_model_part", {"[[]]"});
      },
      kTorchtitanModels);
  EXPECT_GT(for_toml, 10);
}

void expect_batches_of_toml(const FrameworkPlan& plan) {
  const auto fields = fields_by_path(plan);
  const auto number = [&](const std::string& path) { return std::stoll(fields.at(path)); };
  EXPECT_EQ(number("training.global_batch_size"), plan.samples);
  EXPECT_EQ(number("training.global_batch_size") % (number("training.local_batch_size") * plan.recipe.data),
            0);
  if (plan.recipe.pipeline == 1) return;
  EXPECT_EQ(number("training.local_batch_size") / number("parallelism.pipeline_parallel_microbatch_size"),
            plan.microbatches());
}

// Degrees multiply up to the devices, and batches to the samples of an iteration.
TEST(Torchtitan, DegreesAndBatchesComeOutEven) {
  for_random_plans(
      framework_named("torchtitan"), 150,
      [&](const FrameworkPlan& plan, const RecipeModel&, const Topology&) {
        const auto fields = fields_by_path(plan);
        const auto number = [&](const std::string& path) { return std::stoll(fields.at(path)); };
        EXPECT_EQ(number("parallelism.data_parallel_replicate_degree") *
                      number("parallelism.data_parallel_shard_degree") *
                      number("parallelism.tensor_parallel_degree") *
                      number("parallelism.context_parallel_degree") *
                      number("parallelism.pipeline_parallel_degree"),
                  8);
        const std::int64_t of_a_microbatch = number("training.num_tokens_per_microbatch_per_dp_rank");
        EXPECT_EQ(of_a_microbatch, plan.recipe.microbatch * number("training.max_context_length"));
        EXPECT_EQ(number("training.num_tokens_per_train_step"),
                  of_a_microbatch * plan.recipe.data * plan.microbatches());
        expect_batches_of_toml(with_version(plan, "torchtitan", "0.2"));
        if (plan.recipe.pipeline == 1) return;
        EXPECT_EQ(number("parallelism.num_pp_microbatches"), plan.microbatches());
        // Every layer is in one model part, in order.
        const std::string config = file_of(plan, "pipesim_plan.py");
        std::size_t at = config.find("tok_embeddings");
        for (std::int64_t layer = 0; layer < plan.sizes.layers; ++layer) {
          at = config.find(fmt::format("\"layers.{}\"", layer), at);
          ASSERT_NE(at, std::string::npos) << layer << "\n" << config;
        }
        EXPECT_EQ(config.find("\"layers.", at + 1), std::string::npos);
      },
      kTorchtitanModels);
}

// A step as its cell says.
struct Cell {
  int stage = 0, microbatch = 0;
  char action = 'F';
};

Cell cell_of(const std::string& text) {
  Cell cell;
  std::istringstream stream(text);
  stream >> cell.stage >> cell.action >> cell.microbatch;
  EXPECT_FALSE(stream.fail()) << text;
  EXPECT_TRUE(stream.eof() || stream.peek() == EOF) << text;
  return cell;
}

std::vector<std::vector<Cell>> cells_of(const std::string& csv) {
  std::vector<std::vector<Cell>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell_of(cell));
  }
  return rows;
}

// Every stage runs each microbatch forward once, then its gradients, at once or in two steps; stages go round
// the groups, or lie on them in a V; and the rows can be carried out, each step when those that it needs are
// done.
void expect_complete(const std::string& csv, int groups, int stages, int microbatches, bool in_v = false) {
  const auto rows = cells_of(csv);
  ASSERT_EQ(static_cast<int>(rows.size()), groups);
  std::set<std::tuple<int, int, char>> done;
  std::vector<std::size_t> next(rows.size(), 0);
  const auto possible = [&](const Cell& c) {
    const bool last = c.stage + 1 == stages;
    if (c.action == 'F') return c.stage == 0 || done.contains({c.stage - 1, c.microbatch, 'F'});
    if (c.action == 'W') return done.contains({c.stage, c.microbatch, 'I'});
    return done.contains({c.stage, c.microbatch, 'F'}) &&
           (last || done.contains({c.stage + 1, c.microbatch, 'B'}) ||
            done.contains({c.stage + 1, c.microbatch, 'I'}));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      while (next[g] < rows[g].size() && possible(rows[g][next[g]])) {
        const Cell& c = rows[g][next[g]++];
        EXPECT_EQ(device_of_stage(c.stage, groups, in_v), static_cast<int>(g));
        EXPECT_TRUE(done.insert({c.stage, c.microbatch, c.action}).second);
        moved = true;
      }
    }
  }
  for (std::size_t g = 0; g < rows.size(); ++g) EXPECT_EQ(next[g], rows[g].size()) << csv;
  for (int s = 0; s < stages; ++s) {
    for (int m = 0; m < microbatches; ++m) {
      EXPECT_TRUE(done.contains({s, m, 'F'}));
      EXPECT_NE(done.contains({s, m, 'B'}), done.contains({s, m, 'I'}) && done.contains({s, m, 'W'}));
    }
  }
}

TEST(Torchtitan, SchedulesAreWrittenForAllThatItKnows) {
  const Topology topology = make_topology("dgx-h100:1");
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string name = std::string(kind.name) + (kind.takes_number() ? ":8" : "");
    const int chunks = kind.takes_chunks ? 2 : 1;
    const FrameworkPlan plan = framework_plan(
        "llama3-8b", parse_recipe(fmt::format("pp4,vpp{},dp2,mbs1,fsdp,schedule={}", chunks, name)),
        topology);
    const bool known =
        kind.weights == WeightChange::AfterIteration && !kind.both_ways && kind.name != "dualpipe-v";
    EXPECT_EQ(framework_named("torchtitan").refusals(plan).empty(), known) << name;
    if (known) expect_complete(file_of(plan, "schedule.csv"), 4, 4 * chunks, 8, kind.in_v);
    EXPECT_EQ(fields_by_path(plan).at("parallelism.pipeline_parallel_schedule"),
              name == "zb-v"         ? "ZBVZeroBubble"
              : name == "dualpipe-v" ? "DualPipeV"
                                     : "PipelineScheduleMulti");
  }
}

// torchtitan's own rule (pipeline_module_split) for schedules by these names: zip(range(pp), range(2 pp - 1,
// pp - 1, -1)) are the stages of each rank, and model parts are those of the stages.
TEST(Torchtitan, StagesInAVAreOnTheRanksThatItPutsThemOn) {
  const FrameworkPlan plan = framework_plan("llama3-8b", parse_recipe("pp4,dp2,mbs1,fsdp,schedule=zb-v"),
                                            make_topology("dgx-h100:1"), 4);
  ASSERT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  ASSERT_EQ(plan.layers, std::vector<std::int64_t>(8, 4));
  const auto rows = cells_of(file_of(plan, "schedule.csv"));
  ASSERT_EQ(rows.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    std::set<int> stages;
    for (const Cell& cell : rows[static_cast<std::size_t>(rank)]) stages.insert(cell.stage);
    EXPECT_EQ(stages, (std::set<int>{rank, 7 - rank}));
  }
  const std::string config = file_of(plan, "pipesim_plan.py");
  EXPECT_NE(config.find("    put(config, \"parallelism.pipeline_parallel_schedule\", \"ZBVZeroBubble\")\n"
                        "    # Stages lie in a V because of the schedule's name. Their steps are these.\n"
                        "    put(config, \"parallelism.pipeline_parallel_schedule_csv\", "
                        "str(Path(__file__).with_name(\"schedule.csv\")))\n"
                        "    put(config, \"parallelism.num_pp_microbatches\", 4)\n"),
            std::string::npos)
      << config;
  EXPECT_NE(
      config.find("    put(config, \"compile.enable\", False)\n"
                  "    put(config, \"parallelism.module_fqns_per_model_part\", [\n"
                  "        [\"tok_embeddings\", \"layers.0\", \"layers.1\", \"layers.2\", \"layers.3\"],\n"
                  "        [\"layers.4\", "),
      std::string::npos)
      << config;
  EXPECT_NE(config.find("        [\"layers.28\", \"layers.29\", \"layers.30\", \"layers.31\", \"norm\", "
                        "\"lm_head\"],\n    ])\n"),
            std::string::npos)
      << config;
}

// Beyond 4096 positions, as 0.2 stretches them only then.
FrameworkPlan dual_pipe_plan(const std::string& recipe) {
  return with_version(
      framework_plan("deepseek-v3:sequence=8192", parse_recipe(recipe), make_topology("dgx-h100:1")),
      "torchtitan", "0.2");
}

// DualPipeV alone runs forward beside backward, so it is named and takes no steps.
TEST(Torchtitan, DualPipeIsItsOwn) {
  const FrameworkPlan plan =
      dual_pipe_plan("pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v");
  EXPECT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  const DocumentedSettings documented("torchtitan-0.2");
  for (const TorchtitanField& field : torchtitan_fields(plan)) documented.expect(field.path, {field.value});
  auto fields = fields_by_path(plan);
  EXPECT_EQ(fields["parallelism.pipeline_parallel_schedule"], "DualPipeV");
  EXPECT_EQ(fields["parallelism.pipeline_parallel_expert_parallel_overlap"], "True");
  EXPECT_EQ(fields["activation_checkpoint.mode"], "none");
  EXPECT_EQ(fields["compile.enable"], "False");
  EXPECT_FALSE(fields.contains("parallelism.pipeline_parallel_schedule_csv"));
  EXPECT_EQ(file_of(plan, "schedule.csv"), "");
  EXPECT_EQ(
      refusals_text("torchtitan", "deepseek-v3",
                    "pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v"),
      "schedule=dualpipe-v: forward and backward of a pair run one after the other; torchtitan 0.2 runs "
      "them side by side\n");
}

// The steps of PyTorch's ScheduleDualPipeV, of two ranks and four microbatches, and of three and seven. A
// step with a star overlaps the one before it.
TEST(Torchtitan, TheStepsOfDualPipeAreThoseOfPyTorch) {
  const auto steps = [](int devices, int microbatches) {
    std::string text;
    for (const auto& row :
         make_schedule("dualpipe-v", {.devices = devices, .microbatches = microbatches, .chunks = 2})) {
      std::string cells = torchtitan_schedule({row});
      for (std::size_t i = 0, at = 0; i < row.size(); ++i, at = cells.find(',', at) + 1) {
        if (row[i].beside) cells.insert(at, "*");
      }
      text += cells;
    }
    return text;
  };
  EXPECT_EQ(steps(2, 4),
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,0F3,*3B1,3F2,*0B0,3B2,3F3,*0B1,3B3,0I2,0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,2F2,*1B0,1F3,*2B1,2F3,*1B1,2B2,1B2,2I3,1I3,2W3,1W3\n");
  EXPECT_EQ(
      steps(3, 7),
      "0F0,0F1,0F2,0F3,0F4,5F0,5I0,5W0,5F1,5I1,5W1,5F2,0F5,*5B2,5F3,*0B0,0F6,*5B3,5F4,*0B1,5B4,5F5,*0B2,"
      "5B5,5F6,*0B3,5B6,0I4,0W4,0I5,0W5,0I6,0W6\n"
      "1F0,1F1,1F2,4F0,1F3,4F1,4I0,4W0,4F2,1F4,*4B1,4F3,*1B0,1F5,*4B2,4F4,*1B1,1F6,*4B3,4F5,*1B2,4B4,4F6,"
      "*1B3,4B5,1B4,4I6,1I5,4W6,1I6,1W5,1W6\n"
      "2F0,3F0,2F1,3F1,2F2,3F2,2F3,3B0,3F3,*2B0,2F4,*3B1,3F4,*2B1,2F5,*3B2,3F5,*2B2,2F6,*3B3,3F6,*2B3,3B4,"
      "2B4,3B5,2I5,3I6,2I6,2W5,3W6,2W6\n");
}

// Else torchtitan would run forward and backward one after the other, as zb-v does, which keeps less.
TEST(Torchtitan, DualPipeNeedsExpertsAndNoRecomputation) {
  const Framework& torchtitan = framework_named("torchtitan");
  const OperatorGraph graph = open_model("deepseek-v3:sequence=8192");
  const RecipeModel model(graph);
  const auto refused = [&](const std::string& recipe, const std::string& nearest) {
    const FrameworkPlan plan = dual_pipe_plan(recipe);
    const Refusals refusals = framework_named("torchtitan").refusals(plan);
    std::string text;
    for (const Refusal& r : refusals) text += r.part + ": " + r.reason + "\n";
    const auto found = nearest_expressible(torchtitan, plan, refusals, model);
    EXPECT_EQ(found ? found->recipe.str() : "none", nearest);
    return text;
  };
  EXPECT_EQ(
      refused("pp2,dp4,mbs1,fsdp,first=30,last=31,schedule=dualpipe-v",
              "pp2,dp4,mbs1,zero3,reshard=last,weights=float32,first=30,last=31,schedule=zb-v"),
      "schedule=dualpipe-v without ep: its DualPipeV runs forward beside backward only where there is expert "
      "parallelism\n");
  EXPECT_EQ(refused("pp2,dp4,ep4,etp1,mbs1,fsdp,first=30,last=31,recompute=full,schedule=dualpipe-v",
                    "pp2,dp4,ep4,etp1,mbs1,zero3,reshard=last,weights=float32,first=30,last=31,recompute="
                    "full,schedule=zb-v"),
            "schedule=dualpipe-v with recompute=full: its DualPipeV runs forward beside backward only where "
            "nothing is computed again\n");
}

TEST(Torchtitan, OverridesOfTruthValuesTakeNoValue) {
  const std::string overrides =
      file_of(framework_plan("llama3-8b", parse_recipe("pp2,dp4,mbs1,fsdp,schedule=zb-h1"),
                             make_topology("dgx-h100:1")),
              "overrides.txt");
  EXPECT_NE(overrides.find("--training.disable_cuda_graphs\n"), std::string::npos) << overrides;
  EXPECT_NE(overrides.find("\nactivation_checkpoint:none\n"), std::string::npos) << overrides;
  EXPECT_NE(overrides.find("--compile.no-enable\n"), std::string::npos) << overrides;
  EXPECT_NE(file_of(framework_plan("llama3-8b", parse_recipe("tp8,dp1,sp,mbs1"), make_topology("dgx-h100:1")),
                    "overrides.txt")
                .find("--parallelism.enable_sequence_parallel\n"),
            std::string::npos);
}

// tests/assets/custom_schedule.csv of pytorch/torchtitan (BSD-3).
TEST(Torchtitan, SchedulesHaveTheFormOfItsOwnExample) {
  std::string example;
  for (int g = 0; g < 2; ++g) {
    const auto cells = [&](int stage, const char* actions, int first, int last) {
      for (int m = first; m <= last; ++m) {
        for (const char* a = actions; *a != 0; ++a)
          example +=
              fmt::format("{}{}{}{}", example.empty() || example.back() == '\n' ? "" : ",", stage, *a, m);
      }
    };
    cells(g, "F", 0, 7);
    cells(g + 2, "F", 0, 7);
    for (int m = 0; m < 8; m += 2) {
      cells(g + 2, "IW", m, m + 1);
      cells(g, "IW", m, m + 1);
    }
    example += '\n';
  }
  EXPECT_TRUE(example.starts_with("0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,2F0,")) << example;
  expect_complete(example, 2, 4, 8);
}

TEST(Torchtitan, WritesASmallScheduleAsItsOwnExamplesDo) {
  EXPECT_EQ(torchtitan_schedule(make_schedule("1f1b", {.devices = 2, .microbatches = 3})),
            "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(torchtitan_schedule(make_schedule("zb-h1", {.devices = 1, .microbatches = 1})), "0F0,0I0,0W0\n");
}

TEST(Torchtitan, WritesAConfigurationAndALaunchLine) {
  const Topology topology = make_topology("dgx-h100:1");
  const FrameworkPlan plan = framework_plan(
      "llama3-8b:layers=32", parse_recipe("tp2,pp2,dp2,sp,mbs1,fsdp,recompute=full"), topology, 4);
  const std::string config = file_of(plan, "pipesim_plan.py");
  const std::string before_modules =
      R"py(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,recompute=full
# For torchtitan's main branch (b5bcd76c6 of August 2026).

from dataclasses import replace
from pathlib import Path

ALLOWED = (
    "allowed: torchtitan's main branch (b5bcd76c6 of August 2026); "
    "pipesim export --to torchtitan:VERSION writes for others"
)

try:
    from torchtitan.distributed.activation_checkpoint import FullAC
    from torchtitan.models.common import RMSNorm
    from torchtitan.models.llama3.config_registry import llama3_8b
except ImportError as error:
    raise SystemExit(f"pipesim_plan.py: found a torchtitan for which {error}, {ALLOWED}")


def put(config, path, value):
    *owners, name = path.split(".")
    for owner in owners:
        config = getattr(config, owner, None)
    if not hasattr(config, name):
        raise SystemExit(f"pipesim_plan.py: found a torchtitan without {path}, {ALLOWED}")
    setattr(config, name, value)


def pipesim_plan():
    config = llama3_8b()
    # Positions and norms of the plan's model.
    model = config.model_spec.model
    length = max(model.max_context_length, 8192)
    for layer in model.layers:
        layer.attention.rope = replace(
            layer.attention.rope, theta=500000.0, max_context_length=length, scaling="none"
        )
    for _, norm, _, _ in model.traverse(RMSNorm.Config):
        norm.eps = 1e-05
    put(config, "parallelism.data_parallel_replicate_degree", 1)
    put(config, "parallelism.data_parallel_shard_degree", 2)
    put(config, "parallelism.fsdp_reshard_after_forward", "never")
    put(config, "parallelism.tensor_parallel_degree", 2)
    put(config, "parallelism.enable_sequence_parallel", True)
    put(config, "parallelism.context_parallel_degree", 1)
    put(config, "parallelism.expert_parallel_degree", 1)
    put(config, "parallelism.pipeline_parallel_degree", 2)
    put(config, "parallelism.pipeline_parallel_schedule", "PipelineScheduleMulti")
    put(config, "parallelism.pipeline_parallel_schedule_csv", str(Path(__file__).with_name("schedule.csv")))
    put(config, "parallelism.num_pp_microbatches", 4)
    put(config, "training.num_tokens_per_microbatch_per_dp_rank", 8192)
    put(config, "training.num_tokens_per_train_step", 65536)
    put(config, "training.max_context_length", 8192)
    put(config, "training.disable_cuda_graphs", True)
    put(config, "training.mixed_precision_param", "bfloat16")
    put(config, "training.mixed_precision_reduce", "float32")
    put(config, "activation_checkpoint", FullAC.Config())
    put(config, "compile.enable_async_tensor_parallel", False)
    put(config, "compile.enable", True)
    put(config, "compile.components", ["model", "loss"])
    put(config, "parallelism.module_fqns_per_model_part", [
        ["tok_embeddings", "layers.0", )py";
  EXPECT_EQ(config.substr(0, before_modules.size()), before_modules);
  EXPECT_NE(config.find("\"layers.31\", \"norm\", \"lm_head\"],\n    ])\n    return config\n"),
            std::string::npos);
  EXPECT_NE(
      file_of(plan, "launch.sh")
          .find("torchrun --nnodes 1 --nproc-per-node 8 --standalone \\\n  -m torchtitan.train --module "
                "pipesim_plan --config pipesim_plan \"$@\"\n"),
      std::string::npos);
  EXPECT_NE(file_of(plan, "overrides.txt").find("--parallelism.tensor_parallel_degree 2\n"),
            std::string::npos);
}

TEST(Torchtitan, WritesATomlFileAndItsModel) {
  const FrameworkPlan plan = with_version(
      framework_plan("llama3-8b:rotary_scaling=llama3,rotary_factor=8",
                     parse_recipe("tp2,pp2,dp2,sp,mbs1,fsdp,schedule=zb-h1"), make_topology("dgx-h100:1"), 4),
      "torchtitan", "0.2");
  const std::string toml = file_of(plan, "pipesim_plan.toml");
  const std::string before_modules =
      R"(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,schedule=zb-h1
# For torchtitan 0.2 (v0.2.2).

[experimental]
custom_import = "pipesim_plan"

[model]
name = "pipesim_plan"
flavor = "plan"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 2
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 2
enable_async_tensor_parallel = false
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "PipelineScheduleMulti"
pipeline_parallel_microbatch_size = 1
module_fqns_per_model_part = [
    ["tok_embeddings", "layers.0", )";
  EXPECT_EQ(toml.substr(0, before_modules.size()), before_modules);
  const std::string after_modules = R"("layers.31", "norm", "output"],
]

[training]
local_batch_size = 4
global_batch_size = 8
seq_len = 8192
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[activation_checkpoint]
mode = "none"

[compile]
enable = false
)";
  EXPECT_TRUE(toml.ends_with(after_modules)) << toml;
  EXPECT_EQ(file_of(plan, "pipesim_plan.py"),
            R"(# tp2,pp2,dp2,sp,mbs1,zero3,reshard=last,weights=float32,schedule=zb-h1
# The plan's model for torchtitan 0.2 (v0.2.2), which imports this file as experimental.custom_import.

from dataclasses import replace

from torchtitan.models.llama3 import get_train_spec
from torchtitan.protocols.train_spec import register_train_spec

spec = get_train_spec()
known = spec.model_args["8B"]
model = replace(
    known,
    rope_theta=500000.0,
    rope_scaling_args=replace(
        known.rope_scaling_args,
        scaling_factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    ),
    norm_eps=1e-05,
)
register_train_spec("pipesim_plan", replace(spec, model_args={"plan": model}))
)");
  EXPECT_NE(file_of(plan, "launch.sh")
                .find("  -m torchtitan.train --job.config_file \"$here/pipesim_plan.toml\" \\\n  "
                      "--parallelism.pipeline_parallel_schedule_csv \"$here/schedule.csv\" \"$@\"\n"),
            std::string::npos);
}

TEST(Torchtitan, WritesThePositionsOfTheModel) {
  const auto rope = [](const std::string& model) {
    const std::string config = file_of(
        framework_plan(model, parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1")), "pipesim_plan.py");
    const std::size_t from = config.find("layer.attention.rope, ");
    return config.substr(from, config.find('\n', from) - from);
  };
  EXPECT_EQ(rope("llama3-8b:rotary_scaling=llama3,rotary_factor=32"),
            "layer.attention.rope, theta=500000.0, max_context_length=length, scaling=\"llama\", "
            "scaling_factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, "
            "original_max_position_embeddings=8192");
  EXPECT_EQ(rope("deepseek-v3"),
            "layer.attention.rope, theta=10000.0, max_context_length=length, scaling=\"yarn\", "
            "rope_factor=40.0, beta_slow=1.0, beta_fast=32.0, original_seq_len=4096");
}

TEST(Torchtitan, RefusesModelsThatFieldsCannotSay) {
  const auto refused = [](const std::string& model, std::string_view version,
                          const char* recipe = "dp8,mbs1,fsdp") {
    return refusals_text("torchtitan", model, recipe, version);
  };
  EXPECT_EQ(refused("llama3-8b:rotary_scaling=linear,rotary_factor=2", "main"),
            "rotary_scaling=linear: its llama3 stretches positions by llama3\n");
  EXPECT_EQ(refused("deepseek-v3:rotary_mscale=0.7", "main"),
            "rotary_mscale=0.7,rotary_mscale_all=1: it has one mscale for both\n");
  EXPECT_EQ(refused("deepseek-v3:further_tokens=1", "main"),
            "further_tokens=1: its configurations predict one token; further_tokens=0 leaves them out\n");
  EXPECT_EQ(refused("deepseek-v3", "0.2"),
            "sequence=4096 with rotary_scaling=yarn: torchtitan 0.2 stretches positions only of more than "
            "rotary_original=4096\n");
  EXPECT_EQ(refused("llama3-8b", "0.2", "tp2,dp4,mbs1,fsdp"),
            "tp2 without sp: torchtitan 0.2 divides the sequence wherever there is tp\n");
  EXPECT_EQ(refused("llama3-8b", "main", "cp2,ring,dp4,mbs1,fsdp"),
            "cp2 with ring: context parallelism gathers keys and values\n");
  EXPECT_EQ(refused("deepseek-v3:sequence=8192", "0.2", "cp2,dp4,mbs1,fsdp"),
            "cp2: the flex attention of its deepseek_v3 goes with no context parallelism\n");
}

TEST(Torchtitan, RefusesWhatQwenDoesNotHave) {
  const auto refused = [](const char* model, const char* version, const char* recipe) {
    return refusals_text("torchtitan", model, recipe, version);
  };
  EXPECT_EQ(refused("qwen3-8b:rotary_scaling=yarn,rotary_factor=4", "main", "dp8,mbs1,fsdp"),
            "rotary_scaling=yarn: its qwen3 stretches no positions\n");
  EXPECT_EQ(refused("qwen3-8b", "0.2", "pp2,dp4,mbs1,fsdp"),
            "pp2: the qwen3 of torchtitan 0.2 has no pipelines\n");
  EXPECT_EQ(refused("qwen3-8b", "main", "pp2,dp4,mbs1,fsdp"), "");
}

TEST(Torchtitan, TakesAConfigurationOfTheUser) {
  FrameworkPlan plan =
      framework_plan("llama:layers=4", parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1"));
  EXPECT_EQ(framework_named("torchtitan").refusals(plan).size(), 1U);
  plan.base = "my_runs.llama:small";
  EXPECT_TRUE(framework_named("torchtitan").refusals(plan).empty());
  EXPECT_NE(file_of(plan, "pipesim_plan.py")
                .find("def pipesim_plan():\n    config = small()\n    put(config, "
                      "\"parallelism.data_parallel_replicate_degree\", 1)\n"),
            std::string::npos);
  EXPECT_NE(file_of(plan, "pipesim_plan.py").find("    from my_runs.llama import small\nexcept ImportError"),
            std::string::npos);
  const FrameworkPlan toml = with_version(plan, "torchtitan", "0.2");
  EXPECT_EQ(framework_named("torchtitan").refusals(toml).front().reason,
            "torchtitan 0.2 has no functions that return configurations");
}

TEST(Torchtitan, RefusesWhatHasNoField) {
  const auto refused = [](const std::string& recipe, const char* model = "llama3-8b") {
    return refusals_text("torchtitan", model, recipe);
  };
  EXPECT_EQ(refused("dp8,mbs1"), "");
  EXPECT_EQ(refused("dp8,mbs1,hsdp=4"), "");
  EXPECT_EQ(refused("tp2,dp4,mbs1"), "dp4 without FSDP: its DDP goes with no other parallelism\n");
  EXPECT_EQ(refused("dp8,mbs1,zero2"),
            "zero2: its data parallelism divides weights as FSDP2 does, or nothing\n");
  EXPECT_EQ(refused("tp2,cp2,dp2,mbs1,fsdp", "llama3-8b:sequence=8196"),
            "tp2 with cp2: training.seq_len must be a multiple of tp x 2 cp, 8, and is 8196\n");
  EXPECT_EQ(refused("tp8,dp1,mbs1"),
            "dp1: 16-bit compute with tp or pp comes with FSDP, which needs two copies of a weight\n");
  EXPECT_EQ(
      refused("dp8,mbs1", "llama3-8b:layers=4"),
      "model \"llama3-8b:layers=4\": it has llama3 debugmodel, 1B, 3B, 8B, 70B, 405B; deepseek_v3 671B; "
      "qwen3 0.6B, 1.7B, 4B, 8B, 14B, 32B, 30B-A3B, 235B-A22B, with any sequence; --base names one of "
      "yours\n");
  EXPECT_EQ(refused("tp8,dp8,sp,mbs1,fsdp,ep8,etp1", "qwen3-235b"),
            "tp8 with 4 heads of keys: tp divides heads of keys and values\n");
}

// Its configurations of some models are of others with the same words; 405B's converts layers to float8.
TEST(Torchtitan, BeginsWithAnotherModelWhereItHasNoneOfThisSize) {
  const auto opening = [](const std::string& model) {
    const std::string config = file_of(
        framework_plan(model, parse_recipe("dp8,mbs1,fsdp"), make_topology("dgx-h100:1")), "pipesim_plan.py");
    const std::size_t from = config.find("def pipesim_plan");
    return config.substr(from, config.find("    # Positions", from) - from);
  };
  EXPECT_EQ(opening("qwen3-8b"),
            "def pipesim_plan():\n    config = qwen3_14b()\n    config.model_spec = model_registry(\"8B\")\n"
            "    config.hf_assets_path = \"./assets/hf/Qwen3-8B\"\n");
  EXPECT_EQ(
      opening("llama3-405b"),
      "def pipesim_plan():\n    config = llama3_70b()\n    config.model_spec = model_registry(\"405B\")\n"
      "    config.hf_assets_path = \"./assets/hf/Llama-3.1-405B\"\n");
  EXPECT_EQ(opening("llama3-70b"), "def pipesim_plan():\n    config = llama3_70b()\n");
}

TEST(Torchtitan, CompilesWherePyTorchTakesIt) {
  const auto notes = [](const char* schedule) {
    const FrameworkPlan plan =
        framework_plan("llama3-8b", parse_recipe(fmt::format("pp4,dp2,mbs1,fsdp,schedule={}", schedule)),
                       make_topology("dgx-h100:1"));
    return fields_by_path(plan).at("compile.enable") + " " +
           fmt::format("{}", fmt::join(framework_named("torchtitan").notes(plan), "; "));
  };
  EXPECT_EQ(notes("1f1b"), "True left out is init_deviation=0.02, which torchtitan's own code chooses");
  EXPECT_EQ(notes("zb-h1"),
            "False left out is init_deviation=0.02, which torchtitan's own code chooses; the plan's time is "
            "that of compiled kernels, which PyTorch refuses with schedule=zb-h1: compile.enable is off");
}

}  // namespace
}  // namespace pipesim
