#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""image.py UNPACKED_KERNEL_PACKAGE OUT: makes OUT/vmlinux and OUT/initrd for the soft-RoCE guest.

vmlinux is taken out of the package's compressed image, so that the guest has nothing to unpack. The
initrd holds a static busybox, the modules that the guest needs with all they depend on, in loading
order, and init.sh of this folder. Nothing is installed; the package was only unpacked.
"""
import lzma
import os
import re
import stat
import subprocess
import sys
import zlib

WANTED = """virtio_pci 9pnet_virtio 9p overlay virtio_rng crc32c_generic crc32_generic
ib_uverbs rdma_ucm ib_umad rdma_rxe veth sch_netem""".split()


def vmlinux(image):
    """The ELF inside of a compressed kernel image: tries each place that looks like a stream."""
    for magic, unpack in ((b"\xfd7zXZ\0", unxz), (b"\x28\xb5\x2f\xfd", unzstd), (b"\x1f\x8b\x08", ungzip)):
        at = image.find(magic)
        while at >= 0:
            data = unpack(image[at:])
            if data[:4] == b"\x7fELF" and len(data) > 1 << 22:
                return data
            at = image.find(magic, at + 1)
    raise SystemExit("image.py: no kernel found inside of the package's image")


def unxz(data):
    try:
        return lzma.LZMADecompressor().decompress(data)
    except lzma.LZMAError:
        return b""


def ungzip(data):
    try:
        return zlib.decompressobj(31).decompress(data)
    except zlib.error:
        return b""


def unzstd(data):
    done = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    return done.stdout


class Modules:
    """The package's modules by name, and what each needs first."""

    def __init__(self, root):
        self.files = {}
        for folder, _, names in os.walk(root):
            for name in names:
                match = re.fullmatch(r"(.+)\.ko(\.xz)?", name)
                if match:
                    self.files[match[1].replace("-", "_")] = os.path.join(folder, name)
        self.order = []
        self.data = {}

    def add(self, name):
        if name in self.data or name not in self.files:  # not a module: built in
            return
        with open(self.files[name], "rb") as file:
            data = file.read()
        if self.files[name].endswith(".xz"):
            data = lzma.decompress(data)
        self.data[name] = data
        needs = re.search(rb"(?<=\0)depends=([^\0]*)\0", data)
        names = needs[1].decode().split(",") if needs and needs[1] else []
        for soft in re.findall(rb"(?<=\0)softdep=pre: ([^\0]*)\0", data):
            names += soft.decode().split()
        for need in names:
            self.add(need.replace("-", "_"))
        self.order.append(name)


def archive(entries):
    """A cpio archive (newc) of (name, mode, data)."""
    out = bytearray()
    for number, (name, mode, data) in enumerate(entries + [("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def main(package, out):
    here = os.path.dirname(os.path.abspath(__file__))
    boot = os.path.join(package, "boot")
    image = next(os.path.join(boot, name) for name in os.listdir(boot) if name.startswith("vmlinuz"))
    with open(image, "rb") as file:
        kernel = vmlinux(file.read())
    modules = Modules(os.path.join(package, "lib/modules"))
    for name in WANTED:
        modules.add(name)
    if "rdma_rxe" not in modules.data:
        raise SystemExit("image.py: this kernel has no rdma_rxe (the cloud kernel has none)")
    folder, program = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755
    entries = [(name, folder, b"") for name in "bin dev proc sys mod root up tmp".split()]
    with open("/usr/bin/busybox", "rb") as file:
        entries.append(("bin/busybox", program, file.read()))
    with open(os.path.join(here, "init.sh"), "rb") as file:
        entries.append(("init", program, file.read()))
    entries += [("mod/%s.ko" % name, program, modules.data[name]) for name in modules.order]
    entries.append(("mod/order", program, "".join(name + "\n" for name in modules.order).encode()))
    for name, data in (("vmlinux", kernel), ("initrd", archive(entries))):
        with open(os.path.join(out, name + ".new"), "wb") as file:
            file.write(data)
        os.replace(os.path.join(out, name + ".new"), os.path.join(out, name))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if "--help" in sys.argv or "-h" in sys.argv else 2)
    main(sys.argv[1], sys.argv[2])
