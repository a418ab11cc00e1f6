/* An allocator that writes down what it gives and takes, for tests: preloaded, with the name of the
 * file in COUNTED. Records are a letter and two numbers, in the machine's bytes: what happened,
 * where, and how many bytes were asked for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

struct record {
    uint64_t what, at, bytes;
};

static int file = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("COUNTED");
    if (name)
        file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void note(char what, void *at, size_t bytes)
{
    struct record record = {(uint64_t)what, (uint64_t)(uintptr_t)at, bytes};
    if (file >= 0 && at && write(file, &record, sizeof record) < 0)
        abort();
}

void *malloc(size_t bytes)
{
    void *at = __libc_malloc(bytes);
    note('m', at, bytes);
    return at;
}

void *calloc(size_t count, size_t each)
{
    void *at = __libc_calloc(count, each);
    note('c', at, count * each);
    return at;
}

void *realloc(void *old, size_t bytes)
{
    note('f', old, 0);
    void *at = __libc_realloc(old, bytes);
    note('m', at, bytes);
    return at;
}

void free(void *at)
{
    note('f', at, 0);
    __libc_free(at);
}
