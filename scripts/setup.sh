#!/usr/bin/env bash
# Installs what Anchorage needs on Debian 12: packages from scripts/packages.txt and a private
# Python environment in .venv. Does nothing, fast, where everything is there.
#
#   scripts/setup.sh           what building and serving need
#   scripts/setup.sh --tests   and what the tests need
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lib/paths.sh"
. "$ANCHORAGE_ROOT/scripts/lib/debian.sh"
. "$ANCHORAGE_ROOT/scripts/lib/python.sh"

help_if_asked "$@"
case "${1:-}" in
  '') tests=0 ;;
  --tests) tests=1 ;;
  *) die_of_argument "$1" ;;
esac

require_debian_12
if ((tests)); then
  install_packages build test
  unpack_packages unpack
  make_venv
  install_requirements
else
  install_packages build
  make_venv
fi
