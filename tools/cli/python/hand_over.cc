// The module has no `executor`. What runs plans is another program, which pipesim/calling.py starts.

#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/python/needs_execution.h"
#include "tools/cli/searching/launched_peers.h"

namespace pipesim {

int run_execute(const Arguments&, Streams&) { throw NeedsExecution(); }
int run_calibrate(const Arguments&, Streams&) { throw NeedsExecution(); }
int run_devices(const Arguments&, Streams&) { throw NeedsExecution(); }
int run_compare_execution(const Arguments&, Streams&) { throw NeedsExecution(); }
int run_import_of_this_machine(const Arguments&, Streams&) { throw NeedsExecution(); }
// Several interpreters that mpirun has started each work alone.
std::unique_ptr<PeerProcesses> peers_of_launcher(const Arguments&, Streams&) { return nullptr; }

}  // namespace pipesim
