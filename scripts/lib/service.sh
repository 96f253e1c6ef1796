# Starting, watching and stopping the processes of a local service. Sourced, never run.
#
# run/NAME.pid and run/NAME.log belong to the process NAME (router, prefill-0, decode-0, ...);
# run/url holds the address of the service.

# is_port_taken PORT: whether somebody listens on it on loopback.
is_port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# take_port VARIABLE: the next free port after the last one taken, into VARIABLE.
take_port() {
  while is_port_taken "$next_port"; do next_port=$((next_port + 1)); done
  printf -v "$1" %s "$next_port"
  next_port=$((next_port + 1))
}

# process_names: of every process that was started and not yet stopped, router first.
process_names() {
  local file
  for file in "$ANCHORAGE_RUN_DIR"/{router,prefill-*,decode-*}.pid; do
    [[ ! -f "$file" ]] || basename "$file" .pid
  done
}

# is_running NAME: whether its process lives, and is ours rather than a later one with its number.
is_running() {
  local pid program
  pid="$(cat "$ANCHORAGE_RUN_DIR/$1.pid" 2>/dev/null)" || return 1
  IFS= read -r -d '' program 2>/dev/null <"/proc/$pid/cmdline" || return 1
  [[ "$(basename "$program")" == "anchorage-${1%%-[0-9]*}" ]]
}

# start_process NAME PROGRAM FLAG...: in a session of its own, so that Ctrl-C reaches only the
# script, which then stops the processes in order.
start_process() {
  local name="$1"
  shift
  setsid "$@" </dev/null >"$ANCHORAGE_RUN_DIR/$name.log" 2>&1 &
  echo $! >"$ANCHORAGE_RUN_DIR/$name.pid"
  until is_running "$name" || ! kill -0 $! 2>/dev/null; do sleep 0.01; done # until it is the program
}

# http_status URL: of a GET; 000 when nobody answers.
http_status() { curl -s -o /dev/null -m 5 -w '%{http_code}' "$1" || true; }

# dead_process: the name of a process that ended by itself, or nothing.
dead_process() {
  local name
  for name in $(process_names); do
    is_running "$name" || { echo "$name" && return; }
  done
}

# report_death NAME: what its log said last.
report_death() {
  printf '\n%s ended by itself. The end of %s:\n\n' "$1" "${ANCHORAGE_RUN_DIR#"$ANCHORAGE_ROOT"/}/$1.log" >&2
  tail -n 20 "$ANCHORAGE_RUN_DIR/$1.log" | sed 's/^/    /' >&2
  echo >&2
}

# wait_until_ready URL SECONDS: until the router finds itself and its workers ready.
wait_until_ready() {
  local deadline=$((SECONDS + $2)) dead
  while true; do
    dead="$(dead_process)"
    if [[ -n "$dead" ]]; then
      report_death "$dead"
      return 1
    fi
    [[ "$(http_status "$1/ready")" != 200 ]] || return 0
    if ((SECONDS >= deadline)); then
      printf '\nnot ready after %s seconds; see the logs in %s\n' "$2" "$ANCHORAGE_RUN_DIR" >&2
      return 1
    fi
    sleep 0.2
  done
}

# stop_processes: asks all to finish (SIGTERM), and ends those that have not after 30 seconds.
stop_processes() {
  local name deadline=$((SECONDS + 30))
  for name in $(process_names); do
    ! is_running "$name" || kill -TERM "$(cat "$ANCHORAGE_RUN_DIR/$name.pid")" 2>/dev/null || true
  done
  for name in $(process_names); do
    while is_running "$name" && ((SECONDS < deadline)); do sleep 0.1; done
    if is_running "$name"; then
      note "$name did not stop in time; ending it"
      kill -KILL "$(cat "$ANCHORAGE_RUN_DIR/$name.pid")" 2>/dev/null || true
    fi
    rm -f "$ANCHORAGE_RUN_DIR/$name.pid"
  done
  rm -f "$ANCHORAGE_RUN_DIR/url"
}
