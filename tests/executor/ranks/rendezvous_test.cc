#include "executor/ranks/rendezvous.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/executor/ranks/rendezvous/reserved_port.h"
#include "tests/executor/ranks/rendezvous/rounds.h"
#include "tests/refusal.h"

namespace pipesim {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;

RendezvousOptions options_of(int rank, int size, std::chrono::milliseconds limit = 30s) {
  RendezvousOptions options;
  options.rank = rank;
  options.size = size;
  options.limit = limit;
  return options;
}

std::unique_ptr<Rendezvous> open_at(const std::string& place, const RendezvousOptions& options) {
  return std::make_unique<Rendezvous>(parse_rendezvous(place), options);
}

// What each rank, a thread each, ends with: "done" or its error.
std::vector<std::string> outcomes(const std::string& place, int size, std::chrono::milliseconds limit,
                                  const std::function<void(Rendezvous&)>& act) {
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        act(*open_at(place, options_of(r, size, limit)));
        said[static_cast<std::size_t>(r)] = "done";
      } catch (const std::exception& error) {
        said[static_cast<std::size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(Rendezvous, ReadsPlaces) {
  const RendezvousPlace name{"node1.site", 29500};
  EXPECT_EQ(parse_rendezvous("tcp://node1.site:29500"), name);
  const RendezvousPlace v6{"fe80::1%eth0", 1};
  EXPECT_EQ(parse_rendezvous("tcp://[fe80::1%eth0]:1"), v6);
  for (const char* text : {"tcp://node1.site:29500", "tcp://[::1]:65535"})
    EXPECT_EQ(parse_rendezvous(text).str(), text);
}

TEST(Rendezvous, RefusesOtherPlaces) {
  const auto refused = [](const std::string& text) { return refusal([&] { (void)parse_rendezvous(text); }); };
  const std::string allowed = "; allowed are tcp://HOST:PORT and mpi";
  EXPECT_EQ(refused("udp://a:1"), "rendezvous \"udp://a:1\": found no known kind of place" + allowed);
  EXPECT_EQ(refused(""), "rendezvous \"\": found no known kind of place" + allowed);
  EXPECT_EQ(refused("MPI"), "rendezvous \"MPI\": found no known kind of place" + allowed);
  for (const char* text : {"tcp://", "tcp://a", "tcp://[::1]"})
    EXPECT_EQ(refused(text), "rendezvous \"" + std::string(text) + "\": found no port" + allowed);
  for (const char* port : {"", "0", "65536", "1x", "-1"}) {
    EXPECT_EQ(refused("tcp://a:" + std::string(port)),
              "rendezvous \"tcp://a:" + std::string(port) + "\": found the port \"" + port +
                  "\", a number from 1 to 65535 is needed" + allowed);
  }
  EXPECT_EQ(refused("tcp://:1"), "rendezvous \"tcp://:1\": found the host \"\"" + allowed);
  EXPECT_EQ(refused("tcp://a/b:1"), "rendezvous \"tcp://a/b:1\": found the host \"a/b\"" + allowed);
  EXPECT_EQ(
      refused("tcp://::1:29500"),
      "rendezvous \"tcp://::1:29500\": an IPv6 address needs brackets, as in tcp://[::1]:29500" + allowed);
  EXPECT_EQ(refused("file:/shared/ranks"),
            "rendezvous \"file:/shared/ranks\": processes no longer meet over files, but at a free port of "
            "rank 0's host" +
                allowed);
}

TEST(Rendezvous, NamesThoseThatDidNotCome) {
  EXPECT_EQ(did_not_come({2, 5}, 8, "tcp://host:29500", 60s),
            "ranks 2 and 5 of 8 did not come to tcp://host:29500 within 60 s");
  EXPECT_EQ(did_not_come({0}, 2, "x", 1500ms), "rank 0 of 2 did not come to x within 1.5 s");
  EXPECT_EQ(did_not_come({1, 2, 3}, 4, "x", 20ms), "ranks 1, 2 and 3 of 4 did not come to x within 20 ms");
  std::vector<int> many(1023);
  EXPECT_THAT(did_not_come(many, 1024, "x", 1s), HasSubstr("0, … (1023 in all) of 1024 did not"));
}

TEST(Rendezvous, ThreadsOfOneProcessExchangeTexts) {
  for (const int size : {1, 2, 5}) {
    const ReservedPort port;
    EXPECT_THAT(outcomes(port.place(), size, 30s, [](Rendezvous& ranks) { make_rounds(ranks, 100, 20); }),
                Each("done"));
  }
}

TEST(Rendezvous, NamesOfHostsAndIpv6AreReached) {
  for (const std::string host : {"localhost", "[::1]"}) {
    const ReservedPort port;
    const std::string place = "tcp://" + host + ":" + std::to_string(port.number());
    const auto said = outcomes(place, 2, 30s, [](Rendezvous& ranks) { make_rounds(ranks, 1, 5); });
    if (said[0].find("can't listen") != std::string::npos) GTEST_SKIP() << said[0];
    EXPECT_THAT(said, Each("done")) << host;
  }
}

TEST(Rendezvous, CallsThatDifferAreABug) {
  const ReservedPort port;
  const auto said = outcomes(
      port.place(), 2, 30s, [](Rendezvous& ranks) { ranks.barrier(ranks.rank() == 0 ? "first" : "second"); });
  EXPECT_THAT(said, Each(HasSubstr("rank 1 calls \"second\" while rank 0 calls \"first\"")));
}

// The limit grows until rank 1, which keeps trying, is met before rank 0 gives up.
TEST(Rendezvous, RanksThatNeverComeAreNamedToAll) {
  const ReservedPort port;
  const std::string place = port.place();
  auto second = std::async(std::launch::async, [&] {
    return refusal<DeviceError>([&] { (void)open_at(place, options_of(1, 4)); });
  });
  for (std::int64_t limit = 250; limit <= 16'000; limit *= 4) {
    const std::string said = refusal<DeviceError>(
        [&] { (void)open_at(place, options_of(0, 4, std::chrono::milliseconds(limit))); });
    if (said.starts_with("ranks 1, ")) continue;
    EXPECT_EQ(said, did_not_come({2, 3}, 4, place, std::chrono::milliseconds(limit)));
    EXPECT_EQ(second.get(), said);
    return;
  }
  FAIL() << "rank 1 was never met";
}

TEST(Rendezvous, ARankThatFindsNoRankZeroSaysSo) {
  const ReservedPort port;
  EXPECT_EQ(refusal<DeviceError>([&] { (void)open_at(port.place(), options_of(1, 2, 30ms)); }),
            did_not_come({0}, 2, port.place(), 30ms) + ": Connection refused");
  // No name has such a part, so that nobody is asked about it.
  const std::string unknown = "tcp://" + std::string(70, 'x') + ".invalid:29500";
  EXPECT_THAT(refusal<DeviceError>([&] { (void)open_at(unknown, options_of(1, 2, 30ms)); }),
              testing::StartsWith(did_not_come({0}, 2, unknown, 30ms) + ": "));
}

TEST(Rendezvous, APortInUseIsRefusedAtOnce) {
  const ReservedPort port;
  ASSERT_EQ(listen(port.socket(), 1), 0);
  EXPECT_EQ(refusal<DeviceError>([&] { (void)open_at(port.place(), options_of(0, 2)); }),
            "rank 0 can't listen at " + port.place() + ": Address already in use");
}

TEST(Rendezvous, WhatListensThereAndIsNotRankZeroIsTold) {
  const ReservedPort port;
  ASSERT_EQ(listen(port.socket(), 8), 0);
  std::thread stranger([&] {
    const Descriptor connection(accept(port.socket(), nullptr, nullptr));
    const std::string banner = "SSH-2.0-stranger\r\n";
    (void)!::send(connection.number(), banner.data(), banner.size(), MSG_NOSIGNAL);
    pollfd closed{connection.number(), POLLRDHUP, 0};
    poll(&closed, 1, 20'000);
  });
  EXPECT_EQ(refusal<DeviceError>([&] { (void)open_at(port.place(), options_of(1, 2, 300ms)); }),
            did_not_come({0}, 2, port.place(), 300ms) + ": what listens there does not answer as rank 0");
  stranger.join();
}

Descriptor connection_to(const ReservedPort& port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port.number()));
  for (int i = 0; i < 20'000; ++i) {
    Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
      return connection;
    std::this_thread::sleep_for(1ms);
  }
  throw std::runtime_error("nobody listens");
}

TEST(Rendezvous, StrangersAreSentAwayAndDisturbNobody) {
  const ReservedPort port;
  auto first = std::async(std::launch::async, [&] {
    return refusal<std::exception>([&] { make_rounds(*open_at(port.place(), options_of(0, 2)), 5, 10); });
  });
  const Descriptor silent = connection_to(port);
  const Descriptor hasty = connection_to(port);
  ASSERT_EQ(send(hasty.number(), "pipe", 4, MSG_NOSIGNAL), 4);  // begins well, and goes no further
  const Descriptor talker = connection_to(port);
  ASSERT_EQ(send(talker.number(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  char byte = 0;
  EXPECT_LE(recv(talker.number(), &byte, 1, 0), 0) << "is sent away while others are awaited";
  make_rounds(*open_at(port.place(), options_of(1, 2)), 5, 10);
  EXPECT_EQ(first.get(), "accepted");
  EXPECT_LE(recv(silent.number(), &byte, 1, 0), 0);
}

TEST(Rendezvous, RanksOfAnotherRunAreRefused) {
  const ReservedPort port;
  auto first =
      std::async(std::launch::async, [&] { make_rounds(*open_at(port.place(), options_of(0, 2)), 1, 1); });
  EXPECT_EQ(refusal<DeviceError>([&] { (void)open_at(port.place(), options_of(3, 4)); }),
            "rank 3 of 4 does not belong to the 2 ranks that meet at " + port.place());
  make_rounds(*open_at(port.place(), options_of(1, 2)), 1, 1);
  EXPECT_NO_THROW(first.get());
}

TEST(Rendezvous, ARankThatComesTwiceIsRefused) {
  const ReservedPort port;
  const auto refused = outcomes(port.place(), 1, 30s, [](Rendezvous&) {});
  EXPECT_THAT(refused, Each("done")) << "one rank alone needs no port";
  auto first =
      std::async(std::launch::async, [&] { make_rounds(*open_at(port.place(), options_of(0, 3)), 1, 1); });
  std::vector<std::future<std::string>> twins;
  for (int i = 0; i < 2; ++i) {
    twins.push_back(std::async(std::launch::async, [&] {
      return refusal<std::exception>([&] { make_rounds(*open_at(port.place(), options_of(1, 3)), 1, 1); });
    }));
  }
  // One of them is refused before all can meet.
  while (twins[0].wait_for(1ms) != std::future_status::ready &&
         twins[1].wait_for(1ms) != std::future_status::ready) {
  }
  make_rounds(*open_at(port.place(), options_of(2, 3)), 1, 1);
  EXPECT_NO_THROW(first.get());
  const std::vector<std::string> said{twins[0].get(), twins[1].get()};
  EXPECT_THAT(said, testing::UnorderedElementsAre(
                        "accepted",
                        testing::MatchesRegex("rank 1 has come to tcp://.* twice, from hosts .* and .*")));
}

// Whether all have met, so that the limit was over in the call only.
bool is_about_the_call(const std::string& said) { return said.find("\"the call\"") != std::string::npos; }

TEST(Rendezvous, ARankThatDoesNotMakeACallIsNamed) {
  const ReservedPort port;
  const std::string place = port.place();
  for (auto limit = 250ms; limit <= 16'000ms; limit *= 4) {
    std::promise<void> over;
    auto second = std::async(std::launch::async, [&] {
      return refusal<DeviceError>([&] {
        const auto ranks = open_at(place, options_of(1, 2, limit));
        over.get_future().wait();
        ranks->barrier("the call");
      });
    });
    const std::string said =
        refusal<DeviceError>([&] { open_at(place, options_of(0, 2, limit))->barrier("the call"); });
    over.set_value();
    const std::string later = second.get();
    if (!is_about_the_call(said)) continue;
    EXPECT_EQ(said, did_not_come({1}, 2, "\"the call\" at " + place, limit));
    EXPECT_EQ(later, said);
    return;
  }
  FAIL() << "the ranks never met";
}

TEST(Rendezvous, ARankThatHasLeftIsNamed) {
  const ReservedPort port;
  const auto said = outcomes(port.place(), 3, 30s, [](Rendezvous& ranks) {
    ranks.barrier("all");
    if (ranks.rank() != 2) ranks.barrier("the call");
  });
  EXPECT_EQ(said[2], "done");
  for (const int r : {0, 1})
    EXPECT_THAT(said[static_cast<std::size_t>(r)],
                testing::MatchesRegex("rank 2 \\(on host .*\\) has left before \"the call\""));
}

TEST(Rendezvous, ARankThatIsClosedByAnErrorCountsAsDead) {
  const ReservedPort port;
  const std::string place = port.place();
  std::atomic<int> deaths{0};
  std::promise<void> noticed;
  auto second = std::async(std::launch::async, [&] {
    const auto ranks = open_at(place, options_of(1, 2));
    ranks->barrier("all");
    throw std::runtime_error("an error");
  });
  RendezvousOptions options = options_of(0, 2);
  options.on_death = [&](int rank, const std::string& host) {
    EXPECT_EQ(rank, 1);
    EXPECT_EQ(host, host_name());
    ++deaths;
    noticed.set_value();
  };
  const auto ranks = open_at(place, options);
  ranks->barrier("all");
  noticed.get_future().wait();
  const std::string died = "rank 1 (on host " + host_name() + ") died";
  EXPECT_EQ(refusal<DeviceError>([&] { ranks->barrier("next"); }), died);
  EXPECT_EQ(refusal<DeviceError>([&] { ranks->barrier("and next"); }), died);
  EXPECT_EQ(deaths, 1);
  EXPECT_THROW(second.get(), std::runtime_error);
}

TEST(Rendezvous, CallsHaveATimeLimitOfTheirOwn) {
  const ReservedPort port;
  RendezvousOptions options = options_of(0, 2);
  options.call_limit = 1ms;  // nobody comes in that time
  std::promise<void> over;
  auto second = std::async(std::launch::async, [&] {
    const auto ranks = open_at(port.place(), options_of(1, 2));
    over.get_future().wait();
  });
  EXPECT_EQ(refusal<DeviceError>([&] { open_at(port.place(), options)->barrier("the call"); }),
            did_not_come({1}, 2, "\"the call\" at " + port.place(), 1ms));
  over.set_value();
  second.get();
}

TEST(Rendezvous, AGoodbyeIsNoDeath) {
  const ReservedPort port;
  std::atomic<int> deaths{0};
  std::vector<std::future<void>> all;
  for (int r = 0; r < 4; ++r) {
    all.push_back(std::async(std::launch::async, [&, r] {
      RendezvousOptions options = options_of(r, 4);
      options.on_death = [&](int, const std::string&) { ++deaths; };
      make_rounds(*open_at(port.place(), options), 3, 100'000);
    }));
  }
  for (auto& one : all) EXPECT_NO_THROW(one.get());
  EXPECT_EQ(deaths, 0);
}

}  // namespace
}  // namespace pipesim
