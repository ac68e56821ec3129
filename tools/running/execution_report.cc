#include "tools/running/execution_report.h"

#include "tools/base/figures.h"

namespace pipesim {

double ExecutionReport::error() const {
  return measured.median == 0 ? 0
                              : (seconds(predicted) - seconds(measured.median)) / seconds(measured.median);
}

}  // namespace pipesim
