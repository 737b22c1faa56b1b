/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/log.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A failed send over tcp is told by the receiving half alone.
 *
 * When a peer resets its connection while a long message to it is half sent, UCX may learn of it from
 * sendmsg() before recv(): it then completes that message twice (uct_tcp_ep_sendv, every version up to 1.23
 * at least), which ends the process where assertions are compiled in (Debian: uct_iface.h `comp->count > 0'),
 * and may complete somebody else's request where they are not. Learned from recv(), the same reset is handled
 * right, and recv() always tells: UCX reads each socket before it writes to it, and a reset socket stays
 * readable.
 *
 * So libucs's calls of sendmsg() are led through here, in its table of imported functions, and a reset is
 * answered as "full, try later" (EAGAIN) a limited number of times in a row: UCX then waits for the socket,
 * hears of the reset from recv(), and stops. The table is put right again when kvlane is unloaded. Its calls of
 * send() are left alone: connections are made with them, and an answer to a client that is gone must fail, or
 * its file stays open for good. */

#define RESETS_IN_A_ROW 64

#if defined(__x86_64__)
#define RELOCATES(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define RELOCATES(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

#define IMPORT "sendmsg"

typedef ssize_t (*sendmsg_func_t)(int fd, const struct msghdr *message, int flags);

static sendmsg_func_t theirs; /* what libucs would call without us; constant once slot is set */
static void **slot;           /* in libucs; NULL: not led through here */

static ssize_t sendmsg_later(int fd, const struct msghdr *message, int flags)
{
    static _Thread_local int last_fd = -1; /* of the last reset */
    static _Thread_local unsigned resets;
    ssize_t result = theirs(fd, message, flags);

    if (result >= 0) {
        last_fd = fd == last_fd ? -1 : last_fd;
    } else if (errno == ECONNRESET || errno == EPIPE) {
        resets  = fd == last_fd ? resets + 1 : 1;
        last_fd = fd;
        errno   = resets <= RESETS_IN_A_ROW ? EAGAIN : errno;
    }
    return result;
}

static bool slot_write(void **at, void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *begin    = (void *)((uintptr_t)at & ~(page - 1));

    /* read-only after loading where libucs was linked with -z now */
    if (mprotect(begin, page, PROT_READ | PROT_WRITE)) {
        return false;
    }
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
    return true;
}

#ifdef RELOCATES

typedef struct {
    uintptr_t base, end;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2];
    size_t sizes[2];
} image_t;

static const void *image_at(const image_t *image, ElfW(Addr) address)
{
    /* glibc relocates these entries in place, others do not */
    return (const void *)(address >= image->base ? address : image->base + address);
}

static void image_read(image_t *image, const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *entry = NULL;
    int i;

    image->base = info->dlpi_addr;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t end            = image->base + header->p_vaddr + header->p_memsz;

        if (header->p_type == PT_DYNAMIC) {
            entry = (const void *)(image->base + header->p_vaddr);
        } else if (header->p_type == PT_LOAD && end > image->end) {
            image->end = end;
        }
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            image->symbols = image_at(image, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            image->strings = image_at(image, entry->d_un.d_ptr);
            break;
        case DT_JMPREL:
            image->tables[0] = image_at(image, entry->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            image->sizes[0] = entry->d_un.d_val;
            break;
        case DT_RELA:
            image->tables[1] = image_at(image, entry->d_un.d_ptr);
            break;
        case DT_RELASZ:
            image->sizes[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

/* Somebody else's hook is left alone: nobody knows in which order we would go. */
static bool slot_is_plain(const image_t *image, void *value)
{
    uintptr_t address = (uintptr_t)value;

    return value == (void *)theirs || (address >= image->base && address < image->end); /* not bound yet */
}

static void slot_take(const image_t *image, void **at)
{
    theirs = (sendmsg_func_t)dlsym(RTLD_DEFAULT, IMPORT);
    if (theirs && !slot && slot_is_plain(image, *at) && slot_write(at, (void *)sendmsg_later)) {
        slot = at;
    }
}

static int image_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *name = strrchr(info->dlpi_name, '/');
    image_t image    = {0};
    size_t table, i;

    (void)size;
    (void)arg;
    name = name ? name + 1 : info->dlpi_name;
    if (strncmp(name, "libucs.so", 9) != 0) {
        return 0;
    }
    image_read(&image, info);
    for (table = 0; image.symbols && image.strings && table < 2; table++) {
        for (i = 0; image.tables[table] && i < image.sizes[table] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *entry = &image.tables[table][i];
            const char *symbol = image.strings + image.symbols[ELF64_R_SYM(entry->r_info)].st_name;

            if (RELOCATES(ELF64_R_TYPE(entry->r_info)) && strcmp(symbol, IMPORT) == 0) {
                slot_take(&image, (void **)(image.base + entry->r_offset));
            }
        }
    }
    return 1;
}

static void sends_take(void)
{
    dl_iterate_phdr(image_visit, NULL);
    if (!kvl_ucx_sends_guarded()) {
        kvl_debug("libucs's sends are not led through kvlane: a reset in mid message may end this process");
    }
}

#else

static void sends_take(void)
{
    kvl_debug("libucs's sends are not led through kvlane on this machine");
}

#endif

void kvl_ucx_sends_guard(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, sends_take);
}

bool kvl_ucx_sends_guarded(void)
{
    return slot != NULL;
}

__attribute__((destructor)) static void sends_give_back(void)
{
    if (slot && *slot == (void *)sendmsg_later) {
        (void)slot_write(slot, (void *)theirs);
    }
    slot = NULL;
}
