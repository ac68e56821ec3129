#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "search/baselines/baselines.h"
#include "sim/base/files.h"
#include "tests/search/search_case.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/plans/task_explanation.h"
#include "tools/analysis/plans/task_names.h"
#include "tools/render/plans/task_explanation_text.h"

namespace pipesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using Json = nlohmann::json;

std::vector<std::string> explain_lenet(const std::string& task) {
  return {"simulate",   "--model",       "lenet",     "--topology", "p100-4x4:2",
          "--baseline", "data-parallel", "--explain", task};
}

// A baseline, simulated.
struct Simulated {
  SearchCase c;
  Evaluator evaluator;
  BoundStrategy strategy;
  SimulatedPart part;

  Simulated(const std::string& model, const std::string& topology, std::string_view baseline,
            std::int32_t microbatches = 1)
      : c(model, topology),
        evaluator(c.graph, c.costs, options(microbatches)),
        strategy(evaluator.contents().bind(baseline_strategy(baseline, c.graph, c.costs))),
        part(*evaluator.evaluate(strategy, {.extent = Extent::All, .part = Labels::Make}).part) {}
  static PlanOptions options(std::int32_t microbatches) {
    PlanOptions options;
    options.microbatches = microbatches;
    return options;
  }
  TaskExplanation explain(const std::string& which) { return explain_task(part, strategy, which); }
  std::string text(const std::string& which, std::size_t most = 24) {
    return to_text(explain(which), part, strategy, most);
  }
  [[nodiscard]] Nanoseconds start(TaskId t) const { return part.timeline().start[t.index()]; }
  [[nodiscard]] Nanoseconds end(TaskId t) const { return part.timeline().end[t.index()]; }
};

// Looked through by hand: each line's task ends when the one above may begin.
TEST(TaskExplanation, SaysInWordsWhatHeldATask) {
  EXPECT_EQ(
      pipesim_run(explain_lenet("linear1 forward on node0.gpu1")).out,
      R"(task 73, linear1 forward on node0.gpu1, runs from 12.8 us to 15.9 us. The chain that held it, back to the start: 12.8 us of compute, 0 ns of communication
    start      end  task                                            why not earlier
  12.8 us  15.9 us  linear1 forward on node0.gpu1                   waited for pool2 forward on node0.gpu1
  9.99 us  12.8 us  pool2 forward on node0.gpu1                     waited for conv2 forward on node0.gpu1
     0 ns  9.99 us  … 3 more forward passes on node0.gpu1, 9.99 us  first conv1 forward on node0.gpu1: nothing was in its way
)");
  EXPECT_EQ(
      pipesim_run(explain_lenet("linear1 update")).out,
      R"(8 tasks have "linear1 update" in their names. Explained is the one that ends last; its number, or more of a name, chooses another:
  task   start     end  name
   180  126 us  130 us  linear1 update on node0.gpu0
   181  126 us  130 us  linear1 update on node0.gpu1
   182  126 us  130 us  linear1 update on node0.gpu2
   183  126 us  130 us  linear1 update on node0.gpu3
   184  126 us  130 us  linear1 update on node1.gpu0
   185  126 us  130 us  linear1 update on node1.gpu1
   186  126 us  130 us  linear1 update on node1.gpu2
   187  126 us  130 us  linear1 update on node1.gpu3

task 180, linear1 update on node0.gpu0, runs from 126 us to 130 us. The chain that held it, back to the start: 37.8 us of compute, 87.8 us of communication
    start      end  task                                                                          why not earlier
   126 us   130 us  linear1 update on node0.gpu0                                                  waited for the all-reduce of gradient of linear1.b over 8 devices, node0.gpu0 to node1.gpu3
   102 us   126 us  all-reduce of gradient of linear1.b over 8 devices, node0.gpu0 to node1.gpu3  was ready at 44.1 us; link node0.pcie -> node0.nic0 was busy with the all-reduce of gradient of linear1.w over 8 devices, node0.gpu0 to node1.gpu3
  37.8 us   124 us  … 3 more all-reduces of gradients of weights over 8 devices, 64.3 us          first all-reduce of gradient of linear2.w over 8 devices, node0.gpu0 to node1.gpu3: waited for linear2 backward-weight on node0.gpu0
    35 us  37.8 us  linear2 backward-weight on node0.gpu0                                         was ready at 29.5 us; node0.gpu0 was busy with linear2 backward-input on node0.gpu0
  24.1 us    35 us  … 4 more backward passes on node0.gpu0, 10.9 us                               first loss backward-input on node0.gpu0: waited for loss forward on node0.gpu0
  21.4 us  24.1 us  loss forward on node0.gpu0                                                    waited for classifier forward on node0.gpu0
     0 ns  21.4 us  … 7 more forward passes on node0.gpu0, 21.4 us                                first conv1 forward on node0.gpu0: nothing was in its way
)");
}

TEST(TaskExplanation, AnIdOrAWholeNameIsOneTask) {
  Simulated s("lenet", "p100-4x4", "data-parallel");
  const TaskNames names(s.part, s.strategy);
  const TaskId task = s.explain("conv1 forward on node0.gpu1").matches.front();
  EXPECT_EQ(s.explain(std::to_string(task.value)).matches, std::vector<TaskId>{task});
  EXPECT_THAT(s.text("conv1 forward on node0.gpu1"), Not(HasSubstr("in their names")));
  // "gpu1" begins no other name here, so that a part of it is enough.
  EXPECT_THAT(s.explain("conv1 forward on node0.gpu").matches, SizeIs(4));
  EXPECT_THAT(s.explain("conv1 forward").matches, SizeIs(16));
}

// GPT has layer1.attention_norm and layer11.attention as well.
TEST(TaskExplanation, WholeWordsGoBeforePartsOfWords) {
  Simulated s("gpt", "p100-4x4", "data-parallel");
  const TaskNames names(s.part, s.strategy);
  const auto operators = [&](const std::string& which) {
    std::set<std::string> found;
    for (const TaskId t : s.explain(which).matches) found.insert(names(t).substr(0, names(t).find(' ')));
    return found;
  };
  EXPECT_THAT(operators("layer1.attention forward"), testing::ElementsAre("layer1.attention"));
  EXPECT_THAT(operators("layer1.attention"), testing::ElementsAre("layer1.attention"));
  EXPECT_THAT(operators("yer1.attention"), testing::Contains("layer1.attention_norm"));
}

TEST(TaskExplanation, OfSeveralTheLastIsExplained) {
  Simulated s("lenet", "p100-4x4", "model-parallel", 3);
  const TaskExplanation x = s.explain("conv2 backward");
  ASSERT_GT(x.matches.size(), 2);
  for (std::size_t i = 1; i < x.matches.size(); ++i) EXPECT_GE(s.end(x.matches[i - 1]), s.end(x.matches[i]));
  EXPECT_EQ(x.chain.front().task, x.matches.front());
}

TEST(TaskExplanation, UnknownTasksAreRefused) {
  EXPECT_EQ(pipesim_run(explain_lenet("conv9")).err,
            "pipesim: no task of the plan is called \"conv9\"; tasks read like \"conv1 forward on "
            "node0.gpu0\"\n");
  const Outcome id = pipesim_run(explain_lenet("99999"));
  EXPECT_EQ(id.status, 1);
  EXPECT_THAT(id.err, StartsWith("pipesim: there is no task 99999; the plan has tasks 0 to "));
}

// Each task is held by the next of the chain, which accounts for the whole time before the task.
TEST(TaskExplanation, ChainsAccountForAllTime) {
  for (const char* baseline : {"data-parallel", "model-parallel", "expert"}) {
    for (const std::int32_t microbatches : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} {}", baseline, microbatches));
      Simulated s("nmt:steps=3", "p100-4x4", baseline, microbatches);
      const std::size_t tasks = s.part.task_graph().dag.num_tasks();
      for (std::size_t t = 0; t < tasks; t += 97) {
        const TaskExplanation x = s.explain(std::to_string(t));
        EXPECT_EQ(x.compute + x.communication, s.start(TaskId(t)));
        for (std::size_t i = 1; i < x.chain.size(); ++i) {
          EXPECT_EQ(x.chain[i - 1].why.task, x.chain[i].task);
          EXPECT_LE(s.start(x.chain[i].task), s.start(x.chain[i - 1].task));
          EXPECT_NE(s.part.task_graph().labels[x.chain[i].task.index()].kind, TaskKind::Barrier);
        }
        EXPECT_EQ(s.start(x.chain.back().task), 0);
        EXPECT_EQ(x.chain.back().why.cause, Cause::Nothing);
      }
    }
  }
}

// Hundreds of tasks of one device are a few lines, none of which sends the reader to another line.
TEST(TaskExplanation, LongChainsAreShort) {
  Simulated s("nmt:steps=12", "p100-4x4", "data-parallel");
  const TaskExplanation x = s.explain("update");
  EXPECT_GT(x.chain.size(), 100);
  const std::string text = to_text(x, s.part, s.strategy, 24);
  EXPECT_LE(std::ranges::count(text, '\n'), 40) << text;
  EXPECT_THAT(text, AllOf(Not(HasSubstr("next line")), HasSubstr("… "), Not(HasSubstr("more lines"))));
  // The list of what else is called so ends as well.
  EXPECT_THAT(text, HasSubstr("that end earlier\n"));
}

TEST(TaskExplanation, NamesDevicesOfCollectives) {
  Simulated s("lenet", "p100-4x4:2", "data-parallel");
  EXPECT_THAT(s.text("conv1.w"), HasSubstr("over 8 devices, node0.gpu0 to node1.gpu3"));
}

TEST(TaskExplanation, JsonHasTheWholeChain) {
  std::vector<std::string> args = explain_lenet("conv2 forward");
  args.emplace_back("--json");
  const Outcome result = pipesim_run(args);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_THAT(json["matches"], SizeIs(8));
  EXPECT_EQ(json["task"], json["matches"][0]);
  const Json& chain = json["chain"];
  ASSERT_GT(chain.size(), 1);
  EXPECT_EQ(chain[0]["task"], json["task"]);
  for (std::size_t i = 1; i < chain.size(); ++i) EXPECT_EQ(chain[i - 1]["held_by"], chain[i]["task"]);
  EXPECT_EQ(chain.back()["cause"], "nothing");
  EXPECT_EQ(chain.back()["start_s"], 0);
}

TEST(DevicesInWords, AreShort) {
  const Topology topology = make_topology("p100-4x4");
  const auto words = [&](std::vector<int> ids) {
    std::vector<DeviceId> devices;
    for (const int id : ids) devices.emplace_back(id);
    return devices_in_words(devices, topology);
  };
  EXPECT_EQ(words({}), "");
  EXPECT_EQ(words({5}), "node1.gpu1");
  EXPECT_EQ(words({2, 3, 4, 5, 6}), "node0.gpu2 to node1.gpu2");
  EXPECT_EQ(words({0, 4, 8}), "node0.gpu0, node1.gpu0, node2.gpu0");
  EXPECT_EQ(words({0, 2, 4, 6, 8}), "node0.gpu0, node0.gpu2, … node2.gpu0");
}

// Every task of a DOT file says where it runs.
TEST(DotFile, LabelsNameDevices) {
  const TemporaryFolder folder;
  const std::string dot = folder.path("tasks.dot");
  ASSERT_EQ(pipesim_run({"simulate", "--model", "lenet", "--topology", "p100-4x4:2", "--baseline",
                         "model-parallel", "--microbatches", "2", "--dot", dot})
                .status,
            0);
  std::istringstream lines(read_file(dot));
  int labels = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t label = line.find(" [label=");
    if (label == std::string::npos) continue;
    ++labels;
    EXPECT_TRUE(std::regex_search(line, std::regex("(on|from) node[01]\\.gpu[0-3]|, node[01]\\.gpu")))
        << line;
  }
  EXPECT_GT(labels, 30);
}

}  // namespace
}  // namespace pipesim
