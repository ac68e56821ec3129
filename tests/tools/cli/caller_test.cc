// A program that runs commands in place of a shell: what it gets, and how it ends them.

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

class NotedCaller final : public Caller {
 public:
  void take_document(const nlohmann::ordered_json& document) override {
    documents.push_back(document.dump(2) + "\n");
  }
  void take_plan(std::string plan_file) override { plans.push_back(std::move(plan_file)); }
  void take_progress(const Progress& now) override {
    const std::lock_guard lock(mutex_);
    progress.push_back(now);
    if (stop_at_progress && now.best_time_s) stop_ = true;
  }
  [[nodiscard]] bool stop_requested() const override { return stop_; }

  std::vector<std::string> documents, plans;
  std::vector<Progress> progress;
  bool stop_at_progress = false;
  void stop() { stop_ = true; }

 private:
  std::mutex mutex_;
  std::atomic<bool> stop_ = false;
};

Outcome called(NotedCaller& caller, const std::vector<std::string>& args) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err, &caller};
  const int status = run_command(command_named(args[0]), {args.begin() + 1, args.end()}, streams);
  return {status, out.str(), err.str()};
}

const std::vector<std::string> kSimulated{"simulate",   "--model",    "lenet",         "--topology",
                                          "p100-4x4:1", "--baseline", "data-parallel", "--json"};

std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Caller, GetsTheDocumentThatIsPrintedElsewhere) {
  const std::vector<std::vector<std::string>> commands{
      kSimulated,
      {"models", "--json"},
      {"models", "--kinds", "--json"},
      {"topologies", "--json"},
      {"compare", "--model", "lenet", "--topology", "p100-4x4:1", "--json"},
      {"whatif", "--model", "lenet", "--topology", "p100-4x4:1", "--baseline", "data-parallel", "--vary",
       "nodes=1,2", "--json"},
      {"whatif", "--model", "lenet", "--topology", "p100-4x4:1", "--baseline", "data-parallel",
       "--sensitivity", "--json"},
      {"whatif", "--model", "lenet", "--topology", "p100-4x4:1", "--baseline", "data-parallel", "--list",
       "--json"},
      {"search", "--model", "lenet", "--topology", "p100-4x4:1", "--algorithm", "data-parallel", "--json"}};
  for (const auto& args : commands) {
    NotedCaller caller;
    const Outcome outcome = called(caller, args), printed = pipesim_run(args);
    EXPECT_EQ(outcome, (Outcome{printed.status, "", printed.err})) << args[0];
    ASSERT_EQ(caller.documents.size(), 1U) << args[0];
    const bool says_how_long = args[0] == "search";
    if (!says_how_long) {
      EXPECT_EQ(caller.documents[0], printed.out);
    }
  }
}

TEST(Caller, GetsThePlanAsItsFileWouldBe) {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  NotedCaller caller;
  EXPECT_EQ(called(caller, with(kSimulated, {"-o", file})).status, 0);
  ASSERT_EQ(caller.plans.size(), 1U);
  EXPECT_EQ(caller.plans[0], read_file(file));
}

TEST(Caller, GetsThePlanWithoutAFile) {
  NotedCaller caller;
  EXPECT_EQ(called(caller, {"search", "--model", "lenet", "--topology", "p100-4x4:1", "--proposals", "100",
                            "--algorithm", "mcmc", "--json"})
                .status,
            0);
  EXPECT_EQ(caller.plans.size(), 1U);
}

TEST(Caller, EndsASearchWithWhatItHas) {
  NotedCaller caller;
  caller.stop_at_progress = true;
  const Outcome outcome = called(caller, {"search", "--model", "alexnet", "--topology", "p100-4x4",
                                          "--algorithm", "mcmc", "--seconds", "600", "--json"});
  EXPECT_EQ(outcome.status, 0);
  ASSERT_FALSE(caller.progress.empty());
  const Progress& now = caller.progress.back();
  EXPECT_THAT(now.text, testing::HasSubstr("proposals"));
  EXPECT_GT(now.best_time_s, 0);
  ASSERT_TRUE(now.share);
  EXPECT_GT(*now.share, 0);
  EXPECT_LT(*now.share, 0.5);
  EXPECT_EQ(caller.plans.size(), 1U);
  EXPECT_THAT(outcome.err, testing::HasSubstr("interrupted after"));
}

TEST(Caller, KeepsItsOwnSignals) {
  NotedCaller caller;
  static std::atomic<int> noted = 0;
  const auto before = std::signal(SIGINT, [](int) { ++noted; });
  caller.stop_at_progress = true;
  const Outcome outcome = called(caller, {"search", "--model", "alexnet", "--topology", "p100-4x4",
                                          "--algorithm", "mcmc", "--seconds", "600", "--json"});
  std::raise(SIGINT);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(noted, 1);
  std::signal(SIGINT, before);
}

TEST(Caller, GetsErrorsAsExceptions) {
  NotedCaller caller;
  EXPECT_THROW(called(caller, {"simulate", "--nodel", "lenet"}), UsageError);
  EXPECT_THROW(called(caller, {"simulate", "--model", "lenett", "--topology", "p100-4x4", "--baseline",
                               "data-parallel"}),
               InputError);
  EXPECT_TRUE(caller.documents.empty());
}

TEST(Caller, GetsHintsForAPlanThatDoesNotFit) {
  NotedCaller caller;
  const Outcome outcome = called(caller, {"simulate", "--model", "llama3-70b", "--topology", "dgx-h100:1",
                                          "--batch", "8", "--baseline", "data-parallel", "--json"});
  EXPECT_EQ(outcome.status, 1);
  ASSERT_EQ(caller.documents.size(), 1U);
  const auto document = nlohmann::ordered_json::parse(caller.documents[0]);
  EXPECT_FALSE(document.at("fits").get<bool>());
  ASSERT_FALSE(document.at("hints").empty());
  for (const auto& hint : document.at("hints"))
    EXPECT_THAT(outcome.err, testing::HasSubstr(hint.get<std::string>()));
}

// A run of a table may take minutes, so that the caller is asked within it, too.
TEST(Caller, StopsRunsOfATable) {
  const TemporaryFolder folder;
  const std::string table = folder.path("large.csv");
  write_file(table,
             "name,model,devices,recipe,batch,time\n"
             "all,llama3-8b,dgx-h100:2048,\"dp16384,mbs1,zero3\",16384,1 s\n");
  NotedCaller caller;
  caller.stop();
  const Outcome stopped = called(caller, {"accuracy", "--data", table});
  EXPECT_EQ(stopped.status, 130);
  EXPECT_EQ(stopped.err, "pipesim: interrupted, large.csv: 0 of at most 1 runs predicted\n");
}

}  // namespace
}  // namespace pipesim
