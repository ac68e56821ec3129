#include "tools/cli/searching/interrupt.h"

#include <atomic>

namespace pipesim {
namespace {

std::atomic<bool> noted;
static_assert(std::atomic<bool>::is_always_lock_free);  // else a signal handler must not touch it

void note(int /*signal*/) { noted = true; }

}  // namespace

Interrupt::Interrupt(const Caller* caller) : caller_(caller) {
  if (caller_ != nullptr) return;
  noted = false;
  struct sigaction once {};
  once.sa_handler = note;
  once.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&once.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &once, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (caller_ != nullptr) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool Interrupt::requested() const { return caller_ != nullptr ? caller_->stop_requested() : noted.load(); }

}  // namespace pipesim
