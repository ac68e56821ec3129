#include "executor/ranks/rendezvous.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/base/errors.h"
#include "sim/base/units.h"

namespace pipesim {
namespace {

[[noreturn]] void refuse_place(std::string_view text, std::string_view found) {
  throw InputError(fmt::format("rendezvous \"{}\": {}; allowed are tcp://HOST:PORT and mpi", text, found));
}

int parsed_port(std::string_view digits, std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error == std::errc() && end == digits.data() + digits.size() && port >= 1 && port <= 65535) return port;
  refuse_place(text, fmt::format("found the port \"{}\", a number from 1 to 65535 is needed", digits));
}

RendezvousPlace parsed_tcp(std::string_view address, std::string_view text) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || address.back() == ']') refuse_place(text, "found no port");
  RendezvousPlace place{std::string(address.substr(0, colon)), 0};
  std::string& host = place.host;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string::npos)
    refuse_place(text, "an IPv6 address needs brackets, as in tcp://[::1]:29500");
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("/[] \t\n") != std::string::npos)
    refuse_place(text, fmt::format("found the host \"{}\"", host));
  place.port = parsed_port(address.substr(colon + 1), text);
  return place;
}

std::string list_of_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t kMost = 16;
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i) {
    if (i > 0) list += i + 1 == ranks.size() ? " and " : ", ";
    list += std::to_string(ranks[i]);
  }
  return ranks.size() > kMost ? fmt::format("{}, … ({} in all)", list, ranks.size()) : list;
}

}  // namespace

std::string RendezvousPlace::str() const {
  const bool brackets = host.find(':') != std::string::npos;
  return brackets ? fmt::format("tcp://[{}]:{}", host, port) : fmt::format("tcp://{}:{}", host, port);
}

RendezvousPlace parse_rendezvous(std::string_view text) {
  if (text.starts_with("tcp://")) return parsed_tcp(text.substr(6), text);
  if (text.starts_with("file:"))
    refuse_place(text, "processes no longer meet over files, but at a free port of rank 0's host");
  refuse_place(text, "found no known kind of place");
}

std::string did_not_come(const std::vector<int>& missing, int size, const std::string& where,
                         std::chrono::milliseconds limit) {
  const Seconds seconds(static_cast<double>(limit.count()) * 1e-3);
  return fmt::format("{} of {} did not come to {} within {}", list_of_ranks(missing), size, where,
                     pretty(seconds));
}

}  // namespace pipesim
