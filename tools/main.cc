#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "tools/run_pipesim.h"

namespace {

// The reader of a pipe closed it, as `head` does when it has seen enough.
bool reader_has_left(int descriptor) {
  pollfd ends{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&ends, 1, 0) == 1 && (ends.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A write to a closed pipe then fails like any other, so that a plan is still written when nobody reads the
  // summary.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const int status = pipesim::run_pipesim(args, std::cin, std::cout, std::cerr);
  std::cout.flush();
  if (status != 0 || std::cout || reader_has_left(STDOUT_FILENO)) return status;
  std::cerr << "pipesim: can't write to standard output\n";
  return 1;
}
