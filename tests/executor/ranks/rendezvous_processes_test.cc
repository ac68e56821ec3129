// Ranks as processes (with threads of their own), which tell these tests what they see.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "executor/ranks/rendezvous.h"
#include "tests/executor/ranks/rendezvous/reserved_port.h"

namespace pipesim {
namespace {

using testing::Each;
using testing::MatchesRegex;
using testing::UnorderedElementsAre;

constexpr int kPatience = 60'000;  // milliseconds, after which a test that hangs fails

// One rank, whose lines can be read; killed at the end at the latest.
class RankProcess {
 public:
  RankProcess(const std::string& place, int rank, int size, const std::string& task) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    output_ = Descriptor(ends[0]);
    const Descriptor written(ends[1]);
    std::vector<std::string> words{program(), place, std::to_string(rank), std::to_string(size), task};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("no process");
    if (process_ > 0) return;
    dup2(written.number(), STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  RankProcess(RankProcess&& other) noexcept
      : output_(std::move(other.output_)), process_(std::exchange(other.process_, -1)) {}
  ~RankProcess() { kill_now(); }

  void kill_now() {
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  // The next line, or what is wrong instead.
  std::string line() {
    std::string line;
    for (char byte = 0; byte != '\n';) {
      pollfd waiting{output_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kPatience) <= 0) return "silence after " + line;
      if (read(output_.number(), &byte, 1) != 1) return "the end after " + line;
      if (byte != '\n') line += byte;
    }
    return line;
  }

 private:
  static std::string program() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rendezvous_process";
  }

  Descriptor output_;
  pid_t process_ = -1;
};

std::vector<RankProcess> started(const std::string& place, int size, const std::string& task) {
  std::vector<RankProcess> ranks;
  for (int r = 0; r < size; ++r) ranks.emplace_back(place, r, size, task);
  return ranks;
}

std::vector<std::string> lines_of(std::vector<RankProcess>& ranks) {
  std::vector<std::string> lines;
  for (RankProcess& rank : ranks) lines.push_back(rank.line());
  return lines;
}

void expect_rounds(const std::string& place, int size, const std::string& task) {
  std::vector<RankProcess> ranks = started(place, size, task);
  EXPECT_THAT(lines_of(ranks), Each("met")) << place;
  EXPECT_THAT(lines_of(ranks), Each("done")) << place;
}

TEST(RendezvousProcesses, ExchangeTexts) {
  for (const int size : {1, 2, 5}) expect_rounds(ReservedPort().place(), size, "rounds:50:100");
  const ReservedPort port;
  expect_rounds(port.place(), 5, "rounds:1:1000000");
}

void expect_death_noticed(const std::string& place, int victim) {
  constexpr int kSize = 4;
  std::vector<RankProcess> ranks;
  for (int r = 0; r < kSize; ++r) ranks.emplace_back(place, r, kSize, r == victim ? "hang" : "call");
  ASSERT_THAT(lines_of(ranks), Each("met"));
  ranks[static_cast<std::size_t>(victim)].kill_now();
  const std::string number = std::to_string(victim);
  for (int r = 0; r < kSize; ++r) {
    if (r == victim) continue;
    RankProcess& rank = ranks[static_cast<std::size_t>(r)];
    const std::vector<std::string> lines{rank.line(), rank.line()};
    EXPECT_THAT(lines, UnorderedElementsAre("death " + number,
                                            MatchesRegex("rank " + number + " \\(on host .*\\) died")))
        << "rank " << r;
  }
}

TEST(RendezvousProcesses, EachOtherIsToldOfADeath) { expect_death_noticed(ReservedPort().place(), 2); }

TEST(RendezvousProcesses, TheDeathOfRankZeroIsNoticedByAll) {
  expect_death_noticed(ReservedPort().place(), 0);
}

TEST(RendezvousProcesses, ARankKilledBeforeAllHaveMetMayBeStartedAgain) {
  const ReservedPort port;
  RankProcess first(port.place(), 0, 3, "rounds:1:1");
  {
    RankProcess second(port.place(), 1, 3, "rounds:1:1");
    second.kill_now();
  }
  RankProcess second(port.place(), 1, 3, "rounds:1:1");
  RankProcess third(port.place(), 2, 3, "rounds:1:1");
  for (RankProcess* rank : {&first, &second, &third}) {
    EXPECT_EQ(rank->line(), "met");
    EXPECT_EQ(rank->line(), "done");
  }
}

}  // namespace
}  // namespace pipesim
