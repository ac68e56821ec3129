# Programs that mpirun starts, and the tests that start them.
add_executable(mpi_conformance tests/executor/ranks/mpi/conformance.cc)
target_link_libraries(mpi_conformance PRIVATE pipesim_conformance fmt::fmt)
add_executable(mpi_endless_calls tests/executor/ranks/mpi/endless_calls.cc)
target_link_libraries(mpi_endless_calls PRIVATE pipesim_conformance fmt::fmt)
add_executable(mpi_abort_while_sending tests/executor/ranks/mpi/abort_while_sending.cc)
target_link_libraries(mpi_abort_while_sending PRIVATE pipesim_conformance fmt::fmt)
add_dependencies(tests mpi_conformance mpi_endless_calls mpi_abort_while_sending)

# mpi_test(NAME COMMAND…): skipped, with the reason, where MPI is not installed.
function(mpi_test name)
  add_test(NAME ${name} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/executor/ranks/mpi/if_installed.sh ${ARGN})
  # More ranks than cores run next to each other; LeakSanitizer would report what MPI itself leaves behind.
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 RUN_SERIAL TRUE
                       ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endfunction()
foreach(ranks 1 2 4)
  mpi_test(mpi_${ranks}_ranks ${ranks} $<TARGET_FILE:mpi_conformance> 1)
endforeach()
mpi_test(mpi_2_ranks_of_2_devices 2 $<TARGET_FILE:mpi_conformance> 2)
mpi_test(mpi_abort_while_it_sends 6 $<TARGET_FILE:mpi_abort_while_sending>)
set_tests_properties(mpi_abort_while_it_sends PROPERTIES PASS_REGULAR_EXPRESSION "all that came before was as it was sent"
                     FAIL_REGULAR_EXPRESSION "not what was sent")
if(NOT PIPESIM_SANITIZE)
  mpi_test(mpi_death_of_a_rank kill $<TARGET_FILE:mpi_endless_calls> 20)
endif()
