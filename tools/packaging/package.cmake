# What is installed beside the program, and the Debian package: tools/package makes it.

# The commit is looked up at every build and compiled alone.
set(commit_source ${PROJECT_BINARY_DIR}/generated/commit.cc)
add_custom_target(pipesim_commit BYPRODUCTS ${commit_source} VERBATIM
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${commit_source}
          -P ${PROJECT_SOURCE_DIR}/tools/packaging/commit.cmake)
set_source_files_properties(${commit_source} PROPERTIES GENERATED TRUE SKIP_UNITY_BUILD_INCLUSION TRUE)
target_sources(pipesim_tools PRIVATE ${commit_source})
add_dependencies(pipesim_tools pipesim_commit)

# Pages of the manual and completion of shells, printed by the program.
set(share ${PROJECT_BINARY_DIR}/share)
set(printed)
function(printed_by_program file)
  set(path ${share}/${file})
  get_filename_component(folder ${path} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  set(print "\"$0\" help \"$@\" > \"$out\"")
  if(file MATCHES "\\.gz$")
    set(print "\"$0\" help \"$@\" | gzip -9n > \"$out\"")
  endif()
  add_custom_command(OUTPUT ${path} DEPENDS pipesim VERBATIM
    COMMAND ${CMAKE_COMMAND} -E env out=${path} sh -c "${print}" $<TARGET_FILE:pipesim> ${ARGN})
  set(printed ${printed} ${path} PARENT_SCOPE)
endfunction()

printed_by_program(man/man1/pipesim.1.gz --man)
foreach(command search simulate whatif compare report execute calibrate accuracy collective models topologies export import solve devices help)
  printed_by_program(man/man1/pipesim-${command}.1.gz ${command} --man)
endforeach()
printed_by_program(bash-completion/completions/pipesim --completion bash)
printed_by_program(zsh/vendor-completions/_pipesim --completion zsh)
printed_by_program(fish/vendor_completions.d/pipesim.fish --completion fish)

set(changelog ${share}/doc/pipesim/changelog.gz)
add_custom_command(OUTPUT ${changelog} DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${share}/doc/pipesim
  COMMAND sh -c "gzip -9nc \"$0\" > \"$1\"" ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${changelog})

# Libraries that the program loads when it needs them. The one for GPUs is a package of its own, since it needs
# packages that few have.
get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
set(plugins)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "MODULE_LIBRARY" AND NOT target STREQUAL "pipesim_python")
    list(APPEND plugins ${target})
  endif()
endforeach()

# A program that the program starts.
set(started_programs)
if(TARGET pipesim-execution)
  set(started_programs pipesim-execution)
endif()

# All that `cmake --install` copies.
add_custom_target(installed ALL DEPENDS ${printed} ${changelog})
add_dependencies(installed pipesim ${started_programs} ${plugins})

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME pipesim)
install(TARGETS pipesim RUNTIME DESTINATION bin COMPONENT pipesim)
if(started_programs)
  install(TARGETS ${started_programs} RUNTIME DESTINATION libexec/pipesim COMPONENT pipesim)
endif()
foreach(plugin IN LISTS plugins)
  set(component pipesim)
  if(plugin STREQUAL "pipesim_cuda")
    set(component pipesim-cuda)
  endif()
  install(TARGETS ${plugin} LIBRARY DESTINATION lib/pipesim COMPONENT ${component})
endforeach()
if(TARGET pipesim_python)
  add_dependencies(installed pipesim_python)
  set(packages_of_python lib/python3/dist-packages)
  install(TARGETS pipesim_python LIBRARY DESTINATION ${packages_of_python} COMPONENT python3-pipesim)
  install(DIRECTORY python/pipesim DESTINATION ${packages_of_python} COMPONENT python3-pipesim
    FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
  install(FILES python/_pipesim.pyi DESTINATION ${packages_of_python} COMPONENT python3-pipesim)
endif()
install(DIRECTORY ${share}/ DESTINATION share COMPONENT pipesim)
install(FILES README.md DESTINATION share/doc/pipesim COMPONENT pipesim)
install(FILES tools/packaging/copyright DESTINATION share/doc/pipesim COMPONENT pipesim)
install(DIRECTORY docs DESTINATION share/doc/pipesim COMPONENT pipesim FILES_MATCHING PATTERN "*.md" PATTERN "*.json"
  PATTERN "*.svg" PATTERN "*.png")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pipesim)
set(CPACK_PACKAGE_VENDOR pipesim)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "planner and simulator of parallel neural network training")
set(CPACK_PACKAGE_DESCRIPTION
  "pipesim predicts how long one training iteration of a neural network takes\nwhen it is split over many devices, and searches for a split that is fast\nand fits into memory.")
set(CPACK_DEBIAN_PIPESIM_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL pipesim)
if(TARGET pipesim_python)
  list(APPEND CPACK_COMPONENTS_ALL python3-pipesim)
  math(EXPR next_minor "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON3-PIPESIM_PACKAGE_NAME python3-pipesim)
  set(CPACK_DEBIAN_PYTHON3-PIPESIM_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON3-PIPESIM_PACKAGE_DEPENDS
    "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next_minor}~)")
  set(CPACK_COMPONENT_PYTHON3-PIPESIM_DESCRIPTION "pipesim for Python")
endif()
if(TARGET pipesim_cuda)
  list(APPEND CPACK_COMPONENTS_ALL pipesim-cuda)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "pipesim authors <pipesim@invalid.invalid>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PIPESIM_PACKAGE_NAME pipesim)
set(CPACK_DEBIAN_PIPESIM-CUDA_PACKAGE_NAME pipesim-cuda)
set(CPACK_DEBIAN_PIPESIM-CUDA_PACKAGE_DEPENDS "pipesim (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_PIPESIM-CUDA_DESCRIPTION "plans of pipesim on GPUs of NVIDIA")
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
include(CPack)

if(DEFINED PIPESIM_TESTS AND NOT PIPESIM_TESTS)
  return()
endif()
set(packaging_tests ${PROJECT_SOURCE_DIR}/tests/tools)
add_test(NAME completion COMMAND bash ${packaging_tests}/completion.sh $<TARGET_FILE:pipesim>)
add_test(NAME manual_page COMMAND sh ${packaging_tests}/manual_page.sh $<TARGET_FILE:pipesim>)
add_test(NAME messages COMMAND bash ${packaging_tests}/messages.sh $<TARGET_FILE:pipesim> ${packaging_tests}/messages.txt)
add_test(NAME version COMMAND sh ${packaging_tests}/version.sh ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR})
add_test(NAME installed_program COMMAND sh ${packaging_tests}/installed_program.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR})
add_dependencies(tests installed)
set_tests_properties(manual_page version PROPERTIES SKIP_RETURN_CODE 77)
