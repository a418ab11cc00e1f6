/* pages.c - what makes the children of a zygote cheap for the kernel.
 *
 * A child pays for each page that it writes to (it is copied), for each stretch of code that it
 * runs (it is mapped, and unmapped at the end), and for each mapping there is. None of this changes
 * what perl does; docs/decisions/002-zygote.md has the figures.
 */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* ---- free lists in the order of addresses -------------------------------------------------------
 * Perl's free lists run all over the heap in the order in which things were freed. Sorted, what a
 * child takes lies side by side. */

static int by_address(const void *a, const void *b)
{
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    return left < right ? -1 : left > right;
}

#define NEXT(entry) (*(void **)((char *)(entry) + offset))

/* A list whose link is the pointer at `offset` of each entry. Without memory it stays as it is. */
static void *sort_list(void *first, size_t offset)
{
    size_t count = 0, i = 0;
    for (void *entry = first; entry; entry = NEXT(entry))
        count++;
    void **all = count > 1 ? malloc(count * sizeof *all) : NULL;
    if (!all)
        return first;
    for (void *entry = first; entry; entry = NEXT(entry))
        all[i++] = entry;
    qsort(all, count, sizeof *all, by_address);
    for (i = 0; i < count; i++)
        NEXT(all[i]) = i + 1 < count ? all[i + 1] : NULL;
    first = all[0];
    free(all);
    return first;
}

static void sort_free_lists(pTHX)
{
    PL_sv_root = sort_list(PL_sv_root, STRUCT_OFFSET(SV, sv_any));
    for (size_t i = 0; i < C_ARRAY_LENGTH(PL_body_roots); i++)
        PL_body_roots[i] = sort_list(PL_body_roots[i], 0);
}

/* ---- libperl's code as one page -----------------------------------------------------------------
 * A child of a script that prints one line runs through twenty stretches of libperl's code: twenty
 * page faults that map sixteen pages each, and 320 pages to unmap at its end. One page of 2 MB is
 * there from the start and costs as much as any other. */

#define HUGE_BYTES ((uintptr_t)2 << 20)

/* The next mapping of a list like /proc/self/maps; 0 at its end. */
int drom_next_mapping(FILE *list, struct mapping *found)
{
    char line[512];
    while (fgets(line, sizeof line, list)) {
        unsigned long from, to;
        found->file[0] = 0;
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &from, &to, found->mode, found->file) < 3)
            continue;
        found->from = from, found->to = to;
        return 1;
    }
    return 0;
}

/* Whether all of it is one file's and nothing in it can be written to. */
static int is_constant(uintptr_t at)
{
    FILE *list = fopen("/proc/self/maps", "re");
    struct mapping map;
    char file[sizeof map.file] = "";
    uintptr_t covered = 0, end = at + HUGE_BYTES;
    while (list && drom_next_mapping(list, &map)) {
        if (map.to <= at || map.from >= end)
            continue;
        if (!*file)
            strcpy(file, map.file);
        if (map.mode[1] == 'w' || map.file[0] != '/' || strcmp(file, map.file)) {
            covered = 0;
            break;
        }
        covered += (map.to < end ? map.to : end) - (map.from > at ? map.from : at);
    }
    if (list)
        fclose(list);
    return covered == HUGE_BYTES;
}

/* The kernel may have had only small pages to give, of which fork would copy 512 entries. */
static int is_huge(uintptr_t at)
{
    FILE *list = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long from = 0, to = 0, kilobytes = 0;
    while (list && fgets(line, sizeof line, list)) {
        unsigned long a, b;
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
            from = a, to = b;
        else if (from <= at && at < to && sscanf(line, "AnonHugePages: %lu", &kilobytes) == 1)
            break;
    }
    if (list)
        fclose(list);
    return kilobytes >= HUGE_BYTES >> 10;
}

static int put_code(void *copy, void *at)
{
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    return mprotect(copy, HUGE_BYTES, PROT_READ | PROT_EXEC) == 0
        && mremap(copy, HUGE_BYTES, HUGE_BYTES, flags, at) == at;
}

/* The same bytes at the same address in one page. Whatever fails, the code stays where it is. */
static void move_code(uintptr_t at)
{
    size_t room = 2 * HUGE_BYTES;
    char *start = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return;
    char *copy = (char *)(((uintptr_t)start + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
    if (madvise(copy, HUGE_BYTES, MADV_HUGEPAGE) == 0)
        memcpy(copy, (void *)at, HUGE_BYTES);
    if (!is_huge((uintptr_t)copy) || !put_code(copy, (void *)at)) {
        munmap(start, room);
        return;
    }
#ifdef PR_SET_VMA
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, HUGE_BYTES, "libperl.so");
#endif
    munmap(start, copy - start);
    munmap(copy + HUGE_BYTES, start + room - copy - HUGE_BYTES);
}

static void one_page_of_code(void)
{
    uintptr_t at = PTR2UV(&Perl_sv_clear) & ~(HUGE_BYTES - 1);
    if (is_constant(at))
        move_code(at);
}

void drom_few_pages(pTHX)
{
    one_page_of_code();
    sort_free_lists(aTHX);
}
