#include "executor/ranks/peer_sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kConnecting{30};

// What a connection starts with, in both directions: strangers and wrong machines do not know the token.
struct Hello {
  std::uint64_t token;
  std::int64_t rank;
};

struct Address {
  std::string host;
  std::vector<std::string> numbers;
  int port = 0;
  std::uint64_t token = 0;
};

[[noreturn]] void fail(const std::string& action) {
  throw DeviceError(fmt::format("watching other ranks: can't {}: {}", action, std::strerror(errno)));
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> numbers;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return numbers;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    if (!std::string_view(text.data()).starts_with("127.")) numbers.emplace_back(text.data());
  }
  return numbers;
}

sockaddr_in address_of(std::uint32_t number, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = number;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

Descriptor listen_at(bool only_this_host, int& port) {
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.number() < 0) fail("open a socket");
  sockaddr_in address = address_of(htonl(only_this_host ? INADDR_LOOPBACK : INADDR_ANY), 0);
  socklen_t size = sizeof(address);
  if (bind(listener.number(), reinterpret_cast<sockaddr*>(&address), size) != 0) fail("bind a socket");
  if (listen(listener.number(), SOMAXCONN) != 0) fail("listen at a socket");
  if (getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("name a socket");
  port = ntohs(address.sin_port);
  return listener;
}

std::string written(const Address& address) {
  std::string text = fmt::format("{} {} {}", address.host, address.port, address.token);
  for (const std::string& number : address.numbers) text += " " + number;
  return text;
}

Address parsed(const std::string& text) {
  Address address;
  std::istringstream words(text);
  words >> address.host >> address.port >> address.token;
  for (std::string number; words >> number;) address.numbers.push_back(number);
  return address;
}

void set_timeout(const Descriptor& connection, int option, std::chrono::milliseconds time) {
  const timeval value{time.count() / 1000, time.count() % 1000 * 1000};
  setsockopt(connection.number(), SOL_SOCKET, option, &value, sizeof(value));
}

bool send_hello(const Descriptor& connection, const Hello& hello) {
  return send(connection.number(), &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello);
}

bool receive_hello(const Descriptor& connection, Hello& hello, std::chrono::milliseconds patience) {
  set_timeout(connection, SO_RCVTIMEO, patience);
  return recv(connection.number(), &hello, sizeof(hello), MSG_WAITALL) == sizeof(hello);
}

Descriptor try_to_connect(const std::string& number, int port, const Hello& own, int peer) {
  Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.number() < 0) fail("open a socket");
  set_timeout(connection, SO_SNDTIMEO, std::chrono::seconds(3));  // holds for connect, too
  const sockaddr_in address = address_of(inet_addr(number.c_str()), port);
  Hello answer{};
  const bool reached =
      connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send_hello(connection, own) && receive_hello(connection, answer, kConnecting);
  if (!reached || answer.token != own.token || answer.rank != peer) return Descriptor();
  return connection;
}

Descriptor connect_to(const Address& address, int peer, const Hello& own, bool loopback) {
  const auto deadline = Clock::now() + kConnecting;
  std::vector<std::string> numbers = address.numbers;
  if (loopback) numbers = {"127.0.0.1"};
  do {
    for (const std::string& number : numbers) {
      Descriptor connection = try_to_connect(number, address.port, own, peer);
      if (connection.number() >= 0) return connection;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < deadline);
  throw DeviceError(fmt::format("rank {} can't reach rank {} on host {} to watch it (port {} of {})",
                                own.rank, peer, address.host, address.port, fmt::join(numbers, ", ")));
}

void accept_from_higher(const Descriptor& listener, const Hello& own, std::vector<Descriptor>& peers) {
  const auto deadline = Clock::now() + kConnecting;
  const auto first = peers.begin() + own.rank + 1;
  const auto missing = [](const Descriptor& peer) { return peer.number() < 0; };
  while (std::any_of(first, peers.end(), missing)) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{listener.number(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      const auto peer = std::find_if(first, peers.end(), missing) - peers.begin();
      throw DeviceError(fmt::format("rank {} did not connect to rank {} to be watched", peer, own.rank));
    }
    Descriptor connection(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    if (connection.number() < 0 || !receive_hello(connection, hello, std::chrono::seconds(3))) continue;
    const bool known = hello.token == own.token && hello.rank > own.rank &&
                       hello.rank < static_cast<std::int64_t>(peers.size());
    if (known && send_hello(connection, own))
      peers[static_cast<std::size_t>(hello.rank)] = std::move(connection);
  }
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.empty() ? "?" : id;
}

std::vector<Descriptor> connect_peers(int rank, const GatherText& gather) {
  const std::vector<std::string> hosts = gather(host_name());
  const bool one_host =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host == hosts[0]; });
  Address own{host_name(), own_addresses(), 0, 0};
  std::random_device random;
  own.token = static_cast<std::uint64_t>(random()) << 32 | random();
  const Descriptor listener = listen_at(one_host, own.port);
  const std::vector<std::string> addresses = gather(written(own));

  std::vector<Descriptor> peers(addresses.size());
  const Hello hello{parsed(addresses[0]).token, rank};
  for (int peer = 0; peer < rank; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    peers[at] = connect_to(parsed(addresses[at]), peer, hello, one_host);
  }
  accept_from_higher(listener, hello, peers);
  return peers;
}

}  // namespace pipesim
