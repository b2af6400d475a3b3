#!/usr/bin/env bash
# Two real catalogs, the gateway in front of them and a tour: everything on this machine, nothing installed outside
# of this folder. Serves until Ctrl-C. Needs Rust, a C compiler and Python 3.11 or newer with venv and pip.
# The program is compiled quickly, and is slower than a release. To measure it, give a release as NSGATE_BIN.
#
#   deploy/quickstart.sh               the tour, then serve
#   deploy/quickstart.sh --tour-only   the tour, then end: 0 if all went as promised, else 1
#
# NSGATE_QUICKSTART_DIR          where the data is kept (target/quickstart)
# NSGATE_PORT, NSGATE_ADMIN_PORT other ports than 8080 and 9090
# NSGATE_BIN                     a program to run instead of building one
set -euo pipefail
nsgate=${NSGATE_BIN:+$(realpath -- "$NSGATE_BIN")}
cd "$(dirname "$0")/.."

tour_only=no
case "${1:-}" in
  "") ;;
  --tour-only) tour_only=yes ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

port=${NSGATE_PORT:-8080}
admin_port=${NSGATE_ADMIN_PORT:-9090}
mkdir -p "${NSGATE_QUICKSTART_DIR:-target/quickstart}"
NSGATE_QUICKSTART_DIR=$(cd "${NSGATE_QUICKSTART_DIR:-target/quickstart}" && pwd)
data=$NSGATE_QUICKSTART_DIR

bold= plain=
[ ! -t 1 ] || { bold=$'\033[1m'; plain=$'\033[0m'; }
say() { printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"; }
fail() { printf '\nquickstart: %s\n' "$*" >&2; exit 1; }

# ---- what it needs ----------------------------------------------------------------------------------------------

if [ -n "$nsgate" ]; then
  [ -x "$nsgate" ] || fail "NSGATE_BIN is not a program: $NSGATE_BIN"
else
  command -v cargo >/dev/null || fail "Rust is missing (cargo): install it with rustup"
  command -v cc >/dev/null || fail "a C compiler is missing (build-essential, or gcc)"
fi
command -v python3 >/dev/null || fail "Python 3 is missing (python3, python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python is older than 3.11: $(python3 --version)"
python3 -c 'import ensurepip, venv' 2>/dev/null || fail "Python's venv is missing (python3-venv)"
for taken in "$port" "$admin_port"; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$taken") 2>/dev/null; then
    fail "port $taken is in use; choose others with NSGATE_PORT and NSGATE_ADMIN_PORT"
  fi
done

# ---- Python beside Rust -----------------------------------------------------------------------------------------

requirements=deploy/quickstart/requirements.txt
python=$data/venv/bin/python
install=
if ! cmp -s "$requirements" "$data/venv/installed.txt"; then
  say "Installing the catalogs and the client (in the background, log: $data/pip.log)"
  { rm -rf "$data/venv" && python3 -m venv "$data/venv" \
    && "$python" -m pip install --disable-pip-version-check -r "$requirements" \
    && cp "$requirements" "$data/venv/installed.txt"; } >"$data/pip.log" 2>&1 &
  install=$!
  trap 'kill "$install" 2>/dev/null || true' EXIT
fi

if [ -z "$nsgate" ]; then
  say "Building nsgate (the first time: some minutes)"
  # Without the allocator of its own: it takes time to build, and `make`.
  cargo build --profile quickstart --locked --bin nsgate --no-default-features
  nsgate=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/quickstart/nsgate
fi

if [ -n "$install" ]; then
  say "Waiting for the catalogs and the client to be installed"
  wait "$install" || { tail -n 20 "$data/pip.log" >&2; fail "pip did not succeed; all of it: $data/pip.log"; }
fi

# ---- two catalogs, the gateway and the tour -----------------------------------------------------------------------

say "Starting two catalogs and the gateway"
export NSGATE_BIN=$nsgate PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
serve=(--serve)
[ "$tour_only" = no ] || serve=()
exec "$python" -W ignore -m nsgate.demo --dir "$data" --port "$port" --admin-port "$admin_port" "${serve[@]+"${serve[@]}"}"
