/* shim.h - the border between the server (Rust) and libperl (C).
 *
 * The server loads this library, hands it a table of functions (`drom_host`) and calls the functions of
 * `drom_shim`. Perl's exceptions are long jumps; every entry from the server stands behind a JMPENV here,
 * and no host function ever calls Perl, so no Rust frame lies between a jump and its target.
 *
 * OWNERSHIP. Text that the host returns belongs to the host and lives until the next host call that
 * changes the same request; the shim copies it into an SV at once. Text given to the host is copied by it.
 * Error texts in `drom_result` belong to the shim and live until the next entry. A handler (SV*) returned
 * by drom_compile or drom_resolve carries one reference, given back by drom_release.
 */
#ifndef DROM_SHIM_H
#define DROM_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DROM_SHIM_ABI 6

typedef struct {
    const char *ptr; /* NULL: undefined */
    size_t len;
} drom_str;

typedef struct {
    drom_str key;
    drom_str value;
} drom_pair;

enum drom_text {
#define TEXT(variant, class, name, access, doc) DROM_TEXT_##variant,
#define NUMBER(variant, class, name, access, doc)
#define TABLE(variant, class, name, doc)
#include "methods.def"
#undef TEXT
#undef NUMBER
#undef TABLE
    DROM_TEXTS
};

enum drom_number {
#define TEXT(variant, class, name, access, doc)
#define NUMBER(variant, class, name, access, doc) DROM_NUMBER_##variant,
#define TABLE(variant, class, name, doc)
#include "methods.def"
#undef TEXT
#undef NUMBER
#undef TABLE
    DROM_NUMBERS
};

enum drom_table_kind {
#define TEXT(variant, class, name, access, doc)
#define NUMBER(variant, class, name, access, doc)
#define TABLE(variant, class, name, doc) DROM_TABLE_##variant,
#include "methods.def"
#undef TEXT
#undef NUMBER
#undef TABLE
    DROM_TABLES
};

/* What the server does for Perl. `r` numbers a request; a number that is over answers nothing. */
typedef struct {
    drom_str (*text)(uint64_t r, int field);
    void (*set_text)(uint64_t r, int field, const char *ptr, size_t len);
    int64_t (*number)(uint64_t r, int field);
    void (*set_number)(uint64_t r, int field, int64_t value);
    int (*print)(uint64_t r, const char *ptr, size_t len); /* 0, or an errno */
    int (*flush)(uint64_t r);                              /* 0, or an errno */
    ssize_t (*read)(uint64_t r, char *into, size_t room);  /* bytes, 0 at the end, or -errno */
    const drom_pair *(*environment)(uint64_t r, size_t *count);
    void (*log)(uint64_t r, int level, const char *ptr, size_t len);
    int (*send_file)(uint64_t r, const char *path, size_t len, int64_t offset, int64_t count);
    void (*command)(uint64_t r, int what, const char *ptr, size_t len);
    drom_str (*module_source)(const char *path, size_t len);

    uint64_t (*table)(uint64_t r, int kind); /* a handle, as the functions below take it */
    uint64_t (*table_new)(void);
    void (*table_free)(uint64_t table);
    drom_str (*table_get)(uint64_t table, const char *key, size_t len, size_t nth);
    void (*table_put)(uint64_t table, const char *key, size_t klen, const char *value, size_t vlen, int how);
    void (*table_unset)(uint64_t table, const char *key, size_t len);
    void (*table_clear)(uint64_t table);
    int (*table_at)(uint64_t table, size_t index, drom_pair *pair); /* 0 past the end */
} drom_host;

enum drom_put { DROM_PUT_SET, DROM_PUT_ADD, DROM_PUT_MERGE };

enum drom_command {
    DROM_COMMAND_REDIRECT,        /* internal redirect to a local path once the handler returned */
    DROM_COMMAND_CUSTOM_RESPONSE, /* "STATUS text-or-url" */
    DROM_COMMAND_RETIRE,          /* replace this worker after the request */
    DROM_COMMAND_ASSBACKWARDS,    /* the script writes the head itself (nph-) */
    DROM_COMMAND_PRELOAD,         /* "class\0file\0uri": compile a script for a Registry at start */
    DROM_COMMAND_SEND_HEAD,       /* send_http_header: no more header parsing */
    DROM_COMMAND_FORKED           /* in the child of fork(): let go of every socket */
};

/* How a handler wants to be run. */
enum drom_run_flags {
    DROM_SETUP_ENV = 1,       /* %ENV filled */
    DROM_GLOBAL_REQUEST = 2,  /* Apache2::RequestUtil->request answers */
    DROM_SCRIPT_IO = 4,       /* STDIN and STDOUT are the request's */
    DROM_MOD_PERL_1 = 8,      /* $r is an Apache, MOD_PERL says 1.x */
    DROM_METHOD = 16,         /* Class->method($r) */
    DROM_ONCE = 32            /* PerlRun: %INC forgets what is no module afterwards */
};

enum drom_end { DROM_RETURNED, DROM_DIED, DROM_EXITED, DROM_TIMED_OUT };

typedef struct {
    int end;             /* enum drom_end */
    int status;          /* what a handler returned; an exit's status */
    int cleanups;        /* 1: drom_cleanup has work */
    const char *message; /* of a death: text and stack; never NULL after DROM_DIED or DROM_TIMED_OUT */
    size_t message_len;
} drom_result;

typedef struct {
    const char *package; /* NULL: text is a whole script for DROM_ONCE or Registry */
    const char *text;
    size_t text_len;
    const char *directory; /* chdir here for the compile, or NULL */
    int is_quiet;          /* without warnings, unless the text asks for them */
} drom_source;

#ifdef DROM_BUILDING_SHIM
#define DROM_EXPORT __attribute__((visibility("default")))
#else
#define DROM_EXPORT
#endif

DROM_EXPORT int drom_abi(void);
DROM_EXPORT int drom_start(const drom_host *host, int argc, char **argv, char **env, drom_result *out);
DROM_EXPORT void drom_require(const char *what, size_t len, int is_file, drom_result *out);
DROM_EXPORT void *drom_resolve(const char *name, size_t len, int *flags, drom_result *out);
DROM_EXPORT void *drom_compile(const drom_source *source, drom_result *out);
DROM_EXPORT void drom_release(void *handler);
DROM_EXPORT void drom_unload(const char *package, size_t len);
DROM_EXPORT void drom_run(void *handler, uint64_t r, int flags, const char *directory,
                          const char *program, drom_result *out);
DROM_EXPORT void drom_cleanup(uint64_t r, drom_result *out);
DROM_EXPORT void drom_end(drom_result *out);    /* END blocks of this worker */
DROM_EXPORT void drom_after_fork(void);
DROM_EXPORT void drom_interrupt(void);          /* async-signal-safe: the running request must die */
/* Counting calls and statements for a while: see counting.c. */
enum drom_count { DROM_COUNT_ON = 1, DROM_COUNT_OFF, DROM_COUNT_FORGET };
DROM_EXPORT void drom_count_ask(int what);      /* async-signal-safe, in any thread */
DROM_EXPORT void drom_count_settle(void);       /* what was asked, where no Perl runs */
DROM_EXPORT int drom_refuse(int call);          /* for tests; see scarce.c */
DROM_EXPORT const char *drom_version(void);     /* "v5.36.0": of the headers, hence of libperl */
DROM_EXPORT size_t drom_position(char *into, size_t room); /* "file:line" being run; reads only */

/* The CGI zygote: see zygote.c. `next` waits for work in the parent and returns 1 in a child that is to
 * run `job`, 0 when the zygote is to end. */
typedef struct {
    const char *script;
    const char *const *env; /* NAME=value, NULL at the end */
    const char *const *args;
    const char *perl;     /* for $^X */
} drom_cgi_job;
typedef int (*drom_cgi_next)(void *state, drom_cgi_job *job);
typedef void (*drom_cgi_loaded)(void *state, const char *path, size_t len); /* one file of %INC, at the end */
DROM_EXPORT int drom_zygote(int argc, char **argv, char **env, const char *const *preload,
                            const char *const *inc, /* what @INC is to be; empty: libperl's own */
                            drom_cgi_next next, drom_cgi_loaded loaded, void *state);

/* A module loaded ahead that must not be, so that no child may be forked, and whose code made it
 * so; or NULL. */
DROM_EXPORT const char *drom_zygote_unfit(const char **file);

/* A child of the zygote that runs one script after another: see again.c. */
DROM_EXPORT int drom_runner_is_possible(void); /* in the zygote */
/* In a child just forked; 0: it cannot be one. It keeps the socket and closes all else. */
DROM_EXPORT int drom_runner_begin(int socket, int number);
DROM_EXPORT int drom_runner_socket(void);      /* where its jobs come from; -1: it is none */
DROM_EXPORT int drom_runner_number(void);
DROM_EXPORT int drom_runner_may_go_on(void);   /* after a script */
DROM_EXPORT void drom_runner_go_on(void);      /* to `next`; returns when it cannot */

#endif
