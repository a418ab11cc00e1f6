/* counting.c - a worker that runs counts calls and statements for a while (../exact/counter.c).
 *
 * It is asked from outside, in the middle of anything; what was asked is done where Perl is between
 * two operators, or does not run. Operators that were compiled before are given the functions that
 * count, and are given back their usual ones. The counts are a file in memory that who asked finds
 * among the descriptors of this process; it is whole when it is sealed against writing.
 *
 * Ownership: the file is this file's, until the counts are to be forgotten or new ones begin.
 */
#include "internal.h"
#include "../exact/counter.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_NAME "drom-counts"

static volatile sig_atomic_t asked; /* enum drom_count; 0: nothing */
static int is_on, doors, file = -1;

void drom_count_ask(int what)
{
    dTHXa(drom_perl);
    asked = what;
    if (drom.current)
        PL_sig_pending = 1;
}

static void hook_contexts(const PERL_SI *si, int hooked)
{
    for (; si; si = si->si_prev)
        for (I32 at = si->si_cxix; at >= 0; at--) {
            const PERL_CONTEXT *cx = &si->si_cxstack[at];
            if (CxTYPE(cx) == CXt_EVAL && cx->blk_eval.old_eval_root)
                counter_hook_tree(cx->blk_eval.old_eval_root, hooked);
        }
}

/* All code of this perl: subs and formats, whoever holds them, and files and strings that run. */
static void hook_all(pTHX_ int hooked)
{
    for (SV *arena = PL_sv_arenaroot; arena; arena = (SV *)SvANY(arena))
        for (SV *sv = arena + 1; sv < arena + SvREFCNT(arena); sv++) {
            const CV *cv = (const CV *)sv;
            const int is_code = SvTYPE(sv) == SVt_PVCV || SvTYPE(sv) == SVt_PVFM;
            if (is_code && SvREFCNT(sv) && !CvISXSUB(cv) && CvROOT(cv))
                counter_hook_tree(CvROOT(cv), hooked);
        }
    if (PL_main_root)
        counter_hook_tree(PL_main_root, hooked);
    if (PL_eval_root)
        counter_hook_tree(PL_eval_root, hooked);
    hook_contexts(PL_curstackinfo, hooked);
}

static void forget_file(void)
{
    if (file >= 0)
        close(file);
    file = -1;
}

/* Of a child that a script has forked nobody knows. */
static void forked(void)
{
    counter_stop();
    asked = 0;
}

static void begin(pTHX)
{
    static int knows_of_forks;
    char name[40];
    forget_file();
    if (!knows_of_forks)
        knows_of_forks = pthread_atfork(NULL, NULL, forked) == 0;
    snprintf(name, sizeof name, "worker %ld", (long)getpid());
    if (!knows_of_forks || !counter_begin(aTHX_ name))
        return;
    is_on = 1;
    hook_all(aTHX_ 1);
    counter_enter_all(aTHX);
    if (!doors)
        counter_pause(aTHX);
}

static void keep(void)
{
    const int fd = drom_memory_file(FILE_NAME);
    const int second = fd < 0 ? -1 : drom_second_descriptor(fd);
    FILE *out = second < 0 ? NULL : fdopen(second, "w");
    int is_whole = 0;
    if (out) {
        counter_write(out);
        is_whole = fclose(out) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
    } else if (second >= 0) {
        close(second);
    }
    if (is_whole)
        file = fd;
    else if (fd >= 0)
        close(fd);
}

static void end(pTHX)
{
    is_on = 0;
    hook_all(aTHX_ 0);
    counter_end(aTHX);
    keep();
    counter_forget();
}

void drom_count_settle(void)
{
    dTHXa(drom_perl);
    const int what = asked;
    if (!what)
        return;
    asked = 0;
    if (what == DROM_COUNT_ON && !is_on)
        begin(aTHX);
    if (what != DROM_COUNT_ON && is_on)
        end(aTHX);
    if (what == DROM_COUNT_FORGET)
        forget_file();
}

/* What the server does between two requests is nobody's time. */
void drom_count_enter(pTHX)
{
    if (!doors++ && is_on)
        counter_go_on(aTHX);
}

void drom_count_leave(pTHX)
{
    if (!--doors && is_on)
        counter_pause(aTHX);
}
