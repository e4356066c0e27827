#!/usr/bin/env bash
# Sees to the system packages that the tests on real servers need: Java 17 or newer,
# Maven, redis-server, PostgreSQL, Prometheus, Chromium, tini. Installs with apt what is missing, where it may.
# Where it may not, it says so: the tests then skip loudly, and in CI (CI=true)
# this is a failure.
set -euo pipefail

java_is_new_enough() {
    local version
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [[ -n "$version" && "$version" -ge 17 ]]
}

missing_packages() {
    java_is_new_enough || java_package
    command -v mvn >/dev/null || echo maven
    command -v redis-server >/dev/null || echo redis-server
    has_postgres || echo postgresql
    command -v prometheus >/dev/null || echo prometheus
    command -v chromium >/dev/null || echo chromium
    command -v chromedriver >/dev/null || echo chromium-driver
    command -v tini >/dev/null || echo tini
}

# Debian keeps the server's programs off the path.
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
    # A stale list of packages is tried all the same; the install tells.
    as_root apt-get update -qq || echo "apt-get update failed; going on with the lists there are"
    mapfile -t missing < <(missing_packages) # the lists may name another Java now
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null || true
    mapfile -t missing < <(missing_packages)
    [[ ${#missing[@]} -gt 0 ]] || exit 0
fi

echo "not there: ${missing[*]}; install these packages (Debian's names) for the tests on a" \
    "real Kafka broker, on Redis and on PostgreSQL" >&2
[[ "${CI:-}" != true ]] || exit 1
