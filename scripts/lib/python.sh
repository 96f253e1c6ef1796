# The private Python environment. Sourced, never run.

# make_venv: .venv on Debian's own Python, whatever else is first on PATH.
make_venv() {
  [[ ! -x "$ANCHORAGE_VENV/bin/pip" ]] || return 0
  step "Making the Python environment .venv"
  /usr/bin/python3 -m venv --clear "$ANCHORAGE_VENV"
}

# install_requirements: the pinned packages of the tests, again only when the pins change.
install_requirements() {
  local pins="$ANCHORAGE_ROOT/scripts/requirements.txt" stamp="$ANCHORAGE_VENV/requirements.installed"
  ! cmp -s "$pins" "$stamp" || return 0
  step "Installing Python packages into .venv"
  "$ANCHORAGE_VENV/bin/pip" install --disable-pip-version-check -r "$pins"
  cp "$pins" "$stamp"
}
