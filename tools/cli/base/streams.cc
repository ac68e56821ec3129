#include "tools/cli/base/streams.h"

#include <nlohmann/json.hpp>
#include <ostream>

namespace pipesim {

void give_document(Streams& streams, const nlohmann::ordered_json& document) {
  if (streams.caller != nullptr) {
    streams.caller->take_document(document);
  } else {
    // Names out of files may be of other encodings.
    streams.out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  }
}

}  // namespace pipesim
