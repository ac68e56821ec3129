#include "tools/cli/searching/search_watch.h"

#include <fmt/format.h>

namespace pipesim {

SearchWatch::SearchWatch(const Streams& streams)
    : err_(streams.err), line_(streams, SearchBudget(), std::nullopt), interrupt_(streams.caller) {}

ProgressCallback SearchWatch::callback() {
  return [this](const SearchProgress& progress) {
    line_.note(progress);
    if (log_) log_->note(progress);
    interrupted_ = interrupt_.requested();
    return !interrupted_;
  };
}

void SearchWatch::finish(const SearchOutcome& outcome) {
  line_.finish();
  if (log_) {
    log_->finish(outcome);
    if (!log_->fault().empty()) err_ << fmt::format("pipesim: warning: {}\n", log_->fault());
  }
  if (interrupted_) err_ << fmt::format("pipesim: interrupted after {:.1f} s\n", outcome.seconds);
}

}  // namespace pipesim
