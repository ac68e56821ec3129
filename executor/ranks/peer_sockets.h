#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pipesim {

/// Owns a file descriptor, and closes it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// Gives every rank the texts of all ranks, in rank order; a call of all ranks.
using GatherText = std::function<std::vector<std::string>(const std::string&)>;

/// The name of this machine, as far as it knows.
std::string host_name();

/// An id that is the same for all processes on one machine until it starts again. It is the same in
/// containers too, which have host names of their own. "?" when it is not known.
std::string boot_id();

/// Connects every two ranks by a TCP connection over IPv4, through the loopback address if all are on one
/// host. A call of all ranks. The result has one descriptor per rank, none for this one. DeviceError when a
/// rank can't be reached within 30 s.
std::vector<Descriptor> connect_peers(int rank, const GatherText& gather);

}  // namespace pipesim
