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

# usage: the comment at the top of the script that runs.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# help_if_asked ARGUMENT...: prints the usage and ends the script where -h or --help is among them.
help_if_asked() {
  local argument
  for argument in "$@"; do
    if [[ "$argument" == -h || "$argument" == --help ]]; then usage && exit 0; fi
  done
}

# die_of_argument ARGUMENT: the script does not know it.
die_of_argument() { die "unknown argument '$1'; see $(basename "$0") --help"; }

# die TEXT: the script cannot go on. The sentence says what to do about it.
die() {
  printf '%serror:%s %s\n' "$log_red" "$log_plain" "$*" >&2
  exit 1
}
