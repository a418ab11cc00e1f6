/* counter.c - counts the calls and statements of a perl.
 *
 * The counter hooks the operators that call subs, leave them and begin statements. A tree has a
 * node for each way in which a sub was reached, with its calls and its own time; a table has each
 * statement's number of runs and its time. Both grow with the program's text, not with the time
 * that it runs.
 *
 * Which sub runs is perl's own stack, never what the hooks think: subs that perl calls without an
 * operator (sort, tie, DESTROY, BEGIN, callbacks of XS) are entered at their first statement, and
 * those that die, `goto` or `last` have left are left at the next event.
 *
 * Ownership: nodes, statements and names are the counter's, from malloc, and live until it counts
 * anew. Nothing of perl's is kept but addresses that are compared and never followed. Where memory
 * is refused counting ends, the program goes on, and the file says so.
 */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "counter.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

typedef struct node {
    const void *code; /* what tells siblings apart: CvROOT, or the function of an XS sub */
    struct node *parent, *below, *next, *older;
    uint64_t calls, ticks;
    uint32_t number, line, depth;
    char kind; /* m: main, s: sub, x: XS */
    char *name, *file;
} node;

typedef struct {
    const CV *cv;
    const PERL_SI *si;
    node *caller;
    I32 cxix;
    int is_xs;
} frame;

/* Ways to reach a sub are as many as a recursion among several subs takes: from so many on, or so
 * deep, one that is under way already is that node again; from more on a sub that is new counts for
 * its caller. */
enum { DEPTH_FOLDED = 200, NODES_FOLDED = 1 << 16, NODES_MAX = 1 << 20 };

/* A place in a file, and its statement's address as long as that is the same statement's. */
typedef struct statement {
    const COP *cop;
    const char *cop_file;
    char *file;
    line_t line;
    uint64_t runs, ticks;
    struct statement *older;
} statement;

static struct {
    PerlInterpreter *perl; /* the one that is counted; NULL: nothing is, or no more */
    PerlInterpreter *owner;
    node root, *current, *newest;
    uint32_t nodes;
    frame *frames;
    size_t depth, frames_max;
    statement **places, *running, *newest_statement, outside;
    size_t places_used, places_mask;
    uint64_t last, last_statement; /* from when on nodes and statements are to be charged */
    uint64_t reading;              /* what it takes to look at the clock */
    uint64_t began_ticks, began_ns;
    uint64_t paused_ticks, paused_ns;
    uint64_t ended_ticks, ended_ns;
    int has_no_memory, is_cut, uses_tsc, is_silent;
    char *program;
} counter;

static Perl_ppaddr_t usual[MAXO];

/* A test refuses memory, one call after the other. */
static long calls_until_refused = -1;

static void *memory(size_t bytes)
{
    void *got = calls_until_refused == 0 ? NULL : calloc(1, bytes);
    if (calls_until_refused > 0)
        calls_until_refused--;
    if (!got) {
        counter.has_no_memory = 1;
        counter.perl = NULL;
    }
    return got;
}

static char *copy(const char *text)
{
    size_t length = strlen(text) + 1;
    char *made = memory(length);
    return made ? memcpy(made, text, length) : NULL;
}

static uint64_t monotonic_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    if (counter.uses_tsc)
        return __rdtsc();
#endif
    return monotonic_ns();
}

/* The time stamp counter is a clock where it is invariant (Intel SDM 18.17, AMD APM 2 13.2.4). */
static int has_steady_tsc(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return 0;
#endif
}

/* Names */

static const char *line_of(const CV *cv, uint32_t *line)
{
    const OP *start = CvISXSUB(cv) ? NULL : CvSTART(cv);
    for (; start; start = start->op_next)
        if (start->op_type == OP_NEXTSTATE || start->op_type == OP_DBSTATE) {
            *line = CopLINE((const COP *)start);
            return CopFILE((const COP *)start);
        }
    return CvFILE(cv);
}

static int name_node(pTHX_ node *made, CV *cv)
{
    SV *name = cv_name(cv, newSVpvs(""), 0);
    const char *file = line_of(cv, &made->line);
    made->file = copy(file ? file : "");
    if (CvANON(cv) && made->file)
        sv_catpvf(name, "[%s:%u]", made->file, (unsigned)made->line);
    made->name = copy(SvPV_nolen(name));
    SvREFCNT_dec(name);
    return made->name && made->file;
}

static node *above(node *at, const void *code)
{
    while (at && at->code != code)
        at = at->parent;
    return at;
}

/* The node below `at` of this sub; the one that was asked for last is first. NULL: no memory. */
static node *child(pTHX_ node *at, CV *cv)
{
    const void *code = CvISXSUB(cv) ? (const void *)CvXSUB(cv) : (const void *)CvROOT(cv);
    node **link = &at->below, *found;
    for (found = *link; found; link = &found->next, found = *link)
        if (found->code == code) {
            *link = found->next;
            found->next = at->below;
            return at->below = found;
        }
    if ((counter.nodes >= NODES_FOLDED || at->depth >= DEPTH_FOLDED) && (found = above(at, code)))
        return found;
    if (counter.nodes >= NODES_MAX) {
        counter.is_cut = 1;
        return at;
    }
    found = memory(sizeof *found);
    if (!found || !name_node(aTHX_ found, cv))
        return NULL;
    found->code = code;
    found->kind = CvISXSUB(cv) ? 'x' : 's';
    found->parent = at;
    found->depth = at->depth + 1;
    found->next = at->below;
    found->number = ++counter.nodes;
    found->older = counter.newest;
    return counter.newest = at->below = found;
}

/* The stack of subs */

static inline void charge(uint64_t now)
{
    if (now > counter.last)
        counter.current->ticks += now - counter.last;
    counter.last = now;
}

static void enter(pTHX_ CV *cv, I32 cxix, uint64_t now)
{
    node *entered;
    charge(now);
    if (counter.depth == counter.frames_max) {
        size_t more = counter.frames_max * 2 + 256;
        frame *frames = memory(more * sizeof *frames);
        if (!frames)
            return;
        if (counter.depth)
            memcpy(frames, counter.frames, counter.depth * sizeof *frames);
        free(counter.frames);
        counter.frames = frames;
        counter.frames_max = more;
    }
    entered = child(aTHX_ counter.current, cv);
    if (!entered)
        return;
    entered->calls += !counter.is_silent && (entered != counter.current || !counter.is_cut);
    counter.frames[counter.depth++] =
        (frame){cv, PL_curstackinfo, counter.current, cxix, CvISXSUB(cv)};
    counter.current = entered;
}

static void leave(uint64_t now)
{
    charge(now);
    counter.current = counter.frames[--counter.depth].caller;
}

/* Whether the sub of this frame does not run any more: its context is gone, or another sub's. */
static int is_over(pTHX_ const frame *seen)
{
    const PERL_SI *si = PL_curstackinfo;
    while (si && si != seen->si)
        si = si->si_prev;
    if (!si || seen->cxix > si->si_cxix)
        return 1;
    if (seen->is_xs)
        return 0;
    return CxTYPE(&si->si_cxstack[seen->cxix]) != CXt_SUB
        || si->si_cxstack[seen->cxix].blk_sub.cv != seen->cv;
}

/* Whether the innermost frame has a context beyond this one. */
static int is_above(const PERL_SI *si, I32 cxix)
{
    const frame *top = counter.depth ? &counter.frames[counter.depth - 1] : NULL;
    return top && top->si == si && top->cxix > cxix;
}

/* Contexts of subs that nobody has entered, outermost first. */
static void enter_unseen(pTHX_ I32 from, uint64_t now)
{
    I32 at;
    for (at = from; at <= cxstack_ix && counter.perl; at++) {
        const PERL_CONTEXT *cx = &cxstack[at];
        if (CxTYPE(cx) == CXt_SUB && !(cx->cx_type & CXp_SUB_RE_FAKE) && cx->blk_sub.cv)
            enter(aTHX_ cx->blk_sub.cv, at, now);
    }
}

/* What the counter takes for the stack is made perl's own. */
static inline void catch_up(pTHX_ uint64_t now)
{
    const frame *top;
    while (counter.depth && is_over(aTHX_ &counter.frames[counter.depth - 1]))
        leave(now);
    top = counter.depth ? &counter.frames[counter.depth - 1] : NULL;
    enter_unseen(aTHX_ top && top->si == PL_curstackinfo ? top->cxix + 1 : 0, now);
}

/* Statements */

static size_t place_of(const COP *cop)
{
    uint64_t mixed = ((uintptr_t)cop >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & counter.places_mask;
}

static void put_place(statement *put)
{
    size_t at = place_of(put->cop);
    while (counter.places[at])
        at = (at + 1) & counter.places_mask;
    counter.places[at] = put;
}

static int grow_places(void)
{
    size_t at, before = counter.places ? counter.places_mask + 1 : 0;
    statement **old = counter.places;
    statement **grown = memory((before ? before * 2 : 4096) * sizeof *grown);
    if (!grown)
        return 0;
    counter.places = grown;
    counter.places_mask = (before ? before * 2 : 4096) - 1;
    for (at = 0; at < before; at++)
        if (old[at])
            put_place(old[at]);
    free(old);
    return 1;
}

static statement *new_statement(const COP *cop)
{
    statement *made = memory(sizeof *made);
    const char *file = CopFILE(cop);
    if (!made || !(made->file = copy(file ? file : "")))
        return NULL;
    made->cop = cop;
    made->cop_file = file;
    made->line = CopLINE(cop);
    made->older = counter.newest_statement;
    return counter.newest_statement = made;
}

/* Also where another statement has been at the same address: that one keeps what it has. */
static statement *find(const COP *cop)
{
    statement *found;
    size_t at;
    if ((counter.places_used + 1) * 2 > counter.places_mask && !grow_places())
        return &counter.outside;
    for (at = place_of(cop); (found = counter.places[at]); at = (at + 1) & counter.places_mask)
        if (found->cop == cop) {
            if (found->line == CopLINE(cop) && found->cop_file == CopFILE(cop))
                return found;
            break;
        }
    counter.places_used += !found;
    found = new_statement(cop);
    if (!found)
        return &counter.outside;
    return counter.places[at] = found;
}

static inline void charge_statement(uint64_t now)
{
    if (now > counter.last_statement)
        counter.running->ticks += now - counter.last_statement;
    counter.last_statement = now;
}

static inline void run_statement(const COP *cop, uint64_t now)
{
    charge_statement(now);
    counter.running = find(cop);
}

/* Time begins anew: what a hook does between looking at the clock and this is nobody's, and neither
 * is looking at it, of which one half is before each look and one behind it. */
static inline void charged(void)
{
    counter.last = counter.last_statement = ticks() + counter.reading;
}

static uint64_t cost_of_reading(void)
{
    uint64_t least = UINT64_MAX;
    int turn;
    for (turn = 0; turn < 100; turn++) {
        const uint64_t before = ticks(), took = ticks() - before;
        if (took < least)
            least = took;
    }
    return least;
}

/* Operators */

static OP *count_statement(pTHX)
{
    if (counter.perl == aTHX) {
        const uint64_t now = ticks();
        catch_up(aTHX_ now);
        charge(now);
        run_statement((const COP *)PL_op, now);
        counter.running->runs++;
        charged();
    }
    return usual[PL_op->op_type](aTHX);
}

static const CV *xsub_of(pTHX)
{
    SV *called = *PL_stack_sp;
    CV *cv = NULL;
    if (!called)
        return NULL;
    if (SvTYPE(called) == SVt_PVGV)
        cv = GvCV((GV *)called);
    else if (SvTYPE(called) == SVt_PVCV)
        cv = (CV *)called;
    else if (SvROK(called) && SvTYPE(SvRV(called)) == SVt_PVCV)
        cv = (CV *)SvRV(called);
    return cv && CvISXSUB(cv) ? cv : NULL;
}

static OP *count_call(pTHX)
{
    const CV *xsub = counter.perl == aTHX ? xsub_of(aTHX) : NULL;
    const PERL_SI *si = PL_curstackinfo;
    const I32 before = cxstack_ix;
    OP *next;
    if (xsub) {
        const uint64_t now = ticks();
        size_t depth;
        catch_up(aTHX_ now);
        depth = counter.depth;
        enter(aTHX_ (CV *)xsub, cxstack_ix, now);
        charge_statement(now);
        charged();
        next = usual[OP_ENTERSUB](aTHX);
        if (counter.perl == aTHX) {
            const uint64_t after = ticks();
            while (counter.depth > depth)
                leave(after);
            charge_statement(after);
            charged();
        }
        return next;
    }
    next = usual[OP_ENTERSUB](aTHX);
    if (counter.perl == aTHX) {
        const uint64_t now = ticks();
        /* What stood there before is another call, of the same sub perhaps, that died. */
        while (si == PL_curstackinfo && is_above(si, before))
            leave(now);
        catch_up(aTHX_ now);
        charge(now);
        charge_statement(now);
        charged();
    }
    return next;
}

/* The rest of the caller's statement is the caller's. */
static OP *count_return(pTHX)
{
    OP *next = usual[PL_op->op_type](aTHX);
    if (counter.perl == aTHX) {
        const uint64_t now = ticks();
        while (counter.depth && is_over(aTHX_ &counter.frames[counter.depth - 1]))
            leave(now);
        charge(now);
        if (PL_curcop && PL_curcop != &PL_compiling)
            run_statement(PL_curcop, now);
        charged();
    }
    return next;
}

/* The file: lines of words, each beginning with what it is; names last, they may have spaces. */

static void put_name(FILE *out, const char *name)
{
    for (; *name; name++)
        fputc(*name == '\n' || *name == '\r' ? ' ' : *name, out);
    fputc('\n', out);
}

static void put_header(FILE *out)
{
    const uint64_t passed = counter.ended_ticks - counter.began_ticks;
    const uint64_t passed_ns = counter.ended_ns - counter.began_ns;
    fprintf(out, "drom-counts 1\n");
    fprintf(out, "ticks %" UVuf " %" UVuf "\n", (UV)passed, (UV)passed_ns);
    if (counter.has_no_memory || counter.is_cut)
        fprintf(out, "cut\n");
    fprintf(out, "program ");
    put_name(out, counter.program ? counter.program : "");
}

static void put_all(FILE *out)
{
    const node *at;
    const statement *place;
    for (at = counter.newest; at; at = at->older) {
        fprintf(out, "%c %u %u %" UVuf " %" UVuf " %u ", at->kind, at->number, at->parent->number,
                (UV)at->calls, (UV)at->ticks, at->line);
        put_name(out, at->name);
        fprintf(out, "in %u ", at->number);
        put_name(out, at->file);
    }
    fprintf(out, "m 0 0 1 %" UVuf " 0 main\n", (UV)counter.root.ticks);
    for (place = counter.newest_statement; place; place = place->older) {
        if (!place->runs && !place->ticks)
            continue;
        fprintf(out, "line %u %" UVuf " %" UVuf " ", (unsigned)place->line, (UV)place->runs,
                (UV)place->ticks);
        put_name(out, place->file);
    }
    fprintf(out, "end\n");
}

void counter_write(FILE *out)
{
    put_header(out);
    put_all(out);
}

/* Turning it on and off */

static struct {
    int op;
    Perl_ppaddr_t counting;
    int is_in;
} hooks[] = {
    { OP_ENTERSUB, count_call, 0 },       { OP_LEAVESUB, count_return, 0 },
    { OP_LEAVESUBLV, count_return, 0 },   { OP_RETURN, count_return, 0 },
    { OP_NEXTSTATE, count_statement, 0 }, { OP_DBSTATE, count_statement, 0 },
};

static void hook(void)
{
    size_t at;
    for (at = 0; at < C_ARRAY_LENGTH(hooks); at++)
        if (!hooks[at].is_in) {
            usual[hooks[at].op] = PL_ppaddr[hooks[at].op];
            PL_ppaddr[hooks[at].op] = hooks[at].counting;
            hooks[at].is_in = 1;
        }
}

/* Who has hooked the same operator since calls the counter for ever, which does not count then. */
static void unhook(void)
{
    size_t at;
    for (at = 0; at < C_ARRAY_LENGTH(hooks); at++)
        if (hooks[at].is_in && PL_ppaddr[hooks[at].op] == hooks[at].counting) {
            PL_ppaddr[hooks[at].op] = usual[hooks[at].op];
            hooks[at].is_in = 0;
        }
}

static void hook_op(OP *op, int is_on)
{
    size_t at;
    for (at = 0; at < C_ARRAY_LENGTH(hooks); at++)
        if (hooks[at].op == op->op_type) {
            if (op->op_ppaddr == (is_on ? usual[op->op_type] : hooks[at].counting))
                op->op_ppaddr = is_on ? hooks[at].counting : usual[op->op_type];
            return;
        }
}

/* Code in a replacement and in a pattern hangs beside the tree (op.c's op_lvalue and pmruntime). */
static void hook_beside(OP *op, int is_on)
{
    if (op->op_type == OP_SUBST && cPMOPx(op)->op_pmreplrootu.op_pmreplroot)
        counter_hook_tree(cPMOPx(op)->op_pmreplrootu.op_pmreplroot, is_on);
    if ((op->op_type == OP_MATCH || op->op_type == OP_QR || op->op_type == OP_SUBST)
        && cPMOPx(op)->op_code_list)
        counter_hook_tree(cPMOPx(op)->op_code_list, is_on);
}

void counter_hook_tree(OP *root, int is_on)
{
    OP *op = root;
    while (op) {
        hook_op(op, is_on);
        hook_beside(op, is_on);
        if ((op->op_flags & OPf_KIDS) && cUNOPx(op)->op_first) {
            op = cUNOPx(op)->op_first;
            continue;
        }
        while (op != root && !OpHAS_SIBLING(op))
            op = op->op_sibparent;
        op = op == root ? NULL : OpSIBLING(op);
    }
}

static void begin_time(void)
{
    counter.began_ns = monotonic_ns();
    counter.last = counter.last_statement = counter.began_ticks = ticks();
    counter.paused_ticks = counter.paused_ns = 0;
}

int counter_begin(pTHX_ const char *program)
{
    counter_forget();
    counter.has_no_memory = 0;
    counter.root.kind = 'm';
    counter.current = &counter.root;
    counter.running = &counter.outside;
    counter.uses_tsc = has_steady_tsc();
    counter.reading = cost_of_reading();
    counter.program = copy(program);
    if (!counter.program)
        return 0;
    counter.perl = counter.owner = aTHX;
    hook();
    begin_time();
    return 1;
}

void counter_enter_all(pTHX)
{
    PERL_SI *own = PL_curstackinfo, *si = own;
    while (si->si_prev)
        si = si->si_prev;
    counter.is_silent = 1;
    for (; si && counter.perl; si = si == own ? NULL : si->si_next) {
        PL_curstackinfo = si;
        enter_unseen(aTHX_ 0, counter.last);
    }
    PL_curstackinfo = own;
    counter.is_silent = 0;
}

void counter_end(pTHX)
{
    if (counter.owner != aTHX || counter.ended_ns)
        return;
    unhook();
    counter_go_on(aTHX);
    counter.ended_ticks = ticks();
    counter.ended_ns = monotonic_ns();
    if (!counter.perl)
        return;
    charge(counter.ended_ticks);
    charge_statement(counter.ended_ticks);
    counter.perl = NULL;
}

int counter_is_of(pTHX) { return counter.owner == aTHX; }

void counter_stop(void) { counter.perl = NULL; }

void counter_pause(pTHX)
{
    const uint64_t now = ticks();
    if (counter.perl != aTHX || counter.paused_ticks)
        return;
    catch_up(aTHX_ now);
    charge(now);
    charge_statement(now);
    counter.running = &counter.outside;
    counter.paused_ticks = now;
    counter.paused_ns = monotonic_ns();
}

void counter_go_on(pTHX)
{
    if (counter.perl != aTHX || !counter.paused_ticks)
        return;
    counter.began_ns += monotonic_ns() - counter.paused_ns;
    counter.last = counter.last_statement = ticks();
    counter.began_ticks += counter.last - counter.paused_ticks;
    counter.paused_ticks = counter.paused_ns = 0;
}

static void free_node(node *gone)
{
    free(gone->name);
    free(gone->file);
    free(gone);
}

void counter_forget(void)
{
    counter.perl = counter.owner = NULL;
    counter.ended_ns = 0;
    for (node *at = counter.newest, *older; at; at = older) {
        older = at->older;
        free_node(at);
    }
    for (statement *at = counter.newest_statement, *older; at; at = older) {
        older = at->older;
        free(at->file);
        free(at);
    }
    free(counter.frames);
    free(counter.places);
    free(counter.program);
    memset(&counter.root, 0, sizeof counter.root);
    memset(&counter.outside, 0, sizeof counter.outside);
    counter.newest = NULL;
    counter.newest_statement = NULL;
    counter.frames = NULL;
    counter.places = NULL;
    counter.program = NULL;
    counter.nodes = 0;
    counter.depth = counter.frames_max = 0;
    counter.places_used = counter.places_mask = 0;
    counter.is_cut = 0;
}

void counter_begin_anew(void)
{
    node *at;
    statement *place;
    for (at = counter.newest; at; at = at->older)
        at->calls = at->ticks = 0;
    for (place = counter.newest_statement; place; place = place->older)
        place->runs = place->ticks = 0;
    counter.root.ticks = 0;
    begin_time();
}

void counter_refuse(long calls) { calls_until_refused = calls; }
