#!/usr/bin/env bash
# Installs missing system packages that the tests on real servers need: Java 17 or newer, Maven,
# redis-server, PostgreSQL, Prometheus, Chromium, tini; with the argument `java` the first two alone.
# It uses apt if it has the rights. Otherwise it names the missing packages; the tests then skip with
# a message, and in CI (CI=true) it fails.
set -euo pipefail
wanted=${1:-all}

java_is_new_enough() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [[ -n "$version" && "$version" -ge 17 ]]
}

missing_packages() {
    java_is_new_enough || java_package
    command -v mvn >/dev/null || echo maven
    [[ "$wanted" == all ]] || return 0
    command -v redis-server >/dev/null || echo redis-server
    has_postgres || echo postgresql
    command -v prometheus >/dev/null || echo prometheus
    command -v chromium >/dev/null || echo chromium
    command -v chromedriver >/dev/null || echo chromium-driver
    command -v tini >/dev/null || echo tini
}

# Debian's package does not put the server's programs on the path.
has_postgres() {
    command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

java_package() {
    if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
        echo openjdk-17-jre-headless
    else
        echo openjdk-21-jre-headless
    fi
}

as_root() {
    if [[ $EUID -eq 0 ]]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null && as_root true 2>/dev/null
}

mapfile -t missing < <(missing_packages)
[[ ${#missing[@]} -gt 0 ]] || exit 0

if may_install; then
    echo "installing ${missing[*]}"
    # If the lists are too old, the installation fails and reports it.
    as_root apt-get update -qq || echo "apt-get update failed; the existing lists are used"
    mapfile -t missing < <(missing_packages) # The new lists may have another Java.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null || true
    mapfile -t missing < <(missing_packages)
    [[ ${#missing[@]} -gt 0 ]] || exit 0
fi

echo "missing: ${missing[*]}; install these packages (Debian's names) for the tests on a" \
"real Kafka broker, on Redis and on PostgreSQL" >&2
[[ "${CI:-}" != true ]] || exit 1
