#!/usr/bin/env bash
# Serves a model on this machine: one router, N prefill and N decode processes on loopback. Installs
# what is missing, builds, fetches the model, waits until the service is ready and prints its URL.
#
#   scripts/serve.sh [FLAGS]     until Ctrl-C
#   scripts/serve.sh status      what runs
#   scripts/serve.sh stop        ends a service that was started with --detach
#
#   --port P              of the HTTP interface (default 8000); the processes use ports above it
#   --prefill N           prefill processes (default 1)
#   --decode N            decode processes (default 1)
#   --model PATH          a GGUF file (default: SmolLM2-135M-Instruct, downloaded)
#   --model-name NAME     what clients call it (default: the file's name without its suffix)
#   --kv MODE             form of the KV cache: anchorkv (default), none, snapkv or recent
#   --ratio R             compression ratio of anchorkv (default 20)
#   --transport ucx|tcp   how KV travels (default ucx)
#   --kv-memory SIZE      of each decode process (default 1GiB)
#   --threads N           compute threads of each process (default: the program's own)
#   --detach              return when ready; logs and process ids are in run/
#
# ANCHORAGE_RUN_DIR names another folder than run/, for a second service on the same machine.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lib/paths.sh"
. "$ANCHORAGE_ROOT/scripts/lib/service.sh"

readonly ready_seconds=180

# positive NAME VALUE: stops unless VALUE is a whole number from 1.
positive() { [[ "$2" =~ ^[1-9][0-9]{0,5}$ ]] || die "$1 wants a positive whole number, got '$2'"; }

# one_of NAME VALUE CHOICE...: stops unless VALUE is one of the choices.
one_of() {
  local name="$1" value="$2" choice
  shift 2
  for choice in "$@"; do [[ "$value" != "$choice" ]] || return 0; done
  die "$name is one of: $*; got '$value'"
}

parse_flags() {
  port=8000 prefill=1 decode=1 model='' model_name='' kv=anchorkv ratio=20 transport=ucx kv_memory=1GiB threads=''
  detach=0
  while (($#)); do
    case "$1" in
      --port | --prefill | --decode | --model | --model-name | --kv | --ratio | --transport | --kv-memory | --threads)
        (($# > 1)) || die "$1 wants a value"
        printf -v "$(tr - _ <<<"${1#--}")" %s "$2"
        shift 2
        ;;
      --detach) detach=1 && shift ;;
      *) die_of_argument "$1" ;;
    esac
  done
  positive --port "$port"
  positive --prefill "$prefill"
  positive --decode "$decode"
  [[ -z "$threads" ]] || positive --threads "$threads"
  ((port < 65000)) || die "--port must be below 65000; the processes use ports above it"
  [[ "$ratio" =~ ^[0-9]+([.][0-9]+)?$ ]] || die "--ratio wants a number, got '$ratio'"
  one_of --kv "$kv" anchorkv none snapkv recent
  one_of --transport "$transport" ucx tcp
  [[ -z "$model" || (-f "$model" && -r "$model") ]] || die "there is no readable file '$model'"
}

prepare() {
  "$ANCHORAGE_ROOT/scripts/setup.sh"
  "$ANCHORAGE_ROOT/scripts/build.sh" anchorage-router anchorage-prefill anchorage-decode anchorage
  if [[ -z "$model" ]]; then
    "$ANCHORAGE_ROOT/scripts/fetch_model.sh"
    model="$ANCHORAGE_DEFAULT_MODEL"
    model_name="${model_name:-SmolLM2-135M-Instruct}"
  fi
}

# start_processes: the flags of the three programs stand here and nowhere else in the scripts.
start_processes() {
  local bin="$ANCHORAGE_BUILD_DIR/bin" index control data admin
  local common=(--model "$model" --kv "$kv" --ratio "$ratio") worker=(--transport "$transport")
  local prefills=() decodes=()
  [[ -z "$threads" ]] || worker+=(--threads "$threads")
  next_port=$((port + 1))
  mkdir -p "$ANCHORAGE_RUN_DIR"

  for ((index = 0; index < decode; index++)); do
    take_port control && take_port data && take_port admin
    start_process "decode-$index" "$bin/anchorage-decode" --control "127.0.0.1:$control" \
      --data "127.0.0.1:$data" --admin "127.0.0.1:$admin" --kv-memory "$kv_memory" \
      "${common[@]}" "${worker[@]}"
    decodes+=("127.0.0.1:$control")
  done
  for ((index = 0; index < prefill; index++)); do
    take_port control && take_port admin
    start_process "prefill-$index" "$bin/anchorage-prefill" --control "127.0.0.1:$control" \
      --admin "127.0.0.1:$admin" "${common[@]}" "${worker[@]}"
    prefills+=("127.0.0.1:$control")
  done
  take_port admin
  start_process router "$bin/anchorage-router" --listen "127.0.0.1:$port" --admin "127.0.0.1:$admin" \
    --prefill "$(IFS=, && echo "${prefills[*]}")" --decode "$(IFS=, && echo "${decodes[*]}")" \
    --model-name "$model_name" "${common[@]}"
  echo "http://127.0.0.1:$port" >"$ANCHORAGE_RUN_DIR/url"
}

print_how_to_use() {
  local url="$1" name
  name="$(curl -s "$url/v1/models" |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')"
  step "Ready: $url"
  cat <<EOF

    curl $url/v1/chat/completions -H 'Content-Type: application/json' -d \\
      '{"model": "$name", "messages": [{"role": "user", "content": "What is an anchor for?"}], "max_tokens": 64}'

EOF
}

serve() {
  local url dead run="${ANCHORAGE_RUN_DIR#"$ANCHORAGE_ROOT"/}"
  parse_flags "$@"
  url="http://127.0.0.1:$port"
  [[ -z "$(process_names)" || -n "$(dead_process)" ]] ||
    die "a service is running at $(cat "$ANCHORAGE_RUN_DIR/url"); first: scripts/serve.sh stop"
  stop_processes # what is left of a service of which a part had died
  ! is_port_taken "$port" || die "port $port is taken; choose another with --port"
  prepare

  step "Starting 1 router, $prefill prefill, $decode decode (KV: $kv, over $transport)"
  trap stop_processes EXIT
  trap 'exit 130' INT TERM HUP
  start_processes
  wait_until_ready "$url" "$ready_seconds" || die "the service did not start"
  print_how_to_use "$url"
  if ((detach)); then
    trap - EXIT
    note "logs: $run/*.log; to stop: scripts/serve.sh stop"
    return
  fi

  note "logs: $run/*.log; Ctrl-C stops the service"
  while dead="$(dead_process)" && [[ -z "$dead" && -n "$(process_names)" ]]; do sleep 1; done
  [[ -n "$(process_names)" ]] || return 0 # by scripts/serve.sh stop
  report_death "$dead"
  die "the service has stopped"
}

status() {
  local name
  [[ -n "$(process_names)" ]] || { echo "not running" && return 1; }
  for name in $(process_names); do
    is_running "$name" && echo "$name: process $(cat "$ANCHORAGE_RUN_DIR/$name.pid")" || echo "$name: dead"
  done
  echo "$(cat "$ANCHORAGE_RUN_DIR/url")/ready: $(http_status "$(cat "$ANCHORAGE_RUN_DIR/url")/ready")"
}

stop() {
  [[ -n "$(process_names)" ]] || { echo "not running" && return; }
  stop_processes
  echo "stopped"
}

help_if_asked "$@"
case "${1:-}" in
  stop) stop ;;
  status) status ;;
  *) serve "$@" ;;
esac
