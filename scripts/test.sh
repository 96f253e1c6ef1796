#!/usr/bin/env bash
# Installs what is missing, builds, fetches the model and runs every test. The last line is the sum:
# 'N passed, N failed'.
#
#   scripts/test.sh                all
#   scripts/test.sh --clean-room   this and scripts/serve.sh in a bare Debian 12 (needs root)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lib/paths.sh"
. "$ANCHORAGE_ROOT/scripts/lib/build.sh"
. "$ANCHORAGE_ROOT/scripts/lib/test.sh"
. "$ANCHORAGE_ROOT/scripts/lib/clean_room.sh"

test_all() {
  "$ANCHORAGE_ROOT/scripts/setup.sh" --tests
  "$ANCHORAGE_ROOT/scripts/build.sh"
  build_in "$ANCHORAGE_FUZZ_BUILD_DIR" -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
    -DANCHORAGE_SANITIZER=address -DANCHORAGE_FUZZERS=ON -- tests/fuzz/all
  "$ANCHORAGE_ROOT/scripts/fetch_model.sh"
  clear_reports "$ANCHORAGE_BUILD_DIR"
  clear_reports "$ANCHORAGE_FUZZ_BUILD_DIR"
  step "Unit tests"
  ctest_in "$ANCHORAGE_BUILD_DIR" ''
  step "Fuzzing, for a short while"
  ctest_in "$ANCHORAGE_FUZZ_BUILD_DIR" tests/fuzz
  step "End-to-end tests"
  pytest_in "$ANCHORAGE_BUILD_DIR" "$ANCHORAGE_ROOT/tests"
  count_reports "$ANCHORAGE_BUILD_DIR" "$ANCHORAGE_FUZZ_BUILD_DIR"
}

# The request that scripts/serve.sh prints, taken from its own words.
readonly try_the_curl_line='scripts/serve.sh --detach | tee /tmp/serve.txt &&
  bash -ec "$(grep -A1 "^    curl" /tmp/serve.txt)" && echo'

help_if_asked "$@"
case "${1:-}" in
  '') test_all ;;
  --clean-room)
    "$ANCHORAGE_ROOT/scripts/setup.sh" --tests
    enter_clean_room "$try_the_curl_line" 'scripts/serve.sh status' 'scripts/serve.sh stop' 'scripts/test.sh'
    ;;
  *) die_of_argument "$1" ;;
esac
