#include "tests/models/residual_chain.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "models/model_json.h"
#include "sim/base/files.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

// 64 blocks: what follows every path never ends.
class ResidualChain : public testing::Test {
 protected:
  ResidualChain() { write_file(model_, to_json(residual_chain(64, 8))); }

  // The command on the chain and four GPUs.
  Outcome run(std::vector<std::string> args) const {
    args.insert(args.begin() + 1, {"--model", model_, "--topology", "p100-4x4:1"});
    return pipesim_run(args);
  }

  TemporaryFolder folder_;
  std::string model_ = folder_.path("chain.json");
};

TEST_F(ResidualChain, IsDescribed) { EXPECT_EQ(pipesim_run({"models", model_}).status, 0); }

TEST_F(ResidualChain, IsSimulated) {
  EXPECT_EQ(run({"simulate", "--baseline", "data-parallel", "--trace", folder_.path("trace"), "--dot",
                 folder_.path("dot")})
                .status,
            0);
  EXPECT_EQ(run({"simulate", "--baseline", "data-parallel", "--explain", "0"}).status, 0);
  EXPECT_EQ(run({"simulate", "--baseline", "data-parallel", "--recompute", "full"}).status, 0);
  EXPECT_EQ(run({"simulate", "--baseline", "data-parallel", "--stages", "4", "--microbatches", "4",
                 "--recompute", "full"})
                .status,
            0);
}

TEST_F(ResidualChain, IsExecuted) {
  for (const std::vector<std::string>& backend :
       std::vector<std::vector<std::string>>{{"--backend", "emulated"}, {"--oversubscribe"}}) {
    std::vector<std::string> args{"execute",  "--baseline", "data-parallel", "--steps", "1",
                                  "--warmup", "0",          "--no-realtime"};
    args.insert(args.end(), backend.begin(), backend.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

TEST_F(ResidualChain, IsPlannedByEveryAlgorithm) {
  for (const char* algorithm : {"mcmc", "gpipe", "pipedream", "dapple", "alpa", "auto", "model-parallel"}) {
    std::vector<std::string> args{"search", "--algorithm", algorithm};
    if (std::string(algorithm) == "mcmc" || std::string(algorithm) == "auto")
      args.insert(args.end(), {"--proposals", "20"});
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.status, 0) << algorithm << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace pipesim
