/* module.c - Devel::Drom's library: counts the perl that loads it, from then to its end, and writes
 * the counts into a file.
 */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include "counter.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static char *file;

static void write_file(pTHX_ void *unused)
{
    FILE *out;
    PERL_UNUSED_ARG(unused);
    /* Another interpreter of this process, which is not the one that is counted. */
    if (!file || !counter_is_of(aTHX))
        return;
    counter_end(aTHX);
    out = fopen(file, "w");
    if (!out) {
        fprintf(stderr, "Devel::Drom: %s cannot be written: %s\n", file, strerror(errno));
        return;
    }
    counter_write(out);
    if (fclose(out) != 0)
        fprintf(stderr, "Devel::Drom: %s is not whole: %s\n", file, strerror(errno));
}

/* A new process counts for itself, from its beginning, into a file with its number. */
static void forked(void)
{
    char *own = file ? malloc(strlen(file) + 24) : NULL;
    if (own)
        sprintf(own, "%s.%ld", file, (long)getpid());
    file = own;
    counter_begin_anew();
}

/* Devel::Drom::count(FILE, PROGRAM [, MEMORY]): what is compiled from now on counts. */
static XSPROTO(start_counting)
{
    dXSARGS;
    if (items < 2 || file)
        croak("Devel::Drom counts once in a process");
    file = savepv(SvPV_nolen(ST(0)));
    counter_begin(aTHX_ SvPV_nolen(ST(1)));
    counter_refuse(items > 2 ? (long)SvIV(ST(2)) : -1);
    pthread_atfork(NULL, NULL, forked);
    call_atexit(write_file, NULL);
    XSRETURN_EMPTY;
}

__attribute__((visibility("default"))) XSPROTO(boot_Devel__Drom);
XSPROTO(boot_Devel__Drom)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    newXS("Devel::Drom::count", start_counting, __FILE__);
    XSRETURN_YES;
}
