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
uri=http://127.0.0.1:$port
admin_uri=http://127.0.0.1:$admin_port
mkdir -p "${NSGATE_QUICKSTART_DIR:-target/quickstart}"
NSGATE_QUICKSTART_DIR=$(cd "${NSGATE_QUICKSTART_DIR:-target/quickstart}" && pwd)
export NSGATE_QUICKSTART_DIR
data=$NSGATE_QUICKSTART_DIR

bold= plain=
[ ! -t 1 ] || { bold=$'\033[1m'; plain=$'\033[0m'; }
say() { printf '\n%s==> %s%s\n' "$bold" "$*" "$plain"; }
fail() { printf '\nquickstart: %s\n' "$*" >&2; exit 1; }

set -m   # every job is a process group of its own, and ends as a whole
jobs=()
alive=$data/alive
stop() {
  trap - EXIT INT TERM HUP
  exec 9>&-   # the catalogs end when this closes
  for job in "${jobs[@]}"; do kill -- "-$job" || true; done
  wait
  rm -f "$alive"
} 2>/dev/null
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command so that a signal to this script ends it at once.
run() {
  "$@" &
  jobs+=("$!")
  wait "$!"
}

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
  jobs+=("$install")
fi

if [ -z "$nsgate" ]; then
  say "Building nsgate (the first time: some minutes)"
  # Without the allocator of its own: it takes time to build, and `make`.
  run cargo build --profile quickstart --locked --bin nsgate --no-default-features
  nsgate=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/quickstart/nsgate
fi

if [ -n "$install" ]; then
  say "Waiting for the catalogs and the client to be installed"
  wait "$install" || { tail -n 20 "$data/pip.log" >&2; fail "pip did not succeed; all of it: $data/pip.log"; }
fi

# ---- two catalogs, one gateway ----------------------------------------------------------------------------------

rm -f "$alive"
mkfifo "$alive"
exec 9<>"$alive"
catalog_uri=
start_catalog() {
  local log=$data/$1.log
  : >"$log"
  mkdir -p "$data/$1"
  "$python" -W ignore deploy/quickstart/catalog.py "$data/$1" <"$alive" >"$log" 2>&1 9>&- &
  local pid=$!
  jobs+=("$pid")
  until grep -q '^port ' "$log"; do
    kill -0 "$pid" 2>/dev/null || { cat "$log" >&2; fail "the catalog $1 did not start"; }
    sleep 0.1
  done
  catalog_uri=http://127.0.0.1:$(sed -n 's/^port //p' "$log")
}

say "Starting two catalogs and the gateway"
start_catalog warehouse
export WAREHOUSE_URI=$catalog_uri
start_catalog lake
export LAKE_URI=$catalog_uri

token=$("$nsgate" dev-token --dir "$data" --issuer https://quickstart.nsgate.test --audience catalog \
  --subject quickstart --ttl 24h)
sed -e "s/127\.0\.0\.1:8080/127.0.0.1:$port/" -e "s/127\.0\.0\.1:9090/127.0.0.1:$admin_port/" \
  config/quickstart.yaml >"$data/gateway.yaml"
"$nsgate" serve --config "$data/gateway.yaml" >"$data/gateway.log" 2>&1 9>&- &
gateway=$!
jobs+=("$gateway")
{ cat <"$alive"; kill "$gateway"; } >/dev/null 2>&1 9>&- &   # and so does the gateway, however this script ends
jobs+=("$!")
until "$python" -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=2)' "$admin_uri/ready" 2>/dev/null; do
  kill -0 "$gateway" 2>/dev/null || { cat "$data/gateway.log" >&2; fail "the gateway did not start"; }
  sleep 0.1
done
echo "warehouse  $WAREHOUSE_URI  (prod…)"
echo "lake       $LAKE_URI  (research\$lake…)"
echo "nsgate     $uri, admin $admin_uri, log $data/gateway.log"

say "The tour"
run "$python" -W ignore deploy/quickstart/tour.py "$uri" "$admin_uri" "$token" || exit 1
[ "$tour_only" = no ] || exit 0

say "Now yours"
cat <<END
Address  $uri        Metrics  $admin_uri/metrics
Token    (a day)
$token

  export TOKEN=…            # the token above
  curl -H "Authorization: Bearer \$TOKEN" '$uri/v1/namespace/\$/list'
  curl -H "Authorization: Bearer \$TOKEN" '$uri/v1/namespace/prod/table/list'
  curl -H "Authorization: Bearer \$TOKEN" -H 'Content-Type: application/json' -d '{"id":["prod","orders"]}' '$uri/v1/table/prod\$orders/describe'

  # $python
  import os, lance
  from lance.namespace import RestNamespace
  client = RestNamespace(**{"uri": "$uri", "headers.Authorization": "Bearer " + os.environ["TOKEN"]})
  print(lance.dataset(namespace_client=client, table_id=["prod", "orders"]).to_table())

Serving until Ctrl-C. The data stays in $data.
END
wait "$gateway"
