#!/bin/sh
# Fetches Debian's kernel for virtual machines, for tests whose peer must do what this
# machine's kernel cannot (802.1Q). It is unpacked into the directory given, never
# installed: vmlinuz, and the modules that are named behind it.
#
# usage: guest-kernel.sh DIRECTORY MODULE...
set -eu

mkdir -p "$1"
into=$(cd "$1" && pwd)
shift
kernel_package() {
    apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}
download() {
    apt-get download -qq -o APT::Sandbox::User=root "$package"
}
package=$(kernel_package)
if [ -z "$package" ]; then
    apt-get update -qq
    package=$(kernel_package)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
download || { apt-get update -qq && download; }
dpkg -x ./*.deb unpacked
mkdir -p "$into/modules"
for module; do
    find unpacked/lib/modules -name "$module.ko" -exec cp {} "$into/modules/" \;
done
# Last, for its presence says that all is there.
cp unpacked/boot/vmlinuz-* "$into/vmlinuz"
