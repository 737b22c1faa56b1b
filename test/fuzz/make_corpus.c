/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes one valid message of each kind into a folder, as seeds for fuzz_wire. */
#include "wire_all.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int save(const char *folder, const char *name, const void *data, size_t size)
{
    char path[1024];
    FILE *file;
    int bad;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file) {
        fprintf(stderr, "make_corpus: %s: %s\n", path, strerror(errno));
        return 1;
    }
    bad = fwrite(data, 1, size, file) != size;
    return fclose(file) != 0 || bad;
}

int main(int argc, char **argv)
{
    uint8_t data[WIRE_SAMPLE_MAX];
    const char *name;
    size_t i, size;

    if (argc != 2) {
        fprintf(stderr, "usage: make_corpus FOLDER\n");
        return 2;
    }
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "make_corpus: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, sizeof(data), &name);
        if (save(argv[1], name, data, size)) {
            return 1;
        }
    }
    return 0;
}
