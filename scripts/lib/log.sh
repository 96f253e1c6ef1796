# What the scripts say, in one voice. Sourced, never run.

if [[ -t 1 ]]; then
  log_bold=$'\e[1m' log_red=$'\e[31m' log_plain=$'\e[0m'
else
  log_bold='' log_red='' log_plain=''
fi

# step TEXT: a stage begins.
step() { printf '%s==> %s%s\n' "$log_bold" "$*" "$log_plain"; }

# note TEXT: a detail of the current stage.
note() { printf '    %s\n' "$*"; }

# die TEXT: the script cannot go on. The sentence says what to do about it.
die() {
  printf '%serror:%s %s\n' "$log_red" "$log_plain" "$*" >&2
  exit 1
}
