#!/usr/bin/env bash
# Builds Anchorage in build/ (RelWithDebInfo). Programs end up in build/bin/.
#
#   scripts/build.sh                  everything
#   scripts/build.sh anchorage ...    some targets
#
# ANCHORAGE_BUILD_DIR names another folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lib/paths.sh"
. "$ANCHORAGE_ROOT/scripts/lib/build.sh"

help_if_asked "$@"
build_in "$ANCHORAGE_BUILD_DIR" -DCMAKE_BUILD_TYPE=RelWithDebInfo -- "$@"
