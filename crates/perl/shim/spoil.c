/* spoil.c - what a script does that cannot be put back: its process runs no other (see again.c).
 *
 * Each watch only sets a flag; the script notices nothing.
 */
#include "internal.h"

int drom_is_spoiled; /* part of the image, where it is 0 */

void drom_spoil(void) { drom_is_spoiled = 1; }

/* While a module is loaded ahead: it asked for what is another thing for each script. */
static int has_peeked;
static const char *peeked_in; /* the file whose code did */

static void peek(pTHX)
{
    if (!has_peeked)
        peeked_in = CopFILE(PL_curcop);
    has_peeked = 1;
}

/* Whether a module did since it was asked last, and the file that was in. */
int drom_has_peeked(const char **file)
{
    int result = has_peeked;
    *file = peeked_in;
    has_peeked = 0;
    return result;
}

static Perl_ppaddr_t usual[MAXO];

static OP *spoiling_op(pTHX)
{
    drom_spoil();
    peek(aTHX);
    return usual[PL_op->op_type](aTHX);
}

static OP *peeking_op(pTHX)
{
    peek(aTHX);
    return usual[PL_op->op_type](aTHX);
}

/* Fresh numbers on the stack; what earlier scripts used is not this one's. */
static OP *times_op(pTHX)
{
    OP *next = usual[OP_TMS](aTHX);
    SV **top = PL_stack_sp;
    double user, system;
    peek(aTHX);
    if (!drom_runner_spent(&user, &system))
        return next;
    if (GIMME_V == G_LIST) {
        sv_setnv(top[-3], SvNV(top[-3]) - user);
        sv_setnv(top[-2], SvNV(top[-2]) - system);
    } else if (GIMME_V == G_SCALAR) {
        sv_setnv(top[0], SvNV(top[0]) - user);
    }
    return next;
}

static void watch(const U16 *ops, size_t count, Perl_ppaddr_t with)
{
    for (size_t i = 0; i < count; i++) {
        usual[ops[i]] = PL_ppaddr[ops[i]];
        PL_ppaddr[ops[i]] = with;
    }
}

/* Ops compiled from now on. Other forks are noticed by the C library (drom_again_prepare). */
void drom_watch_ops(void)
{
    static const U16 spoiling[] = {
        OP_ALARM, OP_SETPGRP, OP_SETPRIORITY, OP_CHROOT, OP_SYSCALL, OP_SHMGET, OP_SHMCTL,
        OP_SHMREAD, OP_SHMWRITE, OP_MSGGET, OP_MSGCTL, OP_MSGSND, OP_MSGRCV, OP_SEMGET, OP_SEMCTL,
        OP_SEMOP, OP_DBMOPEN, OP_WAIT, OP_WAITPID, OP_SYSTEM, OP_EXEC, OP_FORK,
    };
    static const U16 peeking[] = {
        OP_TIME, OP_RAND, OP_SRAND, OP_GMTIME, OP_LOCALTIME, OP_GETPPID, OP_OPEN, OP_SYSOPEN,
        OP_OPEN_DIR, OP_BACKTICK, OP_GLOB,
    };
    static const U16 times[] = { OP_TMS };
    watch(spoiling, C_ARRAY_LENGTH(spoiling), spoiling_op);
    watch(peeking, C_ARRAY_LENGTH(peeking), peeking_op);
    watch(times, C_ARRAY_LENGTH(times), times_op);
}

static int process_id_is_read(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(sv);
    PERL_UNUSED_ARG(mg);
    drom_spoil();
    peek(aTHX);
    return 0;
}

static int program_is_read(pTHX_ SV *sv, MAGIC *mg)
{
    const char *file = CopFILE(PL_curcop);
    size_t length = file ? strlen(file) : 0;
    PERL_UNUSED_ARG(sv);
    PERL_UNUSED_ARG(mg);
    /* CGI.pm asks whether it is tainted, which is decided when perl starts: substr("$0$^X",0,0). */
    if (length < 7 || strcmp(file + length - 7, "/CGI.pm"))
        peek(aTHX);
    return 0;
}

static void watch_variable(pTHX_ const char *name, const MGVTBL *watching)
{
    SV *sv = GvSVn(gv_fetchpvn_flags(name, 1, GV_ADD | GV_NOTQUAL, SVt_PV));
    sv_magicext(sv, NULL, PERL_MAGIC_ext, watching, NULL, 0);
}

/* Before modules are loaded. Scripts make names out of $$ that no other request may have. */
void drom_watch_variables(pTHX)
{
    static const MGVTBL process_id = { .svt_get = process_id_is_read };
    static const MGVTBL program = { .svt_get = program_is_read };
    watch_variable(aTHX_ "$", &process_id);
    watch_variable(aTHX_ "0", &program);
}

/* Modules in C that keep nothing in the kernel. Another, preloaded, and children are used once; one
 * that a script loads itself shows in the size of the process. */
static int is_harmless(pTHX_ const char *name)
{
    static const char *const known[] = {
        "Fcntl", "List::Util", "Cwd", "IO", "mro", "re", "attributes", "Data::Dumper", "Encode",
        "Digest::MD5", "Digest::SHA", "MIME::Base64", "HTML::Parser", "Hash::Util", "File::Glob",
        "Hash::Util::FieldHash", "PerlIO::scalar", "PerlIO::encoding", "Storable", "Sub::Util",
        "Unicode::Normalize", "Encode::Unicode", "Encode::Byte", "Encode::Symbol", "JSON::XS",
        "Cpanel::JSON::XS", "Compress::Raw::Zlib", "Template::Stash::XS", "Text::CSV_XS", "Clone",
        "Params::Util", "Class::XSAccessor", "Time::Piece", "POSIX", "Socket", "Time::HiRes",
        "DBI", "DBD::SQLite",
    };
    for (size_t i = 0; i < C_ARRAY_LENGTH(known); i++)
        if (!strcmp(name, known[i]))
            return 1;
    return 0;
}

int drom_modules_are_harmless(pTHX)
{
    AV *modules = get_av("DynaLoader::dl_modules", 0);
    for (SSize_t i = 0; modules && i < (SSize_t)av_count(modules); i++) {
        SV **name = av_fetch(modules, i, 0);
        if (!name || !is_harmless(aTHX_ SvPV_nolen(*name)))
            return 0;
    }
    return 1;
}

/* Functions of modules above that do what the ops above do. */
static const char *const watched_names[] = {
    "POSIX::setsid", "POSIX::setpgid", "POSIX::tcsetpgrp", "POSIX::nice", "POSIX::sigaction",
    "POSIX::sigprocmask", "POSIX::sigsuspend", "POSIX::setuid", "POSIX::setgid", "POSIX::times",
    "POSIX::clock", "POSIX::setlocale", "POSIX::tzset", "POSIX::dup2", "POSIX::close",
    "Time::HiRes::alarm", "Time::HiRes::ualarm", "Time::HiRes::setitimer", "Time::HiRes::clock",
    "Time::HiRes::clock_gettime",
};

/* Functions that only look. */
static const char *const peeking_names[] = { "Cwd::getcwd", "Cwd::fastcwd", "Time::HiRes::time" };
#define PEEKING_COUNT C_ARRAY_LENGTH(peeking_names)

static struct {
    CV *cv;
    XSUBADDR_t usual;
} watched[PEEKING_COUNT + C_ARRAY_LENGTH(watched_names)];

static void watching_xs(pTHX_ CV *cv)
{
    size_t i = 0;
    while (i + 1 < C_ARRAY_LENGTH(watched) && watched[i].cv != cv)
        i++;
    if (i >= PEEKING_COUNT)
        drom_spoil();
    peek(aTHX);
    watched[i].usual(aTHX_ cv);
}

static void watch_function(pTHX_ const char *name, size_t i)
{
    CV *cv = get_cv(name, 0);
    if (!cv || !CvISXSUB(cv) || CvXSUB(cv) == watching_xs)
        return;
    watched[i].cv = cv;
    watched[i].usual = CvXSUB(cv);
    CvXSUB(cv) = watching_xs;
}

/* Those that are there by now. */
void drom_watch_modules(pTHX)
{
    for (size_t i = 0; i < PEEKING_COUNT; i++)
        watch_function(aTHX_ peeking_names[i], i);
    for (size_t i = 0; i < C_ARRAY_LENGTH(watched_names); i++)
        watch_function(aTHX_ watched_names[i], PEEKING_COUNT + i);
}

static int signals_are_untouched(pTHX)
{
    for (int i = 1; PL_psig_ptr && i < SIG_SIZE; i++)
        if (PL_psig_ptr[i])
            return 0;
    return 1;
}

/* While perl still has what the script set: at the beginning of perl_destruct. */
void drom_look_at_signals(pTHX)
{
    if (!signals_are_untouched(aTHX))
        drom_spoil();
}
