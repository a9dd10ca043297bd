#!/usr/bin/env bash
# Makes the environment in layers: scripts/setup_env.sh LAYER... Each says one line when it has something to do, and is silent
# and done in a moment once it is there. It asks nothing, ever.
#   run-time     .venv with requirements.lock, a Java that Spark can run on, the development broker's jars
#   development  requirements-dev.lock on top
#   core         the core, compiled
#   archive      the class archive, with which Spark's JVM starts faster: worth its cost from the eighth start on
#   tools WORD.. what only some tests need. The words are those for pytest: a tool whose tests they leave out is not fetched
# Outside this folder it installs a JDK if none will do (apt-get, dnf or brew; root or a sudo without password), on Debian the
# package with Python's venv module, and jars, compiled modules and the archive in the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly here=$PWD
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 DEBIAN_FRONTEND=noninteractive

say() { printf 'env: %s\n' "$*" >&2; }
fail() { printf 'env: %s\n' "$*" >&2; exit 3; }

digest() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# --- stamps: what each layer was made of ----------------------------------------------------------------------------------

stamp() { printf '.venv/.moneystate-%s' "$1"; }
is_done() { [ "$(cat "$(stamp "$1")" 2>/dev/null)" = "$2" ]; }

# The folder counts too: the scripts in .venv/bin name it, so a copy of the project needs an environment of its own.
run_time_key() {
    { pwd -P; printf '%s\n' "${MONEYSTATE_CACHE:-}"; cat requirements.lock pyproject.toml scripts/setup_env.sh; } | digest
}

development_key() { { run_time_key; cat requirements-dev.lock; } | digest; }

# Java's class archive holds for one class path, on which the classes of our own are.
archive_key() { { run_time_key; cat moneystate/spark/jvm/*.java moneystate/spark/jvm/*.py; } | digest; }

run_time_is_done() {
    [ -x .venv/bin/python ] && [ -f "$(stamp run-time)" ] || return 1
    { read -r key && read -r java && read -r jars; } <"$(stamp run-time)" || return 1
    [ "$key" = "$(run_time_key)" ] && [ -x "$java" ] && [ -d "$jars" ]
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# Once a run; where it fails, old package lists may still do.
apt_update() {
    [ -z "${apt_updated:-}" ] || return 0
    apt_updated=yes
    as_root apt-get update -qq </dev/null >&2 || say "apt-get update failed; going on with the lists that are there"
}

apt_install() {
    apt_update
    say "installing $* with apt-get"
    as_root apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

# --- Python -----------------------------------------------------------------------------------------------------------

# Each candidate is run, not only looked for: version managers put names on PATH that merely say what is missing.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
        if "$candidate" -c "$1" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

readonly new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
readonly with_venv="import ensurepip, venv; $new_enough"

make_venv() {
    local python version
    if ! python=$(find_python "$with_venv"); then
        if python=$(find_python "$new_enough"); then
            version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
            if ! { command -v apt-get >/dev/null && can_be_root && apt_install "$version-venv"; }; then
                fail "$python lacks the module venv. On Debian and Ubuntu: apt-get install $version-venv"
            fi
        elif command -v apt-get >/dev/null && can_be_root && apt_install python3 python3-venv; then
            python=$(find_python "$with_venv") || fail "this system's Python is older than 3.11; install a later one and set PYTHON"
        else
            fail "Python 3.11 or later is needed. Debian 12 or later, Ubuntu 24.04 or later: apt-get install python3 python3-venv;" \
                "Fedora: dnf install python3; macOS: brew install python@3.13. Or set PYTHON to one elsewhere."
        fi
    fi
    say "making .venv with $python ($("$python" -V 2>&1))"
    "$python" -m venv --clear .venv || fail "$python -m venv failed; see above"
}

# A .venv that was copied or moved here is made anew: its scripts would run the environment at the old place.
ensure_venv() {
    if ! .venv/bin/python -c "$new_enough" 2>/dev/null || ! grep -qsF "$PWD/.venv" .venv/bin/activate; then make_venv; fi
}

# The lines of a lock for one package; with `but`, all others.
locked() { awk -v name="$2==" 'index($0, name) == 1 { on = 1 } on { print } on && !/\\$/ { exit }' "$1"; }
locked_but() { awk -v name="$2==" '/^[^ #]/ { on = index($0, name) == 1 } !on { print }' "$1"; }

pip() { .venv/bin/python -m pip --quiet "$@" </dev/null; }

# Without compiling to byte code: what is imported is compiled then, which is a part. PySpark comes as source only: its wheel is
# not compressed, as it is unpacked at once, and the other packages are installed meanwhile. Nothing is built in isolation, where
# packages would come that are not locked.
install_packages() {
    local spark
    say "installing the packages of a run (560 MB, of which PySpark has 450)"
    # First pip itself: that of Python 3.11.2 installs PySpark without the metadata that others read.
    pip install --require-hashes -r <(locked requirements-dev.lock pip)
    pip install --no-compile --require-hashes --constraint requirements.lock --constraint requirements-dev.lock \
        hatchling setuptools
    pip install --no-compile --require-hashes --no-deps --no-build-isolation --constraint requirements.lock \
        --config-settings=--build-option=--compression=stored pyspark &
    spark=$!
    pip install --no-compile --require-hashes --no-deps -r <(locked_but requirements.lock pyspark) || { wait; return 1; }
    wait "$spark"
    pip install --no-compile --no-deps --no-build-isolation --editable .
}

install_development_packages() {
    say "installing the packages of development (190 MB)"
    pip install --no-compile --require-hashes --no-deps -r requirements-dev.lock
}

# --- Java -------------------------------------------------------------------------------------------------------------

install_java() {
    local version
    if command -v apt-get >/dev/null && can_be_root; then
        apt_update
        for version in 17 21 25; do
            if apt-cache show "openjdk-$version-jdk-headless" >/dev/null 2>&1; then
                apt_install "openjdk-$version-jdk-headless"
                return
            fi
        done
    elif command -v dnf >/dev/null && can_be_root; then
        say "installing java-21-openjdk-devel with dnf"
        as_root dnf install -y -q java-21-openjdk-devel </dev/null >&2
        return
    elif command -v brew >/dev/null; then
        say "installing openjdk@21 with brew"
        brew install --quiet openjdk@21 </dev/null >&2
        return
    fi
    return 1
}

# Prints the Java to use. The second look's message says what to install where this script could not.
ensure_java() {
    .venv/bin/python -m moneystate.devbroker java 2>/dev/null && return
    install_java || say "no JDK could be installed here"
    .venv/bin/python -m moneystate.devbroker java || exit 3
}

# --- tools of some tests ----------------------------------------------------------------------------------------------

go() { GOTOOLCHAIN=local GOFLAGS=-mod=readonly "$here/.venv/bin/go" "$@"; }

# What the example client in Go is built of, so that its test needs no network.
fetch_go_modules() {
    if [ -d "$(go env GOMODCACHE)/cache" ] && is_done go "$(cat examples/go/go.sum)"; then return; fi
    say "fetching the Go modules of examples/go (20 MB)"
    (cd examples/go && go mod download) </dev/null >&2 ||
        fail "the Go modules of examples/go could not be fetched; see above"
    cat examples/go/go.sum >"$(stamp go)"
}

# What the tests of the manifests render them with, and the schema of the Spark operator.
fetch_deploy_tools() {
    local key
    key=$(cat tests/deploy/tools/*/go.sum)
    if [ -d "$(go env GOMODCACHE)/cache" ] && [ -x .venv/bin/kustomize ] && is_done deploy "$key"; then return; fi
    say "building kustomize, and fetching the schema of the Spark operator (30 MB, about a minute)"
    (cd tests/deploy/tools/operator && go mod download github.com/kubeflow/spark-operator/v2 &&
        cd ../kustomize && go build -o "$here/.venv/bin/kustomize" sigs.k8s.io/kustomize/kustomize/v5) </dev/null >&2 ||
        fail "the tools of tests/deploy could not be made; see above"
    printf '%s' "$key" >"$(stamp deploy)"
}

# fetch_debian PACKAGE SIZE FILES TARGET: some files of a package of Debian, as the package itself starts a server or is for root.
fetch_debian() {
    local folder
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then return 1; fi
    say "fetching the Debian package $1 ($2)"
    folder=$(mktemp -d)
    if can_be_root; then apt_update; fi
    # shellcheck disable=SC2086 # a pattern
    (cd "$folder" && apt-get -o APT::Sandbox::User=root download -qq "$1" && dpkg-deb -x ./*.deb . &&
        install -m 755 $3 "$here/$4") </dev/null >&2 || { rm -rf "$folder"; return 1; }
    rm -rf "$folder"
}

# The tests of the alert rules and of the console run it, and say so where it is missing.
fetch_prometheus() {
    if { command -v prometheus && command -v promtool; } >/dev/null || [ -x .venv/bin/prometheus ]; then return; fi
    fetch_debian prometheus "20 MB" "usr/bin/promtool usr/bin/prometheus" .venv/bin ||
        say "no Prometheus here: alerts are not tried (apt-get install prometheus, brew install prometheus)"
}

# The chaos schedules turn a job's clock with it. Without it they leave these faults out, and say so.
fetch_faketime() {
    if [ -e .venv/lib/libfaketimeMT.so.1 ]; then return; fi
    fetch_debian libfaketime "100 kB" "usr/lib/*/faketime/libfaketimeMT.so.1" .venv/lib/libfaketimeMT.so.1 ||
        say "no libfaketime here: chaos schedules turn no clocks (apt-get install libfaketime)"
}

# A pooler before the tests' database, with the library that it needs. The test says so where it is missing.
fetch_pgbouncer() {
    if command -v pgbouncer >/dev/null || { [ -x .venv/bin/pgbouncer ] && [ -e .venv/lib/libcares.so.2 ]; }; then return; fi
    { fetch_debian pgbouncer "200 kB" usr/sbin/pgbouncer .venv/bin/pgbouncer &&
        fetch_debian libc-ares2 "100 kB" "usr/lib/*/libcares.so.2.*" .venv/lib/libcares.so.2; } ||
        say "no pgbouncer here: apply is not tried behind a pooler (apt-get install pgbouncer, brew install pgbouncer)"
}

# The browser of the console's tests. They say so where it is missing.
fetch_chromium() {
    if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then return; fi
    { command -v apt-get >/dev/null && can_be_root && apt_install chromium; } ||
        say "no Chromium here: pages are not tried in a browser (apt-get install chromium)"
}

# What the tests' HDFS runs on, and what Spark needs for their S3. Each says itself that it fetches.
fetch_stores() {
    local key
    key=$({ run_time_key; cat tests/storage/hdfs.py tests/storage/s3.py; } | digest)
    is_done stores "$key" && return
    .venv/bin/python -m tests.storage.hdfs || exit 3
    .venv/bin/python -m tests.storage.s3 || exit 3
    printf '%s\n' "$key" >"$(stamp stores)"
}

# The server of tests that need one. It says itself that it fetches, where none is installed.
fetch_postgres() {
    .venv/bin/python -m moneystate.devpostgres binaries >/dev/null || exit 3
}

# What captures the changes of that server. It says itself that it fetches.
fetch_debezium() {
    .venv/bin/python -m moneystate.devdebezium jars >/dev/null || exit 3
}

# ClickHouse's SQL as a library, with which the tests of rollups compare. They say so where it is missing.
fetch_chdb() {
    is_done chdb "$(cat tests/services/rollups/chdb.lock)" && return
    say "fetching chdb, ClickHouse's SQL as a library, for the tests of rollups alone (150 MB, 540 MB unpacked)"
    if pip install --no-compile --require-hashes --no-deps -r tests/services/rollups/chdb.lock; then
        cat tests/services/rollups/chdb.lock >"$(stamp chdb)"
    else
        say "no chdb here: rollups are not compared with SQL"
    fi
}

# Whether words for pytest may take tests of one of the folders. Words without a folder of tests take all.
take() {
    local words=$1 folder word any=
    shift
    for word in $words; do
        case $word in tests | tests/* | examples/*) ;; *) continue ;; esac
        any=yes
        for folder; do
            case $folder/ in "${word%/}"/*) return 0 ;; esac
            case $word in "$folder"/*) return 0 ;; esac
        done
    done
    [ -z "$any" ]
}

tools() {
    if take "$*" tests/query; then fetch_go_modules; fi
    if take "$*" tests/deploy; then fetch_deploy_tools; fi
    if take "$*" tests/ops tests/console; then fetch_prometheus; fi
    if take "$*" tests/chaos; then fetch_faketime; fi
    if take "$*" tests/chaos tests/storage; then fetch_stores; fi
    if take "$*" tests/services; then fetch_chdb; fi
    if take "$*" tests/console; then fetch_chromium; fi
    if take "$*" tests/devpostgres tests/apply tests/devdebezium tests/services/changes; then fetch_postgres; fi
    if take "$*" tests/apply; then fetch_pgbouncer; fi
    if take "$*" tests/devdebezium tests/apply tests/services/changes; then fetch_debezium; fi
}

# --- layers -----------------------------------------------------------------------------------------------------------

run_time() {
    local key java jars
    run_time_is_done && return
    rm -f "$(stamp run-time)"
    ensure_venv
    install_packages
    java=$(ensure_java)
    jars=$(.venv/bin/python -m moneystate.devbroker jars) || exit 3
    printf '%s\n' "$(run_time_key)" "$java" "$jars" >"$(stamp run-time)"
}

development() {
    is_done development "$(development_key)" && return
    install_development_packages
    development_key >"$(stamp development)"
}

archive() {
    is_done archive "$(archive_key)" && return
    say "making the class archive for Spark's JVM (once, 30 s, 170 MB in the cache folder)"
    .venv/bin/python -m moneystate.spark.jvm.make_class_archive </dev/null || true
    archive_key >"$(stamp archive)"
}

# Compiled modules hide their sources, so those of other sources go, whatever runs next. A compiled core for these sources may
# be in the cache.
core() { .venv/bin/python scripts/compile_core.py "$@"; }

# Where Python may not keep what it compiles. It comes last: stale compiled modules cannot be imported.
byte_code() {
    if [ -z "${PYTHONDONTWRITEBYTECODE:-}" ] || is_done byte-code "$(run_time_key)"; then return; fi
    say "compiling what a run imports to byte code (once, 6 s), as PYTHONDONTWRITEBYTECODE keeps Python from it"
    .venv/bin/python scripts/compile_imports.py
    run_time_key >"$(stamp byte-code)"
}

# Two set-ups at once would spoil each other's .venv. (macOS has no flock: there it is the user's to mind.)
exec 9>.env.lock
if command -v flock >/dev/null; then flock 9; fi
run_time
case " $* " in *" core "*) ;; *) core --cached ;; esac
while [ $# -gt 0 ]; do
    case $1 in
        run-time) ;;
        development) development ;;
        core) development; core ;;
        archive) archive ;;
        tools) shift; tools "$@"; break ;;
        *) fail "$1: expected one of the layers in scripts/setup_env.sh" ;;
    esac
    shift
done
byte_code
