#!/bin/sh
# Builds the container image with docker, podman or buildah, and tries it: as nobody, with a read-only root, it must
# answer on /-/ready. BUILD_OPTIONS are passed on to the build, VERSION and REVISION go into the labels.
set -eu
cd "$(dirname "$0")/.."

name=${IMAGE:-vllm-advisor}
port=${PORT:-10838}
tool=
for candidate in ${ENGINE:-docker podman buildah}; do
    if command -v "$candidate" >/dev/null; then tool=$candidate && break; fi
done
[ -n "$tool" ] || { echo "docker, podman or buildah is needed to build an image." >&2; exit 1; }

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/vllm_advisor/__init__.py)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# Only docker's own format has room for a health check.
[ "$tool" = docker ] || BUILD_OPTIONS="--format docker ${BUILD_OPTIONS:-}"
# shellcheck disable=SC2086 # several options
"$tool" build ${BUILD_OPTIONS:-} --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --tag "$name" .

if [ "$tool" = buildah ]; then
    container=$(buildah from "$name")
    root=$(buildah mount "$container")
    trap 'kill "$running" 2>/dev/null; wait; buildah rm "$container" >/dev/null' EXIT
    environment="PATH=/opt/vllm-advisor/bin:/usr/local/bin:/usr/bin PYTHONPATH=/opt/vllm-advisor/exporter"
    unshare --mount sh -c "
        mount --bind '$root' '$root' && mount -o remount,ro,bind '$root' && mount -t tmpfs none '$root/tmp'
        chmod 1777 '$root/tmp'
        exec chroot --userspec=65532:65532 '$root' /usr/bin/env -i $environment \
            python3 -m vllm_advisor demo --web.listen-address=127.0.0.1:$port" &
    running=$!
else
    container=$("$tool" run --detach --read-only --tmpfs /tmp --publish "127.0.0.1:$port:10838" "$name" demo)
    trap '"$tool" rm --force "$container" >/dev/null' EXIT
fi

tries=0
until curl --fail --silent "http://127.0.0.1:$port/-/ready"; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || { echo "the image does not get ready" >&2; exit 1; }
    sleep 1
done
"$tool" images | grep "$name"
