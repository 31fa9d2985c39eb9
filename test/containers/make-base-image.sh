#!/usr/bin/env bash
# Makes an image that stands for all base images of docker-compose.yml, where they cannot be pulled: Debian 12 with Node, Redis, HAProxy and a
# server that speaks MongoDB's protocol, each with its user. Writes it as a tar file. Needs root, debootstrap and npm.
# Usage: make-base-image.sh <file.tar> <node> <npm's version> <folder of jars> <MongoJavaServer.java>
set -euo pipefail
file=$1 node=$2 npm=$3 jars=$4 program=$5
tree=$(mktemp -d)
trap 'rm -rf --one-file-system "$tree"' EXIT

debootstrap --variant=minbase --include=busybox,ca-certificates,haproxy,openjdk-17-jdk-headless,redis-server bookworm "$tree" >&2
chroot "$tree" useradd --create-home --uid 1000 node
chroot "$tree" useradd --system mongodb
ln --symbolic --force /bin/busybox "$tree/usr/bin/wget"
install -D "$node" "$tree/usr/local/bin/node"
npm install --silent --global --prefix "$tree/usr/local" "npm@$npm"
mkdir -p "$tree/opt/mongodb" "$tree/data/db" "$tree/data/configdb"
cp "$jars"/*.jar "$program" "$tree/opt/mongodb/"
chroot "$tree" chown redis /data
chroot "$tree" chown mongodb /data/db /data/configdb
# Registries may have certificates that only this machine trusts.
cp /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
tar --create --directory "$tree" --file "$file" .
