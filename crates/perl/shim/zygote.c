/* zygote.c - a perl that waits inside its own start.
 *
 * A CGI script must not notice that it did not get a process of its own: BEGIN, INIT and CHECK blocks,
 * __DATA__, caller, line numbers, -w on the first line, END and the exit status are those of
 * `perl script`. So the zygote runs the very perl_parse of a program that begins with `use Drom::Zygote`
 * and waits inside that `use`. A child forked there puts the script's file under the lexer and returns:
 * perl goes on to compile the first line, in a process of its own.
 */
#include "internal.h"
#include <dirent.h>
#include <perliol.h>
#include <time.h>
#include <unistd.h>

static struct {
    drom_cgi_next next;
    drom_cgi_loaded loaded;
    void *state;
    const char *const *preload;
    const char *const *inc;
    const char *unfit;      /* a module that may not be loaded ahead; NULL: none is */
    const char *unfit_file; /* whose code it is that made it so, if that is known */
} zygote;

static void fill_env(pTHX_ const char *const *env)
{
    HV *hv = GvHVn(PL_envgv);
    environ = (char **)env;
    TAINT;
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals)
            continue;
        SV *value = newSVpv(equals + 1, 0);
        (void)hv_store(hv, *env, (I32)(equals - *env), value, 0);
        SvTAINTED_on(value);
    }
    TAINT_NOT;
}

static void fill_args(pTHX_ const char *const *args)
{
    AV *av = GvAVn(PL_argvgv);
    av_clear(av);
    for (; args && *args; args++) {
        SV *value = newSVpv(*args, 0);
        SvTAINTED_on(value);
        av_push(av, value);
    }
}

/* The `use` that is going on will restore the file name's pointer when it ends (SAVECOPFILE): a new
 * name has to be in the old memory. The program's name was made long enough for any path. */
static void name_file(pTHX_ const char *script)
{
#ifdef USE_ITHREADS
    char *name = (char *)CopFILE(&PL_compiling);
    if (strlen(script) <= strlen(name)) {
        strcpy(name, script);
        return;
    }
#endif
    CopFILE_free(&PL_compiling);
    CopFILE_set(&PL_compiling, script);
}

static void become(pTHX_ const drom_cgi_job *job)
{
    PerlIO *file = PerlIO_open(job->script, "r");
    if (!file) {
        PerlIO_printf(PerlIO_stderr(), "Can't open perl script \"%s\": %s\n", job->script, Strerror(errno));
        my_exit(2);
    }
    PerlIO_close(PL_parser->rsfp);
    PL_parser->rsfp = file;
    name_file(aTHX_ job->script);
    PL_origfilename = savepv(job->script);
    sv_setpv(GvSVn(gv_fetchpvs("0", GV_ADD | GV_NOTQUAL, SVt_PV)), job->script);
    sv_setpv(get_sv("\030", GV_ADD), job->perl);
    PL_basetime = time(NULL);
    PL_srand_called = FALSE;
    fill_env(aTHX_ job->env);
    fill_args(aTHX_ job->args);
    (void)hv_deletes(GvHVn(PL_incgv), "Drom/Zygote.pm", G_DISCARD);
    sv_2mortal(SvREFCNT_inc(hv_deletes(PL_defstash, "Drom::", 0)));
}

/* What each child would otherwise do, or pay for, on its own copy of the zygote. */
static void prepare(pTHX)
{
    hv_clear(GvHVn(PL_envgv)); /* clears the C environment too */
    SvREFCNT_inc_simple_void(find_runcv(NULL)); /* else each child would free this BEGIN block */
    drom_few_pages(aTHX);
    drom_again_prepare(aTHX);
}

static int open_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;
    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count;
}

/* What a module does while it is loaded happens once for many scripts. One that keeps a file open
 * (a __DATA__ to be read when it is needed) would share it with all of them; one that asks for the
 * time, a random number, $0 or a file's text would give all of them the same answer. */
static void load_ahead(pTHX)
{
    int before = open_descriptors();
    const char *file;
    drom_watch_variables(aTHX);
    (void)drom_has_peeked(&file);
    for (const char *const *name = zygote.preload; name && *name; name++) {
        eval_sv(sv_2mortal(newSVpvf("require %s", *name)), G_SCALAR | G_DISCARD | G_EVAL);
        CLEAR_ERRSV();
        drom_watch_modules(aTHX);
        int peeked = drom_has_peeked(&file);
        if (zygote.unfit || (!peeked && open_descriptors() == before))
            continue;
        zygote.unfit = *name;
        zygote.unfit_file = peeked ? savepv(file) : "";
    }
}

const char *drom_zygote_unfit(const char **file)
{
    *file = zygote.unfit_file;
    return zygote.unfit;
}

static XSPROTO(xs_wait)
{
    dXSARGS;
    drom_cgi_job job = { 0 };
    PERL_UNUSED_VAR(items);
    load_ahead(aTHX);
    prepare(aTHX);
    jmp_buf *back = drom_again_point();
    if (back && setjmp(*back) == 0)
        drom_again_image();
    /* Here a child is again that goes on to its next script. */
    if (!zygote.next(zygote.state, &job))
        _exit(0);
    become(aTHX_ &job);
    XSRETURN_EMPTY;
}

/* ---- the end of a child ------------------------------------------------------------------------
 * perl_destruct frees the script and looks for objects to destroy. In a forked child every page it
 * writes to for this is copied first, and the process is about to end anyway. So a look that only
 * reads comes before: when no destructor could run and no handle waits to be closed, perl is told
 * that nothing is to be cleaned up. Its END blocks have run by then, its handles are flushed. */

#define CLASSES_MAX 16

struct classes {
    HV *known[CLASSES_MAX];
    int count;
};

/* AUTOLOAD is called for DESTROY as for any method. */
static int has_destructor(pTHX_ HV *stash, struct classes *without)
{
    for (int i = 0; i < without->count; i++)
        if (without->known[i] == stash)
            return 0;
    if (gv_fetchmeth_pvn(stash, "DESTROY", 7, -1, 0)
        || gv_fetchmeth_pvn(stash, "AUTOLOAD", 8, -1, 0))
        return 1;
    if (without->count < CLASSES_MAX)
        without->known[without->count++] = stash;
    return 0;
}

/* Layers whose flush leaves nothing for their close to do. */
static int is_plain(pTHX_ PerlIO *file)
{
    static const char *const plain[] = { "unix", "perlio", "stdio", "utf8", "bytes", "crlf" };
    for (PerlIOl *layer = file ? PerlIOBase(file) : NULL; layer; layer = layer->next) {
        size_t i = 0;
        while (i < C_ARRAY_LENGTH(plain) && (!layer->tab || strcmp(layer->tab->name, plain[i])))
            i++;
        if (i == C_ARRAY_LENGTH(plain))
            return 0;
    }
    return 1;
}

/* A pipe is waited for when it is closed, a layer may have an end to write. */
static int is_open(pTHX_ SV *io)
{
    PerlIO *in = IoIFP(io), *out = IoOFP(io);
    PerlIO *const std_out = PerlIO_stdout(), *const std_err = PerlIO_stderr();
    int is_standard = (!in || in == PerlIO_stdin() || in == std_out || in == std_err)
        && (!out || out == std_out || out == std_err);
    return !is_standard || !is_plain(aTHX_ in) || !is_plain(aTHX_ out);
}

static int frees_by_magic(SV *sv)
{
    for (MAGIC *mg = SvMAGIC(sv); mg; mg = mg->mg_moremagic)
        if (mg->mg_type == PERL_MAGIC_ext && mg->mg_virtual && mg->mg_virtual->svt_free)
            return 1;
    return 0;
}

static int must_clean(pTHX_ SV *sv, struct classes *without)
{
    if (SvTYPE(sv) == SVt_PVIO)
        return is_open(aTHX_ sv);
    if (SvTYPE(sv) < SVt_PVMG)
        return 0;
    if (SvOBJECT(sv) && has_destructor(aTHX_ SvSTASH(sv), without))
        return 1;
    return !isGV_with_GP(sv) && SvTYPE(sv) != SVt_PVLV && SvMAGICAL(sv) && frees_by_magic(sv);
}

/* PL_threadhook: true keeps perl_destruct from cleaning up. */
static int nothing_to_clean(pTHX)
{
    struct classes without = { { NULL }, 0 };
    drom_look_at_signals(aTHX);
    if (PL_exitlistlen)
        return 0;
    for (SV *arena = PL_sv_arenaroot; arena; arena = MUTABLE_SV(SvANY(arena))) {
        SV *end = arena + SvREFCNT(arena); /* an arena's first head holds its size and the next */
        for (SV *sv = arena + 1; sv < end; sv++)
            if (SvTYPE(sv) != (svtype)SVTYPEMASK && SvREFCNT(sv) && must_clean(aTHX_ sv, &without))
                return 0;
    }
    return 1;
}

EXTERN_C void boot_DynaLoader(pTHX_ CV *cv);

/* A distribution may build its libperl with other folders than its perl (Debian's perl-base). */
static void set_inc(pTHX)
{
    AV *inc = GvAVn(PL_incgv);
    if (!zygote.inc || !*zygote.inc)
        return;
    av_clear(inc);
    for (const char *const *folder = zygote.inc; *folder; folder++)
        av_push(inc, newSVpv(*folder, 0));
}

static void boot(pTHX)
{
    newXS("DynaLoader::boot_DynaLoader", boot_DynaLoader, "perl");
    newXS("Drom::Zygote::import", xs_wait, "perl");
    (void)hv_stores(GvHVn(PL_incgv), "Drom/Zygote.pm", newSVpvs("Drom"));
    set_inc(aTHX);
}

static void report_loaded(pTHX)
{
    HV *inc = GvHVn(PL_incgv);
    HE *entry;
    hv_iterinit(inc);
    while ((entry = hv_iternext(inc))) {
        STRLEN len;
        const char *key = HePV(entry, len);
        SV *path = HeVAL(entry);
        if (!SvPOK(path))
            continue;
        SV *line = sv_2mortal(newSVpvf("%s=%s", key, SvPVX(path)));
        PERL_UNUSED_VAR(len);
        zygote.loaded(zygote.state, SvPVX(line), SvCUR(line));
    }
}

int drom_zygote(int argc, char **argv, char **env, const char *const *preload,
                const char *const *inc, drom_cgi_next next, drom_cgi_loaded loaded, void *state)
{
    zygote.next = next;
    zygote.loaded = loaded;
    zygote.state = state;
    zygote.preload = preload;
    zygote.inc = inc;
    PERL_SYS_INIT3(&argc, &argv, &env);
    PerlInterpreter *my_perl = drom_perl = drom_new_perl();
    if (!my_perl)
        return 1;
    PERL_SET_CONTEXT(my_perl);
    drom_again_begin();
    perl_construct(my_perl);
    PL_perl_destruct_level = 0;
    PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
    PL_threadhook = nothing_to_clean;
    if (!perl_parse(my_perl, boot, argc, argv, env)) {
        /* What `use` loaded; what the script requires later may depend on the request. */
        if (zygote.loaded)
            report_loaded(aTHX);
        perl_run(my_perl);
    }
    return perl_destruct(my_perl);
}
