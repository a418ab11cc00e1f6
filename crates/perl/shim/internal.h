/* internal.h - what the files of the shim share; nothing here crosses the border. */
#ifndef DROM_INTERNAL_H
#define DROM_INTERNAL_H

#define DROM_BUILDING_SHIM
#define PERL_NO_GET_CONTEXT
#include <EXTERN.h>
#include <perl.h>
#include <XSUB.h>
#include "shim.h"
#include <setjmp.h>
#include <stdio.h>

/* State of the one interpreter of this process. Perl's memory owns every SV here. */
typedef struct {
    const drom_host *host;
    uint64_t current;     /* request being run; 0: none */
    int flags;            /* its drom_run_flags */
    SV *request;          /* its $r, or NULL */
    HV *pnotes;           /* its pnotes, or NULL */
    HV *outer_env;        /* the process's %ENV while the request has its own, or NULL */
    AV *cleanups;         /* pairs (argument, code), the last one runs first; or NULL */
    SV *cleanup_phase;    /* code that runs PerlCleanupHandlers, before all others; or NULL */
    volatile sig_atomic_t interrupted;
    int timed_out;
    int in_zygote;
    int forked;           /* 1 in the child of a script's fork() */
} drom_state;

extern drom_state drom;
extern PerlInterpreter *drom_perl;

/* An XS sub with a number that tells its aliases apart (XSANY). */
void drom_define(pTHX_ const char *name, XSUBADDR_t code, I32 which);
void drom_boot_request(pTHX);
void drom_boot_table(pTHX);
void drom_boot_util(pTHX);
void drom_boot_library(pTHX);
int drom_library_is_there(void);
void drom_hook_processes(void);

/* Runs code that may free Perl's values: what dies or exits in a destructor ends here. */
void drom_protected(pTHX_ void (*body)(pTHX_ void *), void *argument);
void drom_free(pTHX_ void *sv);

void drom_inc_keep(pTHX);
void drom_inc_end(pTHX_ int restore);
void drom_libraries_keep(pTHX);
void drom_libraries_end(pTHX);

void drom_io_register(pTHX);
void drom_io_open(pTHX);
void drom_io_close(pTHX);
int drom_print(uint64_t r, const char *bytes, size_t count);
int drom_flush(uint64_t r);
ssize_t drom_read(uint64_t r, char *into, size_t room);
void drom_children_end(pTHX);
HV *drom_env_own(pTHX_ int copy);
void drom_env_restore(pTHX);
void drom_env_fill(pTHX_ HV *env, uint64_t r);
void drom_env_export(pTHX);

void drom_few_pages(pTHX);

/* One of /proc/self/maps. */
struct mapping {
    uintptr_t from, to;
    char mode[5];
    char file[256];
};
int drom_next_mapping(FILE *list, struct mapping *found);

void drom_again_begin(void);
void drom_again_prepare(pTHX);
jmp_buf *drom_again_point(void);
void drom_again_image(void);
void drom_look_at_signals(pTHX);

extern int drom_is_spoiled;
void drom_spoil(void);
void drom_watch_ops(void);
void drom_watch_variables(pTHX);
void drom_watch_modules(pTHX);
int drom_has_peeked(const char **file);
int drom_modules_are_harmless(pTHX);
int drom_runner_spent(double *user, double *system);

PerlInterpreter *drom_new_perl(void);
int drom_folder(void);
int drom_memory_file(const char *name);
int drom_second_descriptor(int fd);
void *drom_env_memory(size_t bytes);

/* Who enters Perl goes in and out by these, whatever happens in between. */
void drom_count_enter(pTHX);
void drom_count_leave(pTHX);

int drom_speaks_first(pTHX_ const char *name, size_t len, CV *cv);
SV *drom_request_object(pTHX_ const char *class);
SV *drom_table_object(pTHX_ uint64_t table, int owned);
uint64_t drom_request_id(pTHX_ SV *object);
SV *drom_sv(pTHX_ drom_str text);

#endif
