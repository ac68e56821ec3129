#include "tools/cli/base/output_files.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "sim/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/tools/command_line.h"

namespace pipesim {
namespace {

using testing::HasSubstr;

class OutputFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string refused(std::vector<std::string> arguments) const {
    const Outcome outcome = pipesim_run(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    return outcome.err;
  }
  TemporaryFolder folder_;
  std::string model_ = folder_.file("my.json", pipesim_run({"models", "mlp:batch=4", "--json"}).out);
};

TEST_F(OutputFiles, ReplaceNothingThatTheCommandReads) {
  const std::string before = read_file(model_);
  EXPECT_EQ(
      refused({"search", "--algorithm", "mcmc", "--model", model_, "--topology", "cpu:2", "-o", model_}),
      "pipesim: search: --output would replace " + model_ +
          ", which --model reads; see \"pipesim help search\"\n");
  EXPECT_THAT(refused({"search", "--algorithm", "mcmc", "--model", model_ + ":b=4", "--topology", "cpu:2",
                       "--search-log", model_}),
              HasSubstr("--search-log would replace " + model_ + ", which --model reads"));
  EXPECT_THAT(refused({"execute", "--model", model_, "--topology", "cpu:2", "--baseline", "expert", "--data",
                       "x=" + model_ + ":float32@4", "--trace", model_}),
              HasSubstr("--trace would replace"));
  const std::string link = folder_.path("link");
  std::filesystem::create_symlink("my.json", link);
  EXPECT_THAT(
      refused({"simulate", "--model", model_, "--topology", "cpu:2", "--baseline", "expert", "--dot", link}),
      HasSubstr("--dot would replace " + link + ", which --model reads"));
  EXPECT_THAT(refused({"import", "topology", model_, "-o", model_}), HasSubstr("which import reads"));
  EXPECT_EQ(read_file(model_), before);
}

TEST_F(OutputFiles, AreNotTheSameForTwoOptions) {
  const std::string file = folder_.path("new.json");
  const std::string other = folder_.path("./new.json");
  EXPECT_THAT(refused({"simulate", "--model", model_, "--topology", "cpu:2", "--baseline", "expert",
                       "--trace", file, "--dot", other}),
              HasSubstr("--trace and --dot would both write " + file));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(OutputFiles, OfACheckpointMayBeTheOneItGoesOnFrom) {
  const std::string checkpoint = folder_.path("search.json");
  std::vector<std::string> search{"search",
                                  "--algorithm",
                                  "mcmc",
                                  "--model",
                                  model_,
                                  "--topology",
                                  "cpu:2",
                                  "--proposals",
                                  "20",
                                  "-o",
                                  folder_.path("plan.json"),
                                  "--checkpoint",
                                  checkpoint};
  ASSERT_EQ(pipesim_run(search).status, 0);
  search.insert(search.end(), {"--resume", checkpoint});
  search[8] = "40";
  const Outcome outcome = pipesim_run(search);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

}  // namespace
}  // namespace pipesim
