# Debian packages from scripts/packages.txt. Sourced, never run.

# packages_of GROUP: the package names of one group.
packages_of() { awk -v group="$1" '$1 == group { print $2 }' "$ANCHORAGE_ROOT/scripts/packages.txt"; }

# missing_packages NAME...: those that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" == installed ]] || echo "$name"
  done
}

# as_root COMMAND...: runs it as root, through sudo where that is needed.
as_root() {
  if ((EUID == 0)); then
    env "$@"
  else
    sudo env "$@"
  fi
}

# refresh_package_lists: apt-get update, once a script. A foreign source that is down must not stop
# us: what is really missing is named by the install that follows.
refresh_package_lists() {
  [[ -z "${package_lists_fresh:-}" ]] || return 0
  as_root apt-get -q update || note "apt-get update reported a problem; going on"
  package_lists_fresh=1
}

# install_packages GROUP...: installs what is missing of these groups.
install_packages() {
  local group names=() missing
  for group in "$@"; do
    mapfile -t -O "${#names[@]}" names < <(packages_of "$group")
  done
  mapfile -t missing < <(missing_packages "${names[@]}")
  ((${#missing[@]})) || return 0

  step "Installing Debian packages: ${missing[*]}"
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    die "these packages are missing, and installing them needs root or sudo. As root, run:
       apt-get install --no-install-recommends ${missing[*]}"
  fi
  refresh_package_lists
  as_root DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

# unpack_packages GROUP: takes each package/program of the group out of its .deb, without installing
# it, unless the program is on PATH already.
unpack_packages() {
  local entry name download
  for entry in $(packages_of "$1"); do
    name="${entry%/*}"
    ! command -v "${entry#*/}" >/dev/null || continue
    step "Unpacking Debian package $name into ${ANCHORAGE_UNPACKED_DIR#"$ANCHORAGE_ROOT"/}"
    refresh_package_lists
    mkdir -p "$ANCHORAGE_UNPACKED_DIR"
    download="$(mktemp -d)"
    (cd "$download" && apt-get -q -o APT::Sandbox::User=root download "$name") ||
      die "apt-get could not download $name"
    dpkg-deb -x "$download/$name"_*.deb "$ANCHORAGE_UNPACKED_DIR"
    rm -rf "$download"
  done
}

# require_debian_12: the versions that we build against are Debian 12's.
require_debian_12() {
  local id='' version=''
  [[ ! -r /etc/os-release ]] || { id="$(. /etc/os-release && echo "${ID:-}")" && version="$(. /etc/os-release && echo "${VERSION_ID:-}")"; }
  [[ "$id" == debian && "$version" == 12 ]] ||
    die "Anchorage installs its packages on Debian 12; this is '${id:-unknown} ${version}'."
}
