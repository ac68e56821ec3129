#include "tools/cli/searching/search_log.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "sim/base/files.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace pipesim {
namespace {

SearchProgress reported(double seconds, std::int64_t proposals, Nanoseconds best, int chain = 0) {
  return {proposals, 0, seconds, best, chain};
}

SearchOutcome ended(double seconds, std::int64_t proposals, Nanoseconds best) {
  SearchOutcome o;
  o.seconds = seconds;
  o.proposals = proposals;
  o.best.emplace();
  o.best->evaluation.time = best;
  return o;
}

TEST(SearchLog, HasARowForEveryNewBestAndForEverySecond) {
  const TemporaryFolder folder;
  SearchLog log(folder.path("log.csv"));
  log.note(reported(0.01, 16, 0));
  log.note(reported(0.02, 32, 187'634'120, 2));
  log.note(reported(0.03, 48, 187'634'120, 0));
  log.note(reported(0.5, 800, 170'000'000, 1));
  log.note(reported(1.49, 2400, 170'000'000, 0));
  log.note(reported(1.51, 2416, 170'000'000, 0));
  log.note(reported(2.2, 3000, 170'000'000, 0));
  log.finish(ended(2.25, 3010, 170'000'000));
  EXPECT_EQ(log.fault(), "");
  EXPECT_EQ(read_file(folder.path("log.csv")),
            "seconds,proposals,best,chain\n"
            "0.010,16,,\n"
            "0.020,32,0.187634120,2\n"
            "0.500,800,0.170000000,1\n"
            "1.510,2416,0.170000000,1\n"
            "2.250,3010,0.170000000,1\n");
}

TEST(SearchLog, TakesALastImprovementFromTheOutcome) {
  const TemporaryFolder folder;
  SearchLog log(folder.path("log.csv"));
  log.note(reported(0.1, 16, 5'000));
  SearchOutcome end = ended(0.2, 20, 4'000);
  end.history = {{0.1, 3, 5'000, 0}, {0.2, 19, 4'000, 3}};
  log.finish(end);
  EXPECT_EQ(read_file(folder.path("log.csv")),
            "seconds,proposals,best,chain\n0.100,16,0.000005000,0\n0.200,20,0.000004000,3\n");
}

TEST(SearchLog, NamesNoChainWhenABaselineIsBest) {
  const TemporaryFolder folder;
  SearchLog log(folder.path("log.csv"));
  log.finish(ended(0, 0, 7));
  EXPECT_EQ(read_file(folder.path("log.csv")), "seconds,proposals,best,chain\n0.000,0,0.000000007,\n");
}

TEST(SearchLog, CanBeReadWhileTheSearchGoesOn) {
  const TemporaryFolder folder;
  const std::string path = folder.file("log.csv", "what another search left\n");
  SearchLog log(path);
  EXPECT_EQ(read_file(path), "seconds,proposals,best,chain\n");
  log.note(reported(1, 10, 1'000'000'000));
  EXPECT_EQ(read_file(path), "seconds,proposals,best,chain\n1.000,10,1.000000000,0\n");
}

TEST(SearchLog, RefusesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal([&] { SearchLog log(folder.path()); }),
            folder.path() + ": is a directory, a file is needed");
  const std::string path = folder.path("no/log.csv");
  EXPECT_EQ(refusal([&] { SearchLog log(path); }),
            path + ": can't be written: there is no folder " + folder.path("no"));
}

TEST(SearchLog, TellsWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  const std::string path = folder.path("full.csv");
  std::filesystem::create_symlink("/dev/full", path);
  SearchLog log(path);
  log.note(reported(1, 10, 1'000));
  EXPECT_EQ(log.fault(), path + ": can't be written: No space left on device");
}

}  // namespace
}  // namespace pipesim
