// The set of recipes of each framework: what searches rank is what exports take.
#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "search/recipe_planner/space/recipe_space.h"
#include "tests/refusal.h"
#include "tests/slow_test.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"
#include "tests/tools/interop/framework_case.h"
#include "tools/analysis/inputs/recipe_run.h"
#include "tools/cli/options/framework_options.h"
#include "tools/interop/framework/framework.h"
#include "tools/interop/framework/open_run.h"
#include "tools/interop/framework/recipe_changes.h"
#include "tools/interop/frameworks.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

constexpr const char* kSmallLlama =
    "llama3-8b:layers=4,hidden=256,heads=8,kv_heads=4,ffn=512,vocab=1024,sequence=256";
constexpr const char* kSmallMixtral =
    "mixtral-8x7b:layers=4,hidden=256,heads=8,kv_heads=8,ffn=512,vocab=1024,sequence=256";

OpenRun open_run_of(const Framework& framework, const std::string& model, const Topology& topology,
                    std::int64_t samples) {
  OpenRun open{.model = model, .topology = topology, .runtime = {}, .options = {}, .samples = samples};
  open.options.optimizer = Optimizer::Adam;
  return run_of_framework(framework, framework.versions().back(), std::move(open), {});
}

RecipeSpace space_of(const OpenRun& open, const RecipeModel& model) {
  return {model, open.topology, open.samples, open.filter};
}

// FlashAttention-2 and cuDNN's attention need GPUs from Ampere on, which have bfloat16.
TEST(Frameworks, WriteScoresWhereGpusHaveNoFusedAttention) {
  const Framework& megatron = framework_named("megatron");
  const auto as_run = [&](const std::string& model, const std::string& topology) {
    return model_run_by(megatron, model, make_topology(topology).parts().kinds);
  };
  for (const char* newer : {"dgx-a100", "dgx-h100", "hgx-h200:2"}) {
    EXPECT_EQ(as_run("gpt", newer).text, "gpt:kept=megatron") << newer;
    EXPECT_EQ(as_run("gpt", newer).note, "") << newer;
  }
  const ModelAsRun old = as_run("gpt:layers=4", "dgx2");
  EXPECT_EQ(old.text, "gpt:layers=4,kept=megatron,attention=scores");
  EXPECT_EQ(old.note,
            "attention=scores: on V100-SXM2-32GB Megatron-LM has no fused attention and writes scores");
  EXPECT_EQ(as_run("gpt:attention=fused", "dgx2").text, "gpt:attention=fused,kept=megatron");
  EXPECT_EQ(as_run("gpt:attention=fused", "dgx2").note, "");
  EXPECT_EQ(as_run("alexnet", "dgx2").text, "alexnet");
  EXPECT_EQ(model_run_by(megatron, "gpt", {}).text, "gpt:kept=megatron");
  DeviceKind unknown;  // a kind of a user's file that names no rate of bfloat16
  unknown.name = "mine";
  unknown.peak = {{DataType::Float16, FlopsPerSecond(1e14)}};
  EXPECT_THAT(model_run_by(megatron, "gpt", std::span(&unknown, 1)).note, HasSubstr("on mine Megatron-LM"));
  unknown.peak[DataType::BFloat16] = FlopsPerSecond(1e14);
  EXPECT_EQ(model_run_by(megatron, "gpt", std::span(&unknown, 1)).note, "");
}

// A script of Megatron-LM's on a V100 that asks for no fused attention: it ran out of memory
// (github.com/NVIDIA/Megatron-LM/issues/525), where fused attention would fit.
TEST(Frameworks, TellThatScoresAreWritten) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run.args");
  write_file(
      run,
      "--num-layers 36 --hidden-size 1280 --num-attention-heads 20 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 16 --vocab-size 50304 --fp16 "
      "--swiglu --use-distributed-optimizer\n");
  const Outcome imported = pipesim_run({"import", "plan", run, "--topology",
                                        "dgx-a100:gpus=1+device=V100-SXM2-32GB", "--seconds", "0", "--json"});
  EXPECT_EQ(imported.status, 1) << imported;
  EXPECT_THAT(imported.err, HasSubstr("attention=scores: on V100-SXM2-32GB"));
  const auto json = nlohmann::json::parse(imported.out);
  EXPECT_THAT(json["left_out"].dump(), HasSubstr("attention=scores: on V100-SXM2-32GB"));
  EXPECT_THAT(json["yours"]["model"].get<std::string>(), HasSubstr("attention_dropout=0.1"));
  std::vector<std::string> words{"simulate",   "--model", "gpt:layers=2,dtype=float16",
                                 "--topology", "dgx2",    "--recipe",
                                 "dp16,mbs1",  "--batch", "16",
                                 "--json",     "--for",   "megatron"};
  const Outcome simulated = pipesim_run(words);
  EXPECT_THAT(simulated.err, HasSubstr("pipesim: attention=scores: on V100"));
  EXPECT_THAT(nlohmann::json::parse(simulated.out)["model_note"].get<std::string>(),
              HasSubstr("writes scores"));
  words.back() = "pipesim";
  EXPECT_FALSE(nlohmann::json::parse(pipesim_run(words).out).contains("model_note"));
  words[0] = "search";
  words.back() = "megatron";
  words.erase(words.begin() + 5, words.begin() + 7);
  words.insert(words.end(), {"--seconds", "10"});
  const Outcome searched = pipesim_run(words);
  EXPECT_THAT(searched.err, HasSubstr("pipesim: attention=scores: on V100"));
  EXPECT_THAT(nlohmann::json::parse(searched.out)["model_note"].get<std::string>(),
              HasSubstr("writes scores"));
}

SLOW_TEST(Frameworks, RanksAsSimulatingAllOfTheirRecipes) {
  const Topology topology = make_topology("dgx-h100:gpus=4");
  for (const Framework& framework : frameworks()) {
    for (const char* text : {kSmallLlama, kSmallMixtral}) {
      SCOPED_TRACE(std::string(framework.name) + " " + text);
      const OpenRun open = open_run_of(framework, text, topology, 8);
      const OperatorGraph graph = open_model(open.model);
      const RecipeModel model(graph);
      Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
      std::int64_t number = 0;
      space_of(open, model).visit([&](const Recipe& recipe) {
        ++number;
        const RatedRecipe rated = rate_recipe(open, recipe);
        if (rated.evaluation.feasible()) best = std::min(best, rated.evaluation.time);
      });
      EXPECT_GT(number, 20);
      OpenRun of_set = open;
      of_set.refines = false;
      const RecipeRanking ranking = rank_run(of_set, [](const RankingProgress&) { return true; });
      EXPECT_EQ(ranking.recipes, number);
      ASSERT_NE(ranking.best(), nullptr);
      EXPECT_TRUE(ranking.proven());
      EXPECT_EQ(ranking.best()->evaluation.time, best);
      EXPECT_EQ(rate_recipe(open, ranking.best()->recipe).evaluation.time, best);
    }
  }
}

// Each recipe of a set passes the checks of an export, and what exports refuse is in no set.
TEST(Frameworks, SearchWhatTheyExport) {
  const Topology topology = make_topology("dgx-a100:1");
  for (const Framework& framework : frameworks()) {
    for (const char* text : kSmallDecoders) {
      if (framework.name == "torchtitan" && decoder_sizes(text).type == DataType::Float16) continue;
      const OpenRun open = open_run_of(framework, text, topology, 8);
      const OperatorGraph graph = open_model(open.model);
      const RecipeModel model(graph);
      FrameworkPlan plan =
          framework_question(framework, framework.versions().back(), open.model, 8, open.options, topology);
      std::int64_t refused = 0, taken = 0;
      const auto refusals_of = [&](const Recipe& recipe) {
        plan.recipe = recipe;
        plan.layers = divide_layers(recipe, plan.sizes.layers).layers;
        return framework.run_refusals(plan);
      };
      space_of(open, model).visit([&](const Recipe& recipe) {
        if (++taken % 7 == 0) {
          EXPECT_TRUE(refusals_of(recipe).empty()) << framework.name << recipe.str();
        }
      });
      RecipeRules all = open.filter.rules();
      all.allows = {};
      RecipeSpace(model, topology, 8, RecipeFilter({}, all)).visit([&](const Recipe& recipe) {
        refused += refusals_of(recipe).empty() ? 0 : 1;
        --taken;
      });
      EXPECT_EQ(taken, -refused) << framework.name << " " << text;
      EXPECT_GT(refused, 0);
    }
  }
}

TEST(Frameworks, RefuseARecipeAlikeInSimulateCompareAndExport) {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const std::vector<std::string> subject{"--model",    "llama3-8b:layers=4",
                                         "--topology", "dgx-h100:1",
                                         "--batch",    "64",
                                         "--recipe",   "tp2,pp2,dp2,sp,mbs1,zero2,schedule=zb-h1"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  ASSERT_EQ(pipesim_run(with({"simulate", "-o", plan}, subject)).status, 0);
  for (const auto& [name, title, reason] :
       {std::tuple{
            "megatron", "Megatron-LM",
            "schedule=zb-h1: its pipelines run 1f1b, or interleaved where there is vpp; zero2 with pp2: its "
            "FSDP is documented with tp, cp and ep alone, and --use-distributed-optimizer is zero1"},
        {"deepspeed", "DeepSpeed",
         "schedule=zb-h1: its pipelines run 1f1b; zero2 with pp2: ZeRO-2 and ZeRO-3 are incompatible with "
         "its "
         "pipelines; tp2 with pp2: its AutoTP does not split the layers of a PipelineModule; sp: AutoTP "
         "copies norms "
         "and residuals"}}) {
    const std::string for_it = std::string(title) +
                               " can't run tp2,pp2,dp2,sp,mbs1,zero2,schedule=zb-h1: " + reason +
                               "; the nearest that it can is ";
    for (const char* command : {"simulate", "compare"}) {
      const Outcome outcome = pipesim_run(with({command, "--for", name}, subject));
      EXPECT_EQ(outcome.status, 1);
      EXPECT_THAT(outcome.err, testing::StartsWith("pipesim: " + for_it));
    }
    EXPECT_EQ(
        pipesim_run({"export", "--plan", plan, "--to", name, "-o", folder.path("run"), "--seconds", "0"}).err,
        "pipesim: " + plan + ": " + title + " can't run this plan: " + reason + "\n");
    EXPECT_EQ(pipesim_run({"simulate", "--plan", plan, "--for", name}).err,
              std::string("pipesim: ") + title + " can't run this plan: " + reason + "\n");
  }
}

// Versions count in what is searched, simulated and exported.
TEST(Frameworks, HaveVersions) {
  const TemporaryFolder folder;
  const std::vector<std::string> subject{
      "--model", "mixtral-8x7b:layers=2", "--topology", "dgx-h100:1", "--batch", "16"};
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.end(), subject.begin(), subject.end());
    return pipesim_run(words);
  };
  const Outcome refused = run({"simulate", "--for", "deepspeed:0.18", "--recipe", "dp8,ep4,mbs1,zero1"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(
      refused.err,
      testing::StartsWith("pipesim: DeepSpeed 0.18 can't run dp8,ep4,mbs1,zero1: ep4: AutoEP came with "
                          "DeepSpeed 0.19; DeepSpeed 0.19 can; the nearest that it can is dp8,mbs1,zero1 "
                          "(zero_optimization.stage 1"));
  EXPECT_EQ(run({"simulate", "--for", "deepspeed:0.19", "--recipe", "dp8,ep4,mbs1,zero1"}).status, 0);
  const auto best = [&](const std::string& version) {
    const std::string plan = folder.path("plan.json");
    const Outcome found = run({"search", "--for", "deepspeed:" + version, "--json", "-o", plan});
    EXPECT_EQ(found.status, 0) << found.err;
    const std::string out = folder.path(version);
    EXPECT_EQ(pipesim_run({"export", "--plan", plan, "--to", "deepspeed:" + version, "-o", out}).status, 0);
    return nlohmann::json::parse(found.out).at("recipes").at("recipes").get<std::int64_t>();
  };
  EXPECT_LT(best("0.18"), best("0.19"));
  EXPECT_EQ(
      run({"simulate", "--for", "megatron:0.9", "--recipe", "tp2"}).err,
      "pipesim: simulate: --for megatron:0.9: found version \"0.9\" of Megatron-LM, allowed: 0.12, 0.13, "
      "0.14, 0.15, 0.16, 0.17, 0.18, 0.19, main; see \"pipesim help simulate\"\n");
  EXPECT_EQ(run({"search", "--for", "megaton:main"}).err,
            "pipesim: search: --for megaton:main: found framework \"megaton\" (did you mean \"megatron\"?), "
            "allowed: megatron, torchtitan, deepspeed, pipesim; see \"pipesim help search\"\n");
}

TEST(Frameworks, AreNamed) {
  EXPECT_EQ(refusal([] { (void)framework_named("megatorn"); }),
            "unknown framework \"megatorn\" (did you mean \"megatron\"?), allowed: megatron, torchtitan, "
            "deepspeed");
  EXPECT_EQ(pipesim_run({"search", "--model", "lenet", "--topology", "dgx-h100:1", "--for", "megatron"}).err,
            "pipesim: model \"lenet\": frameworks are given the sizes of a decoder, allowed: gpt, llama, "
            "mixtral, qwen3, deepseek "
            "and decoder models of the zoo, or a config.json of Hugging Face\n");
  EXPECT_EQ(pipesim_run({"search", "--model", "llama3-8b", "--topology", "dgx-h100:1", "--for", "megatron",
                         "--algorithm", "dapple"})
                .err,
            "pipesim: search: --for goes with --algorithm auto and recipes, not with dapple\n");
  EXPECT_EQ(
      pipesim_run(
          {"search", "--model", "llama3-8b:dtype=float16", "--topology", "dgx-h100:1", "--for", "torchtitan"})
          .err,
      "pipesim: torchtitan can't run this: dtype=float16: training.mixed_precision_param is bfloat16 or "
      "float32\n");
}

// What --for means for a recipe: the framework's runtime, and what its kernels keep.
TEST(Frameworks, GiveRuntimeAndWhatIsKept) {
  const std::vector<std::string> words{
      "simulate", "--model",  "llama3-8b:layers=2", "--topology", "dgx-h100:1", "--batch",
      "8",        "--recipe", "dp8,mbs1,fsdp",      "--for",      "torchtitan"};
  const Outcome outcome = pipesim_run(words);
  EXPECT_THAT(outcome.out, testing::StartsWith("llama3-8b:batch=8,layers=2,kept=torch-compile on "));
  EXPECT_THAT(outcome.out, HasSubstr("  runtime        torch-compile:segments=expandable\n"));
}

nlohmann::json simulated_for(const std::string& framework, const std::string& model,
                             const std::string& recipe) {
  const Outcome outcome = pipesim_run({"simulate", "--model", model, "--topology", "dgx-h100:1", "--batch",
                                       "8", "--recipe", recipe, "--for", framework, "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

// Llama 3 8B with two layers at 8,192 tokens: 6·(2·(4096·6144 + 4096² + 3·4096·14336) + 4096·128256) FLOPs
// a token for the products of weights, 12·2·4096·8192 for all pairs of query and key.
TEST(Frameworks, CountFlopsInTheirOwnWay) {
  constexpr double kLinear =
                       6.0 * (2.0 * (4096.0 * 6144 + 4096.0 * 4096 + 3.0 * 4096 * 14336) + 4096.0 * 128256),
                   kSquare = 12.0 * 2 * 4096 * 8192;
  const auto per_token = [](const nlohmann::json& json) {
    return json["model_flops_per_s"].get<double>() / json["tokens_per_s"].get<double>();
  };
  const std::string model = "llama3-8b:layers=2";
  const nlohmann::json itself = simulated_for("pipesim", model, "tp8,mbs1,sp"),
                       megatron = simulated_for("megatron", model, "tp8,mbs1,sp"),
                       titan = simulated_for("torchtitan", model, "dp8,mbs1,fsdp"),
                       deepspeed = simulated_for("deepspeed", model, "dp8,mbs1,zero3");
  EXPECT_NEAR(per_token(itself), kLinear + kSquare / 2, 1e-9 * kLinear);
  EXPECT_NEAR(per_token(megatron), kLinear + kSquare / 2, 1e-9 * kLinear);
  EXPECT_NEAR(per_token(titan), kLinear + kSquare, 1e-9 * kLinear);
  EXPECT_NEAR(per_token(deepspeed), kLinear + kSquare, 1e-9 * kLinear);
  using Object = nlohmann::json;
  EXPECT_EQ(itself["flops_counting"],
            (Object{{"causal_attention", "half"}, {"documents_apart", true}, {"routers", true}}));
  EXPECT_EQ(megatron["flops_counting"], (Object{{"causal_attention", "half"},
                                                {"documents_apart", false},
                                                {"routers", false},
                                                {"framework", "Megatron-LM"}}));
  EXPECT_EQ(titan["flops_counting"], (Object{{"causal_attention", "full"},
                                             {"documents_apart", false},
                                             {"routers", true},
                                             {"framework", "torchtitan"}}));
  EXPECT_EQ(deepspeed["flops_counting"]["framework"], "DeepSpeed");
}

TEST(Frameworks, DivideByThePeakOfTheTypeOfProducts) {
  const nlohmann::json half = simulated_for("megatron", "llama3-8b:layers=2", "tp8,mbs1,sp");
  const nlohmann::json eighth =
      simulated_for("megatron", "llama3-8b:layers=2,products=float8", "tp8,mbs1,sp");
  EXPECT_EQ(half["peak_flops_per_device"], 989e12);
  EXPECT_EQ(half["peak_type"], "bfloat16");
  EXPECT_EQ(eighth["peak_flops_per_device"], 1979e12);
  EXPECT_EQ(eighth["peak_type"], "float8");
  EXPECT_DOUBLE_EQ(eighth["mfu"].get<double>(), eighth["model_flops_per_s"].get<double>() / (8 * 1979e12));
}

// The row of reports, the line under tables.
TEST(Frameworks, SayHowTheyCount) {
  const auto out = [](std::vector<std::string> words, const char* framework) {
    for (const char* word : {"--model", "llama3-8b:layers=2", "--topology", "dgx-h100:1", "--batch", "8",
                             "--recipe", "dp8,mbs1,fsdp", "--for", framework})
      words.emplace_back(word);
    return pipesim_run(words).out;
  };
  EXPECT_THAT(out({"simulate"}, "pipesim"),
              HasSubstr("causal attention at half; of 989 TFLOP/s, the rate of bfloat16\n"));
  EXPECT_THAT(
      out({"simulate"}, "torchtitan"),
      HasSubstr("causal attention in full, as torchtitan does; of 989 TFLOP/s, the rate of bfloat16\n"));
  EXPECT_THAT(out({"compare"}, "torchtitan"),
              HasSubstr("  MFU counts causal attention in full, as torchtitan does; of 989 TFLOP/s, the rate "
                        "of bfloat16\n"));
  EXPECT_THAT(out({"whatif", "--vary", "nodes=1,2"}, "torchtitan"),
              HasSubstr("  MFU counts causal attention in full, as torchtitan does; of 989 TFLOP/s, the rate "
                        "of bfloat16\n"));
}

// One of these, by chance.
template <std::size_t N>
std::string any_of(const std::array<const char*, N>& choices, Rng& rng) {
  return choices[rng.below(N)];
}

// The plan of a random search is exported for the version that it was searched for, and Megatron-LM's
// script reads back as the same plan, with the same time. PIPESIM_SEARCHES=1000 does more of them.
TEST(Frameworks, ExportWhatIsSearchedForThem) {
  constexpr std::array models{"llama3-8b:layers=4",
                              "mixtral-8x7b:layers=2",
                              "qwen3-8b:layers=3",
                              "gpt3-1.3b:layers=6,vocab=50304,dtype=bfloat16",
                              "deepseek-v3:layers=4,experts=16",
                              "deepseek-v3:layers=4,experts=16,further_tokens=1"};
  constexpr std::array systems{"dgx-h100:1", "dgx-h100:gpus=4", "dgx-a100:1", "dgx-h100:2"};
  constexpr std::array batches{"16", "32", "48", "64"};
  constexpr std::array conditions{"mbs=1,2", "pp=1,2,4", "tp=1,2", "zero=0,1", "recompute=none,full",
                                  "sp=on"};
  const char* more = std::getenv("PIPESIM_SEARCHES");
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), back = folder.path("back.json"),
                    out = folder.path("run");
  std::int64_t exported = 0;
  for_each_seed(more != nullptr ? std::stoull(more) : 16, [&](Rng& rng) {
    const Framework& framework = frameworks()[rng.below(frameworks().size())];
    const FrameworkVersion& version = framework.versions()[rng.below(framework.versions().size())];
    const std::string name = fmt::format("{}:{}", framework.name, version.name);
    const std::string model = any_of(models, rng), system = any_of(systems, rng);
    std::vector<std::string> search{"search",    "--for",   name,
                                    "--model",   model,     "--topology",
                                    system,      "--batch", any_of(batches, rng),
                                    "-o",        plan,      "--json",
                                    "--seconds", "5"};
    if (rng.below(2) == 0) search.insert(search.end(), {"--only", any_of(conditions, rng)});
    if (rng.below(3) == 0)
      search.insert(search.end(), {"--memory-margin", any_of(std::array{"40GB", "60GB"}, rng)});
    SCOPED_TRACE(fmt::format("pipesim {}", fmt::join(search, " ")));
    const Outcome found = pipesim_run(search);
    if (found.status != 0) {  // nothing fits, or this version does not run the model
      EXPECT_FALSE(found.err.empty());
      return;
    }
    const nlohmann::json told = nlohmann::json::parse(found.out);
    std::vector<std::string> words{"export", "--plan", plan, "--to", name, "-o", out, "--force"};
    if (name == "torchtitan:main") words.insert(words.end(), {"--base", "my.models:mine"});
    const Outcome written = pipesim_run(words);
    PlanOptions options;
    options.optimizer = Optimizer::Adam;
    FrameworkPlan question =
        framework_question(framework, version, model, 32, options, make_topology(system));
    if (name == "torchtitan:main") question.base = "my.models:mine";
    EXPECT_EQ(written.status == 0, framework.exports_model(question)) << written.err;
    if (written.status != 0) return;  // this version can't say the model
    ++exported;
    if (framework.name != "megatron") return;
    const Outcome read = pipesim_run(
        {"import", "plan", out + "/launch.sh", "--topology", system, "--seconds", "0", "-o", back, "--json"});
    EXPECT_EQ(read.status, 0) << read.err;
    const nlohmann::json was = nlohmann::json::parse(read_file(plan)),
                         is = nlohmann::json::parse(read_file(back));
    for (const char* key : {"recipe", "runtime", "configs", "global_batch"})
      EXPECT_EQ(was.value(key, nlohmann::json()), is.value(key, nlohmann::json())) << key;
    EXPECT_EQ(nlohmann::json::parse(read.out).at("yours").at("iteration_time_s"),
              told.at("iteration_time_s"));
  });
  if (std::getenv("PIPESIM_TEST_SEED") == nullptr) {
    EXPECT_GT(exported, sanitized ? 1 : 4);
  }
}

TEST(RecipeChanges, AreToldInArguments) {
  const FrameworkPlan plan = framework_plan("llama3-8b", parse_recipe("tp4,pp2,dp1,sp,mbs1,recompute=full"),
                                            make_topology("dgx-h100:1"));
  const OperatorGraph graph = open_model("llama3-8b:batch=1");
  std::vector<std::string> texts;
  for (const RecipeChange& change : recipe_changes(framework_named("megatron"), plan, RecipeModel(graph))) {
    texts.push_back(change.recipe.str() + ": " + change.text);
    EXPECT_TRUE(framework_named("megatron").runs_recipe([&] {
      FrameworkPlan changed = plan;
      changed.recipe = change.recipe;
      changed.layers = divide_layers(change.recipe, changed.sizes.layers).layers;
      return changed;
    }()));
  }
  EXPECT_THAT(
      texts,
      testing::IsSupersetOf(
          {"tp4,pp2,dp1,sp,mbs1,recompute=selective: --recompute-granularity selective instead of full, "
           "--recompute-modules core_attn, without --recompute-method, without --recompute-num-layers",
           "tp4,pp2,dp1,sp,mbs2,recompute=full: --micro-batch-size 2 instead of 1",
           "tp4,pp2,dp1,sp,mbs1,recompute=full,tp-overlap: --tp-comm-overlap"}));
}

}  // namespace
}  // namespace pipesim
