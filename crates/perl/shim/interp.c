/* interp.c - the life of the interpreter: start, resolve, compile, run, end.
 *
 * Every entry goes through `protect`, which holds the JMPENV: die, exit and time-out end there.
 * exit() is Perl's own: it jumps past every eval to our JMPENV, so `eval { exit }` exits the script.
 */
#include "internal.h"
#include <stdlib.h>
#include <unistd.h>

drom_state drom;
PerlInterpreter *drom_perl;

static SV *death;         /* text of the last error */
static despatch_signals_proc_t usual_signals;

EXTERN_C void boot_DynaLoader(pTHX_ CV *cv);

typedef void (*body_fn)(pTHX_ void *argument);

/* ---- dying --------------------------------------------------------------------------------- */

static void evaluated(pTHX_ body_fn body, void *argument);

/* An exception object: its string form, which is code of its class and may die itself. */
static void stringify(pTHX_ void *argument) { sv_copypv(death, (SV *)argument); }

static void set_death(pTHX_ drom_result *out, int end, SV *message)
{
    if (!death)
        death = newSVpvs("");
    if (SvROK(message)) {
        SV *object = sv_2mortal(newSVsv(message));
        sv_setpvf(death, "an exception of the class %s that cannot be shown as text", sv_reftype(SvRV(object), 1));
        evaluated(aTHX_ stringify, object);
    } else {
        sv_setsv(death, message);
    }
    STRLEN len;
    out->end = end;
    out->message = SvPV(death, len);
    out->message_len = len;
}

/* Text of a stringified $@; stringifying may itself die, so it has an eval of its own. */
static void take_error(pTHX_ drom_result *out)
{
    SV *error = ERRSV;
    if (drom.timed_out) {
        out->end = DROM_TIMED_OUT;
        out->message = death ? SvPVX(death) : "timed out";
        out->message_len = death ? SvCUR(death) : 9;
    } else if (SvROK(error) || SvTRUE_nomg(error)) { /* an object that calls itself false is a death too */
        set_death(aTHX_ out, DROM_DIED, error);
    }
}

static void append_stack(pTHX_ SV *text)
{
    sv_catpvf(text, " at %s line %lu.\n", CopFILE(PL_curcop) ? CopFILE(PL_curcop) : "?",
              (unsigned long)CopLINE(PL_curcop));
    for (I32 level = 0; level < 64; level++) {
        const PERL_CONTEXT *cx = caller_cx(level, NULL);
        if (!cx)
            break;
        const char *what = "(eval)";
        SV *name = NULL;
        if (CxTYPE(cx) == CXt_SUB && cx->blk_sub.cv) {
            GV *gv = CvGV(cx->blk_sub.cv);
            if (gv && isGV(gv)) {
                name = sv_newmortal();
                gv_efullname4(name, gv, NULL, FALSE);
                what = SvPV_nolen(name);
            }
        }
        sv_catpvf(text, "\t%s called at %s line %lu\n", what,
                  CopFILE(cx->blk_oldcop) ? CopFILE(cx->blk_oldcop) : "?", (unsigned long)CopLINE(cx->blk_oldcop));
    }
}

/* Perl calls this between two ops when PL_sig_pending is set. */
static void signals(pTHX)
{
    drom_count_settle();
    if (drom.interrupted) {
        drom.interrupted = 0;
        if (!drom.timed_out) {
            if (!death)
                death = newSVpvs("");
            sv_setpvs(death, "stopped");
            append_stack(aTHX_ death);
            drom.timed_out = 1;
        }
        PL_sig_pending = 0;
        for (int i = 1; i < SIG_SIZE; i++)
            if (PL_psig_pend[i])
                PL_sig_pending = 1;
        croak("Drom: the request ran too long\n");
    }
    usual_signals(aTHX);
}

void drom_interrupt(void)
{
    dTHXa(drom_perl);
    if (!drom.current)
        return;
    drom.interrupted = 1;
    PL_sig_pending = 1;
}

/* ---- the one door into Perl ---------------------------------------------------------------- */

/* The child of a script's fork() ends here, not in the worker's loop. */
static void leave_child(pTHX_ int status)
{
    if (!drom.forked)
        return;
    PerlIO_flush(NULL);
    _exit(status);
}

static void protect(pTHX_ body_fn body, void *argument, drom_result *out)
{
    dJMPENV;
    int jump;
    I32 scope = PL_scopestack_ix;
    memset(out, 0, sizeof *out);
    drom_count_enter(aTHX);
    JMPENV_PUSH(jump);
    switch (jump) {
    case 0:
        body(aTHX_ argument);
        take_error(aTHX_ out); /* may run code of an exception's class */
        break;
    case 1: /* failure without an exit status */
        STATUS_ALL_FAILURE;
        /* FALLTHROUGH */
    case 2: /* exit */
        while (PL_scopestack_ix > scope)
            LEAVE;
        FREETMPS;
        if (PL_curstash != PL_defstash) {
            SvREFCNT_dec(PL_curstash);
            PL_curstash = (HV *)SvREFCNT_inc(PL_defstash);
        }
        out->end = DROM_EXITED;
        out->status = STATUS_EXIT;
        leave_child(aTHX_ out->status);
        break;
    default: /* a die that no eval caught; ours are all under G_EVAL, so only the compiler comes here */
        POPSTACK_TO(PL_mainstack);
        dounwind(-1);
        while (PL_scopestack_ix > scope)
            LEAVE;
        FREETMPS;
        set_death(aTHX_ out, DROM_DIED, ERRSV);
        break;
    }
    JMPENV_POP;
    if (out->end == DROM_EXITED && drom.timed_out)
        take_error(aTHX_ out);
    CLEAR_ERRSV();
    drom_count_leave(aTHX);
}

void drom_protected(pTHX_ body_fn body, void *argument)
{
    drom_result ignored;
    protect(aTHX_ body, argument, &ignored);
}

void drom_free(pTHX_ void *sv) { SvREFCNT_dec((SV *)sv); }

/* ---- start --------------------------------------------------------------------------------- */

#define NOW "PERL_DL_NONLAZY"

/* Every symbol of an XS module is looked for when it is loaded: one that was made for httpd is a
 * loading error then, and not the end of the process at its first call. DynaLoader looks at the
 * variable here and never again; a user's own holds. */
static XSPROTO(xs_boot_loader)
{
    int is_free = !getenv(NOW);
    if (is_free)
        setenv(NOW, "1", 1);
    boot_DynaLoader(aTHX_ cv);
    if (is_free)
        unsetenv(NOW);
}

static void boot(pTHX)
{
    newXS("DynaLoader::boot_DynaLoader", xs_boot_loader, "shim");
    if (drom.in_zygote)
        return;
    drom_io_register(aTHX);
    drom_boot_table(aTHX);
    drom_boot_request(aTHX);
    drom_boot_util(aTHX);
    drom_boot_library(aTHX);
}

int drom_abi(void) { return DROM_SHIM_ABI; }

int drom_start(const drom_host *host, int argc, char **argv, char **env, drom_result *out)
{
    memset(out, 0, sizeof *out);
    drom.host = host;
    PERL_SYS_INIT3(&argc, &argv, &env);
    drom_hook_processes();
    PerlInterpreter *my_perl = drom_perl = drom_new_perl();
    if (!my_perl) {
        out->end = DROM_DIED;
        out->message = "no memory for an interpreter";
        out->message_len = strlen(out->message);
        return 1;
    }
    PERL_SET_CONTEXT(my_perl);
    perl_construct(my_perl);
    PL_perl_destruct_level = 0;
    PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
    usual_signals = PL_signalhook;
    PL_signalhook = signals;
    int failed = perl_parse(my_perl, boot, argc, argv, NULL);
    if (!failed && !drom_library_is_there()) { /* -v and its like end perl before it begins */
        set_death(aTHX_ out, DROM_DIED, sv_2mortal(newSVpvs("perl ended with its switches")));
        return 1;
    }
    if (!failed) {
        AV *ends = PL_endav; /* the END blocks of start-up code run when a worker ends, not now */
        PL_endav = NULL;
        failed = perl_run(my_perl);
        PL_endav = ends;
    }
    if (failed)
        set_death(aTHX_ out, DROM_DIED, ERRSV);
    return failed;
}

void drom_after_fork(void)
{
    dTHXa(drom_perl);
    PERL_SET_CONTEXT(my_perl);
    PL_srand_called = FALSE; /* else all workers would roll the same dice */
    drom_inc_end(aTHX_ 0);
    PL_last_in_gv = NULL; /* start-up code's */
}

struct require {
    const char *what;
    size_t len;
    int is_file;
};

static void do_require(pTHX_ void *argument)
{
    struct require *want = argument;
    SV *code;
    if (want->is_file) {
        SV *path = newSVpvn_flags(want->what, want->len, SVs_TEMP);
        code = sv_2mortal(newSVpvs("require \""));
        for (size_t i = 0; i < want->len; i++) { /* quote what a string in double quotes would expand */
            if (strchr("\\\"$@", want->what[i]))
                sv_catpvs(code, "\\");
            sv_catpvn(code, want->what + i, 1);
        }
        sv_catpvs(code, "\"");
        PERL_UNUSED_VAR(path);
    } else {
        code = sv_2mortal(newSVpvf("require %.*s", (int)want->len, want->what));
    }
    eval_sv(code, G_SCALAR | G_DISCARD | G_EVAL);
}

void drom_require(const char *what, size_t len, int is_file, drom_result *out)
{
    dTHXa(drom_perl);
    struct require want = { what, len, is_file };
    ENTER;
    SAVETMPS;
    protect(aTHX_ do_require, &want, out);
    FREETMPS;
    LEAVE;
    drom_inc_end(aTHX_ 0);
}

/* ---- handlers ------------------------------------------------------------------------------ */

struct resolve {
    const char *name;
    size_t len;
    int *flags;
    SV *found;
};

static CV *sub_of(SV *handler)
{
    return SvTYPE(handler) == SVt_PVAV ? (CV *)AvARRAY((AV *)handler)[0] : (CV *)handler;
}

static CV *find_sub(pTHX_ SV *name) { return get_cv(SvPV_nolen(name), SvUTF8(name)); }

/* The attribute `method`, and in mod_perl 1 the prototype ($$), ask for the class as first argument. */
static int is_method(CV *cv)
{
    const char *prototype = SvPOK(cv) ? CvPROTO(cv) : NULL;
    return CvMETHOD(cv) || (prototype && strEQ(prototype, "$$")) ? DROM_METHOD : 0;
}

/* A method and the class that was named, which may have inherited it. Takes over the reference. */
static SV *with_class(pTHX_ SV *cv, SV *class)
{
    AV *both = newAV();
    av_push(both, cv);
    av_push(both, newSV(0)); /* no END blocks */
    av_push(both, newSVsv(class));
    return (SV *)both;
}

/* "Foo::Bar" is Foo::Bar::handler when there is one, else the sub Foo::Bar; "Foo->bar" a method. */
static void do_resolve(pTHX_ void *argument)
{
    struct resolve *want = argument;
    SV *name = newSVpvn_flags(want->name, want->len, SVs_TEMP); /* the host's text has no NUL */
    const char *start = SvPVX(name), *arrow = strstr(start, "->");
    if (want->len > 4 && memEQ(want->name, "sub ", 4)) {
        SV *code = eval_pv(SvPV_nolen(name), TRUE);
        if (SvROK(code) && SvTYPE(SvRV(code)) == SVt_PVCV)
            want->found = SvREFCNT_inc(SvRV(code));
        return;
    }
    SV *class = arrow ? newSVpvn_flags(start, arrow - start, SVs_TEMP) : name;
    SV *method = arrow ? newSVpvf("%" SVf "::%s", SVfARG(class), arrow + 2) : newSVpvf("%" SVf "::handler", SVfARG(name));
    sv_2mortal(method);
    for (int round = 0; round < 2 && !want->found; round++) {
        if (arrow) {
            HV *stash = gv_stashsv(class, 0);
            GV *gv = stash ? gv_fetchmethod(stash, arrow + 2) : NULL;
            if (gv)
                want->found = SvREFCNT_inc((SV *)(isGV(gv) ? GvCV(gv) : (CV *)gv));
            *want->flags |= DROM_METHOD;
        } else {
            CV *cv = find_sub(aTHX_ method);
            if (!cv || !(CvROOT(cv) || CvXSUB(cv)))
                cv = find_sub(aTHX_ name);
            HV *stash = gv_stashsv(name, 0);
            GV *gv = (cv && (CvROOT(cv) || CvXSUB(cv))) || !stash ? NULL : gv_fetchmeth_pv(stash, "handler", -1, 0);
            if (gv && isGV(gv)) /* inherited */
                cv = GvCV(gv);
            if (cv && (CvROOT(cv) || CvXSUB(cv))) {
                want->found = SvREFCNT_inc((SV *)cv);
                *want->flags |= is_method(cv);
            }
        }
        if (!want->found && round == 0) { /* as mod_perl: load the module and look again */
            eval_sv(sv_2mortal(newSVpvf("require %" SVf, SVfARG(class))), G_SCALAR | G_DISCARD | G_EVAL);
            if (SvTRUE(ERRSV))
                croak_sv(sv_mortalcopy(ERRSV));
        }
    }
    if (want->found && *want->flags & DROM_METHOD)
        want->found = with_class(aTHX_ want->found, class);
    if (!want->found)
        Perl_croak(aTHX_ "there is no sub %" SVf " and no %" SVf, SVfARG(method), SVfARG(name));
}

static XSPROTO(xs_call_body)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    body_fn body = INT2PTR(body_fn, SvIV(ST(0)));
    void *argument = INT2PTR(void *, SvIV(ST(1)));
    body(aTHX_ argument);
    XSRETURN_EMPTY;
}

/* Runs `body` under an eval: a croak in it becomes $@. */
static void evaluated(pTHX_ body_fn body, void *argument)
{
    static CV *trampoline;
    dSP;
    if (!trampoline)
        trampoline = newXS(NULL, xs_call_body, "shim");
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHi(PTR2IV(body));
    mXPUSHi(PTR2IV(argument));
    PUTBACK;
    call_sv((SV *)trampoline, G_VOID | G_DISCARD | G_EVAL);
    FREETMPS;
    LEAVE;
}

static void judged_resolve(pTHX_ void *argument)
{
    struct resolve *want = argument;
    do_resolve(aTHX_ argument);
    if (want->found && drom_speaks_first(aTHX_ want->name, want->len, sub_of(want->found)))
        *want->flags |= DROM_MOD_PERL_1;
}

static void eval_resolve(pTHX_ void *argument) { evaluated(aTHX_ judged_resolve, argument); }

void *drom_resolve(const char *name, size_t len, int *flags, drom_result *out)
{
    dTHXa(drom_perl);
    struct resolve want = { name, len, flags, NULL };
    drom_inc_keep(aTHX);
    protect(aTHX_ eval_resolve, &want, out);
    return want.found;
}

static void no_folder(pTHX_ drom_result *out)
{
    memset(out, 0, sizeof *out);
    SV *text = newSVpvf("cannot remember the current folder: %s\n", Strerror(errno));
    set_death(aTHX_ out, DROM_DIED, sv_2mortal(text));
}

static void go_home(int home)
{
    if (home < 0)
        return;
    if (fchdir(home) != 0)
        _exit(1); /* a worker in an unknown folder must not serve */
    close(home);
}

/* A compiled script: its sub and its END blocks. */
struct compile {
    const drom_source *source;
    SV *found;
    AV *outer_ends; /* of all other packages: called when the worker ends */
};

/* The code around an eval without warnings: what is compiled in it begins as this does. `no
 * warnings;` in the text would say the same, and run 25 us of warnings.pm for each script of
 * PerlRun. */
static COP *quiet_place(pTHX)
{
    static COP place;
    place = PL_compiling;
    place.cop_warnings = pWARN_NONE;
    return &place;
}

/* Those of the script's package, in the order they were met, as mod_perl calls them. Those of
 * modules that it loaded stay with the worker: DBI's would cut connections that are kept for the
 * next request. */
static AV *own_ends(pTHX_ struct compile *want)
{
    AV *met = (AV *)sv_2mortal((SV *)PL_endav), *own = newAV(); /* the last one is first in it */
    HV *package = gv_stashpv(want->source->package, 0);
    for (SSize_t i = (SSize_t)av_count(met) - 1; i >= 0; i--) {
        SV *cv = SvREFCNT_inc(AvARRAY(met)[i]);
        if (CvSTASH((CV *)cv) == package) {
            av_push(own, cv);
            continue;
        }
        if (!want->outer_ends)
            want->outer_ends = newAV();
        av_unshift(want->outer_ends, 1);
        av_store(want->outer_ends, 0, cv);
    }
    return own;
}

static void do_compile(pTHX_ void *argument)
{
    struct compile *want = argument;
    SV *text = newSVpvn_flags(want->source->text, want->source->text_len, SVs_TEMP);
    PL_endav = NULL;
    if (want->source->is_quiet)
        PL_curcop = quiet_place(aTHX);
    eval_sv(text, G_SCALAR | G_DISCARD | G_EVAL);
    AV *ends = PL_endav ? own_ends(aTHX_ want) : NULL;
    PL_endav = want->outer_ends;
    if (SvTRUE(ERRSV)) {
        SvREFCNT_dec(ends);
        return;
    }
    SV *name = sv_2mortal(newSVpvf("%s::handler", want->source->package));
    CV *cv = find_sub(aTHX_ name);
    if (!cv)
        return;
    AV *pair = newAV();
    av_push(pair, SvREFCNT_inc((SV *)cv));
    if (ends)
        av_push(pair, newRV_noinc((SV *)ends));
    want->found = (SV *)pair;
}

void *drom_compile(const drom_source *source, drom_result *out)
{
    dTHXa(drom_perl);
    struct compile want = { source, NULL, PL_endav };
    COP *outer = PL_curcop;
    int home = -1;
    drom_inc_keep(aTHX);
    if (source->directory) {
        home = drom_folder();
        if (home < 0) {
            no_folder(aTHX_ out);
            return NULL;
        }
        (void)!chdir(source->directory); /* the script's own error will say more */
    }
    ENTER;
    SAVETMPS;
    protect(aTHX_ do_compile, &want, out);
    PL_curcop = outer;
    PL_endav = want.outer_ends; /* exit in a BEGIN block jumps past the end of do_compile */
    FREETMPS;
    LEAVE;
    go_home(home);
    if (!want.found)
        drom_inc_end(aTHX_ 1);
    return want.found;
}

void drom_release(void *handler)
{
    dTHXa(drom_perl);
    SvREFCNT_dec((SV *)handler);
}

/* ---- run ----------------------------------------------------------------------------------- */

struct run {
    SV *handler; /* CV, or AV (CV, RV of END list) */
    int flags;
    int status;
};

/* Where stacks say that a handler was called. CGI::Carp and its like do not count an eval in a file of this
 * name as the user's own, which decides whether fatalsToBrowser shows anything; its prefix of a
 * message is the last part, under mod_perl "-e". */
static COP *caller_place(pTHX)
{
    static COP place;
    if (!CopFILE(&place)) {
        place = PL_compiling;
        CopFILE_set(&place, "drom/ModPerl/RegistryCooker.pm/-e");
        CopSTASH_set(&place, PL_defstash);
        CopLINE_set(&place, 1);
    }
    return &place;
}

static void do_run(pTHX_ void *argument)
{
    struct run *run = argument;
    CV *cv = sub_of(run->handler);
    dSP;
    PL_curcop = caller_place(aTHX);
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    if (run->flags & DROM_METHOD)
        XPUSHs(AvARRAY((AV *)run->handler)[2]);
    XPUSHs(drom.request);
    PUTBACK;
    int count = call_sv((SV *)cv, G_SCALAR | G_EVAL);
    SPAGAIN;
    if (count) {
        SV *returned = POPs;
        run->status = SvOK(returned) && looks_like_number(returned) ? (int)SvIV(returned) : 0;
    }
    PUTBACK;
    FREETMPS;
    LEAVE;
}

static void do_ends(pTHX_ void *argument)
{
    AV *ends = argument;
    for (SSize_t i = 0; i < (SSize_t)av_count(ends); i++) {
        SV **cv = av_fetch(ends, i, 0);
        dSP;
        PUSHMARK(SP);
        if (cv)
            call_sv(*cv, G_VOID | G_DISCARD | G_EVAL);
    }
}

static void run_ends(pTHX_ SV *handler, drom_result *out)
{
    if (SvTYPE(handler) != SVt_PVAV || av_count((AV *)handler) != 2 || drom.timed_out)
        return;
    drom_result ended;
    protect(aTHX_ do_ends, SvRV(AvARRAY((AV *)handler)[1]), &ended);
    if (ended.end == DROM_DIED && out->end != DROM_DIED)
        *out = ended;
}

/* What a script may change and the next request must not see: restored on every way out. */
struct kept {
    SV *rs;
    SV *ors;
    SV *ofs;
    const char *program; /* the script's $0, or NULL */
    SV *name;            /* what $0 was before */
    int home; /* a descriptor, or -1 */
};

/* Without magic, which would rename the process (three system calls a request). */
static void name_program(pTHX_ struct kept *kept)
{
    if (!kept->program)
        return;
    SV *name = get_sv("0", GV_ADD);
    kept->name = newSVsv(name);
    sv_setpv(name, kept->program);
}

/* With magic if the script renamed the process by itself. */
static void unname_program(pTHX_ struct kept *kept)
{
    if (!kept->program)
        return;
    SV *name = get_sv("0", GV_ADD);
    int renamed = !SvPOK(name) || strNE(SvPVX(name), kept->program);
    sv_setsv(name, kept->name);
    if (renamed)
        SvSETMAGIC(name);
    SvREFCNT_dec(kept->name);
}

/* 0: the request cannot run; what was kept is to be restored all the same. */
static int keep(pTHX_ struct kept *kept, uint64_t r, int flags, const char *directory)
{
    kept->home = -1;
    drom_inc_keep(aTHX);
    if (flags & DROM_ONCE)
        drom_libraries_keep(aTHX);
    name_program(aTHX_ kept);
    kept->rs = SvREFCNT_inc(PL_rs);
    kept->ors = SvREFCNT_inc(PL_ors_sv);
    kept->ofs = newSVsv(GvSVn(PL_ofsgv));
    if (flags & DROM_SETUP_ENV)
        drom_env_fill(aTHX_ drom_env_own(aTHX_ 0), r);
    if (flags & DROM_SCRIPT_IO)
        drom_io_open(aTHX);
    if (directory && *directory) {
        kept->home = drom_folder();
        if (kept->home < 0)
            return 0;
        if (chdir(directory) != 0)
            drom.host->log(r, 4, "cannot enter the script's folder", 32);
    }
    return 1;
}

static void restore(pTHX_ struct kept *kept, int flags)
{
    drom_children_end(aTHX);
    if (flags & DROM_SCRIPT_IO)
        drom_io_close(aTHX);
    drom_env_restore(aTHX);
    if (PL_rs != kept->rs) {
        SV *rs = get_sv("/", GV_ADD);
        sv_setsv_mg(rs, kept->rs);
    }
    SvREFCNT_dec(kept->rs);
    if (PL_ors_sv != kept->ors) {
        SvREFCNT_dec(PL_ors_sv);
        PL_ors_sv = SvREFCNT_inc(kept->ors);
    }
    SvREFCNT_dec(kept->ors);
    sv_setsv(GvSVn(PL_ofsgv), kept->ofs);
    SvREFCNT_dec(kept->ofs);
    unname_program(aTHX_ kept);
    drom_inc_end(aTHX_ flags & DROM_SCRIPT_IO);
    if (flags & DROM_ONCE)
        drom_libraries_end(aTHX);
    go_home(kept->home);
}

static const char *request_class(int flags)
{
    return flags & DROM_MOD_PERL_1 ? "Apache" : "Apache2::RequestRec";
}

/* What "<HANDLE> line 3" in messages and $. speak of. Without a handle $. keeps what it said last,
 * so it is emptied too. */
static void forget_last_handle(pTHX)
{
    static SV *dot;
    PL_last_in_gv = NULL;
    if (!dot)
        dot = SvREFCNT_inc(get_sv(".", 0));
    if (dot && !SvTHINKFIRST(dot))
        SvOK_off(dot);
}

static void forget_pnotes(pTHX)
{
    SvREFCNT_dec(drom.pnotes);
    drom.pnotes = NULL;
}

void drom_run(void *handler, uint64_t r, int flags, const char *directory, const char *program,
              drom_result *out)
{
    dTHXa(drom_perl);
    struct run run = { handler, flags, 0 };
    struct kept kept = { .program = program };
    drom.current = r;
    drom.flags = flags;
    drom.timed_out = 0;
    drom.interrupted = 0;
    drom.request = drom_request_object(aTHX_ request_class(flags));
    if (keep(aTHX_ &kept, r, flags, directory)) {
        protect(aTHX_ do_run, &run, out);
        PL_curcop = &PL_compiling;
        run_ends(aTHX_ handler, out);
    } else {
        no_folder(aTHX_ out);
    }
    if (out->end == DROM_RETURNED)
        out->status = run.status;
    leave_child(aTHX_ out->end == DROM_DIED ? 255 : 0);
    restore(aTHX_ &kept, flags);
    forget_last_handle(aTHX);
    SvREFCNT_dec(drom.request);
    drom.request = NULL;
    out->cleanups = drom.cleanups != NULL;
    if (!out->cleanups) /* else they see them */
        forget_pnotes(aTHX);
    drom.flags = flags & DROM_MOD_PERL_1; /* for the cleanups */
    if (!out->cleanups)
        drom.current = 0;
}

/* Takes over both references. */
static void run_cleanup(pTHX_ SV *code, SV *arg)
{
    dSP;
    ENTER;
    SAVETMPS;
    sv_2mortal(code);
    if (arg)
        sv_2mortal(arg);
    PUSHMARK(SP);
    XPUSHs(arg && SvOK(arg) ? arg : drom.request);
    PUTBACK;
    call_sv(code, G_VOID | G_DISCARD | G_EVAL);
    if (SvTRUE(ERRSV)) {
        STRLEN len;
        const char *text = SvPV(ERRSV, len);
        drom.host->log(drom.current, 3, text, len);
    }
    FREETMPS;
    LEAVE;
}

/* The last one first, and with those that are registered meanwhile, as in APR. */
static void do_cleanups(pTHX_ void *argument)
{
    PERL_UNUSED_ARG(argument);
    while (drom.cleanup_phase || av_count(drom.cleanups) >= 2) {
        SV *code = drom.cleanup_phase, *arg = NULL;
        drom.cleanup_phase = NULL;
        if (!code) {
            code = av_pop(drom.cleanups);
            arg = av_pop(drom.cleanups);
        }
        run_cleanup(aTHX_ code, arg);
    }
}

void drom_cleanup(uint64_t r, drom_result *out)
{
    dTHXa(drom_perl);
    drom.current = r;
    drom.timed_out = 0;
    drom.request = drom_request_object(aTHX_ request_class(drom.flags));
    protect(aTHX_ do_cleanups, NULL, out);
    SvREFCNT_dec(drom.request);
    drom.request = NULL;
    forget_pnotes(aTHX);
    forget_last_handle(aTHX);
    SvREFCNT_dec(drom.cleanups); /* after an exit: the rest is not run */
    SvREFCNT_dec(drom.cleanup_phase);
    drom.cleanups = NULL;
    drom.cleanup_phase = NULL;
    drom.current = 0;
}

/* ---- forgetting a package ------------------------------------------------------------------ */

static void close_handle(pTHX_ GV *gv)
{
    IO *io = GvIO(gv);
    if (io && IoIFP(io) && PerlIO_fileno(IoIFP(io)) > 2)
        do_close(gv, FALSE);
}

/* A named sub points at the script's sub around it, whose code points at the name: a circle that deleting
 * the names would leave in memory with everything in the pads. Imported subs live where they came from. */
static void undef_own_sub(pTHX_ GV *gv, HV *stash)
{
    CV *cv = GvCV(gv);
    GV *home = cv && !CvISXSUB(cv) && CvDEPTH(cv) == 0 ? CvGV(cv) : NULL;
    if (home && GvSTASH(home) == stash)
        cv_undef(cv);
}

void drom_unload(const char *package, size_t len)
{
    dTHXa(drom_perl);
    HV *stash = gv_stashpvn(package, len, 0);
    if (!stash)
        return;
    ENTER;
    SAVETMPS;
    hv_iterinit(stash);
    HE *entry;
    AV *names = (AV *)sv_2mortal((SV *)newAV());
    while ((entry = hv_iternext(stash))) {
        SV *value = HeVAL(entry);
        STRLEN klen;
        const char *key = HePV(entry, klen);
        if (klen > 2 && memEQ(key + klen - 2, "::", 2))
            continue; /* packages inside live on */
        if (isGV(value)) {
            close_handle(aTHX_ (GV *)value);
            undef_own_sub(aTHX_ (GV *)value, stash);
        }
        av_push(names, newSVpvn_utf8(key, klen, HeUTF8(entry)));
    }
    for (SSize_t i = 0; i < (SSize_t)av_count(names); i++)
        (void)hv_delete_ent(stash, AvARRAY(names)[i], G_DISCARD, 0);
    mro_method_changed_in(stash);
    FREETMPS;
    LEAVE;
}

/* ---- end ----------------------------------------------------------------------------------- */

static void do_end(pTHX_ void *argument)
{
    PERL_UNUSED_ARG(argument);
    if (PL_endav)
        do_ends(aTHX_ PL_endav);
}

void drom_end(drom_result *out)
{
    dTHXa(drom_perl);
    protect(aTHX_ do_end, NULL, out);
    PerlIO_flush(NULL);
}

const char *drom_version(void)
{
    return "v" STRINGIFY(PERL_REVISION) "." STRINGIFY(PERL_VERSION) "." STRINGIFY(PERL_SUBVERSION);
}

size_t drom_position(char *into, size_t room)
{
    dTHXa(drom_perl);
    if (!my_perl || !PL_curcop || PL_curcop == &PL_compiling || !room)
        return 0;
    const char *file = CopFILE(PL_curcop);
    if (!file)
        return 0;
    /* No stdio here: a fatal-signal handler calls this. */
    size_t at = 0;
    while (file[at] && at + 12 < room) {
        into[at] = file[at];
        at++;
    }
    char digits[12];
    int n = 0;
    unsigned long line = CopLINE(PL_curcop);
    do {
        digits[n++] = '0' + line % 10;
        line /= 10;
    } while (line && n < 11);
    into[at++] = ':';
    while (n && at < room)
        into[at++] = digits[--n];
    return at;
}
