# The steps of .ci/run, one at a time, and what is run beside it. `just --list` shows them.
# https://just.systems: `cargo install just`, or `pip install rust-just`.

# Shows this list
default:
    @just --list

# Runs everything that a change has to pass
ci:
    .ci/run

# Checks the format
fmt:
    cargo fmt --check

# Checks the lints
clippy:
    cargo clippy --locked --all-targets -- -D warnings

# Runs all tests: just test, just test --test gateway batches
test *ARGS:
    cargo test --locked --no-fail-fast {{ ARGS }}

# Runs the tests that need no Python, Prometheus or browser
quick:
    NSGATE_SKIP_REAL=1 cargo test --locked

# Lints Dockerfile, compose, chart, overlays and unit
lint:
    bash deploy/lint.sh

# Builds and checks the packages of a release: just package, just package check
package *ARGS:
    deploy/package.sh {{ ARGS }}

# Compares what a request costs with what is recorded
instructions *ARGS:
    cargo bench --locked --bench instructions {{ ARGS }}

# Tests what the features `dir` and `otlp` add
features:
    cargo test --locked --no-fail-fast --features dir,otlp --lib --test gateway -- dir:: otlp::

# Tests the embedded catalog (feature `dir`)
embedded:
    cargo test --locked --no-fail-fast --features dir,otlp --test embedded

# Checks bans, licences and sources of the default build (needs cargo-deny)
deny:
    cargo deny --locked check bans licenses sources

# Checks licences, sources and advisories with all features (needs cargo-deny and the network)
deny-all:
    cargo deny --locked --all-features check licenses sources advisories

# Model-checks the batch protocol, and gateways that share a log, within large bounds: minutes, gigabytes
model:
    NSGATE_MODEL=full cargo test --locked --release --test model --test fleet_model

# Simulates seeds: just simulate 100000..200000
simulate SEEDS:
    NSGATE_SEEDS={{ SEEDS }} cargo test --locked --release --test simulation

# Simulates all ten thousand seeds of one gateway and of three, and every single fault; .ci/run takes a quarter of the seeds
simulate-all:
    NSGATE_SEEDS=0..10000 NSGATE_FLEET_SEEDS=0..10000 NSGATE_FAULTS=all cargo test --locked --profile bench --test simulation

# Plants every bug and sees it caught: a build for each
mutants:
    NSGATE_MUTANTS=all cargo test --locked --test mutants -- --nocapture

# Fuzzes one target: just fuzz token -max_total_time=600
fuzz TARGET *ARGS:
    fuzz/run {{ TARGET }} {{ ARGS }}

# Measures batches: just batches, just batches rate filter
batches *ARGS:
    cargo bench --locked --bench batches -- {{ ARGS }}

# Measures the gateway beside its peers: just gateways warm fresh --rounds 5
gateways *ARGS:
    benches/gateways/run {{ ARGS }}

# Tests the Python package
python:
    cargo test --locked --test catalogs transactions -- --nocapture

# Opens the documentation: the map of the code, the glossary, the decisions
doc:
    cargo doc --locked --no-deps --open
