# Running tests and keeping their reports. Sourced, never run.

# clear_reports BUILD_DIR: forgets earlier runs.
clear_reports() { rm -rf "$1/reports" && mkdir -p "$1/reports/gtest"; }

# ctest_in BUILD_DIR FOLDER [CTEST FLAG...]: runs the tests of a folder of the build ('' for all).
# Its failures are found in the reports.
ctest_in() {
  local build="$1" folder="$2"
  shift 2
  GTEST_OUTPUT="xml:$build/reports/gtest/" ctest --test-dir "$build/$folder" --output-on-failure \
    --no-tests=error -j "$(nproc)" --output-junit "$build/reports/ctest-${folder//\//-}.xml" "$@" || true
}

# pytest_in BUILD_DIR PATH...: runs Python tests against the programs of that build.
pytest_in() {
  local build="$1"
  shift
  ANCHORAGE_BUILD_DIR="$build" "$ANCHORAGE_VENV/bin/python" -m pytest -p no:cacheprovider \
    --rootdir "$ANCHORAGE_ROOT" -q --junitxml "$build/reports/pytest.xml" "$@" || true
}

# count_reports BUILD_DIR...: prints the sum; fails unless something passed and nothing failed.
count_reports() { "$ANCHORAGE_ROOT/scripts/lib/count_tests.py" "${@/%//reports}"; }
