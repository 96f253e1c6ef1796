# Configuring and building. Sourced, never run.

# build_jobs: one job a core, but no more than one for each 2 GiB of memory.
build_jobs() {
  awk -v cores="$(nproc)" '/^MemTotal:/ { fit = int($2 / 2097152); if (fit < 1) fit = 1;
    print fit < cores ? fit : cores }' /proc/meminfo
}

# build_in DIR [-DNAME=VALUE...] [--] [TARGET...]: configures DIR where its options changed, and
# builds the targets (default: everything), showing progress.
build_in() {
  local dir="$1" options=() stamp="$1/configured.with"
  shift
  while [[ "${1:-}" == -D* ]]; do options+=("$1") && shift; done
  [[ "${1:-}" != -- ]] || shift
  if [[ ! -f "$dir/build.ninja" || "$(cat "$stamp" 2>/dev/null)" != "${options[*]}" ]]; then
    step "Configuring $(basename "$dir") ${options[*]}"
    cmake -S "$ANCHORAGE_ROOT" -B "$dir" -G Ninja "${options[@]}" || die "cmake failed"
    echo "${options[*]}" >"$stamp"
  fi
  step "Building $(basename "$dir")"
  # With ccache: what was compiled in another checkout or build folder counts, too.
  CCACHE_BASEDIR="$ANCHORAGE_ROOT" CCACHE_NOHASHDIR=1 \
    ninja -C "$dir" -j "$(build_jobs)" "$@" || die "the build failed"
}
