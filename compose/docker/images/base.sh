#!/bin/sh
# A minimal Debian as a tar archive on standard output: base.sh SOURCES CERTIFICATES RELEASE, from this machine's package sources.
# The certificates that this machine trusts besides Debian's are trusted in the image, too.
set -eu
exec mmdebstrap --quiet --variant=minbase --mode=root --format=tar \
  --include=ca-certificates \
  --customize-hook='mkdir -p "$1/usr/share/man/man1" "$1/usr/local/share/ca-certificates"' \
  --customize-hook="[ ! -d '$2' ] || cp -r '$2/.' \"\$1/usr/local/share/ca-certificates/\"" \
  --customize-hook='chroot "$1" update-ca-certificates' \
  --customize-hook='rm -rf "$1"/usr/share/doc/* "$1"/usr/share/locale/* "$1"/var/cache/apt/*' \
  "$3" - "$1"
