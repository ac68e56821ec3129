#include "executor/cuda/activity_records.h"

#include <cupti.h>

#include <utility>

namespace pipesim {
namespace {

// What each version of CUPTI writes. Later ones only append to these.
#if CUPTI_API_VERSION >= 130000
using KernelActivity = CUpti_ActivityKernel10;
using CopyActivity = CUpti_ActivityMemcpy6;
#elif CUPTI_API_VERSION >= 26  // 12.8
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy6;
#else
static_assert(CUPTI_API_VERSION >= 19, "CUPTI of CUDA 12.0 or newer is needed");
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy5;
#endif
using PeerCopyActivity = CUpti_ActivityMemcpyPtoP4;
using SetActivity = CUpti_ActivityMemset4;

template <class Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

}  // namespace

std::uint32_t ActivityReader::number_of(std::string_view name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(activity_.names.size());
  activity_.names.emplace_back(name);
  numbers_.emplace(name, number);
  return number;
}

template <class Record>
void ActivityReader::add(const Record& record, ActivityKind kind, std::string_view name) {
  activity_.records.push_back({.correlation = record.correlationId,
                               .start = static_cast<Nanoseconds>(record.start),
                               .end = static_cast<Nanoseconds>(record.end),
                               .device = static_cast<int>(record.deviceId),
                               .stream = record.streamId,
                               .name = number_of(name),
                               .kind = kind});
}

void ActivityReader::read(const std::uint8_t* buffer, std::size_t bytes) {
  if (bytes == 0) return;
  CUpti_Activity* record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  // CUPTI does not write into the buffer, although it asks for one that it could write to.
  while ((result = cuptiActivityGetNextRecord(const_cast<std::uint8_t*>(buffer), bytes, &record)) ==
         CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = as<KernelActivity>(record);
        add(kernel, ActivityKind::Kernel, kernel.name == nullptr ? "kernel" : kernel.name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        add(as<CopyActivity>(record), ActivityKind::Copy, "copy");
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        add(as<PeerCopyActivity>(record), ActivityKind::Copy, "peer copy");
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        add(as<SetActivity>(record), ActivityKind::Set, "set");
        break;
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& call = as<CUpti_ActivityExternalCorrelation>(record);
        if (call.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
          activity_.correlations.push_back({call.correlationId, call.externalId});
        break;
      }
      default:
        break;  // calls of the runtime and the driver, which the correlations come with
    }
  }
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) count_dropped(1);
}

CollectedActivity ActivityReader::take() {
  numbers_.clear();
  return std::exchange(activity_, {});
}

}  // namespace pipesim
