#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>

#include "executor/ranks/peer_sockets.h"

namespace pipesim {

/// A port of the loopback address that nobody else gets, but at which rank 0 may listen.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_.number(), place, size) != 0 || getsockname(socket_.number(), place, &size) != 0)
      throw std::runtime_error("no port is free");
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int socket() const { return socket_.number(); }
  [[nodiscard]] std::string place() const { return "tcp://127.0.0.1:" + std::to_string(number_); }

 private:
  Descriptor socket_;
  int number_ = 0;
};

}  // namespace pipesim
