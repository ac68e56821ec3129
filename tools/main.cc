#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "tools/cli/run_pipesim.h"

namespace {

// The reader of a pipe closed it, as `head` does when it has seen enough.
bool reader_has_left(int descriptor) {
  pollfd ends{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&ends, 1, 0) == 1 && (ends.revents & POLLERR) != 0;
}

// Searches build and drop large task graphs again and again. Where the allocator gave their memory back each
// time, a fifth of a search would be the system's work to clear its pages. Only the largest parts go back,
// which would leave holes that nothing else fills.
void keep_freed_memory() {
  constexpr int kMoreAtATime = 64 << 20, kLargest = 32 << 20;  // glibc allows no more
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, kMoreAtATime);
}

}  // namespace

int main(int argc, char** argv) {
  // A write to a closed pipe then fails like any other, so that a plan is still written when nobody reads the
  // summary.
  std::signal(SIGPIPE, SIG_IGN);
  keep_freed_memory();
  const std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  const int status = pipesim::run_pipesim(args, std::cin, std::cout, std::cerr);
  std::cout.flush();
  if (status != 0 || std::cout || reader_has_left(STDOUT_FILENO)) return status;
  std::cerr << "pipesim: can't write to standard output\n";
  return 1;
}
