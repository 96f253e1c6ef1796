# anchorage_library(NAME SRCS a.cc ... PUBLIC dep ... PRIVATE dep ...)
# One static library. PUBLIC: libraries whose headers stand in ours; PRIVATE: the rest.
function(anchorage_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_PUBLIC})
  endif()
endfunction()

# anchorage_program(NAME SRCS main.cc ... DEPS lib ...): build/bin/NAME.
function(anchorage_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# anchorage_test(NAME SRCS a_test.cc ... DEPS lib ... TIMEOUT seconds)
# One GoogleTest binary in build/tests/, registered with ctest as one test of that name, labelled with
# the room that it tests.
function(anchorage_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ANCHORAGE_SANITIZER STREQUAL "none")
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  get_filename_component(room "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  # What may take longest starts first, so that no core waits for it at the end.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT} LABELS ${room})
endfunction()

# anchorage_fuzzer(NAME SRCS a_fuzzer.cc DEPS lib ... SEEDS folder SECONDS n)
# A libFuzzer program in build/tests/, registered with ctest for a run of so many seconds (default
# 20) that starts from the inputs in SEEDS, if given. Nothing where ANCHORAGE_FUZZERS is off.
function(anchorage_fuzzer name)
  cmake_parse_arguments(ARG "" "SEEDS;SECONDS" "SRCS;DEPS" ${ARGN})
  if(NOT ANCHORAGE_FUZZERS)
    return()
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 20)
  endif()
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  # New inputs are kept in the first folder, and go on from there in the next run.
  set(corpus "${CMAKE_BINARY_DIR}/corpus/${name}")
  file(MAKE_DIRECTORY "${corpus}")
  add_test(NAME ${name} COMMAND ${name} -max_total_time=${ARG_SECONDS} -rss_limit_mb=1024 -timeout=10
                                -print_final_stats=1 "${corpus}" ${ARG_SEEDS}
           WORKING_DIRECTORY "${CMAKE_BINARY_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 180)
endfunction()
