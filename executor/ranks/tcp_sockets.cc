#include "executor/ranks/tcp_sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr std::chrono::milliseconds kLongestAttempt{3000};

void set_option(const Descriptor& socket, int level, int option, int value) {
  // Without an option all works as well, but for odd cases.
  (void)setsockopt(socket.number(), level, option, &value, sizeof(value));
}

// Small messages go at once. A host that does not answer for 20 s counts as gone.
void tune(const Descriptor& connection) {
  set_option(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(connection, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(connection, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(connection, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(connection, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

// Null with the reason when the name is not known.
AddressList addresses_of(const RendezvousPlace& place, std::string& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (error != 0) reason = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error);
  return {error == 0 ? list : nullptr, freeaddrinfo};
}

bool names_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return host == "localhost";
}

// None, with errno, when that is not possible.
Descriptor listen_on(const sockaddr* address, socklen_t size) {
  Descriptor listener(socket(address->sa_family, kSocketFlags, 0));
  if (listener.number() < 0) return listener;
  // The port of a run that has just ended may be taken.
  set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) set_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(listener.number(), address, size) == 0 && listen(listener.number(), SOMAXCONN) == 0)
    return listener;
  const int error = errno;
  listener = Descriptor();
  errno = error;
  return listener;
}

Descriptor listen_everywhere(int port) {
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(static_cast<std::uint16_t>(port));
  Descriptor listener = listen_on(reinterpret_cast<const sockaddr*>(&all), sizeof(all));
  if (listener.number() >= 0 || errno == EADDRINUSE || errno == EACCES) return listener;
  sockaddr_in old{};
  old.sin_family = AF_INET;
  old.sin_port = htons(static_cast<std::uint16_t>(port));
  return listen_on(reinterpret_cast<const sockaddr*>(&old), sizeof(old));
}

// A socket that looks for a listener at a port of its own host may find itself.
bool is_its_own_peer(const Descriptor& connection) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t size = sizeof(own);
  if (getsockname(connection.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  socklen_t other_size = sizeof(other);
  if (getpeername(connection.number(), reinterpret_cast<sockaddr*>(&other), &other_size) != 0) return false;
  return size == other_size && std::memcmp(&own, &other, size) == 0;
}

// 0, or why not.
int finish_connecting(const Descriptor& connection, std::chrono::milliseconds patience) {
  pollfd waiting{connection.number(), POLLOUT, 0};
  if (::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(patience.count(), 0))) <= 0)
    return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error == 0 && is_its_own_peer(connection) ? ECONNREFUSED : error;
}

int try_to_connect_to(const addrinfo& address, const Descriptor& connection,
                      std::chrono::milliseconds patience) {
  if (connection.number() < 0) return errno;
  // Lets rank 0 listen at this port, should the system have chosen it for this end.
  set_option(connection, SOL_SOCKET, SO_REUSEADDR, 1);
  if (connect(connection.number(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)
    return errno;
  return finish_connecting(connection, patience);
}

}  // namespace

Descriptor listen_at_place(const RendezvousPlace& place) {
  std::string reason;
  Descriptor listener;
  if (names_loopback(place.host)) {
    const AddressList list = addresses_of(place, reason);
    for (const addrinfo* at = list.get(); at != nullptr && listener.number() < 0; at = at->ai_next) {
      listener = listen_on(at->ai_addr, at->ai_addrlen);
      if (listener.number() < 0) reason = std::strerror(errno);
    }
  } else {
    listener = listen_everywhere(place.port);
    if (listener.number() < 0) reason = std::strerror(errno);
  }
  if (listener.number() < 0)
    throw DeviceError(fmt::format("rank 0 can't listen at {}: {}", place.str(), reason));
  return listener;
}

Descriptor accept_at_place(const Descriptor& listener) {
  Descriptor connection(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.number() >= 0) tune(connection);
  return connection;
}

ConnectAttempt connect_to_place(const RendezvousPlace& place,
                                std::chrono::steady_clock::time_point deadline) {
  ConnectAttempt attempt;
  const AddressList list = addresses_of(place, attempt.reason);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    Descriptor connection(socket(at->ai_family, kSocketFlags, 0));
    const int error = try_to_connect_to(*at, connection, std::min(left, kLongestAttempt));
    if (error == 0) {
      tune(connection);
      return {std::move(connection), ""};
    }
    attempt.reason = std::strerror(error);
  }
  return attempt;
}

void FramedConnection::send(std::shared_ptr<const std::string> bytes) {
  if (!is_open()) return;
  unsent_.push_back(std::move(bytes));
  flush();
}

void FramedConnection::flush() {
  while (!unsent_.empty()) {
    const std::string& first = *unsent_.front();
    const ssize_t count = ::send(number(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return unsent_.clear();
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < first.size()) continue;
    unsent_.pop_front();
    sent_ = 0;
  }
}

bool FramedConnection::read() {
  std::array<char, 1 << 16> buffer;
  const ssize_t count = recv(number(), buffer.data(), buffer.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  reader_.add({buffer.data(), static_cast<std::size_t>(count)});
  return count > 0;
}

}  // namespace pipesim
