#pragma once

#include "sim/base/json_reader.h"
#include "tools/render/page/measured_page.h"

namespace pipesim {

/// Makes a page from a trace of `execute --trace`: one iteration as it was predicted and as it was measured.
/// The page has both timelines, device by device, and adds up the tasks that differ in nothing but device and
/// microbatch. InputError with file and JSON pointer, also where nothing was measured.
MeasuredPage measured_page_of_trace(const JsonValue& root);

}  // namespace pipesim
