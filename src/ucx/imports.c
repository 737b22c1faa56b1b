/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/imports.h"

#include "base/log.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOCATES(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define RELOCATES(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define RELOCATES(type) false /* not known there: nothing is led */
#endif

static bool slot_write(void **at, void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *begin    = (void *)((uintptr_t)at & ~(page - 1));

    /* read-only after loading where the library was linked with -z now */
    if (mprotect(begin, page, PROT_READ | PROT_WRITE)) {
        return false;
    }
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
    return true;
}

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

typedef struct {
    const kvl_import_t *import;
    image_t image;
    const char *path; /* NULL: the library is not loaded */
    void **at;        /* NULL: it has no such import */
} search_t;

static int image_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    search_t *search           = arg;
    const kvl_import_t *import = search->import;
    const image_t *image       = &search->image;
    const char *name           = strrchr(info->dlpi_name, '/');
    size_t table, i;

    (void)size;
    name = name ? name + 1 : info->dlpi_name;
    if (strncmp(name, import->library, strlen(import->library)) != 0) {
        return 0;
    }
    search->path = info->dlpi_name;
    image_read(&search->image, info);
    for (table = 0; image->symbols && image->strings && table < 2; table++) {
        for (i = 0; image->tables[table] && i < image->sizes[table] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *entry = &image->tables[table][i];
            const char *symbol = image->strings + image->symbols[ELF64_R_SYM(entry->r_info)].st_name;

            if (RELOCATES(ELF64_R_TYPE(entry->r_info)) && strcmp(symbol, import->symbol) == 0) {
                search->at = (void **)(image->base + entry->r_offset);
            }
        }
    }
    return 1;
}

/* What the library calls without us: as the program sees it (a sanitizer's, too), or as its own dependencies
 * have it where it was loaded out of sight. NULL: somebody else's hook is there. It is left alone: nobody knows
 * in which order we would go. */
static void *import_resolve(const search_t *search)
{
    void *value       = *search->at;
    uintptr_t address = (uintptr_t)value;
    void *library     = dlopen(search->path, RTLD_LAZY | RTLD_NOLOAD);
    void *own         = library ? dlsym(library, search->import->symbol) : NULL;
    void *common      = dlsym(RTLD_DEFAULT, search->import->symbol);

    if (library) {
        dlclose(library); /* it stays: kvlane is linked with it */
    }
    if (address >= search->image.base && address < search->image.end) { /* not bound yet */
        return common ? common : own;
    }
    return value == own || value == common ? value : NULL;
}

bool kvl_import_lead(kvl_import_t *import)
{
    search_t search = {.import = import};

    dl_iterate_phdr(image_visit, &search);
    import->theirs = search.at ? import_resolve(&search) : NULL;
    if (import->theirs && slot_write(search.at, import->ours)) {
        import->slot = search.at;
        return true;
    }
    kvl_debug("%s: its calls of %s are not led through kvlane", import->library, import->symbol);
    return false;
}

void kvl_import_give_back(kvl_import_t *import)
{
    if (import->slot && *import->slot == import->ours) {
        (void)slot_write(import->slot, import->theirs);
    }
    import->slot = NULL;
}
