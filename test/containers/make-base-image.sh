#!/usr/bin/env bash
# Makes the images that stand for the base images of docker-compose.yml, where these cannot be pulled. haproxy.tar is Debian 14, which has the
# HAProxy of the file, 3.2. base.tar stands for all others: Debian 12 with Node, Redis and a server that speaks MongoDB's protocol, each with
# its user. Needs root, debootstrap and npm.
# Usage: make-base-image.sh <folder> <node> <npm's version> <folder of jars> <MongoJavaServer.java>
set -euo pipefail
folder=$1 node=$2 npm=$3 jars=$4 program=$5
trees=$(mktemp -d)
trap 'rm -rf --one-file-system "$trees"' EXIT

# <name> <suite> <packages>; the script of debootstrap is the same for all suites since 2022
make_tree() {
  debootstrap --variant=minbase --include="busybox,$3" "$2" "$trees/$1" http://deb.debian.org/debian sid >&2
  ln --symbolic --force /bin/busybox "$trees/$1/usr/bin/wget"
}
write_image() {
  rm -rf "$trees/$1"/var/cache/apt/archives/*.deb "$trees/$1"/var/lib/apt/lists/*
  tar --create --directory "$trees/$1" --file "$folder/$1.tar" .
}

make_tree haproxy forky haproxy
write_image haproxy

make_tree base bookworm ca-certificates,openjdk-17-jdk-headless,redis-server
tree=$trees/base
chroot "$tree" useradd --create-home --uid 1000 node
chroot "$tree" useradd --system mongodb
install -D "$node" "$tree/usr/local/bin/node"
npm install --silent --global --prefix "$tree/usr/local" "npm@$npm"
mkdir -p "$tree/opt/mongodb" "$tree/data/db" "$tree/data/configdb"
cp "$jars"/*.jar "$program" "$tree/opt/mongodb/"
chroot "$tree" chown redis /data
chroot "$tree" chown mongodb /data/db /data/configdb
# Registries may have certificates that only this machine trusts.
cp /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
write_image base
