/* again.c - a child of the zygote that runs one script after another.
 *
 * What a script leaves behind is memory and what the kernel knows of the process. The memory goes
 * back, byte for byte, to what it was before the first script: every page that can be written to is
 * copied from an image that the zygote made of itself, and the child goes on where the image was
 * made, inside perl_parse. What the kernel knows is put back where that is one call (descriptors,
 * folder, umask, break); a script that changed anything else, or that may have, ends its process as
 * any CGI script does: one that forked, looked at its process id, caught a signal, set a timer,
 * mapped memory, loaded code of its own. docs/decisions/004-one-child-many-scripts.md has the list
 * and the figures.
 *
 * Ownership: the image and the control page belong to the process that mapped them and to all its
 * children; nothing frees them. Neither is part of the image.
 */
#include "internal.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

/* Elsewhere each child runs one script. A sanitizer's shadow is no memory to copy. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define IS_SUPPORTED 1
#else
#define IS_SUPPORTED 0
#endif

#define REGIONS_MAX 120
#define STACK_BYTES 65536
/* Descriptors of ours lie above those that scripts open. */
#define FIRST_KEPT 200
#define RUNS_MAX 1000
/* Larger blocks of malloc are mappings of their own, and not in the image. */
#define MAPPED_BYTES (1 << 20)
/* The C library keeps the thread's number in here; the kernel writes it at a fork. */
#define THREAD_BYTES 2304

enum kept { KEPT_SOCKET, KEPT_NULL, KEPT_SIZE, KEPT_FOLDER, KEPT_COUNT };

struct region {
    char *start;
    size_t length, at;
};

/* What going back leaves alone. */
struct control {
    char stack[STACK_BYTES]; /* to go back on: the process's own is overwritten */
    jmp_buf back;
    struct region regions[REGIONS_MAX];
    int region_count;
    const char *image;
    void *break_at;
    size_t pages; /* of the whole process */
    int program_fd;
    pid_t *thread;
    int is_runner, number, kept[KEPT_COUNT];
    unsigned runs;
    mode_t mask;
    uid_t uids[3];
    gid_t gids[3];
    char name[16];
    struct tms spent; /* by the scripts before */
    unsigned mxcsr;   /* how numbers are rounded */
    unsigned short x87;
};

static struct control *control;

int drom_runner_is_possible(void) { return control && control->image; }

int drom_runner_socket(void)
{
    return control && control->is_runner ? control->kept[KEPT_SOCKET] : -1;
}

int drom_runner_number(void) { return control->number; }

/* What scripts before this one used of the CPU, in seconds. */
int drom_runner_spent(double *user, double *system)
{
    double ticks = sysconf(_SC_CLK_TCK);
    if (drom_runner_socket() < 0)
        return 0;
    *user = control->spent.tms_utime / ticks;
    *system = control->spent.tms_stime / ticks;
    return 1;
}

/* ---- the image ------------------------------------------------------------------------------- */

/* In pages; the descriptor is the process's own /proc/self/statm. */
static size_t size_now(int fd)
{
    char text[64];
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    return strtoul(text, NULL, 10);
}

/* All that can be written to and is this process's own; of the stack, what is in use. */
static size_t find_regions(const char *stack)
{
    FILE *list = fopen("/proc/self/maps", "re");
    struct mapping map;
    size_t total = 0;
    struct region *region = control->regions;
    if (!list)
        return 0;
    while (drom_next_mapping(list, &map)) {
        if (map.mode[1] != 'w' || map.mode[3] != 'p' || map.from == PTR2UV(control)
            || !strncmp(map.file, "[v", 2))
            continue;
        if (map.from <= PTR2UV(stack) && PTR2UV(stack) < map.to)
            map.from = PTR2UV(stack);
        if (region == control->regions + REGIONS_MAX || map.mode[0] != 'r') {
            total = 0;
            break;
        }
        *region++ = (struct region){ (char *)map.from, map.to - map.from, total };
        total += map.to - map.from;
    }
    fclose(list);
    control->region_count = region - control->regions;
    return total;
}

/* The place in the thread's own memory that has its number; NULL when that is not certain. */
static pid_t *find_thread(void)
{
    pid_t *from = (pid_t *)pthread_self(), *found = NULL, number = gettid();
    for (pid_t *at = from; at < from + THREAD_BYTES / sizeof *at; at++) {
        if (*at != number)
            continue;
        if (found)
            return NULL;
        found = at;
    }
    return found;
}

/* CPU time is counted for a process, not for a script; descriptors of ours need their place. */
static int is_limited(void)
{
    struct rlimit cpu, files;
    return getrlimit(RLIMIT_CPU, &cpu) != 0 || cpu.rlim_cur != RLIM_INFINITY
        || getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < FIRST_KEPT + 2 * KEPT_COUNT;
}

/* In the caller's frame, which is part of it. */
__attribute__((noinline)) void drom_again_image(void)
{
    size_t total = find_regions(__builtin_frame_address(0));
    if (!total)
        return;
    char *image = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED)
        return;
    control->break_at = sbrk(0);
    control->image = image;
    for (int i = 0; i < control->region_count; i++) {
        const struct region *region = &control->regions[i];
        memcpy(image + region->at, region->start, region->length);
    }
}

static int close_range_of(unsigned first, unsigned last)
{
    return syscall(SYS_close_range, first, last, 0) == 0;
}

/* Between pages that nobody may touch, or it would be one mapping with a neighbour. */
static struct control *make_control(void)
{
    const size_t guard = 4096, room = (sizeof *control + 4095) & ~(size_t)4095;
    char *at = mmap(NULL, room + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + guard, room, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return (struct control *)(at + guard);
}

/* In the zygote, before perl allocates anything. */
void drom_again_begin(void)
{
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    drom_watch_ops();
}

/* In the zygote, once: nothing happens where it cannot be. */
void drom_again_prepare(pTHX)
{
    if (!IS_SUPPORTED || is_limited() || !drom_modules_are_harmless(aTHX)
        || !close_range_of(~0U, ~0U) || pthread_atfork(NULL, drom_spoil, drom_spoil) != 0)
        return;
    control = make_control();
    if (!control)
        return;
    drom_is_spoiled = 0; /* by what modules did while they were loaded */
    control->thread = find_thread();
    control->program_fd = PL_parser && PL_parser->rsfp ? PerlIO_fileno(PL_parser->rsfp) : -1;
}

/* Where to go back to: for setjmp in the caller's frame. NULL: nowhere. */
jmp_buf *drom_again_point(void)
{
    return control && control->thread && control->program_fd > 2 ? &control->back : NULL;
}

#if IS_SUPPORTED
static void keep_rounding(void)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control->mxcsr), "=m"(control->x87));
}

static void put_rounding_back(void)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(control->mxcsr), "m"(control->x87));
}

/* The string instruction: no function of a library whose memory is just being replaced. */
static inline void put(char *to, const char *from, size_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

__attribute__((noreturn)) static inline void leave_stack(char *top, void (*to)(void))
{
    __asm__ volatile("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tcall *%1"
                     :
                     : "r"(top), "r"(to)
                     : "memory");
    __builtin_unreachable();
}
#else
static void keep_rounding(void) { }
static void put_rounding_back(void) { }
static inline void put(char *to, const char *from, size_t count) { memcpy(to, from, count); }
__attribute__((noreturn)) static inline void leave_stack(char *top, void (*to)(void)) { abort(); }
#endif

/* ---- a runner -------------------------------------------------------------------------------- */

static int keep_above(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_KEPT);
}

/* Closes all descriptors but ours; the first three are those of a process that waits. A script may
 * have closed ours: then this fails. */
static int put_descriptors_back(void)
{
    int null = control->kept[KEPT_NULL];
    return dup2(null, 2) == 2 && dup2(null, 0) == 0 && dup2(null, 1) == 1
        && close_range_of(3, FIRST_KEPT - 1) && close_range_of(FIRST_KEPT + KEPT_COUNT, ~0U)
        && dup3(null, control->program_fd, O_CLOEXEC) == control->program_fd;
}

/* In a child just forked. It keeps the socket on which jobs come and a few more descriptors, and
 * closes all others. 0: it cannot be one. */
int drom_runner_begin(int socket, int number)
{
    int opened[KEPT_COUNT] = {
        [KEPT_SOCKET] = socket,
        [KEPT_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC),
        [KEPT_SIZE] = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
        [KEPT_FOLDER] = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC),
    };
    drom_is_spoiled = 0; /* the fork that made this child is not the script's */
    for (int i = 0; i < KEPT_COUNT; i++)
        if (opened[i] < 0 || opened[i] >= FIRST_KEPT)
            return 0;
    close_range_of(FIRST_KEPT, ~0U);
    for (int i = 0; i < KEPT_COUNT; i++) {
        control->kept[i] = keep_above(opened[i]);
        if (control->kept[i] != FIRST_KEPT + i)
            return 0;
    }
    keep_rounding();
    control->mask = umask(0);
    umask(control->mask);
    prctl(PR_GET_NAME, control->name);
    if (getresuid(&control->uids[0], &control->uids[1], &control->uids[2]) != 0
        || getresgid(&control->gids[0], &control->gids[1], &control->gids[2]) != 0)
        return 0;
    size_t grown = (char *)sbrk(0) - (char *)control->break_at; /* by the zygote since then */
    control->pages = size_now(control->kept[KEPT_SIZE]) - grown / 4096;
    control->number = number;
    control->is_runner = 1;
    return put_descriptors_back();
}

static int is_who_it_was(void)
{
    uid_t u[3];
    gid_t g[3];
    return getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0
        && memcmp(u, control->uids, sizeof u) == 0 && memcmp(g, control->gids, sizeof g) == 0;
}

/* After a script: whether its process can run another. Until it goes on nothing of the script has
 * been let go. */
int drom_runner_may_go_on(void)
{
    if (drom_runner_socket() < 0 || drom_is_spoiled)
        return 0;
    return ++control->runs < RUNS_MAX && is_who_it_was();
}

__attribute__((noreturn, noinline)) static void go_back(void)
{
    struct control *const at = control; /* the variable is overwritten, with itself */
    for (int i = 0; i < at->region_count; i++)
        put(at->regions[i].start, at->image + at->regions[i].at, at->regions[i].length);
    put_rounding_back();
    *at->thread = (pid_t)syscall(SYS_gettid);
    longjmp(at->back, 1);
}

/* Lets go of the script's descriptors, so that whoever reads its output sees the end, and goes back
 * to where the image was made. Returns when the process has other mappings than it had. */
void drom_runner_go_on(void)
{
    if (!put_descriptors_back() || fchdir(control->kept[KEPT_FOLDER]) != 0)
        return;
    umask(control->mask);
    prctl(PR_SET_NAME, control->name);
    syscall(SYS_brk, control->break_at);
    if (size_now(control->kept[KEPT_SIZE]) != control->pages)
        return;
    times(&control->spent);
    leave_stack(control->stack + STACK_BYTES, go_back);
}
