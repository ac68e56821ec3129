#include "tools/cli/searching/search_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"

namespace pipesim {

SearchLog::SearchLog(const std::string& path) : path_(path) {
  require_writable(path);
  out_.open(path, std::ios::binary | std::ios::trunc);
  if (!out_) throw InputError(fmt::format("{}: can't be written: {}", path, std::strerror(errno)));
  put(std::string(kSearchLogHeader));
}

void SearchLog::note(const SearchProgress& p) {
  const bool better = p.best > 0 && (best_ == 0 || p.best < best_);
  if (better) {
    best_ = p.best;
    chain_ = p.chain;
  }
  if (better || p.seconds >= next_) write(p.seconds, p.proposals);
}

void SearchLog::finish(const SearchOutcome& outcome) {
  const Nanoseconds best = outcome.best ? outcome.best->evaluation.time : best_;
  if (best != best_) {
    best_ = best;
    chain_.reset();
    if (!outcome.history.empty() && outcome.history.back().best == best)
      chain_ = outcome.history.back().chain;
  }
  write(outcome.seconds, outcome.proposals);
}

void SearchLog::write(double seconds, std::int64_t proposals) {
  constexpr double kBetweenRows = 1;
  next_ = seconds + kBetweenRows;
  put(fmt::format("{:.3f},{},{},{}", seconds, proposals,
                  best_ > 0 ? fmt::format("{:.9f}", to_seconds(best_).value) : "",
                  chain_ ? fmt::format("{}", *chain_) : ""));
}

void SearchLog::put(const std::string& line) {
  if (line == last_ || !fault_.empty()) return;
  last_ = line;
  out_ << line << '\n' << std::flush;
  if (!out_) fault_ = fmt::format("{}: can't be written: {}", path_, std::strerror(errno));
}

}  // namespace pipesim
