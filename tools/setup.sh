#!/usr/bin/env bash
# Installs what the doors of the Makefile need and nothing that is already there.
#
#   tools/setup.sh PART...      PART: build, demo, test, bench, fuzz
#
# Debian packages come from apt-get, as root or through sudo without a password; without those rights the exact line is printed and the exit
# code is 1. Python packages go into .venv at the versions of tools/requirements-PART.txt; a stamp with the file's hash inside .venv makes a
# repeat quick and keeps it off the network.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=.venv

packages_of() {
    case $1 in
    build)
        local jpeg=libjpeg62-turbo-dev
        if grep -qs '^ID=ubuntu' /etc/os-release; then jpeg=libjpeg-turbo8-dev; fi # the same library by its name there
        echo gcc libc6-dev pkg-config libcmocka-dev libcurl4-openssl-dev libdeflate-dev libhdf5-dev libjansson-dev $jpeg liblz4-dev \
            libsndfile1-dev libspng-dev liburing-dev libwebp-dev libxxhash-dev libzstd-dev zlib1g-dev
        ;;
    test) echo g++ binutils locales ;; # locales: a decimal comma is made from its sources, without installing one
    fuzz) echo clang-14 libclang-rt-14-dev ;;
    demo | bench) ;;
    *) echo "setup: no part called $1 (build, demo, test, bench, fuzz)" >&2 && exit 2 ;;
    esac
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# The interpreter may be Debian's or another one; ask it what it lacks rather than asking dpkg.
python_packages() {
    if ! command -v "$PYTHON" >/dev/null; then
        echo python3 python3-venv python3-dev
        return
    fi
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    "$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || echo python3-dev
}

install_packages() {
    local missing=() p
    for p in "$@"; do
        is_installed "$p" || missing+=("$p")
    done
    missing+=($(python_packages))
    [ ${#missing[@]} -gt 0 ] || return 0

    local root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            echo "These Debian packages are missing and this user may not install them. As root, run:" >&2
            echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        root=(sudo -n)
    fi
    echo "installing: ${missing[*]}" >&2
    "${root[@]}" apt-get -qq update
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

make_venv() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        { echo "setup: $PYTHON is older than 3.11; set PYTHON to a newer one" >&2 && exit 1; }
    [ -x $VENV/bin/python ] && $VENV/bin/python -c '' 2>/dev/null && return 0
    echo "making $VENV from $PYTHON" >&2
    "$PYTHON" -m venv --clear $VENV
}

install_requirements() {
    local file=tools/requirements-$1.txt stamp=$VENV/.stamp-$1 want
    [ -f "$file" ] || return 0
    want=$(sha256sum <"$file")
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && return 0
    echo "installing into $VENV: $(grep -v '^#' "$file" | tr '\n' ' ')" >&2
    $VENV/bin/python -m pip install --quiet --disable-pip-version-check -r "$file"
    echo "$want" >"$stamp"
}

[ $# -gt 0 ] || { echo "usage: tools/setup.sh PART...   (build, demo, test, bench, fuzz)" >&2 && exit 2; }
wanted=()
for part in "$@"; do
    list=$(packages_of "$part")
    wanted+=($list)
done
install_packages "${wanted[@]}"
make_venv
for part in "$@"; do
    install_requirements "$part"
done
