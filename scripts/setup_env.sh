#!/usr/bin/env bash
# Makes the development environment: .venv with everything in requirements.lock, a Java that Spark can run on, the development
# broker's jars, promtool, kustomize, the compiled core, and a class archive for Spark's JVM. Says nothing and is done in a
# moment where all of it is there; asks nothing, ever.
# What it installs outside this folder: a JDK if none will do (apt-get, dnf or brew; root or a sudo without password), on
# Debian the package with Python's venv module, and the jars and the archive in the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly here=$PWD
readonly stamp=.venv/.moneystate-env
readonly core_stamp=.venv/.moneystate-core
readonly archive_stamp=.venv/.moneystate-archive
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 DEBIAN_FRONTEND=noninteractive

say() { printf 'env: %s\n' "$*" >&2; }
fail() { printf 'env: %s\n' "$*" >&2; exit 3; }

digest() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# The folder counts too: the scripts in .venv/bin name it, so a copy of the project needs an environment of its own.
environment_key() {
    { pwd -P; printf '%s\n' "${MONEYSTATE_CACHE:-}"; cat requirements.lock pyproject.toml scripts/setup_env.sh; } | digest
}

# Of all sources: which of them are compiled is for compile_core.py to know.
core_key() {
    { environment_key; cat scripts/compile_core.py; find moneystate services -name '*.py' | LC_ALL=C sort | xargs cat;
        find moneystate services -name '*.so' | LC_ALL=C sort; } | digest
}

# Java's class archive holds for one class path, on which the classes of our own are.
archive_key() {
    { environment_key; cat moneystate/spark/jvm/*.java moneystate/spark/jvm/*.py; } | digest
}

up_to_date() {
    [ -x .venv/bin/python ] && [ -f "$stamp" ] || return 1
    { read -r key && read -r java && read -r jars; } <"$stamp" || return 1
    [ "$key" = "$(environment_key)" ] && [ -x "$java" ] && [ -d "$jars" ]
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

# The lines of requirements.lock for one package.
locked() {
    awk -v name="$1==" 'index($0, name) == 1 { on = 1 } on { print } on && !/\\$/ { exit }' requirements.lock
}

install_packages() {
    say "installing the locked packages (the first time some minutes: PySpark alone is 450 MB)"
    # PySpark comes as source only; the project itself builds with the backend from the lock, hence no isolation there.
    # First pip itself: that of Python 3.11.2 installs PySpark without the metadata that others read.
    .venv/bin/python -m pip install --quiet --require-hashes -r <(locked pip) </dev/null
    .venv/bin/python -m pip install --quiet --require-hashes -r requirements.lock </dev/null
    .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable . </dev/null
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

go() { GOTOOLCHAIN=local GOFLAGS=-mod=readonly "$here/.venv/bin/go" "$@"; }

# What the example client in Go is built of, so that its test needs no network.
fetch_go_modules() {
    (cd examples/go && go mod download) </dev/null >&2 ||
        fail "the Go modules of examples/go could not be fetched; see above"
}

# What the tests of the manifests render them with, and the schema of the Spark operator. A build takes a minute.
fetch_deploy_tools() {
    (cd tests/deploy/tools/operator && go mod download github.com/kubeflow/spark-operator/v2 &&
        cd ../kustomize && go build -o "$here/.venv/bin/kustomize" sigs.k8s.io/kustomize/kustomize/v5) </dev/null >&2 ||
        fail "the tools of tests/deploy could not be made; see above"
}

# Prints the Java to use. The second look's message says what to install where this script could not.
ensure_java() {
    .venv/bin/python -m moneystate.devbroker java 2>/dev/null && return
    install_java || say "no JDK could be installed here"
    .venv/bin/python -m moneystate.devbroker java || exit 3
}

# --- promtool -------------------------------------------------------------------------------------------------------------

# The tests of the alert rules run promtool, and say so where it is missing. Of Debian's package only that program is
# taken: the package itself starts a server.
fetch_promtool() {
    local folder
    if command -v promtool >/dev/null || [ -x .venv/bin/promtool ]; then return; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        say "no promtool here: the alert rules are not tried (brew install prometheus)"
        return
    fi
    say "fetching promtool from the Debian package prometheus (20 MB)"
    folder=$(mktemp -d)
    if can_be_root; then apt_update; fi
    if (cd "$folder" && apt-get -o APT::Sandbox::User=root download -qq prometheus && dpkg-deb -x prometheus_*.deb .) </dev/null >&2; then
        install -m 755 "$folder/usr/bin/promtool" .venv/bin/promtool
    else
        say "promtool could not be fetched: the alert rules are not tried (apt-get install prometheus)"
    fi
    rm -rf "$folder"
}

# The chaos schedules turn a job's clock with it. Without it they leave these faults out, and say so.
fetch_faketime() {
    local folder
    if [ -e .venv/lib/libfaketimeMT.so.1 ]; then return; fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then return; fi
    folder=$(mktemp -d)
    if can_be_root; then apt_update; fi
    if (cd "$folder" && apt-get -o APT::Sandbox::User=root download -qq libfaketime && dpkg-deb -x libfaketime_*.deb .) </dev/null >&2; then
        install -m 644 "$folder"/usr/lib/*/faketime/libfaketimeMT.so.1 .venv/lib/
    else
        say "libfaketime could not be fetched: chaos schedules turn no clocks (apt-get install libfaketime)"
    fi
    rm -rf "$folder"
}

# What the tests' HDFS runs on, and what Spark needs for their S3.
fetch_stores() {
    .venv/bin/python -m tests.storage.hdfs || exit 3
    .venv/bin/python -m tests.storage.s3 || exit 3
}

# --- all of it --------------------------------------------------------------------------------------------------------

set_up() {
    local java jars
    ensure_venv
    install_packages
    fetch_go_modules
    fetch_deploy_tools
    fetch_promtool
    fetch_faketime
    java=$(ensure_java)
    jars=$(.venv/bin/python -m moneystate.devbroker jars) || exit 3
    fetch_stores
    rm -f "$archive_stamp"
    printf '%s\n' "$(environment_key)" "$java" "$jars" >"$stamp"
    say "ready"
}

# The optional compile step (mypyc). It follows the sources, not the stamp above: a compiled module hides its source.
compile_core() {
    local key
    [ -f scripts/compile_core.py ] || return 0
    key=$(core_key)
    [ "$(cat "$core_stamp" 2>/dev/null)" = "$key" ] && return
    .venv/bin/python scripts/compile_core.py
    core_key >"$core_stamp"  # again: the libraries are there now
}

# What lets Spark start faster; tried once, and everything works without it.
make_archive() {
    local key
    key=$(archive_key)
    [ "$(cat "$archive_stamp" 2>/dev/null)" = "$key" ] && return
    say "making the class archive for Spark's JVM (once, 30 s, 170 MB in the cache folder)"
    .venv/bin/python -m moneystate.spark.jvm.make_class_archive </dev/null || true
    printf '%s\n' "$key" >"$archive_stamp"
}

# Two set-ups at once would spoil each other's .venv. (macOS has no flock: there it is the user's to mind.)
lock_out_others() {
    exec 9>.env.lock
    if command -v flock >/dev/null; then flock 9; fi
}

if ! up_to_date; then
    lock_out_others
    up_to_date || set_up
fi
compile_core
make_archive
