#!/usr/bin/env bash
# Unpacks Debian's cloud-init and its missing dependencies into a folder. An installed cloud-init would reconfigure this
# machine at its next start.
# Usage: deploy/cloud/check/cloud_init.sh FOLDER
set -euo pipefail
folder=${1:?usage: deploy/cloud/check/cloud_init.sh FOLDER}
rm -rf "$folder"
mkdir -p "$folder/archives/partial"
folder=$(cd "$folder" && pwd)
download() {
    apt-get -qq -o Debug::NoLocking=1 -o "Dir::Cache::archives=$folder/archives" \
        install --download-only --no-install-recommends --yes cloud-init
}
download || { apt-get update -qq && download; }
for package in "$folder"/archives/*.deb; do
    [ -e "$package" ] || break  # it is installed
    dpkg-deb --extract "$package" "$folder"
done
