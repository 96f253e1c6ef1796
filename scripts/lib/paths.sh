# Where everything is. Sourced, never run.

ANCHORAGE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
ANCHORAGE_BUILD_DIR="${ANCHORAGE_BUILD_DIR:-$ANCHORAGE_ROOT/build}"
ANCHORAGE_FUZZ_BUILD_DIR="$ANCHORAGE_BUILD_DIR-fuzz"
ANCHORAGE_CACHE_DIR="$ANCHORAGE_ROOT/.cache"
ANCHORAGE_VENV="$ANCHORAGE_ROOT/.venv"
ANCHORAGE_RUN_DIR="${ANCHORAGE_RUN_DIR:-$ANCHORAGE_ROOT/run}"
ANCHORAGE_DEFAULT_MODEL="$ANCHORAGE_CACHE_DIR/models/SmolLM2-135M-Instruct.Q4_1.gguf"
# Which of its layers need the cache's bytes most: every program looks for it beside the model.
ANCHORAGE_DEFAULT_PROFILE="$ANCHORAGE_ROOT/profiles/SmolLM2-135M-Instruct.Q4_1.kvprofile.json"

# Debian packages that are only unpacked, never installed, lie here (lib/debian.sh).
ANCHORAGE_UNPACKED_DIR="$ANCHORAGE_CACHE_DIR/debian"
PATH="$PATH:/usr/local/cuda/bin:$ANCHORAGE_UNPACKED_DIR/usr/bin:/usr/sbin:/sbin"
