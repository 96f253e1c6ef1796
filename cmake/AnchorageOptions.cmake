# Build options. Each is also printed at configure time, so that a log tells what was built.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(ANCHORAGE_SANITIZER "none" CACHE STRING "none | address (ASan+UBSan) | thread (TSan)")
set(ANCHORAGE_CUDA "AUTO" CACHE STRING "AUTO | ON | OFF: CUDA kernels")
set(ANCHORAGE_NCCL "AUTO" CACHE STRING "AUTO | ON | OFF: NCCL data backend")
option(ANCHORAGE_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wno-unused-parameter
                    -Wno-missing-field-initializers)  # what is left out is value-initialised
# Results must be the same bits on every build: no contraction beyond the FMAs that are written out.
add_compile_options(-ffp-contract=off)

if(NOT ANCHORAGE_SANITIZER STREQUAL "none")
  add_compile_options(-O1 -g1)  # a sanitized build is compiled more often than it is run
endif()
if(ANCHORAGE_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(ANCHORAGE_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
  endif()
elseif(NOT ANCHORAGE_SANITIZER STREQUAL "none")
  message(FATAL_ERROR "ANCHORAGE_SANITIZER must be none, address or thread, got '${ANCHORAGE_SANITIZER}'")
endif()

# GCC documents that sanitizers give -Wmaybe-uninitialized false alarms; GCC 12 raises them on every
# std::variant. The build without a sanitizer keeps the warning.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT ANCHORAGE_SANITIZER STREQUAL "none")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()

if(ANCHORAGE_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "ANCHORAGE_FUZZERS=ON needs -DCMAKE_CXX_COMPILER=clang++-14")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(ANCHORAGE_CCACHE ccache)
if(ANCHORAGE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ANCHORAGE_CCACHE}")
endif()

message(STATUS "anchorage ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
               "${CMAKE_CXX_COMPILER_VERSION}, sanitizer ${ANCHORAGE_SANITIZER}, fuzzers "
               "${ANCHORAGE_FUZZERS}")
