/* children.c - child processes of a script: system, backticks, exec, pipes and fork.
 *
 * What they need is made just before one starts: `environ` from %ENV, for system() a descriptor 1
 * whose content becomes part of the answer, for a forked perl a file in memory where it prints. The
 * child of a fork never acts as a worker: the host closes its sockets there, and drom_run does not
 * return to it.
 */
#include "internal.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static Perl_ppaddr_t usual_system, usual_exec, usual_backtick, usual_fork, usual_open;
static Perl_ppaddr_t usual_wait, usual_waitpid, usual_close;

/* ---- what a forked perl prints -------------------------------------------------------------- */

static int shared = -1;    /* where forked children print; made by the first fork of a request */
static off_t collected;    /* how much of it is in the answer already */
static int child_out = -1; /* in the child: where it prints */
static int child_in = -1;  /* in the child of open '|-': what it reads, else the request's body */

static void share_output(pTHX)
{
    if (shared >= 0 || drom.forked || !drom.current)
        return;
    shared = drom_memory_file("drom-fork");
    collected = 0;
    if (shared < 0 || fcntl(shared, F_SETFL, O_APPEND) != 0)
        croak("Drom: no room for what a child prints: %s", Strerror(errno));
}

static int print_in_child(const char *bytes, size_t count)
{
    while (count && child_out >= 0) {
        ssize_t put = write(child_out, bytes, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) /* EPERM: the answer has gone, nobody is there to be told */
            return errno == EPERM ? 0 : errno;
        bytes += put;
        count -= put;
    }
    return 0;
}

/* In a child the request is the parent's: its sockets are closed and their numbers may be those
 * of the child's own files by now, so that the host is not asked. */
int drom_print(uint64_t r, const char *bytes, size_t count)
{
    return drom.forked ? print_in_child(bytes, count) : drom.host->print(r, bytes, count);
}

int drom_flush(uint64_t r) { return drom.forked ? 0 : drom.host->flush(r); }

ssize_t drom_read(uint64_t r, char *into, size_t room)
{
    if (!drom.forked || child_in < 0)
        return drom.host->read(r, into, room);
    ssize_t got = read(child_in, into, room);
    return got < 0 ? -errno : got;
}

static void collect(void)
{
    char bytes[65536];
    ssize_t got;
    if (shared < 0 || drom.forked)
        return;
    while ((got = pread(shared, bytes, sizeof bytes, collected)) > 0) {
        collected += got;
        drom_print(drom.current, bytes, got);
    }
}

/* A child that goes on printing after the answer must not fill the memory: no more is written. */
static void end_sharing(void)
{
    if (shared < 0 || drom.forked)
        return;
    fcntl(shared, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW);
    collect();
    close(shared);
    shared = -1;
}

static void become_child(void)
{
    drom.forked = 1;
    child_out = shared;
    drom.host->command(drom.current, DROM_COMMAND_FORKED, "", 0);
}

/* ---- what a program prints ------------------------------------------------------------------ */

static int captured = -1; /* the server's descriptor 1 while a system() runs */

static void end_capture(void)
{
    if (captured < 0)
        return;
    dup2(captured, 1);
    close(captured);
    captured = -1;
}

/* Without a place for it the child's output would go where the server's goes. */
static void begin_capture(pTHX)
{
    int file = drom_memory_file("drom-system");
    captured = file < 0 ? -1 : drom_second_descriptor(1);
    int why = errno;
    if (captured >= 0)
        dup2(file, 1);
    if (file >= 0)
        close(file);
    if (captured < 0)
        croak("Drom: no room for what a child prints: %s", Strerror(why));
}

static void answer_captured(void)
{
    char bytes[65536];
    ssize_t got;
    if (captured < 0)
        return;
    lseek(1, 0, SEEK_SET);
    while ((got = read(1, bytes, sizeof bytes)) > 0)
        drom_print(drom.current, bytes, got);
    end_capture();
}

/* At the end of a request, before its STDOUT goes. */
void drom_children_end(pTHX)
{
    end_capture();
    end_sharing();
}

/* ---- perl's own ops ------------------------------------------------------------------------- */

static OP *pp_system(pTHX)
{
    if (!drom.current)
        return usual_system(aTHX);
    drom_env_export(aTHX);
    if (drom.flags & DROM_SCRIPT_IO && (!drom.forked || child_out >= 0))
        begin_capture(aTHX);
    OP *next = usual_system(aTHX);
    answer_captured();
    return next;
}

static OP *pp_exec(pTHX)
{
    drom_env_export(aTHX);
    return usual_exec(aTHX);
}

static OP *pp_backtick(pTHX)
{
    drom_env_export(aTHX);
    return usual_backtick(aTHX);
}

/* open F, '-|' and open F, '|-' fork: descriptor 1 or 0 of such a child is the pipe. */
static OP *pp_open(pTHX)
{
    SV **mode = PL_stack_base + TOPMARK + 2;
    if (mode > PL_stack_sp || !SvPOK(*mode) || !strchr(SvPVX(*mode), '|'))
        return usual_open(aTHX);
    int is_reader = strstr(SvPVX(*mode), "-|") == NULL;
    pid_t before = getpid();
    drom_env_export(aTHX);
    if (mode == PL_stack_sp && strchr(SvPVX(*mode), '-'))
        share_output(aTHX);
    OP *next = usual_open(aTHX);
    if (getpid() != before) {
        become_child();
        child_in = is_reader ? 0 : child_in;
        child_out = is_reader ? child_out : 1;
    }
    return next;
}

static OP *pp_fork(pTHX)
{
    pid_t before = getpid();
    drom_env_export(aTHX);
    share_output(aTHX);
    OP *next = usual_fork(aTHX);
    if (getpid() != before)
        become_child();
    return next;
}

/* A child may have come to its end: what it printed is next. close() waits for that of a pipe. */
static OP *after_wait(OP *next)
{
    collect();
    return next;
}

static OP *pp_wait(pTHX) { return after_wait(usual_wait(aTHX)); }
static OP *pp_waitpid(pTHX) { return after_wait(usual_waitpid(aTHX)); }
static OP *pp_close(pTHX) { return after_wait(usual_close(aTHX)); }

void drom_hook_processes(void)
{
    usual_system = PL_ppaddr[OP_SYSTEM], PL_ppaddr[OP_SYSTEM] = pp_system;
    usual_exec = PL_ppaddr[OP_EXEC], PL_ppaddr[OP_EXEC] = pp_exec;
    usual_backtick = PL_ppaddr[OP_BACKTICK], PL_ppaddr[OP_BACKTICK] = pp_backtick;
    usual_open = PL_ppaddr[OP_OPEN], PL_ppaddr[OP_OPEN] = pp_open;
    usual_fork = PL_ppaddr[OP_FORK], PL_ppaddr[OP_FORK] = pp_fork;
    usual_wait = PL_ppaddr[OP_WAIT], PL_ppaddr[OP_WAIT] = pp_wait;
    usual_waitpid = PL_ppaddr[OP_WAITPID], PL_ppaddr[OP_WAITPID] = pp_waitpid;
    usual_close = PL_ppaddr[OP_CLOSE], PL_ppaddr[OP_CLOSE] = pp_close;
}
