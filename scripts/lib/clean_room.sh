# A bare Debian 12 in a folder, to show that the scripts set up a machine by themselves. Sourced.

# enter_clean_room COMMAND...: makes the folder, puts the committed tree into it, and runs the
# commands there, each a line of shell, stopping at the first that fails.
enter_clean_room() {
  local room command
  ((EUID == 0)) || die "the clean room needs root (debootstrap, chroot, mount)"
  [[ -z "$(git -C "$ANCHORAGE_ROOT" status --porcelain)" ]] ||
    note "the clean room sees the last commit; uncommitted changes are left out"
  room="$(mktemp -d /var/tmp/anchorage-clean-room.XXXXXX)"
  # shellcheck disable=SC2064  # the folder of now
  trap "leave_clean_room '$room'" EXIT

  step "Making a bare Debian 12 in $room"
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$room" ||
    die "debootstrap failed"
  mount -t proc proc "$room/proc"
  mount -t sysfs -o ro sysfs "$room/sys"  # UCX finds the network interfaces there
  mount --rbind /dev "$room/dev"
  mount --make-rslave "$room/dev"
  cp -L /etc/resolv.conf "$room/etc/resolv.conf"
  echo '127.0.0.1 localhost' >"$room/etc/hosts"  # as an installer writes it
  # A network that inspects TLS has its own certificate authority, which the machine trusts.
  cp -L /etc/ssl/certs/ca-certificates.crt "$room/etc/ssl/certs/ca-certificates.crt"
  git clone -q --no-hardlinks "$ANCHORAGE_ROOT" "$room/root/anchorage"

  for command in "$@"; do
    step "Clean room: $command"
    chroot "$room" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
      bash -o pipefail -c "cd /root/anchorage && $command" || die "in the clean room: $command"
  done
}

leave_clean_room() {
  umount -l "$1/dev" "$1/sys" "$1/proc" 2>/dev/null || true
  rm -rf --one-file-system "$1"
}
