# cmake -DSOURCE=… -DOUTPUT=… -P commit.cmake: writes a source file that names the commit that is built. A file that
# would stay the same is not touched, so that nothing is compiled again.

set(ENV{GIT_OPTIONAL_LOCKS} 0)
find_program(GIT git)
set(commit "")
set(date "")

function(ask_git result)
  execute_process(COMMAND ${GIT} -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE answer RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(answer "")
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

if(GIT)
  # Sources that were unpacked inside another project's checkout are not of its commit.
  ask_git(root rev-parse --show-toplevel)
  file(REAL_PATH ${SOURCE} source)
  if(root STREQUAL source)
    ask_git(commit describe --always --abbrev=12 --exclude=* --dirty=-modified)
    ask_git(date log -1 --format=%cs)
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY NEWLINE_STYLE UNIX CONTENT [[
#include "tools/base/version.h"

namespace pipesim {

const char* const kCommit = "@commit@";
const char* const kCommitDate = "@date@";

}  // namespace pipesim
]])
